"""A run from start to end: workshop, plan, every step, and what is kept of it."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from gossamer_lab import interruption
from gossamer_lab.analysis import cells, lost
from gossamer_lab.experiment import Experiment, Scale
from gossamer_lab.load import Generator
from gossamer_lab.machine import describe
from gossamer_lab.measure import Bench, Row, measure
from gossamer_lab.plan import Plan, make_plan
from gossamer_lab.servers.server import ServerFailedError
from gossamer_lab.store import Run, raw_frame
from gossamer_lab.workshop import Workshop, workshop

FORMAT = 1
"""Version of the layout of results.json."""


class Watcher(Protocol):
    """Who is told how a run gets on."""

    def begin(self, plan: Plan) -> None:
        """The servers have been tried; measuring starts."""

    def tick(self) -> None:
        """Some time has passed."""

    def done(self, row: Row) -> None:
        """One more step is measured."""


def carry_out(plan: Plan, shop: Workshop, tick: Callable[[], None]) -> Iterator[Row]:
    """Measure step by step; yield a row after each."""
    bench = Bench(
        site=shop.site,
        generator=Generator(shop.program, shop.client_core, shop.site.folder, tick),
        server_core=shop.server_core,
        seconds=plan.seconds,
        warmup_s=plan.scale.warmup_s,
    )
    for step in plan.steps:
        interruption.check()
        yield measure(step, plan.servers[step.server][0], bench)


def _load_command(plan: Plan, shop: Workshop) -> str:
    """Return the command line of the load generator, with the names of what varies."""
    generator = Generator(shop.program, shop.client_core, shop.site.folder, lambda: None)
    argv = list(generator.command("URL", plan.points[0], plan.seconds))
    argv[argv.index("-c") + 1] = "CONNECTIONS"
    argv[argv.index("--requests-per-connection") + 1] = "0|1"
    argv[2] = "URL/page-SIZE.html"
    return " ".join(argv)


def _described(plan: Plan, shop: Workshop) -> dict[str, Any]:
    """Return what a plan says, for results.json."""
    return {
        "method": {
            "scale": plan.scale.name,
            "rounds": plan.scale.rounds,
            "seconds": plan.seconds,
            "warmup_s": plan.scale.warmup_s,
            "seed": plan.seed,
            "server_core": shop.server_core,
            "client_core": shop.client_core,
            "shared_core": shop.is_shared_core,
            "load_command": _load_command(plan, shop),
        },
        "points": [
            asdict(point) | {"label": point.label, "kind": point.kind} for point in plan.points
        ],
        "servers": [
            {
                "name": server.name,
                "ours": server.ours,
                "summary": server.summary,
                "version": server.version,
                "command": " ".join(launch.argv),
                "config": launch.config,
            }
            for server, launch in plan.servers.values()
        ],
        "left_out": [asdict(left_out) for left_out in plan.left_out],
        "absent_peers": list(plan.absent_peers),
        "planned": len(plan.steps),
    }


def with_cells(run: Run) -> Run:
    """Return the run with all that is derived computed afresh from the raw rows."""
    points = [point["key"] for point in run.results["points"]]
    servers = [server["name"] for server in run.results["servers"]]
    found = [cell.as_dict() for cell in cells(run.raw, points, servers)]
    return Run(run.folder, run.results | {"cells": found, "lost": lost(run.raw)}, run.raw)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Order:
    """What is to be run, with what, and where the result goes."""

    experiment: Experiment
    scale: Scale
    program: Path
    folder: Path
    seed: int


def run_experiment(order: Order, watcher: Watcher) -> Run:
    """Run an experiment; ServerFailedError if none of the servers answers.

    An interruption ends it early: what was measured until then is returned, marked incomplete.
    """
    started, machine = _now(), describe(order.program)
    rows: list[Row] = []
    with workshop(order.experiment, order.program) as shop:
        plan = make_plan(order.experiment, order.scale, shop, order.seed)
        if not plan.steps:
            reasons = [f"{left_out.name}: {left_out.reason}" for left_out in plan.left_out]
            raise ServerFailedError("no server can be measured\n" + "\n".join(reasons))
        watcher.begin(plan)
        with contextlib.suppress(KeyboardInterrupt):
            for row in carry_out(plan, shop, watcher.tick):
                rows.append(row)
                watcher.done(row)
        described = _described(plan, shop)
    results = {
        "format": FORMAT,
        "experiment": order.experiment.name,
        "summary": order.experiment.summary,
        "started": started,
        "finished": _now(),
        "measured": len(rows),
        "complete": len(rows) == len(plan.steps),
        **described,
        "machine": machine,
    }
    return with_cells(Run(order.folder, results, raw_frame(rows)))
