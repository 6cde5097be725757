"""Confidence intervals over runs, regression, and control of the family-wise error rate.

A run gives one value, however many requests it has: the requests of a run are not independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaincinv, stdtr, stdtrit

LEVEL = 0.95
_MIN_FOR_BOOTSTRAP = 8
"""With fewer values, resampling cannot reach far enough beyond them for a 95 % interval."""
_RESAMPLES = 4000
_SEED = 20090112


@dataclass(frozen=True)
class Interval:
    """A mean over runs, with its confidence interval."""

    value: float
    low: float
    high: float
    runs: int


def _student(values: np.ndarray, level: float, min_deviation: float) -> tuple[float, float]:
    """Return the confidence limits of the mean by Student's t distribution."""
    deviation = max(values.std(ddof=1), min_deviation)
    half = stdtrit(len(values) - 1, (1 + level) / 2) * deviation / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


@cache
def _resamples(count: int) -> np.ndarray:
    """Return which of this many values each resample has: a column for each resample."""
    rng = np.random.default_rng(_SEED)
    return np.ascontiguousarray(rng.choice(count, (_RESAMPLES, count)).T)


def _bootstrapped(values: np.ndarray, level: float) -> tuple[float, float]:
    """Return the confidence limits of the mean by the bootstrap-t (Efron 1981)."""
    count, mean = len(values), values.mean()
    error = values.std(ddof=1) / np.sqrt(count)
    resamples = values[_resamples(count)]
    errors = resamples.std(axis=0, ddof=1) / np.sqrt(count)
    usable = errors > 0
    t = (resamples.mean(axis=0)[usable] - mean) / errors[usable]
    low, high = np.quantile(t, ((1 + level) / 2, (1 - level) / 2))
    return mean - low * error, mean - high * error


def mean_interval(
    values: Sequence[float], level: float = LEVEL, min_deviation: float = 0.0
) -> Interval:
    """Return the mean with its confidence interval; ValueError for fewer than two values.

    Student's t distribution is used for fewer than eight values, the bootstrap from eight on. A
    standard deviation below `min_deviation` is raised to it: values that are equal by chance, or
    because they are counted in large steps, are not certain.
    """
    sample = np.asarray(values, dtype=float)
    if len(sample) < 2:
        raise ValueError("an interval needs at least two runs")
    if len(sample) < _MIN_FOR_BOOTSTRAP or sample.std(ddof=1) <= min_deviation:
        low, high = _student(sample, level, min_deviation)
    else:
        low, high = _bootstrapped(sample, level)
    return Interval(float(sample.mean()), float(low), float(high), len(sample))


def jackknife_interval(
    whole: float, without: Sequence[float], level: float = LEVEL, min_deviation: float = 0.0
) -> Interval:
    """Return the interval of a statistic of all runs, from its values without each one of them.

    The jackknife (Quenouille 1956, Tukey 1958): the statistic's bias, which is inversely
    proportional to the number of runs, is removed, and Student's t distribution gives the interval.
    ValueError for fewer than two runs.
    """
    count = len(without)
    if count < 2:
        raise ValueError("an interval needs at least two runs")
    pseudo = np.array([count * whole - (count - 1) * one for one in without])
    low, high = _student(pseudo, level, min_deviation)
    return Interval(float(pseudo.mean()), float(low), float(high), count)


def share_interval(count: float, total: float, runs: int, level: float = LEVEL) -> Interval:
    """Return the interval of a share of independent events (Clopper and Pearson 1934)."""
    tail = (1 - level) / 2
    low = betaincinv(count, total - count + 1, tail) if count else 0.0
    high = betaincinv(count + 1, total - count, 1 - tail) if count < total else 1.0
    return Interval(count / total, float(low), float(high), runs)


@dataclass(frozen=True)
class Fit:
    """A least-squares line."""

    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    correlation: float

    def at(self, x: float) -> float:
        """Return the value of the line at x."""
        return self.intercept + self.slope * x


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Return Pearson's correlation, 0 if y is constant."""
    if np.ptp(y) == 0:
        return 0.0
    dx, dy = x - x.mean(), y - y.mean()
    return min(max(float(dx @ dy) / math.sqrt(float(dx @ dx) * float(dy @ dy)), -1.0), 1.0)


def linear_fit(
    xs: Sequence[float], ys: Sequence[float], errors: Sequence[float] | None = None
) -> Fit:
    """Return the least-squares line; ValueError for fewer than three distinct x values.

    `errors` are proportional to the standard deviation of each value and determine its weight
    (weighted least squares, Aitken 1935); without them all values have equal weight. The
    correlation is Pearson's, always unweighted.
    """
    x, y = np.asarray(xs, dtype=float), np.asarray(ys, dtype=float)
    if len(set(xs)) < 3:
        raise ValueError("a fit needs at least three distinct x values")
    weight = np.ones(len(x)) if errors is None else np.asarray(errors, dtype=float) ** -2.0
    weight /= weight.sum()
    deviation = x - weight @ x
    spread = float(weight @ deviation**2)
    slope = float((weight * deviation) @ y) / spread
    intercept = float(weight @ y - slope * (weight @ x))
    rest = y - intercept - slope * x
    error = np.sqrt(float(weight @ rest**2) / (len(x) - 2) / spread)
    half = float(stdtrit(len(x) - 2, (1 + LEVEL) / 2) * error)
    return Fit(slope, slope - half, slope + half, intercept, _correlation(x, y))


def proportional_fit(xs: Sequence[float], ys: Sequence[float]) -> Fit:
    """Return the line through values whose errors are proportional to them, as times are.

    If any value is not positive, all values have equal weight.
    """
    return linear_fit(xs, ys, ys if min(ys) > 0 else None)


def margin_p_value(value: float, margin: float, error: float, dof: float) -> float:
    """Return the p value of a value this extreme if the truth is within the margin of zero.

    `error` is the standard error of the value, estimated with `dof` degrees of freedom.
    """
    distance = abs(value)
    return float(
        stdtr(dof, -(distance - margin) / error) + stdtr(dof, -(distance + margin) / error)
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's method (1979), in the given order.

    Rejecting those below a limit keeps the family-wise error rate at most at that limit.
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted
