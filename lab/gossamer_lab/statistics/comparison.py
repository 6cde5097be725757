"""Compares two runs of an experiment; at most one comparison in a hundred raises a false alarm.

A metric is compared with itself in the other run, adjusted for the speed of the machine and without
outlying rounds (estimates.py).
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

from gossamer_lab.claims.comparison import ClaimComparison, compare_claims, show_claims
from gossamer_lab.statistics.estimates import (
    METRICS,
    MIN_POINTS,
    Key,
    drift_between_runs,
    estimate,
    standard_errors,
)
from gossamer_lab.statistics.intervals import LEVEL, holm, margin_p_value
from gossamer_lab.store import Run

ALPHA = 0.01
"""Family-wise error rate: probability that a comparison of two equal runs reports any change."""
MARGIN = 1.02
"""Ratios nearer to one are not changes: runs differ by this much where nothing changed."""
ALL_POINTS = "all points"
_FAMILIES = 2
"""Families of hypotheses: means over all points, and single points."""


class NotComparableError(Exception):
    """Two runs have nothing in common that can be compared; the message says why."""


@dataclass(frozen=True)
class Change:
    """A metric of the later run as a ratio to that of the earlier one."""

    point: str
    server: str
    metric: str
    ratio: float
    """Adjusted for the drift."""
    low: float
    high: float
    drift: float
    """Change that all subjects of this point have in common."""
    p_value: float
    """Of a change this far beyond the margin under no change, adjusted for multiple comparisons."""

    @property
    def is_significant(self) -> bool:
        """Whether the change is statistically significant."""
        return self.p_value < ALPHA


@dataclass(frozen=True)
class Comparison:
    """All differences between two runs."""

    changes: list[Change]
    claims: list[ClaimComparison]

    @property
    def significant(self) -> list[Change]:
        """The significant changes."""
        return [change for change in self.changes if change.is_significant]

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        changes = [
            asdict(change) | {"significant": change.is_significant} for change in self.changes
        ]
        claims = [asdict(claim) | {"ratio": claim.ratio} for claim in self.claims]
        return {"alpha": ALPHA, "margin": MARGIN, "changes": changes, "claims": claims}


@dataclass(frozen=True)
class _LogChanges:
    """Logarithms of the changes of a metric at each key, adjusted for the drift."""

    value: np.ndarray
    drift: np.ndarray
    variance: np.ndarray
    dof: np.ndarray
    """Degrees of freedom of the variance."""


def _change(
    key: Key, metric: str, value: float, drift: float, error: tuple[float, float]
) -> Change:
    """Return a change with its confidence interval; the p value is not adjusted yet."""
    sigma, dof = math.sqrt(error[0]), error[1]
    half = float(stdtrit(dof, (1 + LEVEL) / 2)) * sigma
    limits = (math.exp(value + sign * half) for sign in (0, -1, 1))
    p_value = margin_p_value(value, math.log(MARGIN), sigma, dof)
    return Change(*key, metric, *limits, math.exp(drift), p_value)


def _subjects(keys: Sequence[Key]) -> dict[str, np.ndarray]:
    """Return a mask of the keys of each subject that has enough of them."""
    named = np.array([key[1] for key in keys])
    own = {server: named == server for server in dict.fromkeys(key[1] for key in keys)}
    return {server: here for server, here in own.items() if here.sum() >= MIN_POINTS}


def _with_between_run_variance(log_changes: _LogChanges, keys: Sequence[Key]) -> _LogChanges:
    """Add the variance between runs that the rounds within a run do not explain.

    It is estimated from the differences between the keys of each subject, pooled over all subjects.
    """
    own = _subjects(keys).values()
    if not own:
        return log_changes
    squares = sum(
        float(((log_changes.value[here] - log_changes.value[here].mean()) ** 2).sum())
        for here in own
    )
    dof = sum(int(here.sum()) - 1 for here in own)
    explained = sum(float(log_changes.variance[here].sum()) * (1 - 1 / here.sum()) for here in own)
    return replace(log_changes, variance=log_changes.variance + max(squares - explained, 0.0) / dof)


def _over_points(keys: Sequence[Key], metric: str, log_changes: _LogChanges) -> list[Change]:
    """Return the change of each subject in the mean over its points.

    Points are weighted by the inverse of their variance. The variances add up; the degrees of
    freedom of the sum are Satterthwaite's (1946).
    """
    found = []
    for server, here in _subjects(keys).items():
        weights = 1 / log_changes.variance[here]
        weights /= weights.sum()
        parts = weights**2 * log_changes.variance[here]
        variance = float(parts.sum())
        dof = float(variance**2 / (parts**2 / log_changes.dof[here]).sum())
        value = float(weights @ log_changes.value[here])
        drift = float(weights @ log_changes.drift[here])
        found.append(_change((ALL_POINTS, server), metric, value, drift, (variance, dof)))
    return found


def _compare_metric(
    before: pl.DataFrame, after: pl.DataFrame, metric: str
) -> tuple[list[Change], list[Change]]:
    """Compare one metric in the mean over each subject's points, and at every point."""
    keys, runs = estimate([before, after], metric)
    if not keys:
        return [], []
    earlier, later = runs
    value = later.value - earlier.value
    sigmas, dofs = standard_errors(earlier.variance + later.variance, earlier.dof + later.dof)
    drift, drift_variance = drift_between_runs(value, sigmas**2, keys)
    log_changes = _with_between_run_variance(
        _LogChanges(value - drift, drift, sigmas**2 + drift_variance, dofs), keys
    )
    changes = [
        _change(key, metric, log_changes.value[i], drift[i], (log_changes.variance[i], dofs[i]))
        for i, key in enumerate(keys)
    ]
    return _over_points(keys, metric, log_changes), changes


def _holm_adjusted(changes: Sequence[Change]) -> list[Change]:
    """Return the changes with p values adjusted for all of them and for the number of families."""
    adjusted = holm([change.p_value for change in changes])
    return [
        replace(change, p_value=min(_FAMILIES * p_value, 1.0))
        for change, p_value in zip(changes, adjusted, strict=True)
    ]


def compare_frames(before: pl.DataFrame, after: pl.DataFrame) -> list[Change]:
    """Return the changes of every metric that both runs measured in two or more rounds."""
    found = [_compare_metric(before, after, metric) for metric in METRICS]
    return [
        change
        for part in zip(*found, strict=True)
        for change in _holm_adjusted([change for changes in part for change in changes])
    ]


def compare(before: Run, after: Run) -> Comparison:
    """Compare two runs; NotComparableError if they are of different kinds."""
    kinds = [
        {
            "experiment": run.results["experiment"],
            "scale": run.results["method"]["scale"],
            "CPU limit": "on" if run.results["cpu_limit"]["is_active"] else "off",
        }
        for run in (before, after)
    ]
    for name, one in kinds[0].items():
        if one != (other := kinds[1][name]):
            raise NotComparableError(f"the runs differ in their {name}: {one}, {other}")
    changes = compare_frames(before.raw, after.raw)
    if not changes:
        raise NotComparableError("the runs have no metric with two or more rounds in common")
    return Comparison(changes, compare_claims(before, after))


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print every change, with significant ones marked, and compare the claims' verdicts."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("point", "subject", "metric"):
        table.add_column(name)
    for name in ("after / before", "95% CI", "drift", "p value"):
        table.add_column(name, justify="right")
    for change in comparison.changes:
        table.add_row(
            change.point,
            change.server,
            change.metric,
            f"{'* ' if change.is_significant else ''}{change.ratio:.3f}",
            f"{change.low:.3f} to {change.high:.3f}",
            f"{change.drift:.3f}",
            f"{change.p_value:.4f}",
            style="bold red" if change.is_significant else "",
        )
    console.print(table)
    largest = max(comparison.changes, key=lambda change: abs(math.log(change.ratio)))
    console.print(
        f"{len(comparison.significant)} of {len(comparison.changes)} metrics changed significantly "
        f"(*) by more than {MARGIN - 1:.0%}, adjusted for the drift of their point, at a "
        f"family-wise error rate of {ALPHA:.0%}. The largest change is a ratio of "
        f"{largest.ratio:.3f}: {largest.server}, {largest.point}."
    )
    show_claims(comparison.claims, console)
