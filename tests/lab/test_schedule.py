"""The order and duration of measurements."""

from itertools import groupby

import pytest

from gossamer_lab.experiments.manifest import Point, Scale
from gossamer_lab.experiments.overload import OVERLOAD
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.experiments.sandstorm import SANDSTORM
from gossamer_lab.experiments.thread_pool_server import THREAD_POOL_SERVER
from gossamer_lab.measuring.schedule import STEP_OVERHEAD_S, Step, interleaved, seconds_per_load

SERVERS = ["event", "nginx", "lighttpd", "h2o"]


def order_of(steps: list[Step]) -> list[tuple[str, str]]:
    """Return points and servers in the order of their steps."""
    return [(step.point.key, step.server) for step in steps]


def test_every_server_is_measured_at_every_point_once_per_round() -> None:
    steps = interleaved(QUICK.points, SERVERS, 3, seed=1)
    everything = {(point.key, server) for point in QUICK.points for server in SERVERS}
    for number in (1, 2, 3):
        pairs = order_of([step for step in steps if step.round == number])
        assert len(pairs) == len(everything)
        assert set(pairs) == everything
    assert [step.order for step in steps] == list(range(len(steps)))


def test_the_second_round_mirrors_the_first() -> None:
    steps = interleaved(QUICK.points, SERVERS, 2, seed=1)
    half = len(steps) // 2
    assert order_of(steps[half:]) == order_of(steps[:half])[::-1]


def test_linear_drift_affects_all_servers_equally() -> None:
    steps = interleaved(QUICK.points, SERVERS, 4, seed=5)
    sums = {
        (point.key, server): sum(
            step.order for step in steps if (step.point, step.server) == (point, server)
        )
        for point in QUICK.points
        for server in SERVERS
    }
    assert len(set(sums.values())) == 1


def test_servers_of_a_point_are_measured_consecutively() -> None:
    steps = interleaved(QUICK.points, SERVERS, 1, seed=2)
    runs = [key for key, _ in groupby(steps, key=lambda step: step.point.key)]
    assert sorted(runs) == sorted(point.key for point in QUICK.points)


def test_the_seed_alone_decides_the_order() -> None:
    assert interleaved(QUICK.points, SERVERS, 2, 3) == interleaved(QUICK.points, SERVERS, 2, 3)
    assert interleaved(QUICK.points, SERVERS, 2, 3) != interleaved(QUICK.points, SERVERS, 2, 4)


@pytest.mark.parametrize("servers", [4, 6, 10])
def test_measurements_use_their_budget_and_no_more(servers: int) -> None:
    scale = QUICK.scale("normal")
    loads = servers * scale.rounds * QUICK.loads
    least = [scale.load_seconds(load, 0) for load in loads]
    each, steps = seconds_per_load(scale, least), len(loads)
    assert steps * (each + scale.warmup_s + STEP_OVERHEAD_S) <= scale.budget_s + 0.01 * steps
    assert each >= 0.3


def test_loads_with_a_minimum_leave_the_rest_of_the_budget_to_the_others() -> None:
    scale = Scale("normal", budget_s=100.0, warmup_s=0.2, max_load_s=20.0, rounds=2)
    short, long, longest = (
        Point(str(least), 305, 1, 1, min_s=least) for least in (0.5, 12.0, 1000.0)
    )
    loads = [short] * 12 + [long, longest]
    each = seconds_per_load(scale, [scale.load_seconds(load, 0) for load in loads])
    lengths = [scale.load_seconds(load, each) for load in loads]
    assert lengths == [each] * 12 + [12.0, 20.0]
    assert each == pytest.approx((100.0 - 32.0 - 14 * (0.2 + STEP_OVERHEAD_S)) / 12, abs=0.01)
    assert seconds_per_load(scale, [scale.load_seconds(longest, 0)]) == 20.0


def test_a_minimum_duration_is_longer_for_a_slow_server() -> None:
    slow = (("snail", 4.0),)
    scale = Scale("normal", budget_s=1.0, warmup_s=0.0, max_load_s=3.0, rounds=2, slow_servers=slow)
    any_, some, much = (Point(str(least), 305, 1, 1, min_s=least) for least in (0.0, 0.5, 1.0))
    assert [scale.load_seconds(load, 0.3, "hare") for load in (any_, some, much)] == [0.3, 0.5, 1.0]
    assert [scale.load_seconds(load, 0.3, "snail") for load in (any_, some, much)] == [
        0.3,
        2.0,
        3.0,
    ]


def test_an_open_load_has_its_share_of_the_duration() -> None:
    scale = OVERLOAD.scale("normal")
    lengths = {load.key: scale.load_seconds(load, 60.0) for load in OVERLOAD.loads}
    assert lengths == {"load-0.5": 20.0, "load-1": 20.0, "load-2": 60.0}


def test_loads_at_paper_scale_last_as_long_as_those_of_the_documents() -> None:
    sandstorm, burst = SANDSTORM.scale("paper"), THREAD_POOL_SERVER.scale("paper")
    assert (sandstorm.load_s, burst.load_s) == (60.0, 30.0)
    lengths = {n.connections: sandstorm.load_seconds(n, 60.0) for n in SANDSTORM.loads}
    # A wait of 183 s must fit into loads whose longest waits are compared.
    assert {n for n, seconds in lengths.items() if seconds == 240.0} == {100, 500, 1000}
    assert {seconds for n, seconds in lengths.items() if n not in {100, 500, 1000}} == {60.0}
    assert {burst.load_seconds(load, 30.0) for load in THREAD_POOL_SERVER.loads} == {30.0}


def test_few_measurements_are_limited_to_the_maximum_duration() -> None:
    scale = QUICK.scale("normal")
    assert seconds_per_load(scale, [0.0] * 2) == scale.max_load_s
