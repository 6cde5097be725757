"""Differences between two runs, on simulated data."""

import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from conftest import known_rows, make_run
from gossamer_lab.statistics.comparison import (
    ALL_POINTS,
    MARGIN,
    Change,
    NotComparableError,
    compare,
    compare_frames,
    show_comparison,
)
from simulated import (
    BUSY,
    CPU_LIMITED,
    POINTS,
    QUIET,
    ROUNDS,
    SERVERS,
    SHARED,
    SLOWDOWN,
    Machine,
    frame,
)


def significant(changes: list[Change]) -> set[str]:
    """Return the subjects with a significant change."""
    return {change.server for change in changes if change.is_significant}


@pytest.mark.parametrize("machine", [QUIET, BUSY, SHARED, CPU_LIMITED])
def test_a_slowdown_of_a_tenth_is_detected_in_ten_of_ten_trials(machine: Machine) -> None:
    for seed in range(10):
        slower = SERVERS[seed]
        changes = compare_frames(frame(machine, seed, 1), frame(machine, seed, 2, slower))
        assert significant(changes) == {slower}
        whole = next(c for c in changes if (c.point, c.server) == (ALL_POINTS, slower))
        assert whole.is_significant
        assert whole.ratio == pytest.approx(SLOWDOWN, rel=0.05)


@pytest.mark.parametrize("machine", [QUIET, BUSY, SHARED, CPU_LIMITED])
def test_equal_runs_raise_no_alarm_on_any_machine(machine: Machine) -> None:
    false_positives = 0
    for seed in range(40):
        before, after = frame(machine, seed, 1), frame(machine, seed, 2, drift=1.3)
        changes = compare_frames(before, after)
        false_positives += bool(significant(changes))
        if seed < 3:
            # A drift changes nothing else, so that without one there are no more alarms.
            steady = compare_frames(before, frame(machine, seed, 2))
            assert [one.ratio for one in changes] == pytest.approx([one.ratio for one in steady])
            assert [one.p_value for one in changes] == pytest.approx(
                [one.p_value for one in steady]
            )
    assert false_positives <= 3  # of 40, where at most 0.4 are expected


def test_a_slowdown_of_one_of_five_subjects_is_not_taken_for_drift() -> None:
    few, slower = pl.col("server").is_in(SERVERS[:5]), SERVERS[0]
    machine = Machine(round_=0.08, drift=0.05)
    found = []
    for seed in range(12):
        runs = (frame(machine, seed, 1), frame(machine, seed, 2, slower))
        changes = compare_frames(*(run.filter(few) for run in runs))
        found += [c.ratio for c in changes if (c.point, c.server) == (ALL_POINTS, slower)]
    assert np.mean(found) == pytest.approx(SLOWDOWN, rel=0.015)


def interval_width(*runs: pl.DataFrame) -> float:
    """Return the median width of the intervals of the subjects' changes."""
    whole = [change for change in compare_frames(*runs) if change.point == ALL_POINTS]
    return float(np.median([math.log(change.high / change.low) for change in whole]))


def test_the_client_as_a_covariate_narrows_intervals() -> None:
    with_it = [frame(SHARED, 1, part) for part in (1, 2)]
    without = [run.with_columns(client_cpu_s=pl.lit(1.0)) for run in with_it]
    assert interval_width(*with_it) < 0.7 * interval_width(*without)


def test_the_calibration_loop_alone_narrows_intervals() -> None:
    with_it = [
        frame(CPU_LIMITED, 1, part).with_columns(client_cpu_s=pl.lit(1.0)) for part in (1, 2)
    ]
    without = [run.drop("calibration_ns") for run in with_it]
    assert interval_width(*with_it) < 0.7 * interval_width(*without)


def test_a_covariate_that_one_run_lacks_is_ignored() -> None:
    before, after = (frame(CPU_LIMITED, 1, part) for part in (1, 2))
    alike = compare_frames(before.drop("calibration_ns"), after)
    assert alike == compare_frames(before.drop("calibration_ns"), after.drop("calibration_ns"))


def test_a_missing_covariate_counts_as_average() -> None:
    before, after = (frame(CPU_LIMITED, 1, part) for part in (1, 2))
    some = (
        pl.when(pl.col("round") == 0).then(None).otherwise("calibration_ns").alias("calibration_ns")
    )
    nowhere = (
        pl.when(pl.col("point") == POINTS[0])
        .then(None)
        .otherwise("calibration_ns")
        .alias("calibration_ns")
    )
    for lacks in (some, nowhere):
        changes = compare_frames(before.with_columns(lacks), after.with_columns(lacks))
        assert significant(changes) == set()
        assert all(0.8 < change.ratio < 1.25 for change in changes)


def test_an_uncorrelated_covariate_changes_nothing() -> None:
    rng = np.random.default_rng(7)
    before, after = frame(QUIET, 1, 1), frame(QUIET, 1, 2)
    noisy = [
        run.with_columns(client_cpu_s=pl.Series(np.exp(rng.normal(0, 0.3, run.height))))
        for run in (before, after)
    ]
    plain = [run.with_columns(client_cpu_s=pl.lit(1.0)) for run in (before, after)]
    for one, other in zip(compare_frames(*noisy), compare_frames(*plain), strict=True):
        assert one.ratio == pytest.approx(other.ratio, rel=0.02)


def test_a_client_below_the_resolution_of_cpu_time_is_ignored() -> None:
    before, after = (frame(SHARED, 1, part) for part in (1, 2))
    nothing = pl.when(pl.col("round") == 0).then(0.0).otherwise("client_cpu_s")
    with_it = [run.with_columns(nothing.alias("client_cpu_s")) for run in (before, after)]
    assert all(0.8 < change.ratio < 1.25 for change in compare_frames(*with_it))


@pytest.mark.filterwarnings("error")
def test_programs_without_a_client_are_compared() -> None:
    alone = pl.lit(None, pl.Float64).alias("client_cpu_s")
    before, after = frame(QUIET, 3, 1), frame(QUIET, 3, 2, SERVERS[5])
    assert significant(compare_frames(before.with_columns(alone), after.with_columns(alone))) == {
        SERVERS[5]
    }


def test_a_change_within_the_margin_is_not_significant() -> None:
    before = frame(Machine(round_=0.0001, drift=0.0), 1, 1)
    more = before.with_columns(
        pl.col("server_cpu_us_per_request")
        * pl.when(pl.col("server") == SERVERS[0]).then(1 + 0.9 * (MARGIN - 1)).otherwise(1)
    )
    assert significant(compare_frames(before, more)) == set()


def test_the_drift_is_reported_separately_from_the_ratio() -> None:
    changes = compare_frames(frame(QUIET, 1, 1), frame(QUIET, 1, 2, drift=1.3))
    whole = [change for change in changes if change.point == ALL_POINTS]
    assert [change.drift for change in whole] == pytest.approx([1.3] * len(SERVERS), rel=0.05)
    assert [change.ratio for change in whole] == pytest.approx([1.0] * len(SERVERS), rel=0.05)


def test_two_subjects_are_too_few_for_a_drift() -> None:
    few = pl.col("server").is_in(SERVERS[:2])
    before, after = frame(QUIET, 1, 1).filter(few), frame(QUIET, 1, 2, drift=1.3).filter(few)
    changes = compare_frames(before, after)
    assert {change.drift for change in changes} == {1.0}
    assert significant(changes) == set(SERVERS[:2])


def test_a_point_with_few_subjects_is_adjusted_for_the_drift_of_the_whole_round() -> None:
    few = pl.col("server").is_in(SERVERS[:2]) | (pl.col("point") != POINTS[0])
    for seed in range(10):
        before = frame(QUIET, seed, 1).filter(few)
        after = frame(QUIET, seed, 2, drift=1.3).filter(few)
        changes = compare_frames(before, after)
        here = [change.drift for change in changes if change.point == POINTS[0]]
        assert here == pytest.approx([1.3, 1.3], rel=0.05)
        assert significant(changes) == set()


def test_invalid_and_failed_measurements_are_not_compared() -> None:
    gone = pl.when(pl.col("server") == SERVERS[3]).then(pl.lit("invalid: so")).alias("invalid")
    invalid = frame(QUIET, 1, 1).with_columns(gone)
    assert SERVERS[3] not in {c.server for c in compare_frames(invalid, frame(QUIET, 1, 2))}
    failed = invalid.with_columns(failure=pl.lit("it died"))
    assert compare_frames(failed, frame(QUIET, 1, 2)) == []


def test_missing_rounds_are_tolerated() -> None:
    lost = pl.col("round") != pl.col("server").str.strip_prefix("server-").cast(pl.Int64) % ROUNDS
    changes = compare_frames(frame(QUIET, 2, 1).filter(lost), frame(QUIET, 2, 2, SERVERS[4]))
    assert significant(changes) == {SERVERS[4]}


def test_claims_are_compared_and_differing_verdicts_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = {"key": "so", "claim": "It is so", "verdict": "holds", "reason": "wanted: at most 1"}
    claim |= {"quantity": "slope of a / slope of b", "value": 0.8}
    unknown = claim | {"key": "without", "value": None}
    one, other = (make_run(tmp_path / name, known_rows()) for name in ("one", "other"))
    one.results["verdicts"] = [claim, unknown]
    other.results["verdicts"] = [claim | {"verdict": "does not hold", "value": 1.2}, unknown]
    found = compare(one, other)
    assert [with_it.verdict_changed for with_it in found.claims] == [True, False]
    assert [with_it.ratio for with_it in found.claims] == [pytest.approx(1.5), None]
    show_comparison(found, Console(width=200))
    output = capsys.readouterr().out
    assert "It is so: holds before, does not hold after: wanted: at most 1" in output
    assert re.search(r"slope of a / slope of b +0\.8000 +1\.200 +1\.500", output)
    show_comparison(compare(one, one), Console(width=200))
    assert "No verdict differs." in capsys.readouterr().out


def test_runs_of_different_experiments_are_not_compared(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", known_rows())
    other = make_run(tmp_path / "other", known_rows(), experiment="are-events-fast")
    with pytest.raises(NotComparableError, match="differ in their experiment"):
        compare(one, other)
    longer = make_run(tmp_path / "longer", known_rows())
    longer.results["method"]["scale"] = "paper"
    with pytest.raises(NotComparableError, match="differ in their scale: smoke, paper"):
        compare(one, longer)
    assert compare(one, one).significant == []
