"""The estimate of the time left, and its display."""

import io

import pytest
from rich.console import Console

from gossamer_lab.experiments.manifest import Experiment, Point, Scale
from gossamer_lab.measuring import progress
from gossamer_lab.measuring.plan import Plan, RunOptions
from gossamer_lab.measuring.schedule import STEP_OVERHEAD_S, Step

_SHORT, _LONG = Point("short", 305, 1, 0), Point("long", 305, 1, 0, min_s=9.0)
_ROW = {"failure": None, "server_cpu_us_per_request": 1.0, "throughput_per_s": 2.0, "errors": 0}


def a_plan() -> Plan:
    """Return a plan of three loads of 1 s and one of 9 s, each after a warm-up of 0.5 s."""
    scale = Scale("normal", budget_s=100.0, warmup_s=0.5, max_load_s=20.0, rounds=1)
    points = (_SHORT, _SHORT, _SHORT, _LONG)
    return Plan(
        experiment=Experiment("known", "", (_SHORT, _LONG), (scale,)),
        scale=scale,
        points=(_SHORT, _LONG),
        unsupported_points=(),
        servers={},
        programs={},
        skipped=(),
        absent_peers=(),
        steps=tuple(Step(i, 1, point, "event") for i, point in enumerate(points)),
        seconds=1.0,
        options=RunOptions(1),
    )


def test_the_time_left_follows_from_the_plan_and_the_pace_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    out = io.StringIO()
    shown = progress.ConsoleProgress(Console(file=out, width=200))
    plan = a_plan()
    each_s = 1.5 + STEP_OVERHEAD_S
    shown.begin(plan, 0)
    assert "2 points, 1 round, 1 to 9 s each, about 0:15 in total" in out.getvalue()
    now[0] += 500.0  # the time for preparations
    shown.start()
    for _ in range(2):
        now[0] += each_s
        shown.done(_ROW)
    as_planned = progress.minutes(each_s + 9.5 + STEP_OVERHEAD_S)
    assert out.getvalue().splitlines()[-1].startswith(f"[2/4, {as_planned} left] event: ")
    now[0] += 10 * each_s
    shown.done(_ROW)
    pace = (12 * each_s + 10) / (3 * each_s + 10)
    slower = progress.minutes(pace * (9.5 + STEP_OVERHEAD_S))
    assert out.getvalue().splitlines()[-1].startswith(f"[3/4, {slower} left] event: ")
