"""Intervals over runs, fits, and the control of false alarms among many comparisons.

A run gives one value, however many requests it held: requests of one run share its luck.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

LEVEL = 0.95
_FEWEST_FOR_BOOTSTRAP = 8
"""With fewer values no resampling reaches as far beyond them as an interval of 95 % has to."""
_RESAMPLES = 4000
_SEED = 20090112


@dataclass(frozen=True)
class Interval:
    """A mean over runs, and between which limits it lies with a probability of LEVEL."""

    value: float
    low: float
    high: float
    runs: int


def _student(values: np.ndarray) -> tuple[float, float]:
    """Return the limits of the mean by Student's distribution."""
    half = stdtrit(len(values) - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


def _bootstrapped(values: np.ndarray) -> tuple[float, float]:
    """Return the limits of the mean by the bootstrap of Student's t (Efron 1981)."""
    count, mean = len(values), values.mean()
    error = values.std(ddof=1) / np.sqrt(count)
    drawn = np.random.default_rng(_SEED).choice(values, (_RESAMPLES, count))
    errors = drawn.std(axis=1, ddof=1) / np.sqrt(count)
    usable = errors > 0
    t = (drawn.mean(axis=1)[usable] - mean) / errors[usable]
    low, high = np.quantile(t, ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return mean - low * error, mean - high * error


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean with its interval; ValueError if there are fewer than two values.

    The bootstrap from eight values on, Student's distribution below.
    """
    given = np.asarray(values, dtype=float)
    if len(given) < 2:
        raise ValueError("an interval needs two runs or more")
    if np.ptp(given) == 0:
        low = high = given[0]
    elif len(given) < _FEWEST_FOR_BOOTSTRAP:
        low, high = _student(given)
    else:
        low, high = _bootstrapped(given)
    return Interval(float(given.mean()), float(low), float(high), len(given))


@dataclass(frozen=True)
class Fit:
    """A straight line through points, by least squares."""

    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    correlation: float

    def at(self, x: float) -> float:
        """Return the height of the line."""
        return self.intercept + self.slope * x


def linear_fit(
    xs: Sequence[float], ys: Sequence[float], errors: Sequence[float] | None = None
) -> Fit:
    """Return the line with the interval of its slope; ValueError below three different places.

    `errors` are in proportion to how far each figure strays, which decides what it weighs (weighted
    least squares, Aitken 1935); without them all figures weigh the same. The correlation is
    Pearson's, where they always do.
    """
    x, y = np.asarray(xs, dtype=float), np.asarray(ys, dtype=float)
    if len(set(xs)) < 3:
        raise ValueError("a fit needs three different places or more")
    weight = np.ones(len(x)) if errors is None else np.asarray(errors, dtype=float) ** -2.0
    weight /= weight.sum()
    deviation = x - weight @ x
    spread = float(weight @ deviation**2)
    slope = float((weight * deviation) @ y) / spread
    intercept = float(weight @ y - slope * (weight @ x))
    rest = y - intercept - slope * x
    error = np.sqrt(float(weight @ rest**2) / (len(x) - 2) / spread)
    half = float(stdtrit(len(x) - 2, (1 + LEVEL) / 2) * error)
    correlation = float(np.corrcoef(x, y)[0, 1]) if np.ptp(y) > 0 else 0.0
    return Fit(slope, slope - half, slope + half, intercept, correlation)


def proportional_fit(xs: Sequence[float], ys: Sequence[float]) -> Fit:
    """Return the line through figures that stray in proportion to their size, as times do.

    Where some are not above zero, all figures weigh the same.
    """
    return linear_fit(xs, ys, ys if min(ys) > 0 else None)


def beyond_p(value: float, margin: float, error: float, freedom: float) -> float:
    """Return how likely a value so far out is by chance if the truth is within the margin of zero.

    The error is the standard error of the value, known with so many degrees of freedom.
    """
    far = abs(value)
    return float(stdtr(freedom, -(far - margin) / error) + stdtr(freedom, -(far + margin) / error))


def holm(chances: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's method (1979), in the given order.

    Flagging those below a limit flags anything wrongly at most that often, all taken together.
    """
    adjusted = [1.0] * len(chances)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        highest = max(highest, min(1.0, chances[place] * (len(chances) - rank)))
        adjusted[place] = highest
    return adjusted
