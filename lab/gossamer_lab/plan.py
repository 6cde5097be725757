"""What a run will do: which subjects and points take part, in which order, for how long."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gossamer_lab import handicap
from gossamer_lab.experiment import Case, Experiment, Point, Program, Scale
from gossamer_lab.hosts import network
from gossamer_lab.program import available_memory, version_of
from gossamer_lab.schedule import STEP_OVERHEAD_S, Step, interleaved, seconds_each
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Launch, Server, ServerFailedError, serving
from gossamer_lab.servers.toys import toy_server
from gossamer_lab.workshop import Workshop

_DESCRIPTORS_SPARED = 64


@dataclass(frozen=True)
class Wish:
    """How a run shall be made, beside what the manifest says."""

    seed: int
    """Of the order of measurements."""
    handicaps: Mapping[str, float] = field(default_factory=dict)
    """By server: so much more CPU time it shall need."""
    cluster: str = ""
    """Address of the scheduler whose client hosts shall make the loads; empty: this machine."""
    only: tuple[str, ...] = ()
    """Names of the subjects that shall take part; empty: all."""
    rounds: int = 0
    """At the least, rather than what the scale has; 0: as the scale has it."""

    def wants(self, name: str) -> bool:
        """Return whether a subject shall take part."""
        return not self.only or name in self.only

    def least_rounds(self, scale: Scale) -> int:
        """Return how many rounds there are at the least."""
        return self.rounds or scale.rounds

    def most_rounds(self, scale: Scale) -> int:
        """Return how many rounds there may be."""
        return max(self.least_rounds(scale), scale.most_rounds)


class UnknownSubjectError(Exception):
    """Somebody is wanted who is not among an experiment's subjects; names those."""


@dataclass(frozen=True)
class LeftOut:
    """A subject or a point that is not measured, and why."""

    name: str
    reason: str
    is_fault: bool
    """Whether something is broken, rather than limited or absent."""


@dataclass(frozen=True)
class Plan:
    """All that is decided before the first measurement."""

    experiment: Experiment
    scale: Scale
    points: tuple[Point | Case, ...]
    too_large: tuple[Point | Case, ...]
    """Points that this machine does not allow."""
    servers: dict[str, tuple[Server, Launch]]
    """By name, in the order of the tables; the launch is that of the trial."""
    programs: dict[str, Program]
    left_out: tuple[LeftOut, ...]
    absent_peers: tuple[str, ...]
    steps: tuple[Step, ...]
    """Of as many rounds as there may be; rounds.py says how many there have to be."""
    seconds: float
    """How long a load lasts, unless it needs more."""
    wish: Wish

    @property
    def least_rounds(self) -> int:
        """How many rounds there are at the least."""
        return self.wish.least_rounds(self.scale)

    @property
    def most_rounds(self) -> int:
        """How many rounds there may be."""
        return self.wish.most_rounds(self.scale)

    def length_of(self, point: Point | Case, server: str = "") -> float:
        """Return how long a load lasts, of a server that is not slow if none is named."""
        return self.scale.length_of(point, self.seconds, server)

    def all_of(self, step: Step) -> float:
        """Return how many seconds a measurement takes, all included."""
        return self.length_of(step.point, step.server) + self.scale.warmup_s + STEP_OVERHEAD_S

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of all that is measured."""
        return (*self.servers, *self.programs)


def _on_trial(
    candidates: list[Server], shop: Workshop, trial: Point
) -> tuple[dict[str, tuple[Server, Launch]], list[LeftOut]]:
    """Start each server once and have it answer; part those that cannot from those that can."""
    good: dict[str, tuple[Server, Launch]] = {}
    bad: list[LeftOut] = []
    for server in candidates:
        try:
            page = (trial.path, trial.size)
            with serving(server, shop.site, shop.server_core, page) as running:
                launch = running.launch
            good[server.name] = (server, launch)
        except ServerFailedError as error:
            bad.append(LeftOut(server.name, str(error), is_fault=True))
    return good, bad


def _built(programs: Sequence[Program], shop: Workshop) -> tuple[dict[str, Program], list[LeftOut]]:
    """Part the programs that are built from those that are not."""
    built = {
        program.name: program for program in programs if (shop.programs / program.file).is_file()
    }
    missing = [
        LeftOut(
            program.name,
            f"{program.file} is not built"
            + (f": it needs {program.package}" if program.package else ""),
            is_fault=not program.package,
        )
        for program in programs
        if program.name not in built
    ]
    return built, missing


@dataclass(frozen=True)
class _Found:
    """The servers and programs of an experiment that are here, and why others are not."""

    servers: list[Server]
    programs: dict[str, Program]
    missing: list[LeftOut]
    absent_peers: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Return whom there is."""
        return [*(server.name for server in self.servers), *self.programs]

    def of(self, wish: Wish) -> "_Found":
        """Return those who are wanted; UnknownSubjectError if somebody wanted is not known."""
        known = [*self.names, *(left.name for left in self.missing), *self.absent_peers]
        if unknown := [name for name in wish.only if name not in known]:
            raise UnknownSubjectError(f"--only: no subject {unknown[0]!r} here: {', '.join(known)}")
        return _Found(
            [server for server in self.servers if wish.wants(server.name)],
            {name: program for name, program in self.programs.items() if wish.wants(name)},
            [left for left in self.missing if wish.wants(left.name)],
            tuple(filter(wish.wants, self.absent_peers)),
        )


def _find(experiment: Experiment, shop: Workshop, *, has_loads: bool) -> _Found:
    """Look for the subjects of an experiment; servers only if there are loads for them."""
    programs, unbuilt = _built(experiment.programs, shop)
    if not has_loads:
        return _Found([], programs, unbuilt, absent_peers(experiment.peers))
    ours = our_servers(shop.program, experiment.architectures)
    present = {server.name for server in ours}
    missing = [
        LeftOut(variant.name, f"this program has no architecture {variant.arch!r}", is_fault=False)
        for variant in experiment.architectures or ()
        if variant.name not in present
    ]
    toys, unbuilt_toys = _built(experiment.toys, shop)
    servers = [
        *ours,
        *(toy_server(toy, shop.programs, version_of(toy)) for toy in toys.values()),
        *present_peers(experiment.peers),
    ]
    missing += unbuilt_toys + unbuilt
    return _Found(servers, programs, missing, absent_peers(experiment.peers))


def _far_refusal(points: Sequence[Point | Case], shop: Workshop, cluster: str) -> str | None:
    """Return why client hosts far away cannot be had, None if they can or nobody wants them."""
    if not any(isinstance(point, Point) and point.is_far for point in points):
        return None
    if cluster:
        return "the hosts of a cluster are where they are"
    return network.refusal(shop.programs / network.RELAY, shop.client_core, shop.site.folder)


def _limit(point: Point | Case, shop: Workshop, refusal: str | None) -> str | None:
    """Return why this machine does not allow a point, None if it does."""
    if isinstance(point, Point) and point.is_far and refusal:
        return refusal
    files = shop.site.open_files
    needed = point.connections if isinstance(point, Point) else point.descriptors
    if needed > files - _DESCRIPTORS_SPARED:
        return f"{needed:,} descriptors are needed, {files:,} open files allowed"
    if isinstance(point, Case) and point.memory > available_memory():
        return f"{point.memory / 2**30:.1f} GiB of free memory are needed"
    return None


def _takes_part(point: Point | Case, name: str, programs: Mapping[str, Program]) -> bool:
    """Return whether a subject is measured at a point."""
    if isinstance(point, Case):
        return name in programs and name in point.programs
    return name not in programs and (not point.servers or name in point.servers)


def make_plan(experiment: Experiment, scale: Scale, shop: Workshop, wish: Wish) -> Plan:
    """Find the subjects, try each, and set the order and length of the measurements.

    The loads are as long as they are if everybody takes part, in as many rounds as the scale has.

    ServerFailedError if servers are wanted and the program has no architecture to offer;
    HandicapError if a handicap is for a server that takes no part; UnknownSubjectError.
    """
    asked = experiment.points_of(scale)
    refusal = _far_refusal(asked, shop, wish.cluster)
    limits = {point: _limit(point, shop, refusal) for point in asked}
    allowed = tuple(point for point, limit in limits.items() if not limit)
    loads = [point for point in allowed if isinstance(point, Point)]
    found = _find(experiment, shop, has_loads=bool(loads))
    wanted = found.of(wish)
    candidates = handicap.all_given(wanted.servers, wish.handicaps)
    servers, faults = _on_trial(candidates, shop, loads[0]) if candidates else ({}, [])
    large = [LeftOut(point.label, limit, False) for point, limit in limits.items() if limit]

    def takes_part(point: Point | Case, name: str) -> bool:
        return _takes_part(point, name, found.programs)

    subjects = [*servers, *wanted.programs]
    steps = interleaved(allowed, subjects, wish.most_rounds(scale), wish.seed, takes_part)
    least = [
        scale.length_of(load, 0, name)
        for load in loads
        for name in found.names
        if takes_part(load, name)
    ]
    return Plan(
        experiment=experiment,
        scale=scale,
        points=allowed,
        too_large=tuple(point for point, limit in limits.items() if limit),
        servers=servers,
        programs=wanted.programs,
        left_out=tuple(faults + wanted.missing + large),
        absent_peers=wanted.absent_peers,
        steps=tuple(steps),
        seconds=seconds_each(scale, least * scale.rounds),
        wish=wish,
    )
