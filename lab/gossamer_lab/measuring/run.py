"""Runs an experiment: workspace, plan, all steps, and the record of the results."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from gossamer_lab.experiments.manifest import Case, Experiment, OpenLoopPoint, Point, Scale
from gossamer_lab.hosts import pool
from gossamer_lab.measuring import cgroup, cpu_limit, interruption
from gossamer_lab.measuring.crosscheck import cross_check
from gossamer_lab.measuring.load import Generator, Load
from gossamer_lab.measuring.machine import describe
from gossamer_lab.measuring.measure import MeasurementSetup, Row, measure, with_hosts
from gossamer_lab.measuring.plan import Plan, RunOptions, make_plan
from gossamer_lab.measuring.program import Runner, may_be_realtime, version_of
from gossamer_lab.measuring.workspace import Workspace, open_workspace, paths_of
from gossamer_lab.report.derived import with_derived
from gossamer_lab.servers.server import ServerFailedError
from gossamer_lab.store import FORMAT, Run, raw_frame, save_host_rows

_MAX_SHARE_ERROR = 0.1


class ProgressObserver(Protocol):
    """Receives the progress of a run."""

    def begin(self, plan: Plan, done: int) -> None:
        """The servers have been started once; `done` of the planned steps were measured before."""

    def start(self) -> None:
        """The first step starts; all preparations are complete."""

    def tick(self) -> None:
        """Called a few times a second."""

    def done(self, row: Row) -> None:
        """A step has been measured."""


@dataclass(frozen=True)
class RunRequest:
    """What to run, with which program and options, and where to store the results."""

    experiment: Experiment
    scale: Scale
    program: Path
    folder: Path
    options: RunOptions
    resumed_run: Run | None = None
    """The interrupted run: its measurements are not repeated."""


class CannotResumeError(Exception):
    """A run cannot be resumed; the message says why."""


def _generator(workspace: Workspace, tick: Callable[[], None]) -> Generator:
    return Generator(
        workspace.program, workspace.client_core, workspace.site.folder, tick, paths_of
    )


def execute(plan: Plan, setup: MeasurementSetup, rows: Sequence[Row]) -> Iterator[Row]:
    """Measure the steps that the rows lack; yield a row after each, which the caller appends."""
    for step in plan.steps[len(rows) :]:
        interruption.check()
        server = plan.servers.get(step.server)
        yield measure(step, server[0] if server else plan.programs[step.server], setup)


def _measurement_setup(
    plan: Plan, workspace: Workspace, tick: Callable[[], None]
) -> tuple[MeasurementSetup, dict[str, Any]]:
    """Return what all measurements share, and the description of the CPU limit."""
    target = plan.experiment.server_share if plan.servers else None
    folder = workspace.site.folder
    share = None
    if target is not None and not workspace.is_shared_core:
        share = cpu_limit.measured_share(target, workspace.server_core, folder)
    is_active = target is not None and share is not None and abs(share - target) < _MAX_SHARE_ERROR
    setup = MeasurementSetup(
        site=workspace.site,
        generator=_generator(workspace, tick),
        server_core=workspace.server_core,
        seconds=plan.seconds,
        scale=plan.scale,
        validity_rules=plan.experiment.validity_rules,
        server_share=target if is_active else None,
        runner=Runner(workspace.programs, workspace.client_core, folder, may_be_realtime(), tick),
    )
    return setup, {"target": target, "measured": share, "is_active": is_active}


def _load_command(plan: Plan, workspace: Workspace) -> str:
    """Return the command line of the load generator, with URL and FILE for what varies."""
    loads = [point for point in plan.points if isinstance(point, Point)]
    if not loads or any(isinstance(point, OpenLoopPoint) for point in loads):
        return ""
    load = Load("URL", loads[0], plan.seconds, plan.scale.drop)
    argv = list(_generator(workspace, lambda: None).command(load))
    argv[argv.index("-c") + 1] = "CONNECTIONS"
    counts = {str(point.requests_per_connection) for point in loads}
    argv[argv.index("--requests-per-connection") + 1] = "|".join(sorted(counts))
    paths = 2 + len(paths_of(loads[0]))
    urls = "URL/FILE..." if loads[0].directories else "URL/page-SIZE.html"
    return " ".join([*argv[:2], urls, *argv[paths:]])


def _subject_dicts(plan: Plan) -> list[dict[str, Any]]:
    """Return the description of each server and program."""
    servers = [
        {
            "name": server.name,
            "ours": server.ours,
            "summary": server.summary,
            "version": server.version,
            "command": " ".join(launch.argv),
            "config": launch.config,
        }
        for server, launch in plan.servers.values()
    ]
    programs = [
        {
            "name": program.name,
            "ours": not program.package,
            "summary": program.summary,
            "version": version_of(program),
            "command": " ".join((program.file, *program.arguments)),
            "config": "",
        }
        for program in plan.programs.values()
    ]
    return servers + programs


def _point_dict(plan: Plan, point: Point | Case) -> dict[str, Any]:
    """Return the description of a point, with the duration of its load."""
    length = {"seconds": plan.load_seconds(point)} if isinstance(point, Point) else {}
    return point.as_dict() | length


def _description(plan: Plan, workspace: Workspace, setup: MeasurementSetup) -> dict[str, Any]:
    """Return the plan's part of the results."""
    return {
        "method": {
            "scale": plan.scale.name,
            "rounds": plan.rounds,
            "seconds": plan.seconds,
            "slow_servers": {
                name: times for name, times in plan.scale.slow_servers if name in plan.servers
            },
            "warmup_s": plan.scale.warmup_s,
            "drop": plan.scale.drop,
            "repeats": plan.scale.repeats,
            "seed": plan.options.seed,
            "injected_overhead": dict(plan.options.overheads),
            "cluster": plan.options.cluster,
            "only": list(plan.options.only),
            "links": [asdict(link) for link in plan.experiment.links],
            "exact_cpu": cgroup.are_permitted(),
            "server_core": workspace.server_core,
            "client_core": workspace.client_core,
            "shared_core": workspace.is_shared_core,
            "realtime": setup.runner.is_realtime,
            "load_command": _load_command(plan, workspace),
        },
        "points": [_point_dict(plan, point) for point in plan.points],
        "skipped_points": [point.as_dict() for point in plan.unsupported_points],
        "servers": _subject_dicts(plan),
        "skipped": [asdict(skipped) for skipped in plan.skipped],
        "absent_peers": list(plan.absent_peers),
        "has_loads": bool(plan.servers),
        "has_programs": any(isinstance(point, Case) for point in plan.points),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _resumed_rows(request: RunRequest, plan: Plan, machine: dict[str, Any]) -> list[Row]:
    """Return the rows of the resumed run; CannotResumeError if they belong to another plan."""
    if request.resumed_run is None:
        return []
    rows: list[Row] = request.resumed_run.raw.sort("order").to_dicts()
    before = request.resumed_run.results["machine"]["source"]["program_sha256"]
    if before != machine["source"]["program_sha256"]:
        raise CannotResumeError("the program differs from the one that was measured")
    planned = [(step.point.key, step.server) for step in plan.steps[: len(rows)]]
    if planned != [(row["point"], row["server"]) for row in rows]:
        raise CannotResumeError("the servers or the limits of this machine have changed")
    return rows


@dataclass(frozen=True)
class _Recorder:
    """Saves a run after every measurement, so that an interruption loses no data."""

    folder: Path
    plan: Plan
    results: dict[str, Any]
    rows: list[Row]

    def run(self) -> Run:
        """Return the run as measured so far."""
        measured, planned = len(self.rows), len(self.plan.steps)
        state = {
            "finished": _now(),
            "measured": measured,
            "planned": planned,
            "complete": measured == planned,
        }
        return Run(self.folder, self.results | state, raw_frame(self.rows))

    def record(self, row: Row, histograms: Path) -> None:
        """Append a row, with its histograms if there are any."""
        if histograms.exists():
            folder = self.folder / "histograms"
            folder.mkdir(parents=True, exist_ok=True)
            row["histograms"] = f"histograms/{row['order']:04}.hlog"
            shutil.move(histograms, self.folder / row["histograms"])
        if hosts := row.pop("hosts", None):
            save_host_rows(self.folder, row, hosts)
        self.rows.append(row)
        self.run().save()


def run_experiment(request: RunRequest, observer: ProgressObserver) -> Run:
    """Run an experiment or resume one; ServerFailedError if nothing can be measured.

    CannotResumeError, OverheadError or UnknownSubjectError if the request is not valid here.

    An interruption ends the run early: the measurements made so far are returned, marked
    incomplete.
    """
    started, machine = _now(), describe(request.program)
    with (
        open_workspace(
            request.experiment, request.program, pool.local_address(request.options.cluster)
        ) as workspace,
        contextlib.ExitStack() as stack,
    ):
        plan = make_plan(request.experiment, request.scale, workspace, request.options)
        if not plan.steps:
            reasons = [f"{skipped.name}: {skipped.reason}" for skipped in plan.skipped]
            raise ServerFailedError("nothing can be measured:\n" + "\n".join(reasons))
        rows = _resumed_rows(request, plan, machine)
        setup, limit = _measurement_setup(plan, workspace, observer.tick)
        setup = with_hosts(setup, stack.enter_context(pool.pool_for_run(plan, workspace)))
        head = {
            "format": FORMAT,
            "experiment": request.experiment.name,
            "summary": request.experiment.summary,
            "started": request.resumed_run.results["started"] if request.resumed_run else started,
            "resumed": started if request.resumed_run else None,
            **_description(plan, workspace, setup),
            "cpu_limit": limit,
            "machine": machine,
            "cross_check": request.resumed_run.results.get("cross_check")
            if request.resumed_run
            else None,
        }
        recorder = _Recorder(request.folder, plan, head, rows)
        observer.begin(plan, len(rows))
        with contextlib.suppress(KeyboardInterrupt):
            if plan.servers and not head["cross_check"]:
                sizes = request.experiment.sizes
                times = 1 if plan.scale.name == "smoke" else plan.rounds
                head["cross_check"] = cross_check(sizes, times, workspace, setup.generator)
            observer.start()
            for row in execute(plan, setup, rows):
                recorder.record(row, setup.generator.histograms)
                observer.done(row)
    return with_derived(recorder.run(), request.experiment)
