"""Who takes part in a point, and how it is measured there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from gossamer_lab.bursts import connect_burst
from gossamer_lab.experiment import Experiment, Point, Scale, Variant
from gossamer_lab.load import Generator
from gossamer_lab.measure import Bench, measure
from gossamer_lab.plan import UnknownSubjectError, Wish, make_plan
from gossamer_lab.program import Runner
from gossamer_lab.schedule import Step
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Site
from gossamer_lab.workshop import paths_of, workshop

SCALE = Scale("smoke", budget_s=1.0, warmup_s=0.0, longest_s=0.3, rounds=2)
POINTS = (
    Point("all", 305, 1, 0),
    Point("few", 305, 1, 0, servers=("event, more",), is_braked=False, topic="few"),
)
VARIANTS = (Variant("event", "event"), Variant("event, more", "event"))
EXPERIMENT = Experiment("known", "", POINTS, (SCALE,), architectures=VARIANTS)


def nothing() -> None:
    """What is called meanwhile."""


def test_only_the_servers_that_a_point_names_are_measured_there(fake: Path) -> None:
    with workshop(EXPERIMENT, fake) as shop:
        plan = make_plan(EXPERIMENT, SCALE, shop, Wish(seed=1))
    taken = [(step.point.key, step.server) for step in plan.steps]
    assert sorted(set(taken)) == [("all", "event"), ("all", "event, more"), ("few", "event, more")]
    assert len(taken) == 6


def test_who_is_wanted_alone_is_measured_for_as_long_as_among_all(fake: Path) -> None:
    with workshop(EXPERIMENT, fake) as shop:
        scale = replace(SCALE, budget_s=6.0, longest_s=9.0)
        everybody = make_plan(EXPERIMENT, scale, shop, Wish(seed=1))
        alone = make_plan(EXPERIMENT, scale, shop, Wish(seed=1, only=("event",)))
        with pytest.raises(
            UnknownSubjectError, match=r"no subject 'evnt' here: event, event, more"
        ):
            make_plan(EXPERIMENT, scale, shop, Wish(seed=1, only=("event", "evnt")))
    assert alone.subjects == ("event",)
    assert [(step.point.key, step.server) for step in alone.steps] == [("all", "event")] * 2
    assert SCALE.longest_s < everybody.seconds < scale.longest_s
    assert alone.seconds == everybody.seconds


@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="the kernel does not share cores by session"
)
@pytest.mark.parametrize(("point", "share"), [(POINTS[0], 0.5), (POINTS[1], None)])
def test_a_point_may_be_measured_without_the_brake(
    fake: Path, point: Point, share: float | None
) -> None:
    with workshop(EXPERIMENT, fake) as shop:
        folder, core = shop.site.folder, shop.client_core
        bench = Bench(
            site=shop.site,
            generator=Generator(shop.program, core, folder, nothing, paths_of),
            server_core=shop.server_core,
            seconds=0.3,
            scale=SCALE,
            soundness=None,
            server_share=0.5,
            runner=Runner(shop.programs, core, folder, is_realtime=False, tick=nothing),
        )
        (server,) = our_servers(fake, VARIANTS[:1])
        row = measure(Step(0, 1, point, server.name), server, bench)
        kept = json.loads((folder / "load.json").read_text())
    assert row["failure"] is None
    assert row["brake_share"] == share
    assert bool(row["beat_ns"]) == bool(share)
    assert kept["keeps_awake"] == bool(share)
    assert row["requests"] > 0


def test_a_variant_may_have_few_open_files_or_hold_as_many_connections_as_they_allow(
    fake: Path, tmp_path: Path
) -> None:
    variants = (
        Variant("few", "event", ("--backlog", "7"), open_files=64),
        Variant("wide", "event", is_wide=True),
    )
    few, wide = (
        server.configure(Site(tmp_path, tmp_path, open_files=1000)).argv
        for server in our_servers(fake, variants)
    )
    assert few[:3] == ("prlimit", "--nofile=64", str(fake))
    assert few[-3:] == ("--backlog", "7", str(tmp_path))
    assert "--max-connections" not in few
    assert wide[wide.index("--max-connections") + 1] == "900"


def test_a_burst_is_what_comes_at_the_second_try_beside_what_comes_before_it(
    tmp_path: Path,
) -> None:
    histogram = HdrHistogram(1, 3_600_000_000_000, 3)
    for ms, count in ((2, 1000), (700, 1), (1020, 19), (1100, 20), (3050, 5)):
        histogram.record_value(ms * 1_000_000, count)
    log = tmp_path / "load.hlog"
    log.write_text(f"#[a head]\nTag=connect,0.0,0.0,3050.0,{histogram.encode().decode()}\n")
    assert connect_burst(log) == pytest.approx(40 / 2)
    log.write_text("#[a head]\n")
    assert connect_burst(log) is None
    assert connect_burst(tmp_path / "absent") is None
