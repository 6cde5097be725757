"""What changed between two runs of an experiment, with false alarms kept to one run in a hundred.

A figure is compared with itself in the other run: without what the machine did to all figures, and
without the rounds that it disturbed (samples.py).
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

from gossamer_lab.claimed import Claimed, claimed, show_claims
from gossamer_lab.samples import (
    FEWEST_POINTS,
    FIGURES,
    Place,
    between,
    settled,
    standard_errors,
)
from gossamer_lab.statistics import LEVEL, beyond_p, holm
from gossamer_lab.store import Run

ALARM = 0.01
"""How often a comparison of two runs that are alike may flag anything at all."""
MARGIN = 1.02
"""A ratio nearer to one is no change: what differs between runs by chance, and not in them."""
EVERYWHERE = "all points"
_LISTS = 2
"""Of changes: those in the mean of all points, and those at each."""


class NotComparableError(Exception):
    """Two runs have nothing in common that can be compared; says why."""


@dataclass(frozen=True)
class Change:
    """A figure of the later run as a ratio to that of the earlier one."""

    point: str
    server: str
    figure: str
    ratio: float
    """Beside the drift."""
    low: float
    high: float
    drift: float
    """What all subjects of this point changed by."""
    chance: float
    """Of a change so far beyond the margin with nothing changed, adjusted for all comparisons."""

    @property
    def is_flagged(self) -> bool:
        """Whether something changed beyond chance."""
        return self.chance < ALARM


@dataclass(frozen=True)
class Comparison:
    """All that two runs are found to differ in."""

    changes: list[Change]
    claims: list[Claimed]

    @property
    def flagged(self) -> list[Change]:
        """What changed beyond chance."""
        return [change for change in self.changes if change.is_flagged]

    def as_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        changes = [asdict(change) | {"flagged": change.is_flagged} for change in self.changes]
        claims = [asdict(claim) | {"ratio": claim.ratio} for claim in self.claims]
        return {"alarm": ALARM, "margin": MARGIN, "changes": changes, "claims": claims}


@dataclass(frozen=True)
class _Moved:
    """What figures moved by at each place, beside the drift; all are logarithms."""

    by: np.ndarray
    drift: np.ndarray
    variance: np.ndarray
    freedom: np.ndarray
    """Of the variance, in degrees."""


def _change(
    place: Place, figure: str, by: float, drift: float, error: tuple[float, float]
) -> Change:
    """Return a change with its interval; the chance is not adjusted yet."""
    sigma, freedom = math.sqrt(error[0]), error[1]
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * sigma
    limits = (math.exp(by + way * half) for way in (0, -1, 1))
    chance = beyond_p(by, math.log(MARGIN), sigma, freedom)
    return Change(*place, figure, *limits, math.exp(drift), chance)


def _subjects(places: Sequence[Place]) -> dict[str, np.ndarray]:
    """Return which places are those of each subject that has enough of them."""
    named = np.array([place[1] for place in places])
    own = {server: named == server for server in dict.fromkeys(place[1] for place in places)}
    return {server: here for server, here in own.items() if here.sum() >= FEWEST_POINTS}


def _with_beyond(moved: _Moved, places: Sequence[Place]) -> _Moved:
    """Add the variance by which places move between runs beyond what their rounds tell.

    It is learnt from how the places of each subject differ, all together.
    """
    own = _subjects(places).values()
    if not own:
        return moved
    squares = sum(float(((moved.by[here] - moved.by[here].mean()) ** 2).sum()) for here in own)
    freedom = sum(int(here.sum()) - 1 for here in own)
    told = sum(float(moved.variance[here].sum()) * (1 - 1 / here.sum()) for here in own)
    return replace(moved, variance=moved.variance + max(squares - told, 0.0) / freedom)


def _everywhere(places: Sequence[Place], figure: str, moved: _Moved) -> list[Change]:
    """Return what each subject changed by in the mean of its points.

    A point weighs the more the better it is known there. The errors add up; the degrees of freedom
    of the sum are Satterthwaite's (1946).
    """
    found = []
    for server, here in _subjects(places).items():
        weights = 1 / moved.variance[here]
        weights /= weights.sum()
        parts = weights**2 * moved.variance[here]
        variance = float(parts.sum())
        freedom = float(variance**2 / (parts**2 / moved.freedom[here]).sum())
        by, drift = float(weights @ moved.by[here]), float(weights @ moved.drift[here])
        found.append(_change((EVERYWHERE, server), figure, by, drift, (variance, freedom)))
    return found


def _of_figure(
    before: pl.DataFrame, after: pl.DataFrame, figure: str
) -> tuple[list[Change], list[Change]]:
    """Compare one figure in the mean of each subject's places, and at every place."""
    places, runs = settled([before, after], figure)
    if not places:
        return [], []
    earlier, later = runs
    by = later.value - earlier.value
    sigmas, freedoms = standard_errors(
        earlier.variance + later.variance, earlier.freedom + later.freedom
    )
    drift, of_drift = between(by, sigmas**2, places)
    moved = _with_beyond(_Moved(by - drift, drift, sigmas**2 + of_drift, freedoms), places)
    changes = [
        _change(place, figure, moved.by[i], drift[i], (moved.variance[i], freedoms[i]))
        for i, place in enumerate(places)
    ]
    return _everywhere(places, figure, moved), changes


def _adjusted(changes: Sequence[Change]) -> list[Change]:
    """Return changes with chances adjusted for all of them, and for there being two such lists."""
    adjusted = holm([change.chance for change in changes])
    return [
        replace(change, chance=min(_LISTS * chance, 1.0))
        for change, chance in zip(changes, adjusted, strict=True)
    ]


def compare_frames(before: pl.DataFrame, after: pl.DataFrame) -> list[Change]:
    """Return how every figure changed that both runs measured in two rounds or more."""
    found = [_of_figure(before, after, figure) for figure in FIGURES]
    return [
        change
        for part in zip(*found, strict=True)
        for change in _adjusted([change for changes in part for change in changes])
    ]


def compare(before: Run, after: Run) -> Comparison:
    """Compare two runs; NotComparableError if they are not of one kind."""
    kinds = [
        {
            "experiment": run.results["experiment"],
            "scale": run.results["method"]["scale"],
            "brake": "on" if run.results["brake"]["is_on"] else "off",
        }
        for run in (before, after)
    ]
    for name, one in kinds[0].items():
        if one != (other := kinds[1][name]):
            raise NotComparableError(f"the runs differ in their {name}: {one}, {other}")
    changes = compare_frames(before.raw, after.raw)
    if not changes:
        raise NotComparableError("the runs have no figure of two rounds or more in common")
    return Comparison(changes, claimed(before, after))


def show_comparison(comparison: Comparison, console: Console) -> None:
    """Print every change, what is beyond chance marked, and what became of the claims."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("point", "subject", "figure"):
        table.add_column(name)
    for name in ("after / before", "interval", "drift", "chance"):
        table.add_column(name, justify="right")
    for change in comparison.changes:
        table.add_row(
            change.point,
            change.server,
            change.figure,
            f"{'* ' if change.is_flagged else ''}{change.ratio:.3f}",
            f"{change.low:.3f} to {change.high:.3f}",
            f"{change.drift:.3f}",
            f"{change.chance:.4f}",
            style="bold red" if change.is_flagged else "",
        )
    console.print(table)
    furthest = max(comparison.changes, key=lambda change: abs(math.log(change.ratio)))
    console.print(
        f"{len(comparison.flagged)} of {len(comparison.changes)} figures changed beyond chance (*) "
        f"and by more than {MARGIN - 1:.0%}, beside the drift of their point, at a rate of false "
        f"alarms of {ALARM:.0%} for all together. The furthest ratio is {furthest.ratio:.3f}: "
        f"{furthest.server}, {furthest.point}."
    )
    show_claims(comparison.claims, console)
