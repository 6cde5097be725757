"""A run from start to end: workshop, plan, every step, and what is kept of it."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from gossamer_lab import brake, cgroup, interruption, rounds
from gossamer_lab.crosscheck import cross_check
from gossamer_lab.derived import with_derived
from gossamer_lab.experiment import Arrivals, Case, Experiment, Point, Scale
from gossamer_lab.hosts import pool
from gossamer_lab.load import Generator, Load
from gossamer_lab.machine import describe
from gossamer_lab.measure import Bench, Row, measure, with_hosts
from gossamer_lab.plan import Plan, Wish, make_plan
from gossamer_lab.program import Runner, may_be_realtime, version_of
from gossamer_lab.servers.server import ServerFailedError
from gossamer_lab.store import FORMAT, Run, keep_hosts, raw_frame
from gossamer_lab.workshop import Workshop, paths_of, workshop

_BRAKE_ERROR = 0.1


class Watcher(Protocol):
    """Who is told how a run gets on."""

    def begin(self, plan: Plan, done: int, planned: int) -> None:
        """The servers have been tried; measuring starts, some steps may be done already."""

    def start(self) -> None:
        """The first step that is not done starts; all that comes before is over."""

    def tick(self) -> None:
        """Some time has passed."""

    def done(self, row: Row, planned: int) -> None:
        """One more step is measured, of so many as far as is known."""


@dataclass(frozen=True)
class Order:
    """What is to be run, with what, and where the result goes."""

    experiment: Experiment
    scale: Scale
    program: Path
    folder: Path
    wish: Wish
    earlier: Run | None = None
    """The run that is resumed: its measurements are not made again."""


class CannotResumeError(Exception):
    """A run cannot be resumed here and now; says why."""


def _generator(shop: Workshop, tick: Callable[[], None]) -> Generator:
    return Generator(shop.program, shop.client_core, shop.site.folder, tick, paths_of)


def carry_out(plan: Plan, bench: Bench, rows: Sequence[Row]) -> Iterator[Row]:
    """Measure step by step what the rows lack; yield a row after each, which has to be added."""
    while len(rows) < rounds.needed(plan, rows):
        interruption.check()
        step = plan.steps[len(rows)]
        server = plan.servers.get(step.server)
        yield measure(step, server[0] if server else plan.programs[step.server], bench)


def _bench(plan: Plan, shop: Workshop, tick: Callable[[], None]) -> tuple[Bench, dict[str, Any]]:
    """Return what the measurements share, and what is to be told of the brake."""
    wanted = plan.experiment.server_share if plan.servers else None
    folder = shop.site.folder
    found = None
    if wanted is not None and not shop.is_shared_core:
        found = brake.trial(wanted, shop.server_core, folder)
    works = wanted is not None and found is not None and abs(found - wanted) < _BRAKE_ERROR
    bench = Bench(
        site=shop.site,
        generator=_generator(shop, tick),
        server_core=shop.server_core,
        seconds=plan.seconds,
        scale=plan.scale,
        soundness=plan.experiment.soundness,
        server_share=wanted if works else None,
        runner=Runner(shop.programs, shop.client_core, folder, may_be_realtime(), tick),
    )
    return bench, {"wanted": wanted, "found": found, "is_on": works}


def _load_command(plan: Plan, shop: Workshop) -> str:
    """Return the command line of the load generator, with the names of what varies."""
    loads = [point for point in plan.points if isinstance(point, Point)]
    if not loads or any(isinstance(point, Arrivals) for point in loads):
        return ""
    load = Load("URL", loads[0], plan.seconds, plan.scale.drop)
    argv = list(_generator(shop, lambda: None).command(load))
    argv[argv.index("-c") + 1] = "CONNECTIONS"
    kinds = {str(point.requests_per_connection) for point in loads}
    argv[argv.index("--requests-per-connection") + 1] = "|".join(sorted(kinds))
    paths = 2 + len(paths_of(loads[0]))
    asked = "URL/FILE..." if loads[0].directories else "URL/page-SIZE.html"
    return " ".join([*argv[:2], asked, *argv[paths:]])


def _subjects(plan: Plan) -> list[dict[str, Any]]:
    """Return what is told of each server and program."""
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
            "command": " ".join((program.file, *program.words)),
            "config": "",
        }
        for program in plan.programs.values()
    ]
    return servers + programs


def _point(plan: Plan, point: Point | Case) -> dict[str, Any]:
    """Return what is told of a point; of a load how long it lasts, too."""
    length = {"seconds": plan.length_of(point)} if isinstance(point, Point) else {}
    return point.described() | length


def _described(plan: Plan, shop: Workshop, bench: Bench) -> dict[str, Any]:
    """Return what the report says of a plan."""
    return {
        "method": {
            "scale": plan.scale.name,
            "least_rounds": plan.least_rounds,
            "most_rounds": plan.most_rounds,
            "seconds": plan.seconds,
            "slow": {name: times for name, times in plan.scale.slow if name in plan.servers},
            "warmup_s": plan.scale.warmup_s,
            "drop": plan.scale.drop,
            "repeats": plan.scale.repeats,
            "seed": plan.wish.seed,
            "handicaps": dict(plan.wish.handicaps),
            "cluster": plan.wish.cluster,
            "only": list(plan.wish.only),
            "links": [asdict(link) for link in plan.experiment.links],
            "exact_cpu": cgroup.are_permitted(),
            "server_core": shop.server_core,
            "client_core": shop.client_core,
            "shared_core": shop.is_shared_core,
            "realtime": bench.runner.is_realtime,
            "load_command": _load_command(plan, shop),
        },
        "points": [_point(plan, point) for point in plan.points],
        "points_left_out": [point.described() for point in plan.too_large],
        "servers": _subjects(plan),
        "left_out": [asdict(left_out) for left_out in plan.left_out],
        "absent_peers": list(plan.absent_peers),
        "has_loads": bool(plan.servers),
        "has_programs": any(isinstance(point, Case) for point in plan.points),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _taken_over(order: Order, plan: Plan, machine: dict[str, Any]) -> list[Row]:
    """Return the rows of the run that is resumed; CannotResumeError if they are of another plan."""
    if order.earlier is None:
        return []
    rows: list[Row] = order.earlier.raw.sort("order").to_dicts()
    before = order.earlier.results["machine"]["source"]["program_sha256"]
    if before != machine["source"]["program_sha256"]:
        raise CannotResumeError("the program is no longer the one that was measured")
    planned = [(step.point.key, step.server) for step in plan.steps[: len(rows)]]
    if planned != [(row["point"], row["server"]) for row in rows]:
        raise CannotResumeError("servers or limits of this machine are no longer the same")
    return rows


@dataclass(frozen=True)
class _Keeper:
    """Keeps a run after every measurement, so that nothing is lost however it ends."""

    folder: Path
    plan: Plan
    results: dict[str, Any]
    rows: list[Row]

    def planned(self) -> int:
        """Return how many measurements it needs, as far as is known."""
        return rounds.needed(self.plan, self.rows)

    def run(self) -> Run:
        """Return what there is so far."""
        measured, planned = len(self.rows), self.planned()
        method = self.results["method"] | {"rounds": rounds.among(self.plan, planned)}
        state = {
            "finished": _now(),
            "measured": measured,
            "planned": planned,
            "complete": measured == planned,
            "method": method,
        }
        return Run(self.folder, self.results | state, raw_frame(self.rows))

    def keep(self, row: Row, histograms: Path) -> None:
        """Add a row, with its histograms if there are any."""
        if histograms.exists():
            place = self.folder / "histograms"
            place.mkdir(parents=True, exist_ok=True)
            row["histograms"] = f"histograms/{row['order']:04}.hlog"
            shutil.move(histograms, self.folder / row["histograms"])
        if hosts := row.pop("hosts", None):
            keep_hosts(self.folder, row, hosts)
        self.rows.append(row)
        self.run().save()


def run_experiment(order: Order, watcher: Watcher) -> Run:
    """Run an experiment, or what is left of it; ServerFailedError if nothing can be measured.

    CannotResumeError and HandicapError: it cannot be run like this.

    An interruption ends it early: what was measured until then is returned, marked incomplete.
    """
    started, machine = _now(), describe(order.program)
    with (
        workshop(order.experiment, order.program, pool.own_address(order.wish.cluster)) as shop,
        contextlib.ExitStack() as stack,
    ):
        plan = make_plan(order.experiment, order.scale, shop, order.wish)
        if not plan.steps:
            reasons = [f"{left_out.name}: {left_out.reason}" for left_out in plan.left_out]
            raise ServerFailedError("nothing can be measured\n" + "\n".join(reasons))
        rows = _taken_over(order, plan, machine)
        bench, braked = _bench(plan, shop, watcher.tick)
        bench = with_hosts(bench, stack.enter_context(pool.for_run(plan, shop)))
        head = {
            "format": FORMAT,
            "experiment": order.experiment.name,
            "summary": order.experiment.summary,
            "started": order.earlier.results["started"] if order.earlier else started,
            "resumed": started if order.earlier else None,
            **_described(plan, shop, bench),
            "brake": braked,
            "machine": machine,
            "cross_check": order.earlier.results.get("cross_check") if order.earlier else None,
        }
        keeper = _Keeper(order.folder, plan, head, rows)
        watcher.begin(plan, len(rows), keeper.planned())
        with contextlib.suppress(KeyboardInterrupt):
            if plan.servers and not head["cross_check"]:
                sizes, times = order.experiment.sizes, plan.least_rounds
                head["cross_check"] = cross_check(sizes, times, shop, bench.generator)
            watcher.start()
            for row in carry_out(plan, bench, rows):
                keeper.keep(row, bench.generator.histograms)
                watcher.done(row, keeper.planned())
    return with_derived(keeper.run(), order.experiment)
