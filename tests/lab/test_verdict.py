"""Verdicts, decided from raw rows with known answers."""

from typing import Any

import pytest

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import (
    Conditional,
    Correlation,
    Every,
    Maximum,
    Mean,
    Quantity,
    Ratio,
    Scatter,
    Slope,
)
from gossamer_lab.claims.verdict import (
    FAILS,
    HOLDS,
    INCONCLUSIVE,
    Verdict,
    chance,
    decide,
    rounds_of,
    verdicts,
)
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.report.table import uncorrected as uncorrected_text
from gossamer_lab.store import raw_frame

POINTS = [{"key": f"load-{x}", "connections": x} for x in (1, 100, 500, 1000)]
SLOPES = {"fast": 10.0, "slow": 15.0}
NOISE = (0.99, 1.0, 1.02, 1.01)


def rows(**changes: dict[str, Any]) -> list[dict[str, Any]]:
    """Return four rounds of two servers whose time is linear in the load; changes by server."""
    return [
        {
            "order": 0,
            "round": number,
            "point": point["key"],
            "server": server,
            "failure": None,
            "invalid": None,
            "time": slope * noise * point["connections"] + 50,
            "load": float(point["connections"]),
        }
        | changes.get(server, {})
        for number, noise in enumerate(NOISE, 1)
        for point in POINTS
        for server, slope in SLOPES.items()
    ]


def claim(quantity: Quantity, low: float = float("-inf"), high: float = float("inf")) -> Claim:
    return Claim("key", "a claim", "somewhere", "published", quantity, low, high)


def decided(
    of: Claim, given: list[dict[str, Any]], absent: dict[str, str] | None = None
) -> Verdict:
    return decide(of, rounds_of(raw_frame(given), POINTS, absent or {}))


SLOWER = Ratio(Slope("slow", "connections", "time"), Slope("fast", "connections", "time"))


def test_a_claim_holds_if_the_whole_interval_lies_in_its_range() -> None:
    found = decided(claim(SLOWER, low=1.4), rows())
    assert found.verdict == HOLDS
    assert found.value == pytest.approx(1.5, abs=1e-6)
    assert 1.4 < found.low <= 1.5 <= found.high
    assert found.rounds == 4
    assert found.quantity == "slope of slow / slope of fast"
    assert found.rule == (
        "holds if the whole 95 % interval of slope of slow / slope of fast is at least 1.4; "
        "does not hold if the whole interval is outside"
    )


def test_a_claim_does_not_hold_if_the_whole_interval_lies_outside() -> None:
    assert decided(claim(SLOWER, high=1.2), rows()).verdict == FAILS
    assert decided(claim(SLOWER, low=2.0, high=3.0), rows()).verdict == FAILS


def test_an_interval_that_includes_the_limit_is_inconclusive() -> None:
    given = rows()
    for row in given:
        if row["server"] == "slow" and row["round"] == 1:
            row["time"] *= 1.5
    found = decided(claim(SLOWER, low=1.55), given)
    assert found.verdict == INCONCLUSIVE
    assert found.reason == "the interval includes 1.55: this run cannot decide"
    assert found.low < 1.55 < found.high


def test_invalid_and_failed_measurements_are_ignored() -> None:
    invalid = decided(
        claim(SLOWER, low=1.4), rows(slow={"invalid": "invalid: the client was the limit"})
    )
    assert (invalid.verdict, invalid.reason) == (
        INCONCLUSIVE,
        "slow: invalid: the client was the limit",
    )
    failed = decided(claim(SLOWER, low=1.4), rows(fast={"failure": "it died"}))
    assert (failed.verdict, failed.reason) == (INCONCLUSIVE, "fast: it died")
    assert failed.value is None


def test_a_missing_server_is_the_reason() -> None:
    of = claim(Ratio(Slope("apache", "connections", "time"), SLOWER.right), low=1.0)
    known = decided(of, rows(), {"apache": "apache is not on this machine"})
    assert (known.verdict, known.reason) == (INCONCLUSIVE, "apache is not on this machine")
    assert decided(of, rows()).reason == "apache is not part of this run"


def test_a_point_that_the_machine_does_not_support_is_the_reason() -> None:
    large = [*POINTS, {"key": "load-100000", "connections": 100_000}]
    of = claim(Mean("fast", "time", (("connections", 100_000),), "time at 100,000"))
    found = decide(
        of, rounds_of(raw_frame(rows()), large, {"load-100000": "20,000 open files allowed"})
    )
    assert (found.verdict, found.reason) == (INCONCLUSIVE, "20,000 open files allowed")
    unknown = claim(Mean("fast", "time", (("connections", 7),), "time at 7"))
    assert "none of the required points" in decided(unknown, rows()).reason


def test_one_round_is_inconclusive() -> None:
    found = decided(claim(SLOWER, low=1.4), [row for row in rows() if row["round"] == 1])
    assert found.verdict == INCONCLUSIVE
    assert found.reason.startswith("an interval needs two rounds")


def test_a_correlation_is_that_of_the_means_over_rounds() -> None:
    fast = Correlation("fast", "connections", "time")
    assert decided(claim(fast, low=0.999), rows()).verdict == HOLDS
    given = rows()
    for row in given:
        row["time"] = 1000.0 * row["round"] if row["load"] == 500 else row["load"]
    found = decided(claim(fast, low=0.999), given)
    assert found.verdict == FAILS
    assert -1 < found.low < found.high < 0.999


def test_every_quantity_must_be_in_the_range_and_none_may_be_missing() -> None:
    slopes = tuple(Slope(name, "connections", "time") for name in ("fast", "slow", "apache"))
    assert decided(claim(Every(slopes[:2], "slopes"), high=20.0), rows()).verdict == HOLDS
    failed = decided(claim(Every(slopes[:2], "slopes"), high=11.0), rows())
    assert failed.verdict == FAILS
    assert failed.quantity == "slopes, worst of 2: slope of slow"
    absent = decided(claim(Every(slopes, "slopes"), high=20.0), rows())
    assert (absent.verdict, absent.reason) == (INCONCLUSIVE, "apache is not part of this run")
    # A counterexample suffices, whatever is missing.
    assert decided(claim(Every(slopes, "slopes"), high=11.0), rows()).verdict == FAILS
    # What decides is shown, not what is worse but too uncertain to decide.
    given = rows()
    for row in given:
        if row["server"] == "slow":
            row["time"] *= 3.0 if row["round"] % 2 else 0.6
    uncertain = decided(claim(Every(slopes[:2], "slopes"), high=9.0), given)
    assert uncertain.verdict == FAILS
    assert uncertain.quantity == "slopes, worst of 2: slope of fast"
    assert uncertain.low is not None
    assert uncertain.low > 9.0
    alone = decided(claim(slopes[1], high=9.0), given)
    assert alone.value is not None
    assert alone.value > 15.0
    assert alone.verdict == INCONCLUSIVE


def test_a_missing_point_leaves_a_round_undecided_instead_of_shortening_it() -> None:
    given = rows()
    for row in given:
        if row["point"] == "load-500" and row["server"] == "slow":
            row["invalid"] = "invalid: the client was the limit"
    found = decided(claim(SLOWER, low=1.4), given)
    assert (found.verdict, found.value) == (INCONCLUSIVE, None)


def test_equal_rounds_have_an_interval() -> None:
    found = decided(claim(Maximum("fast", "load", (), "load"), low=999.0), rows())
    assert found.low is not None
    assert found.low < 1000 < found.high
    assert found.verdict == INCONCLUSIVE


@pytest.mark.parametrize(("bend", "verdict"), [(30.0, HOLDS), (40.0, INCONCLUSIVE)])
def test_the_correlation_of_equal_rounds_has_an_interval(bend: float, verdict: str) -> None:
    given = [row for row in rows() if row["round"] <= 3]
    for row in given:
        row["time"] = row["load"] + bend * (row["load"] == 500)
    found = decided(claim(Correlation("fast", "connections", "time"), low=0.999), given)
    assert found.value is not None
    assert found.value > 0.999
    assert found.verdict == verdict


def test_a_conditional_quantity_rejects_rounds_below_its_condition() -> None:
    fast = Slope("fast", "connections", "time")
    load = Maximum("fast", "load", (), "load")
    of = claim(Conditional(load, 2000.0, "the load was too small", fast), low=1.0)
    refused = decided(of, rows())
    assert (refused.verdict, refused.reason) == (INCONCLUSIVE, "the load was too small")
    assert decided(claim(Conditional(load, 1000.0, "", fast), low=1.0), rows()).verdict == HOLDS


def test_slopes_and_correlations_are_over_the_selected_points() -> None:
    given = rows()
    for row in given:
        if row["point"] == "load-1":
            row["time"] = 1e9
    some = (("connections", (100, 500, 1000)),)
    slope = Slope("fast", "connections", "time", some)
    assert decided(claim(slope, high=11.0), given).value == pytest.approx(10.05, rel=0.01)
    correlation = claim(Correlation("fast", "connections", "time", some), low=0.99)
    assert decided(correlation, given).verdict == HOLDS
    few = Slope("fast", "connections", "time", (("connections", (100, 500)),))
    assert decided(claim(few), given).verdict == INCONCLUSIVE


def test_the_scatter_is_that_of_single_rounds_about_one_line() -> None:
    of = claim(Scatter("fast", "connections", "time"), high=0.1)
    assert decided(of, rows()).verdict == HOLDS
    given = rows()
    for row in given:
        row["time"] *= 1.5 if row["round"] % 2 else 0.5
    assert decided(of, given).verdict == FAILS


def test_a_verdict_without_the_correction_stands_beside_it_where_they_differ() -> None:
    given = rounds_of(raw_frame(rows()), POINTS, {})
    slower = rows()
    for row in slower:
        if row["server"] == "slow":
            row["time"] *= 1.2
    uncorrected = rounds_of(raw_frame(slower), POINTS, {})
    load = claim(Maximum("fast", "load", (), "load"), high=2000.0)
    corrected, same = verdicts([claim(SLOWER, high=1.6), load], given, uncorrected)
    assert corrected["verdict"] == HOLDS
    assert corrected["value"] == pytest.approx(1.5, abs=1e-6)
    beside = corrected["uncorrected"]
    assert beside["verdict"] == FAILS
    assert beside["value"] == pytest.approx(1.8, abs=1e-6)
    assert beside["low"] < beside["value"] < beside["high"]
    assert same["uncorrected"] is None
    assert uncorrected_text(corrected).startswith("uncorrected: does not hold, 1.800 (")
    # Of a claim about every server it may be another one that decides without the correction.
    slopes = Every(tuple(Slope(name, "connections", "time") for name in ("fast", "slow")), "slopes")
    (of_other,) = verdicts([claim(slopes, low=9.0, high=17.0)], given, uncorrected)
    assert of_other["verdict"] == HOLDS
    assert "does not hold, slopes, worst of 2: slope of slow: 18." in uncorrected_text(of_other)


def test_it_is_told_how_many_intervals_miss_by_chance_and_which_verdicts_stand_together() -> None:
    given = rounds_of(raw_frame(rows()), POINTS, {})
    near, far = decided(claim(SLOWER, low=1.4), rows()), claim(SLOWER, low=1.0)
    assert near.low is not None
    # Just inside the range at 95 %, but not with the wider intervals that hold together.
    barely = claim(SLOWER, low=near.low * 0.999)
    absent = claim(Slope("apache", "connections", "time"), low=1.0)
    found = verdicts([far, barely, absent], given, given)
    assert [one["verdict"] for one in found] == [HOLDS, HOLDS, INCONCLUSIVE]
    assert [one["stands_jointly"] for one in found] == [True, False, None]
    assert chance(found) == {
        "intervals": 2,
        "misses": pytest.approx(0.1),
        "decided": 2,
        "jointly": 1,
    }


def test_maximum_and_mean_are_over_points() -> None:
    assert decided(claim(Maximum("fast", "load", (), "load")), rows()).value == pytest.approx(1000)
    some = (("connections", (1, 100)),)
    assert decided(claim(Mean("fast", "load", some, "load")), rows()).value == pytest.approx(10.0)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda known: known.name)
def test_a_manifest_is_consistent(experiment: Experiment) -> None:
    keys = [point.key for point in experiment.points]
    assert len(set(keys)) == len(keys)
    assert {"smoke", "normal"} <= {scale.name for scale in experiment.scales}
    for scale in experiment.scales:
        assert set(scale.points) <= set(keys)
        assert scale.rounds >= 2
    assert len({known.key for known in experiment.claims}) == len(experiment.claims)
    for known in experiment.claims:
        assert known.holds_from > float("-inf") or known.holds_to < float("inf")
        assert known.published or known.reading
        assert known.quantity.description
    assert experiment.document or all(known.is_ours for known in experiment.claims)
    subjects = {one.name for one in (*(experiment.architectures or ()), *experiment.toys)}
    subjects |= {*experiment.peers, *(program.name for program in experiment.programs)}
    subjects |= {f"{name}, run" for name in experiment.also_by_run}
    for named in (*experiment.loads, *experiment.charts):
        assert set(named.servers if isinstance(named, Point) else named.subjects) <= subjects
    for chart_spec in experiment.charts:
        points = [point.as_dict() for point in experiment.points]
        assert chart_spec.is_over_time or any(chart_spec.x in point for point in points)
