"""Which servers are measured at a point, and for how long."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from conftest import report
from gossamer_lab.experiments.manifest import Experiment, OpenLoopPoint, Point, Scale, Variant
from gossamer_lab.measuring.histogram_features import features
from gossamer_lab.measuring.load import Generator, Load
from gossamer_lab.measuring.measure import MeasurementSetup, measure
from gossamer_lab.measuring.plan import RunOptions, UnknownSubjectError, make_plan
from gossamer_lab.measuring.program import Runner
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.measuring.workspace import Workspace, open_workspace, paths_of
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Site

SCALE = Scale("smoke", budget_s=1.0, warmup_s=0.0, max_load_s=0.3, rounds=2)
POINTS = (
    Point("all", 305, 1, 0),
    Point("few", 305, 1, 0, servers=("event, more",), is_cpu_limited=False, topic="few"),
)
VARIANTS = (Variant("event", "event"), Variant("event, more", "event"))
EXPERIMENT = Experiment("known", "", POINTS, (SCALE,), architectures=VARIANTS)


def nothing() -> None:
    """Ignore a tick."""


def test_only_the_servers_that_a_point_names_are_measured_there(fake: Path) -> None:
    with open_workspace(EXPERIMENT, fake) as workspace:
        plan = make_plan(EXPERIMENT, SCALE, workspace, RunOptions(seed=1))
    taken = [(step.point.key, step.server) for step in plan.steps]
    assert sorted(set(taken)) == [("all", "event"), ("all", "event, more"), ("few", "event, more")]
    assert len(taken) == 6


def test_a_subset_of_subjects_has_loads_as_long_as_all(fake: Path) -> None:
    with open_workspace(EXPERIMENT, fake) as workspace:
        scale = replace(SCALE, budget_s=6.0, max_load_s=9.0)
        all_subjects = make_plan(EXPERIMENT, scale, workspace, RunOptions(seed=1))
        alone = make_plan(EXPERIMENT, scale, workspace, RunOptions(seed=1, only=("event",)))
        with pytest.raises(
            UnknownSubjectError, match=r"no subject 'evnt'; there are: event, event, more"
        ):
            make_plan(EXPERIMENT, scale, workspace, RunOptions(seed=1, only=("event", "evnt")))
    assert alone.subjects == ("event",)
    assert [(step.point.key, step.server) for step in alone.steps] == [("all", "event")] * 2
    assert SCALE.max_load_s < all_subjects.seconds < scale.max_load_s
    assert alone.seconds == all_subjects.seconds


def setup_of(workspace: Workspace, kind: type[Generator] = Generator) -> MeasurementSetup:
    """Return a setup that limits servers to half of their core."""
    folder, core = workspace.site.folder, workspace.client_core
    return MeasurementSetup(
        site=workspace.site,
        generator=kind(workspace.program, core, folder, nothing, paths_of),
        server_core=workspace.server_core,
        seconds=0.3,
        scale=SCALE,
        validity_rules=None,
        server_share=0.5,
        runner=Runner(workspace.programs, core, folder, is_realtime=False, tick=nothing),
    )


class Ticking(Generator):
    """A generator whose load has no requests of its own, and ticks at its end."""

    def run(self, load: Load) -> dict[str, Any]:
        """Tick once the middle of what counts is reached."""
        time.sleep(load.ramp_up_s + load.seconds / 2)
        self.tick()
        return report(1000, load.seconds)


class Silent(Ticking):
    """A generator that is over before the first tick."""

    def run(self, load: Load) -> dict[str, Any]:
        """Return at once."""
        return report(1000, load.seconds)


def measured(fake: Path, kind: type[Generator], point: Point) -> dict[str, Any]:
    with open_workspace(EXPERIMENT, fake) as workspace:
        (server,) = our_servers(fake, VARIANTS[:1])
        return measure(Step(0, 1, point, server.name), server, setup_of(workspace, kind))


def test_what_counts_begins_after_the_ramp_up(fake: Path) -> None:
    point = replace(POINTS[1], ramp_up_s=0.9)
    row = measured(fake, Ticking, point)
    used_us = (row["server_user_s"] + row["server_system_s"]) * 1e6
    # The counters are of 1.2 s, the 1000 requests of the 0.3 s that count.
    assert row["server_cpu_us_per_request"] * 1000 == pytest.approx(used_us / 4)
    assert row["server_memory_kb"] > 0
    assert SCALE.ramp_up_seconds(point) == 0.9
    assert replace(SCALE, ramp_up_s=20.0).ramp_up_seconds(point) == 20.0
    assert replace(SCALE, ramp_up_s=20.0).ramp_up_seconds(OpenLoopPoint("open", 1, 1, 1)) == 0


def test_the_generator_is_told_the_ramp_up(fake: Path, tmp_path: Path) -> None:
    generator = Generator(fake, 0, tmp_path, nothing, paths_of)
    arguments = generator.arguments(Load("URL", POINTS[0], 5.0, ramp_up_s=6.0))
    assert arguments[arguments.index("--warmup") + 1] == "6"
    assert arguments[arguments.index("-d") + 1] == "5"


def test_what_was_not_sampled_during_a_load_has_no_value(fake: Path) -> None:
    row = measured(fake, Silent, POINTS[1])
    assert row["failure"] is None
    assert row["server_memory_kb"] is None
    assert row["server_connections"] is None


@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="the kernel does not share cores by session"
)
@pytest.mark.parametrize(("point", "share"), [(POINTS[0], 0.5), (POINTS[1], None)])
def test_a_point_may_be_measured_without_the_cpu_limit(
    fake: Path, point: Point, share: float | None
) -> None:
    with open_workspace(EXPERIMENT, fake) as workspace:
        (server,) = our_servers(fake, VARIANTS[:1])
        row = measure(Step(0, 1, point, server.name), server, setup_of(workspace))
        kept = json.loads((workspace.site.folder / "load.json").read_text())
    assert row["failure"] is None
    assert row["server_cpu_share"] == share
    assert bool(row["calibration_ns"]) == bool(share)
    assert kept["keeps_awake"] == bool(share)
    assert row["requests"] > 0


def test_a_variant_may_limit_open_files_or_raise_the_limit_on_connections(
    fake: Path, tmp_path: Path
) -> None:
    variants = (
        Variant("few", "event", ("--backlog", "7"), open_files=64),
        Variant("wide", "event", raises_max_connections=True),
    )
    few, wide = (
        server.configure(Site(tmp_path, tmp_path, open_files=1000)).argv
        for server in our_servers(fake, variants)
    )
    assert few[:3] == ("prlimit", "--nofile=64", str(fake))
    assert few[-3:] == ("--backlog", "7", str(tmp_path))
    assert "--max-connections" not in few
    assert wide[wide.index("--max-connections") + 1] == "900"


def test_the_syn_retry_ratio_compares_retried_connections_with_those_before(
    tmp_path: Path,
) -> None:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for ms, count in ((2, 1000), (700, 1), (1020, 19), (1100, 20), (3050, 5)):
        histogram.record_value(ms * 1_000_000, count)
    log = tmp_path / "load.hlog"
    log.write_text(f"#[a head]\nTag=connect,0.0,0.0,3050.0,{histogram.encode().decode()}\n")
    assert features(log)["syn_retry_ratio"] == pytest.approx(40 / 2)
    assert features(log)["second_syn_retry_ratio"] == pytest.approx(6)
    log.write_text("#[a head]\n")
    assert features(log)["syn_retry_ratio"] is None
    assert features(tmp_path / "absent")["hump_us"] is None
