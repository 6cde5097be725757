"""What changed between two runs of an experiment, with false alarms kept to one run in a hundred.

A figure is compared with itself in the other run. In each round, the subjects of a point follow
each other directly: what they have in common there, their median, is drift of the machine and is
taken out; where they are too few to tell, that of the whole round. Of the rounds of a figure three
fifths count, the least: what else happens on a machine only adds, and spares some. How much it
varies by chance is learnt from its rounds, and from those of all others where it has too few.
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
from gossamer_lab.statistics import LEVEL, beyond_p, holm
from gossamer_lab.store import Run
from gossamer_lab.variances import Prior

ALARM = 0.01
"""How often a comparison of two runs that are alike may flag anything at all."""
MARGIN = 1.02
"""A ratio nearer to one is no change: what differs between runs by chance, and not in them."""
EVERYWHERE = "all points"
_FEWEST_FOR_DRIFT = 3
_FEWEST_ROUNDS = 2
_FEWEST_POINTS = 4
"""That say what a subject changed by as a whole."""
_KEPT = 0.6
"""Share of a figure's rounds that count: the least of them."""
_LISTS = 2
"""Of changes: those in the mean of all points, and those at each."""
_FIGURES = ("server_cpu_us_per_request", "total_us", "request_ns")
"""The figure that is compared: the first of these that a point has."""

Place = tuple[str, str]
"""A point and a subject."""


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
    """What the figures of one or more places moved by, beside the drift; all are logarithms."""

    by: np.ndarray
    drift: np.ndarray
    variance: np.ndarray
    freedom: np.ndarray


def _samples(raw: pl.DataFrame, figure: str) -> dict[Place, dict[int, float]]:
    """Return the logarithms of a figure in sound measurements, by round."""
    found: dict[Place, dict[int, float]] = {}
    if figure not in raw.columns:
        return found
    for row in raw.iter_rows(named=True):
        value = row[figure]
        if row["failure"] is None and not row.get("void") and value is not None and value > 0:
            found.setdefault((row["point"], row["server"]), {})[row["round"]] = math.log(value)
    return {place: values for place, values in found.items() if len(values) >= _FEWEST_ROUNDS}


def _table(samples: dict[Place, dict[int, float]], places: Sequence[Place]) -> np.ndarray:
    """Return a line for each place, a column for each round; NaN where there is no sound value."""
    rounds = sorted({number for place in places for number in samples[place]})
    return np.array([[samples[p].get(number, np.nan) for number in rounds] for p in places])


def _overall(beside: np.ndarray, places: Sequence[Place]) -> np.ndarray:
    """Return by how much each round lies off in the median of all places; 0 for few subjects."""
    if len({place[1] for place in places}) < _FEWEST_FOR_DRIFT:
        return np.zeros(beside.shape[1])
    found: np.ndarray = np.nanmedian(beside, axis=0)
    return found


def _without_drift(beside: np.ndarray, overall: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the figures of a point's rounds without what they have in common, and its mean.

    Where a point has too few subjects to tell, it is what the whole round has in common.
    """
    common = overall.copy()
    told = np.isfinite(beside).sum(axis=0) >= _FEWEST_FOR_DRIFT
    common[told] = np.nanmedian(beside[:, told], axis=0)
    return beside - common, float(common.mean())


def _least_disturbed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean of the least of each line, its variance, and how many they are.

    The variance is that of a trimmed mean (Yuen 1974), trimmed on one side: what was left out
    counts as the greatest that was not.
    """
    means, variances, counts = [], [], []
    for line in values:
        found = np.sort(line[np.isfinite(line)])
        count = math.ceil(_KEPT * len(found))
        spread = np.minimum(found, found[count - 1]).var(ddof=1)
        means.append(found[:count].mean())
        variances.append(spread * len(found) / count**2)
        counts.append(count)
    return np.array(means), np.array(variances), np.array(counts)


def _moved(runs: Sequence[np.ndarray], overall: Sequence[np.ndarray]) -> _Moved:
    """Return what the figures of a point's subjects moved by, from one run to the other."""
    (old, old_drift), (new, new_drift) = map(_without_drift, runs, overall)
    (earlier, old_variance, old_count), (later, new_variance, new_count) = (
        _least_disturbed(values) for values in (old, new)
    )
    return _Moved(
        by=later - earlier,
        drift=np.full(len(old), new_drift - old_drift),
        variance=old_variance + new_variance,
        freedom=old_count + new_count - 2,
    )


def _errors(variances: np.ndarray, freedoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors with their degrees of freedom, from variances with theirs."""
    prior = Prior.of(variances, freedoms)
    return np.sqrt(prior.moderated(variances, freedoms)), freedoms + prior.freedom


def _change(
    place: Place, figure: str, by: float, drift: float, error: tuple[float, float]
) -> Change:
    """Return a change with its interval; the chance is not adjusted yet."""
    sigma, freedom = error
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * sigma
    limits = (math.exp(by + way * half) for way in (0, -1, 1))
    chance = beyond_p(by, math.log(MARGIN), sigma, freedom)
    return Change(*place, figure, *limits, math.exp(drift), chance)


def _between_runs(moved: _Moved, sigmas: np.ndarray, own: Sequence[np.ndarray]) -> float:
    """Return the variance by which places move between runs beyond what their rounds tell.

    It is learnt from how the places of each subject differ, all together.
    """
    squares = sum(float(((moved.by[here] - moved.by[here].mean()) ** 2).sum()) for here in own)
    freedom = sum(int(here.sum()) - 1 for here in own)
    told = sum(float((sigmas[here] ** 2).sum()) * (1 - 1 / here.sum()) for here in own)
    return max(squares - told, 0.0) / freedom


def _everywhere(
    places: Sequence[Place], figure: str, moved: _Moved, errors: tuple[np.ndarray, np.ndarray]
) -> list[Change]:
    """Return what each subject changed by in the mean of its points.

    Their errors add up; the degrees of freedom of the sum are Satterthwaite's (1946).
    """
    named = np.array([place[1] for place in places])
    own = {server: named == server for server in dict.fromkeys(place[1] for place in places)}
    own = {server: here for server, here in own.items() if here.sum() >= _FEWEST_POINTS}
    if not own:
        return []
    sigmas, freedoms = errors
    beyond = _between_runs(moved, sigmas, list(own.values()))
    found = []
    for server, here in own.items():
        variances = sigmas[here] ** 2 + beyond
        sigma = float(np.sqrt(variances.sum())) / here.sum()
        freedom = float(variances.sum() ** 2 / (variances**2 / freedoms[here]).sum())
        by, drift = float(moved.by[here].mean()), float(moved.drift[here].mean())
        found.append(_change((EVERYWHERE, server), figure, by, drift, (sigma, freedom)))
    return found


def _of_figure(
    before: pl.DataFrame, after: pl.DataFrame, figure: str
) -> tuple[list[Change], list[Change]]:
    """Compare one figure in the mean of each subject's places, and at every place."""
    both = (_samples(before, figure), _samples(after, figure))
    common = [place for place in both[0] if place in both[1]]
    if not common:
        return [], []
    tables = [_table(samples, common) for samples in both]
    centre = sum(np.nanmean(table, axis=1) for table in tables) / 2
    beside = [table - centre[:, None] for table in tables]
    overall = [_overall(table, common) for table in beside]
    places: list[Place] = []
    parts: list[_Moved] = []
    for point in dict.fromkeys(place[0] for place in common):
        here = [i for i, place in enumerate(common) if place[0] == point]
        places += [common[i] for i in here]
        parts.append(_moved([table[here] for table in beside], overall))
    moved = _Moved(
        *(np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0]))
    )
    sigmas, freedoms = _errors(moved.variance, moved.freedom)
    changes = [
        _change(place, figure, moved.by[i], moved.drift[i], (sigmas[i], freedoms[i]))
        for i, place in enumerate(places)
    ]
    return _everywhere(places, figure, moved, (sigmas, freedoms)), changes


def _adjusted(changes: Sequence[Change]) -> list[Change]:
    """Return changes with chances adjusted for all of them, and for there being two such lists."""
    adjusted = holm([change.chance for change in changes])
    return [
        replace(change, chance=min(_LISTS * chance, 1.0))
        for change, chance in zip(changes, adjusted, strict=True)
    ]


def compare_frames(before: pl.DataFrame, after: pl.DataFrame) -> list[Change]:
    """Return how every figure changed that both runs measured in two rounds or more."""
    found = [_of_figure(before, after, figure) for figure in _FIGURES]
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
