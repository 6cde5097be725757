"""Confidence intervals, regression and the family-wise error rate, on data with known answers."""

import numpy as np
import pytest

from gossamer_lab.statistics.intervals import (
    LEVEL,
    holm,
    linear_fit,
    margin_p_value,
    mean_interval,
    proportional_fit,
)

_TRIALS = 1500
_FOUR_DEVIATIONS = 4 * (LEVEL * (1 - LEVEL) / _TRIALS) ** 0.5


def coverage(runs: int, skewed: bool = False) -> float:
    """Return how often the interval of this many runs contains the mean of the distribution."""
    rng = np.random.default_rng(runs)
    hits = 0
    for _ in range(_TRIALS):
        values = rng.exponential(1.0, runs) if skewed else rng.normal(1.0, 0.2, runs)
        found = mean_interval(list(values))
        hits += found.low <= 1.0 <= found.high
    return hits / _TRIALS


@pytest.mark.parametrize("runs", [2, 3, 5, 7, 8, 12, 20])
def test_intervals_cover_the_true_mean_at_their_nominal_rate(runs: int) -> None:
    assert coverage(runs) == pytest.approx(LEVEL, abs=_FOUR_DEVIATIONS + 0.01)


def test_bootstrapped_intervals_cover_the_mean_of_skewed_values_almost_as_often() -> None:
    assert coverage(20, skewed=True) > 0.92


def test_an_interval_is_deterministic() -> None:
    values = [1.0, 1.1, 0.9, 1.05, 1.2, 0.95, 1.0, 1.1, 1.3]
    assert mean_interval(values) == mean_interval(values)


def test_equal_values_have_an_interval_of_zero_width() -> None:
    found = mean_interval([2.0, 2.0, 2.0])
    assert (found.value, found.low, found.high, found.runs) == (2.0, 2.0, 2.0, 3)


def test_one_run_has_no_interval() -> None:
    with pytest.raises(ValueError, match="at least two runs"):
        mean_interval([1.0])


def test_an_exact_line_is_recovered() -> None:
    fit = linear_fit([1, 2, 3, 4], [5.0, 7.0, 9.0, 11.0])
    assert (fit.slope, fit.intercept, fit.correlation) == pytest.approx((2.0, 3.0, 1.0))
    assert (fit.slope_low, fit.slope_high) == pytest.approx((2.0, 2.0))
    assert fit.at(10) == pytest.approx(23.0)


def test_intervals_of_slopes_cover_the_true_slope_at_their_nominal_rate() -> None:
    rng = np.random.default_rng(5)
    xs = np.array([1.0, 16.0, 64.0, 128.0, 500.0, 1000.0])
    hits = 0
    for _ in range(_TRIALS):
        fit = linear_fit(list(xs), list(3.0 * xs + 50 + rng.normal(0, 40, len(xs))))
        hits += fit.slope_low <= 3.0 <= fit.slope_high
    assert hits / _TRIALS == pytest.approx(LEVEL, abs=_FOUR_DEVIATIONS + 0.01)


def test_values_with_proportional_errors_are_fitted_by_weighted_least_squares() -> None:
    rng = np.random.default_rng(9)
    xs = np.array([1.0, 100.0, 400.0, 700.0, 1000.0])
    hits, found = 0, []
    for _ in range(_TRIALS):
        ys = list((90.0 * xs + 120) * rng.normal(1, 0.04, len(xs)))
        fit = proportional_fit(list(xs), ys)
        hits += fit.slope_low <= 90.0 <= fit.slope_high
        found.append((fit.slope, linear_fit(list(xs), ys).slope))
    assert hits / _TRIALS == pytest.approx(LEVEL, abs=_FOUR_DEVIATIONS + 0.01)
    weighted, alike = np.transpose(found)
    assert weighted.mean() == pytest.approx(90.0, rel=0.005)
    assert weighted.std() < 0.7 * alike.std()


def test_a_weighted_fit_of_an_exact_line_is_that_line() -> None:
    fit = proportional_fit([1, 2, 3, 4], [5.0, 7.0, 9.0, 11.0])
    assert (fit.slope, fit.intercept, fit.correlation) == pytest.approx((2.0, 3.0, 1.0))
    assert (fit.slope_low, fit.slope_high) == pytest.approx((2.0, 2.0))


def test_values_that_are_not_positive_have_equal_weight() -> None:
    figures = [0.0, 2.0, 1.0, 4.0]
    assert proportional_fit([1, 2, 3, 4], figures) == linear_fit([1, 2, 3, 4], figures)


def test_values_without_a_trend_have_no_correlation() -> None:
    assert linear_fit([1, 2, 3], [4.0, 4.0, 4.0]).correlation == 0.0
    assert linear_fit([1, 2, 3, 4], [1.0, 3.0, 3.0, 1.0]).correlation == pytest.approx(0.0)


def test_two_distinct_x_values_are_too_few_for_a_fit() -> None:
    with pytest.raises(ValueError, match="three distinct x values"):
        linear_fit([1, 1, 2], [1.0, 2.0, 3.0])


def test_p_values_are_adjusted_by_holms_method() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_family_wise_error_rate_of_many_null_comparisons_is_kept() -> None:
    rng = np.random.default_rng(11)
    families = [min(holm(list(rng.uniform(size=40)))) < 0.05 for _ in range(_TRIALS)]
    assert np.mean(families) == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / _TRIALS) ** 0.5)


def test_a_p_value_is_that_of_students_distribution() -> None:
    assert margin_p_value(4.303, 0.0, 1.0, 2) == pytest.approx(0.05, abs=1e-4)
    assert margin_p_value(0.0, 0.0, 1.0, 7) == pytest.approx(1.0)


def test_a_value_within_the_margin_of_zero_has_a_large_p_value() -> None:
    assert margin_p_value(0.9, 1.0, 0.001, 30) == pytest.approx(1.0)
    assert margin_p_value(-3.0, 1.0, 1.0, 1e9) == pytest.approx(0.0228 + 0.00003, abs=1e-4)
