"""What two runs differ in, on figures with known answers."""

import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from conftest import known_rows, make_run
from gossamer_lab.compare import (
    EVERYWHERE,
    MARGIN,
    Change,
    NotComparableError,
    compare,
    compare_frames,
    show_comparison,
)
from simulated import BRAKED, BUSY, POINTS, QUIET, ROUNDS, SERVERS, SHARED, SLOWDOWN, Machine, frame


def flagged(changes: list[Change]) -> set[str]:
    """Return the subjects of which anything is flagged."""
    return {change.server for change in changes if change.is_flagged}


@pytest.mark.parametrize("machine", [QUIET, BUSY, SHARED, BRAKED])
def test_a_slowdown_of_a_tenth_is_found_in_ten_of_ten_tries(machine: Machine) -> None:
    for seed in range(10):
        slower = SERVERS[seed]
        changes = compare_frames(frame(machine, seed, 1), frame(machine, seed, 2, slower))
        assert flagged(changes) == {slower}
        whole = next(c for c in changes if (c.point, c.server) == (EVERYWHERE, slower))
        assert whole.is_flagged
        assert whole.ratio == pytest.approx(SLOWDOWN, rel=0.05)


@pytest.mark.parametrize("machine", [QUIET, BUSY, SHARED, BRAKED])
@pytest.mark.parametrize("drift", [1.0, 1.3])
def test_runs_that_are_alike_raise_no_alarm_whatever_the_machine_does(
    machine: Machine, drift: float
) -> None:
    alarms = sum(
        bool(flagged(compare_frames(frame(machine, seed, 1), frame(machine, seed, 2, drift=drift))))
        for seed in range(40)
    )
    assert alarms <= 3  # of 40, where 0.4 are to be expected at the most


def test_a_slowdown_among_five_subjects_is_not_hidden_in_what_they_have_in_common() -> None:
    few, slower = pl.col("server").is_in(SERVERS[:5]), SERVERS[0]
    machine = Machine(round_=0.08, drift=0.05)
    found = []
    for seed in range(12):
        runs = (frame(machine, seed, 1), frame(machine, seed, 2, slower))
        changes = compare_frames(*(run.filter(few) for run in runs))
        found += [c.ratio for c in changes if (c.point, c.server) == (EVERYWHERE, slower)]
    assert np.mean(found) == pytest.approx(SLOWDOWN, rel=0.015)


def how_well_known(*runs: pl.DataFrame) -> float:
    """Return how wide the interval of a subject's change is, in the median."""
    whole = [change for change in compare_frames(*runs) if change.point == EVERYWHERE]
    return float(np.median([math.log(change.high / change.low) for change in whole]))


def test_a_client_that_tells_of_the_machine_makes_changes_better_known() -> None:
    told = [frame(SHARED, 1, part) for part in (1, 2)]
    untold = [run.with_columns(client_cpu_s=pl.lit(1.0)) for run in told]
    assert how_well_known(*told) < 0.7 * how_well_known(*untold)


def test_so_does_a_metronome_alone() -> None:
    told = [frame(BRAKED, 1, part).with_columns(client_cpu_s=pl.lit(1.0)) for part in (1, 2)]
    untold = [run.drop("beat_ns") for run in told]
    assert how_well_known(*told) < 0.7 * how_well_known(*untold)


def test_beats_that_one_run_lacks_are_not_asked_for() -> None:
    before, after = (frame(BRAKED, 1, part) for part in (1, 2))
    alike = compare_frames(before.drop("beat_ns"), after)
    assert alike == compare_frames(before.drop("beat_ns"), after.drop("beat_ns"))


def test_a_load_without_a_beat_counts_as_one_at_the_usual_pace() -> None:
    before, after = (frame(BRAKED, 1, part) for part in (1, 2))
    some = pl.when(pl.col("round") == 0).then(None).otherwise("beat_ns").alias("beat_ns")
    nowhere = pl.when(pl.col("point") == POINTS[0]).then(None).otherwise("beat_ns").alias("beat_ns")
    for lacks in (some, nowhere):
        changes = compare_frames(before.with_columns(lacks), after.with_columns(lacks))
        assert flagged(changes) == set()
        assert all(0.8 < change.ratio < 1.25 for change in changes)


def test_a_client_that_has_nothing_to_do_with_it_changes_nothing() -> None:
    dice = np.random.default_rng(7)
    before, after = frame(QUIET, 1, 1), frame(QUIET, 1, 2)
    noisy = [
        run.with_columns(client_cpu_s=pl.Series(np.exp(dice.normal(0, 0.3, run.height))))
        for run in (before, after)
    ]
    plain = [run.with_columns(client_cpu_s=pl.lit(1.0)) for run in (before, after)]
    for one, other in zip(compare_frames(*noisy), compare_frames(*plain), strict=True):
        assert one.ratio == pytest.approx(other.ratio, rel=0.02)


def test_a_client_that_used_less_than_can_be_counted_tells_nothing() -> None:
    before, after = (frame(SHARED, 1, part) for part in (1, 2))
    nothing = pl.when(pl.col("round") == 0).then(0.0).otherwise("client_cpu_s")
    told = [run.with_columns(nothing.alias("client_cpu_s")) for run in (before, after)]
    assert all(0.8 < change.ratio < 1.25 for change in compare_frames(*told))


@pytest.mark.filterwarnings("error")
def test_programs_that_have_no_client_are_compared() -> None:
    alone = pl.lit(None, pl.Float64).alias("client_cpu_s")
    before, after = frame(QUIET, 3, 1), frame(QUIET, 3, 2, SERVERS[5])
    assert flagged(compare_frames(before.with_columns(alone), after.with_columns(alone))) == {
        SERVERS[5]
    }


def test_a_change_within_the_margin_is_none() -> None:
    before = frame(Machine(round_=0.0001, drift=0.0), 1, 1)
    more = before.with_columns(
        pl.col("server_cpu_us_per_request")
        * pl.when(pl.col("server") == SERVERS[0]).then(1 + 0.9 * (MARGIN - 1)).otherwise(1)
    )
    assert flagged(compare_frames(before, more)) == set()


def test_the_drift_is_told_beside_the_ratio() -> None:
    changes = compare_frames(frame(QUIET, 1, 1), frame(QUIET, 1, 2, drift=1.3))
    whole = [change for change in changes if change.point == EVERYWHERE]
    assert [change.drift for change in whole] == pytest.approx([1.3] * len(SERVERS), rel=0.05)
    assert [change.ratio for change in whole] == pytest.approx([1.0] * len(SERVERS), rel=0.05)


def test_two_subjects_alone_have_no_drift_in_common() -> None:
    few = pl.col("server").is_in(SERVERS[:2])
    before, after = frame(QUIET, 1, 1).filter(few), frame(QUIET, 1, 2, drift=1.3).filter(few)
    changes = compare_frames(before, after)
    assert {change.drift for change in changes} == {1.0}
    assert flagged(changes) == set(SERVERS[:2])


def test_where_a_point_has_few_subjects_the_drift_of_the_whole_round_is_taken_out() -> None:
    few = pl.col("server").is_in(SERVERS[:2]) | (pl.col("point") != POINTS[0])
    for seed in range(10):
        before = frame(QUIET, seed, 1).filter(few)
        after = frame(QUIET, seed, 2, drift=1.3).filter(few)
        changes = compare_frames(before, after)
        here = [change.drift for change in changes if change.point == POINTS[0]]
        assert here == pytest.approx([1.3, 1.3], rel=0.05)
        assert flagged(changes) == set()


def test_void_and_failed_measurements_are_not_compared() -> None:
    gone = pl.when(pl.col("server") == SERVERS[3]).then(pl.lit("void: so")).alias("void")
    void = frame(QUIET, 1, 1).with_columns(gone)
    assert SERVERS[3] not in {c.server for c in compare_frames(void, frame(QUIET, 1, 2))}
    failed = void.with_columns(failure=pl.lit("it died"))
    assert compare_frames(failed, frame(QUIET, 1, 2)) == []


def test_rounds_that_are_missing_here_and_there_do_no_harm() -> None:
    lost = pl.col("round") != pl.col("server").str.strip_prefix("server-").cast(pl.Int64) % ROUNDS
    changes = compare_frames(frame(QUIET, 2, 1).filter(lost), frame(QUIET, 2, 2, SERVERS[4]))
    assert flagged(changes) == {SERVERS[4]}


def test_claims_are_set_beside_each_other_and_verdicts_that_differ_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = {"key": "so", "claim": "It is so", "verdict": "holds", "because": "wanted: at most 1"}
    claim |= {"figure": "slope of a / slope of b", "value": 0.8}
    unknown = claim | {"key": "untold", "value": None}
    one, other = (make_run(tmp_path / name, known_rows()) for name in ("one", "other"))
    one.results["verdicts"] = [claim, unknown]
    other.results["verdicts"] = [claim | {"verdict": "does not hold", "value": 1.2}, unknown]
    found = compare(one, other)
    assert [told.differs for told in found.claims] == [True, False]
    assert [told.ratio for told in found.claims] == [pytest.approx(1.5), None]
    show_comparison(found, Console(width=200))
    said = capsys.readouterr().out
    assert "It is so: holds before, does not hold after: wanted: at most 1" in said
    assert re.search(r"slope of a / slope of b +0\.8 +1\.2 +1\.500", said)
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
    assert compare(one, one).flagged == []
