"""Experiments: manifests of what is measured, at which scales, and what is claimed."""

from dataclasses import asdict, dataclass
from typing import Any

from gossamer_lab.claims.claim import Claim


@dataclass(frozen=True)
class Document:
    """The publication that makes the claims."""

    title: str
    authors: str
    year: int
    says: str
    """What it says, in a sentence."""
    differs: str
    """What is different here: program, limits, machine."""
    main_claims: tuple[str, ...]
    """Keys of the claims that say it."""
    chart: str
    """Key of the chart that shows it."""


@dataclass(frozen=True)
class Variant:
    """One of our architectures with some options."""

    name: str
    arch: str
    options: tuple[str, ...] = ()
    open_files: int = 0
    """Limit on its open files; 0: the system's."""
    max_tasks: int = 0
    """Limit on its threads and processes together; 0: the system's."""
    raises_max_connections: bool = False
    """Whether --max-connections is set to nearly the limit on open files."""


@dataclass(frozen=True)
class Link:
    """The network link between a WAN host and the server."""

    delay_ms: float
    """One-way delay."""
    loss: float = 0.0
    """Probability that a packet to the server is lost."""
    return_loss: float = 0.0
    """Probability that a packet from the server is lost."""


PATIENT = ("--header-timeout", "10m", "--idle-timeout", "10m", "--rate", "0", "--no-eviction")
"""Options of our server without which it would close connections that it is too busy to serve."""


@dataclass(frozen=True)
class Point:
    """A load that servers are measured under."""

    key: str
    size: int
    """Bytes of the requested page; with a file set, of the file requested at the first start."""
    connections: int
    requests_per_connection: int
    """0: connections persist for the whole load."""
    think_ms: float = 0
    """Think time of a client before each further request."""
    directories: int = 0
    """Size of the file set that is requested instead of the page; 0: none."""
    servers: tuple[str, ...] = ()
    """Names of the servers measured here; empty: all."""
    is_cpu_limited: bool = True
    """Whether the experiment's CPU limit applies, if it has one."""
    topic: str = ""
    """Purpose of the point, by which claims and charts select it."""
    hosts: int = 1
    """Number of client hosts that share the connections."""
    is_wan: bool = False
    """Whether these hosts are connected by the experiment's WAN links."""
    min_s: float = 0
    """Minimum duration of a load, up to the maximum of the scale."""
    ramp_up_s: float = 0
    """Time in which the clients of a load connect, before what counts."""

    @property
    def is_keep_alive(self) -> bool:
        """Whether a connection carries several requests."""
        return self.requests_per_connection != 1

    @property
    def path(self) -> str:
        """The page's path on the server."""
        return f"/page-{self.size}.html"

    @property
    def kind(self) -> str:
        """The page and the use of connections, in words."""
        page = "file set" if self.directories else f"{self.size} B"
        return f"{page} {'keep-alive' if self.is_keep_alive else 'conn/request'}"

    @property
    def label(self) -> str:
        """The whole point in words."""
        hosts = f", {self.hosts} hosts" if self.hosts > 1 else ""
        wan = " over WAN" if self.is_wan else ""
        return f"{self.kind}, {self.connections} conns{hosts}{wan}"

    def as_dict(self) -> dict[str, Any]:
        """Return the point as results contain it."""
        return asdict(self) | {"label": self.label, "kind": self.kind}


@dataclass(frozen=True)
class OpenLoopPoint(Point):
    """An open-loop load: requests for a generated page are sent at random times."""

    probe: Variant = Variant("", "")
    """The server whose saturation rate, measured just before, is the unit of the load."""
    page: str = ""
    """Path of the page."""
    metrics: str = ""
    """Path of the server's metrics."""
    load_factor: float = 1.0
    """Offered load, as a multiple of the saturation rate."""
    duration_factor: float = 1.0
    """Duration, as a share of the scale's duration of a load."""

    @property
    def kind(self) -> str:
        """The load in words."""
        return "open load"

    @property
    def label(self) -> str:
        """The whole point in words."""
        return f"{self.load_factor:g} times the saturation rate"


@dataclass(frozen=True)
class Case:
    """Arguments that programs are run with."""

    key: str
    label: str
    arguments: tuple[str, ...]
    """Appended to the arguments of the program."""
    columns: tuple[str, ...]
    """Names of the numbers that the program prints, in order."""
    programs: tuple[str, ...]
    """Names of the programs measured here."""
    fields: tuple[tuple[str, float | str], ...]
    """Values by which claims and charts select it."""
    descriptors: int = 0
    memory: int = 0
    """Bytes that it needs."""
    rates: tuple[tuple[str, str], ...] = ()
    """Columns to add: the rate per second for another column of nanoseconds."""

    def as_dict(self) -> dict[str, Any]:
        """Return the case as results contain it."""
        return {"key": self.key, "label": self.label, "kind": "program"} | dict(self.fields)


@dataclass(frozen=True)
class Program:
    """A small program that measures itself, in the folder of built benchmarks."""

    name: str
    file: str
    arguments: tuple[str, ...]
    summary: str
    package: str = ""
    """Package of the library that it measures; empty: it measures ours."""
    requirement: str = ""
    """What building it needs that not every machine has, if it measures ours."""

    @property
    def needs(self) -> str:
        """Return what it needs beside this checkout; empty: nothing."""
        return self.package or self.requirement


@dataclass(frozen=True)
class ChartSpec:
    """A chart of a column against a field of the points, with a line for each subject."""

    key: str
    title: str
    caption: str
    x: str
    y: str
    x_title: str
    y_title: str
    where: tuple[tuple[str, Any], ...] = ()
    """Field values of its points."""
    subjects: tuple[str, ...] = ()
    """Names of the subjects shown; empty: all."""
    log_x: bool = False
    log_y: bool = False
    has_fits: bool = False
    has_diagonal: bool = False
    """Whether the line x = y is drawn."""
    is_over_time: bool = False
    """Whether x and y are fields of the measurements' time series."""


@dataclass(frozen=True)
class Distribution:
    """A histogram of all times of one kind under one load, with a line for each server."""

    key: str
    title: str
    caption: str
    kind: str
    """Kind of times: "connect", "first_byte" or "response"."""
    words: str
    """The kind in words."""
    point: str
    """Key of the load."""


@dataclass(frozen=True)
class ValidityRules:
    """When a measurement is invalid because something other than the server limited it."""

    min_load_share: float = 0.9
    """Minimum measured load, as a share of the offered load."""
    may_fail: tuple[str, ...] = ()
    """Servers whose failed requests do not make a measurement invalid: claims count them."""
    exempt: tuple[str, ...] = ()
    """Servers whose measured load may fall short, because it is the subject of a claim."""


@dataclass(frozen=True)
class Scale:
    """The duration of an experiment: loads share it equally, unless they need more."""

    name: str
    budget_s: float
    """Time for all loads together, including the starts and stops of servers."""
    warmup_s: float
    max_load_s: float
    """Maximum duration of a load."""
    rounds: int
    load_s: float = 0
    """Duration of loads without a longer minimum; 0: they share the budget."""
    points: tuple[str, ...] = ()
    """Keys of the points measured; empty: all."""
    drop: int = 0
    """Number of first and last responses of a load that are ignored, if it has enough."""
    repeats: int = 1
    """Number of runs of a program for one measurement, of which the minimum counts."""
    program_s: float = 0
    """Expected duration of a program's measurement."""
    slow_servers: tuple[tuple[str, float], ...] = ()
    """Slow servers, with the factor by which their loads with a minimum duration are longer."""
    ramp_up_s: float = 0
    """Minimum of the ramp-up of each load."""

    def ramp_up_seconds(self, point: Point | Case) -> float:
        """Return the time of a load before what counts."""
        is_closed = isinstance(point, Point) and not isinstance(point, OpenLoopPoint)
        return max(point.ramp_up_s, self.ramp_up_s) if is_closed else 0.0

    def load_seconds(self, point: Point | Case, each_s: float, server: str = "") -> float:
        """Return the duration of a load, given that of loads without a minimum."""
        if isinstance(point, OpenLoopPoint):
            return point.duration_factor * each_s
        needed = point.min_s if isinstance(point, Point) else 0
        return max(each_s, min(needed * dict(self.slow_servers).get(server, 1), self.max_load_s))


@dataclass(frozen=True)
class Experiment:
    """A manifest: subjects, loads, scales and claims."""

    name: str
    summary: str
    points: tuple[Point | Case, ...]
    scales: tuple[Scale, ...]
    peers: tuple[str, ...] = ()
    """Names of the peers to measure, if they are installed."""
    architectures: tuple[Variant, ...] | None = None
    """Variants of our server to measure; None: every architecture."""
    programs: tuple[Program, ...] = ()
    toys: tuple[Program, ...] = ()
    """Toy servers, in the folder of built benchmarks."""
    also_by_run: tuple[str, ...] = ()
    """Names of the peers and toys that are also measured under ``gossamer run``."""
    document: Document | None = None
    claims: tuple[Claim, ...] = ()
    charts: tuple[ChartSpec, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    validity_rules: ValidityRules | None = None
    server_share: float | None = None
    """Share of its core that the CPU limiter leaves to a busy server; None: no limit."""
    links: tuple[Link, ...] = ()
    """WAN links between client hosts and the server."""
    notes: tuple[str, ...] = ()
    """Differences from the document."""
    names: tuple[tuple[str, str], ...] = ()
    """What the names of subjects mean, where their summary does not tell."""
    is_of_memory: bool = False
    """Whether its results are memory, which does not depend on the core's other processes."""

    def scale(self, name: str) -> Scale:
        """Return the scale of that name; KeyError if there is none."""
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
        """Sizes of the pages that the points request."""
        return tuple(sorted({point.size for point in self.loads}))
