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
    seconds: float
    """How long a load lasts, unless it needs more."""
    wish: Wish

    @property
    def step_s(self) -> float:
        """How long one measurement takes in the mean, all included."""
        lengths = [self.scale.length_of(step.point, self.seconds) for step in self.steps]
        return sum(lengths) / len(lengths) + self.scale.warmup_s + STEP_OVERHEAD_S

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


def _servers(
    experiment: Experiment, shop: Workshop, loads: list[Point], handicaps: Mapping[str, float]
) -> tuple[dict[str, tuple[Server, Launch]], list[LeftOut]]:
    """Find the servers of an experiment and try them; none if there are no loads for them."""
    if not loads:
        handicap.all_given([], handicaps)
        return {}, []
    ours = our_servers(shop.program, experiment.architectures)
    present = {server.name for server in ours}
    missing = [
        LeftOut(variant.name, f"this program has no architecture {variant.arch!r}", is_fault=False)
        for variant in experiment.architectures or ()
        if variant.name not in present
    ]
    built, unbuilt = _built(experiment.toys, shop)
    toys = [toy_server(toy, shop.programs, version_of(toy)) for toy in built.values()]
    others = present_peers(experiment.peers)
    candidates = handicap.all_given([*ours, *toys, *others], handicaps)
    good, bad = _on_trial(candidates, shop, loads[0])
    return good, missing + unbuilt + bad


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


def make_plan(experiment: Experiment, scale: Scale, shop: Workshop, wish: Wish) -> Plan:
    """Find the subjects, try each, and set the order and length of the measurements.

    ServerFailedError if servers are wanted and the program has no architecture to offer;
    HandicapError if a handicap is for a server that takes no part.
    """
    wanted = experiment.points_of(scale)
    refusal = _far_refusal(wanted, shop, wish.cluster)
    limits = {point: _limit(point, shop, refusal) for point in wanted}
    points = tuple(point for point, limit in limits.items() if not limit)
    loads = [point for point in points if isinstance(point, Point)]
    servers, faults = _servers(experiment, shop, loads, wish.handicaps)
    programs, missing = _built(experiment.programs, shop)
    large = [LeftOut(point.label, limit, False) for point, limit in limits.items() if limit]

    def takes_part(point: Point | Case, name: str) -> bool:
        if isinstance(point, Case):
            return name in programs and name in point.programs
        return name in servers and (not point.servers or name in point.servers)

    steps = interleaved(points, [*servers, *programs], scale.rounds, wish.seed, takes_part)
    timed = [step.point for step in steps if isinstance(step.point, Point)]
    return Plan(
        experiment=experiment,
        scale=scale,
        points=points,
        too_large=tuple(point for point, limit in limits.items() if limit),
        servers=servers,
        programs=programs,
        left_out=tuple(faults + missing + large),
        absent_peers=absent_peers(experiment.peers),
        steps=tuple(steps),
        seconds=seconds_each(scale, timed),
        wish=wish,
    )
