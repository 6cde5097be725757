"""What two runs differ in, on figures with known answers."""

import math
import random
from pathlib import Path

import polars as pl
import pytest

from conftest import known_rows, make_run
from gossamer_lab.compare import NotComparableError, compare, compare_frames

SERVERS = {"event": 10.0, "user": 10.5, "thread": 40.0, "nginx": 12.0, "h2o": 11.0}
POINTS = tuple(f"load-{x}" for x in (1, 16, 64, 128, 250, 500, 750, 1000))


def frame(seed: int, slower: str = "", factor: float = 1.0, drift: float = 1.0) -> pl.DataFrame:
    """Return a run of four rounds that vary by 2 %, one server slower than usual."""
    dice = random.Random(seed)
    rows = [
        {
            "round": number,
            "point": point,
            "server": server,
            "failure": None,
            "void": None,
            "server_cpu_us_per_request": cost
            * math.exp(dice.gauss(0, 0.02))
            * (factor if server == slower else 1.0)
            * drift,
        }
        for number in range(4)
        for point in POINTS
        for server, cost in SERVERS.items()
    ]
    return pl.DataFrame(rows, schema_overrides={"failure": pl.String, "void": pl.String})


@pytest.mark.parametrize("slower", SERVERS)
def test_a_slowdown_of_a_tenth_is_found_and_nothing_else(slower: str) -> None:
    for seed in range(10):
        changes = compare_frames(frame(seed), frame(seed + 100, slower, 1.1))
        flagged = {change.server for change in changes if change.is_flagged}
        assert flagged == {slower}
        ratios = [change.ratio for change in changes if change.server == slower]
        assert math.prod(ratios) ** (1 / len(ratios)) == pytest.approx(1.1, abs=0.03)


@pytest.mark.parametrize("drift", [1.0, 1.3])
def test_runs_that_are_alike_raise_no_alarm_whatever_the_machine_does(drift: float) -> None:
    alarms = sum(
        any(change.is_flagged for change in compare_frames(frame(s), frame(s + 1000, drift=drift)))
        for s in range(150)
    )
    assert alarms <= 6  # of 150, where 1.5 are to be expected


def test_an_interval_is_that_of_the_plain_ratio() -> None:
    change = compare_frames(frame(1), frame(2, drift=1.3))[0]
    assert change.drift == pytest.approx(1.3, abs=0.05)
    assert change.low < 1.3 < change.high


def test_void_and_failed_measurements_are_not_compared() -> None:
    void = frame(1).with_columns(
        pl.when(pl.col("server") == "h2o").then(pl.lit("void: so")).alias("void")
    )
    assert "h2o" not in {change.server for change in compare_frames(void, frame(2))}
    assert compare_frames(void.with_columns(failure=pl.lit("it died")), frame(2)) == []


def test_runs_of_different_experiments_are_not_compared(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", known_rows())
    other = make_run(tmp_path / "other", known_rows(), experiment="are-events-fast")
    with pytest.raises(NotComparableError, match="differ in their experiment"):
        compare(one, other)
    assert not any(change.is_flagged for change in compare(one, one))
