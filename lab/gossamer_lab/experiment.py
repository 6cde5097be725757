"""What an experiment is: a manifest of what is measured, at which scales, and what is claimed."""

from dataclasses import asdict, dataclass
from typing import Any

from gossamer_lab.claims import Claim


@dataclass(frozen=True)
class Document:
    """Where claims were published."""

    title: str
    authors: str
    year: int


@dataclass(frozen=True)
class Variant:
    """Our server with one architecture and some options."""

    name: str
    arch: str
    options: tuple[str, ...] = ()
    open_files: int = 0
    """Limit on its open files; 0: as many as there may be."""
    is_wide: bool = False
    """Whether it may hold nearly as many connections as that limit allows, not its usual most."""


@dataclass(frozen=True)
class Link:
    """The way between a client host far away and the server."""

    delay_ms: float
    """Of each direction."""
    loss: float = 0.0
    """Chance of each packet not to arrive at the server."""
    loss_back: float = 0.0


@dataclass(frozen=True)
class Point:
    """One load that every server is put under."""

    key: str
    size: int
    """Bytes of the page asked for; of one file of the set for the trial, if there is a file set."""
    connections: int
    requests_per_connection: int
    """0: every connection is kept for as long as the load lasts."""
    think_ms: float = 0
    """How long a client waits before each further request."""
    directories: int = 0
    """Size of the file set that is asked for instead of the page; 0: none."""
    servers: tuple[str, ...] = ()
    """Names of those that take part; empty: all."""
    is_braked: bool = True
    """Whether the experiment's brake is put on, if it has one."""
    topic: str = ""
    """What it is for, beside the others: claims and charts choose points by it."""
    hosts: int = 1
    """Client hosts that share the connections."""
    is_far: bool = False
    """Whether these are at the other ends of the experiment's links."""
    least_s: float = 0
    """How long a load has to last at the least, up to the longest that the scale allows."""

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
        page = "file set" if self.directories else f"{self.size} B"
        return f"{page} {'keep-alive' if self.kept_alive else 'conn/request'}"

    @property
    def label(self) -> str:
        """The whole point in words."""
        hosts = f", {self.hosts} hosts" if self.hosts > 1 else ""
        far = " far away" if self.is_far else ""
        return f"{self.kind}, {self.connections} conns{hosts}{far}"

    def described(self) -> dict[str, Any]:
        """Return it as results hold it."""
        return asdict(self) | {"label": self.label, "kind": self.kind}


@dataclass(frozen=True)
class Arrivals(Point):
    """An open load: requests for a page that is made come at random times, whatever happens."""

    probe: Variant = Variant("", "")
    """The server that is saturated just before, to know what the load is a multiple of."""
    page: str = ""
    """Path of the page."""
    metrics: str = ""
    """Path of the server's own figures."""
    saturation: float = 1.0
    """The load, as a multiple of what saturates."""
    part: float = 1.0
    """Of the length that a load may have."""

    @property
    def kind(self) -> str:
        """The load in words."""
        return "open load"

    @property
    def label(self) -> str:
        """The whole point in words."""
        return f"{self.saturation:g} times what saturates"


@dataclass(frozen=True)
class Case:
    """One way to run every program that takes part in it."""

    key: str
    label: str
    words: tuple[str, ...]
    """Arguments, after those of the program."""
    columns: tuple[str, ...]
    """Names of the numbers that it prints, in order."""
    programs: tuple[str, ...]
    """Names of those that take part."""
    fields: tuple[tuple[str, float | str], ...]
    """What claims and charts know it by."""
    descriptors: int = 0
    memory: int = 0
    """Bytes that it needs."""
    rates: tuple[tuple[str, str], ...] = ()
    """Columns to add: the rate a second of what takes the nanoseconds of another column."""

    def described(self) -> dict[str, Any]:
        """Return it as results hold it."""
        return {"key": self.key, "label": self.label, "kind": "program"} | dict(self.fields)


@dataclass(frozen=True)
class Program:
    """A small program that measures itself, below the folder of built benchmarks."""

    name: str
    file: str
    words: tuple[str, ...]
    summary: str
    package: str = ""
    """The system's package with the library that it measures; empty: ours."""


@dataclass(frozen=True)
class Drawing:
    """A chart of one figure against a field of the points, a line for each subject."""

    key: str
    title: str
    caption: str
    x: str
    y: str
    x_title: str
    y_title: str
    where: tuple[tuple[str, Any], ...] = ()
    """Fields that its points have."""
    subjects: tuple[str, ...] = ()
    """Names of those that are drawn; empty: all."""
    log_x: bool = False
    log_y: bool = False
    has_fits: bool = False
    has_diagonal: bool = False
    """Whether the line is drawn on which both figures are the same."""
    is_over_time: bool = False
    """Whether both are fields of the timelines that its points' measurements have."""


@dataclass(frozen=True)
class Distribution:
    """A histogram of all times of one kind at one load, a line for each server."""

    key: str
    title: str
    caption: str
    kind: str
    """What is timed: "connect", "first_byte" or "response"."""
    words: str
    """The same for people."""
    point: str
    """Key of the load."""


@dataclass(frozen=True)
class Soundness:
    """When a measurement says nothing of the server, and is void."""

    least_load: float = 0.9
    """Least share of the offered load that the measured load has to be."""
    most_client: float = 0.95
    """Share of its core above which the load generator was the limit."""
    forgives_errors: bool = False
    """Whether failed requests are counted rather than make a measurement void."""
    spared: tuple[str, ...] = ()
    """Servers whose measured load is itself what is looked at, and may fall short."""


@dataclass(frozen=True)
class Scale:
    """How much time an experiment may take: its loads get equal parts of it, or what they need."""

    name: str
    budget_s: float
    """Time for all loads together, their servers' starts and ends included."""
    warmup_s: float
    longest_s: float
    """No load is longer than this, however few there are and whatever they need."""
    rounds: int
    most_rounds: int = 0
    """Where the machine is restless, as many as it takes up to so many; 0: never more."""
    points: tuple[str, ...] = ()
    """Keys of those that take part; empty: all."""
    drop: int = 0
    """How many of the first and the last answers of a load do not count, where it has so many."""
    repeats: int = 1
    """How often a program is run for one measurement; the least of each figure counts."""
    slow: tuple[tuple[str, float], ...] = ()
    """Servers that answer slowly: how many times as long their loads last that need some time."""

    def length_of(self, point: Point | Case, each_s: float, server: str = "") -> float:
        """Return how long a load lasts where each lasts so long, unless it needs more or less."""
        if isinstance(point, Arrivals):
            return point.part * each_s
        needed = point.least_s if isinstance(point, Point) else 0
        return max(each_s, min(needed * dict(self.slow).get(server, 1), self.longest_s))


@dataclass(frozen=True)
class Experiment:
    """A manifest: what is asked, under which loads, at which scales, and what is claimed."""

    name: str
    summary: str
    points: tuple[Point | Case, ...]
    scales: tuple[Scale, ...]
    peers: tuple[str, ...] = ()
    """Names of the peers to measure, where they are present."""
    architectures: tuple[Variant, ...] | None = None
    """Ours that take part; None: all that there are."""
    programs: tuple[Program, ...] = ()
    toys: tuple[Program, ...] = ()
    """Servers of one structure each, below the folder of built benchmarks too."""
    document: Document | None = None
    claims: tuple[Claim, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    soundness: Soundness | None = None
    server_share: float | None = None
    """Share of its core that a busy server gets, a brake takes the rest; None: without a brake."""
    links: tuple[Link, ...] = ()
    """Between the server and client hosts far away."""
    notes: tuple[str, ...] = ()
    """In what it differs from the document."""

    def scale(self, name: str) -> Scale:
        """Return the scale of that name; KeyError if the experiment has none."""
        return {scale.name: scale for scale in self.scales}[name]

    def points_of(self, scale: Scale) -> tuple[Point | Case, ...]:
        """Return the points of a scale."""
        return tuple(p for p in self.points if not scale.points or p.key in scale.points)

    @property
    def loads(self) -> tuple[Point, ...]:
        """The points that are loads of servers."""
        return tuple(point for point in self.points if isinstance(point, Point))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the pages that its points ask for."""
        return tuple(sorted({point.size for point in self.loads}))
