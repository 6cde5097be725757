"""What an experiment is: a manifest of points to measure, at several scales."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Point:
    """One load that every server is put under."""

    key: str
    size: int
    """Bytes of the page asked for."""
    connections: int
    requests_per_connection: int
    """0: every connection is kept for as long as the load lasts."""

    @property
    def kept_alive(self) -> bool:
        """Whether one connection carries many requests."""
        return self.requests_per_connection != 1

    @property
    def path(self) -> str:
        """The page's path on the server."""
        return f"/page-{self.size}.html"

    @property
    def kind(self) -> str:
        """The page and the use of connections, in words."""
        return f"{self.size} B {'keep-alive' if self.kept_alive else 'conn/request'}"

    @property
    def label(self) -> str:
        """The whole point in words."""
        return f"{self.kind}, {self.connections} conns"


@dataclass(frozen=True)
class Scale:
    """How much time an experiment may take: its points are measured in equal parts of it."""

    name: str
    budget_s: float
    """Time for all measurements together, their servers' starts and ends included."""
    warmup_s: float
    longest_s: float
    """No measurement is longer than this, however few there are."""
    rounds: int


@dataclass(frozen=True)
class Experiment:
    """A manifest: what is asked, under which loads, at which scales."""

    name: str
    summary: str
    points: tuple[Point, ...]
    scales: tuple[Scale, ...]
    peers: tuple[str, ...]
    """Names of the peers to measure, where they are present."""

    def scale(self, name: str) -> Scale:
        """Return the scale of that name; KeyError if the experiment has none."""
        return {scale.name: scale for scale in self.scales}[name]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the pages that its points ask for."""
        return tuple(sorted({point.size for point in self.points}))
