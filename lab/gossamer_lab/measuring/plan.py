"""What a run will do: its subjects and points, and the order and duration of its measurements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gossamer_lab.experiments.manifest import Case, Experiment, Point, Program, Scale
from gossamer_lab.hosts import network
from gossamer_lab.measuring import overhead, task_limit
from gossamer_lab.measuring.program import available_memory, version_of
from gossamer_lab.measuring.schedule import STEP_OVERHEAD_S, Step, interleaved, seconds_per_load
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Launch, Server, ServerFailedError, serving
from gossamer_lab.servers.toys import toy_server
from gossamer_lab.servers.unchanged import with_runs

_RESERVED_DESCRIPTORS = 64


@dataclass(frozen=True)
class RunOptions:
    """Options of a run, besides those of the manifest."""

    seed: int
    """Seed of the order of measurements."""
    overheads: Mapping[str, float] = field(default_factory=dict)
    """CPU overhead to inject, by server, as a share of its CPU time."""
    cluster: str = ""
    """Address of the scheduler whose client hosts generate the loads; empty: this machine."""
    only: tuple[str, ...] = ()
    """Names of the subjects to measure; empty: all."""
    rounds: int = 0
    """Number of rounds, instead of the scale's; 0: the scale's."""

    def includes(self, name: str) -> bool:
        """Return whether a subject is to be measured."""
        return not self.only or name in self.only

    def rounds_of(self, scale: Scale) -> int:
        """Return the number of rounds, which is fixed before the first of them."""
        return self.rounds or scale.rounds


class UnknownSubjectError(Exception):
    """A requested name is not a subject of the experiment; the message lists the subjects."""


@dataclass(frozen=True)
class Skipped:
    """A subject or a point that is not measured, and why."""

    name: str
    reason: str
    is_error: bool
    """Whether something is broken, rather than limited or absent."""


@dataclass(frozen=True)
class Plan:
    """All that is decided before the first measurement."""

    experiment: Experiment
    scale: Scale
    points: tuple[Point | Case, ...]
    unsupported_points: tuple[Point | Case, ...]
    """Points that exceed the limits of this machine."""
    servers: dict[str, tuple[Server, Launch]]
    """By name, in the order of the tables, each with its launch of the first start."""
    programs: dict[str, Program]
    skipped: tuple[Skipped, ...]
    absent_peers: tuple[str, ...]
    steps: tuple[Step, ...]
    seconds: float
    """Duration of a load that sets no minimum of its own."""
    options: RunOptions

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.options.rounds_of(self.scale)

    def load_seconds(self, point: Point | Case, server: str = "") -> float:
        """Return the duration of a load; if no server is named, of one that is not slow."""
        return self.scale.load_seconds(point, self.seconds, server)

    def step_seconds(self, step: Step) -> float:
        """Return the expected duration of a measurement, including warm-up and overhead."""
        before_s = self.scale.warmup_s + self.scale.ramp_up_seconds(step.point)
        return self.load_seconds(step.point, step.server) + before_s + STEP_OVERHEAD_S

    @property
    def subjects(self) -> tuple[str, ...]:
        """Names of all subjects."""
        return (*self.servers, *self.programs)


def _start_each(
    candidates: list[Server], workspace: Workspace, page_point: Point
) -> tuple[dict[str, tuple[Server, Launch]], list[Skipped]]:
    """Start each server once and request a page; separate those that fail."""
    good: dict[str, tuple[Server, Launch]] = {}
    bad: list[Skipped] = []
    for server in candidates:
        try:
            page = (page_point.path, page_point.size)
            with serving(server, workspace.site, workspace.server_core, page) as running:
                launch = running.launch
            good[server.name] = (server, launch)
        except ServerFailedError as error:
            bad.append(Skipped(server.name, str(error), is_error=True))
    return good, bad


def _built(
    programs: Sequence[Program], workspace: Workspace
) -> tuple[dict[str, Program], list[Skipped]]:
    """Separate the programs that are built from those that are not."""
    built = {
        program.name: program
        for program in programs
        if (workspace.programs / program.file).is_file()
    }
    missing = [
        Skipped(
            program.name,
            f"{program.file} is not built"
            + (f": it needs {program.needs}" if program.needs else ""),
            is_error=not program.needs,
        )
        for program in programs
        if program.name not in built
    ]
    return built, missing


@dataclass(frozen=True)
class _Found:
    """The servers and programs of an experiment that are present, and why others are not."""

    servers: list[Server]
    programs: dict[str, Program]
    missing: list[Skipped]
    absent_peers: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of those present."""
        return [*(server.name for server in self.servers), *self.programs]

    def of(self, options: RunOptions) -> "_Found":
        """Return those that the options include; UnknownSubjectError for an unknown name."""
        known = [*self.names, *(skipped.name for skipped in self.missing), *self.absent_peers]
        if unknown := [name for name in options.only if name not in known]:
            raise UnknownSubjectError(
                f"--only: no subject {unknown[0]!r}; there are: {', '.join(known)}"
            )
        return _Found(
            [server for server in self.servers if options.includes(server.name)],
            {name: program for name, program in self.programs.items() if options.includes(name)},
            [skipped for skipped in self.missing if options.includes(skipped.name)],
            tuple(filter(options.includes, self.absent_peers)),
        )


def _find(experiment: Experiment, workspace: Workspace, *, has_loads: bool) -> _Found:
    """Find the subjects of an experiment; servers only if there are loads for them."""
    programs, unbuilt = _built(experiment.programs, workspace)
    if not has_loads:
        return _Found([], programs, unbuilt, absent_peers(experiment.peers))
    ours = our_servers(workspace.program, experiment.architectures)
    present = {server.name for server in ours}
    missing = [
        Skipped(variant.name, f"this program has no architecture {variant.arch!r}", is_error=False)
        for variant in experiment.architectures or ()
        if variant.name not in present
    ]
    limited = [server.name for server in ours if server.max_tasks]
    if limited and not task_limit.is_permitted():
        reason = "the number of its threads cannot be limited: no control group with pids"
        missing += [Skipped(name, reason, is_error=False) for name in limited]
        ours = [server for server in ours if not server.max_tasks]
    toys, unbuilt_toys = _built(experiment.toys, workspace)
    servers = [
        *ours,
        *(toy_server(toy, workspace.programs, version_of(toy)) for toy in toys.values()),
        *present_peers(experiment.peers),
    ]
    servers = with_runs(servers, experiment.also_by_run, workspace.program)
    missing += unbuilt_toys + unbuilt
    return _Found(servers, programs, missing, absent_peers(experiment.peers))


def _wan_refusal(points: Sequence[Point | Case], workspace: Workspace, cluster: str) -> str | None:
    """Return why WAN hosts cannot be emulated, None if they can or are not needed."""
    if not any(isinstance(point, Point) and point.is_wan for point in points):
        return None
    if cluster:
        return "a WAN can only be emulated for hosts on this machine, not for a cluster"
    return network.refusal(
        workspace.programs / network.RELAY, workspace.client_core, workspace.site.folder
    )


def point_limit(point: Point | Case, files: int, refusal: str | None) -> str | None:
    """Return why this machine does not support a point, None if it does.

    `files` is the limit on open files, `refusal` why WAN hosts cannot be emulated.
    """
    if isinstance(point, Point) and point.is_wan and refusal:
        return refusal
    needed = point.connections if isinstance(point, Point) else point.descriptors
    if needed > files - _RESERVED_DESCRIPTORS:
        return f"{needed:,} descriptors are needed, the limit is {files:,} open files"
    if isinstance(point, Case) and point.memory > available_memory():
        return f"{point.memory / 2**30:.1f} GiB of available memory are needed"
    return None


def is_measured_at(point: Point | Case, name: str, programs: Mapping[str, Program]) -> bool:
    """Return whether a subject is measured at a point."""
    if isinstance(point, Case):
        return name in programs and name in point.programs
    return name not in programs and (not point.servers or name in point.servers)


def make_plan(
    experiment: Experiment, scale: Scale, workspace: Workspace, options: RunOptions
) -> Plan:
    """Find the subjects, start each once, and set the order and duration of the measurements.

    Loads are as long as if all subjects were measured, in as many rounds as the scale has.

    ServerFailedError if servers are needed and the program has no architecture; OverheadError if
    overhead is requested for a server that is not measured; UnknownSubjectError.
    """
    points = experiment.points_of(scale)
    refusal = _wan_refusal(points, workspace, options.cluster)
    files = workspace.site.open_files
    limits = {point: point_limit(point, files, refusal) for point in points}
    allowed = tuple(point for point, limit in limits.items() if not limit)
    loads = [point for point in allowed if isinstance(point, Point)]
    found = _find(experiment, workspace, has_loads=bool(loads))
    selected = found.of(options)
    candidates = overhead.with_overheads(selected.servers, options.overheads)
    servers, failed = _start_each(candidates, workspace, loads[0]) if candidates else ({}, [])
    unsupported = [Skipped(point.label, limit, False) for point, limit in limits.items() if limit]

    def is_measured(point: Point | Case, name: str) -> bool:
        return is_measured_at(point, name, found.programs)

    subjects = [*servers, *selected.programs]
    steps = interleaved(allowed, subjects, options.rounds_of(scale), options.seed, is_measured)
    minimums = [
        scale.load_seconds(load, 0, name)
        for load in loads
        for name in found.names
        if is_measured(load, name)
    ]
    return Plan(
        experiment=experiment,
        scale=scale,
        points=allowed,
        unsupported_points=tuple(point for point, limit in limits.items() if limit),
        servers=servers,
        programs=selected.programs,
        skipped=tuple(failed + selected.missing + unsupported),
        absent_peers=selected.absent_peers,
        steps=tuple(steps),
        seconds=seconds_per_load(scale, minimums * scale.rounds),
        options=options,
    )
