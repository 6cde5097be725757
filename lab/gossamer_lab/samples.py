"""What a run says a subject costs: figures without what the machine did to them, and their errors.

All are logarithms. Three things are taken out. What its pacemakers say of the machine, which
a core whose neighbours are busy slows down too: the metronome that is the server's brake, and the
load generator. What the subjects of a point have
in common in a round, in which they follow each other directly: their median is drift of the
machine; where they are too few to tell, that of the whole round. And the rounds that stray
furthest, as many at either end (Yuen 1974). How much a figure varies by chance is learnt from its
rounds, and from those of all others where it has too few.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gossamer_lab.variances import Prior

_FEWEST_FOR_DRIFT = 3
_FEWEST_ROUNDS = 2
FEWEST_POINTS = 4
"""That say what a subject costs as a whole."""
_TRIMMED = 0.3
"""Share of a figure's rounds that is left out at either end."""
_OF_MEDIAN = math.pi / 2
"""Variance of a median beside that of a mean."""
FIGURES = ("server_cpu_us_per_request", "total_us", "request_ns")
"""The figure that is looked at: the first of these that a point has."""

Place = tuple[str, str]
"""A point and a subject."""
_Samples = dict[Place, dict[int, list[float]]]
"""A figure and what the pacemakers tell, at each place in each round."""


@dataclass(frozen=True)
class Settled:
    """A figure of a run at each place, beside its centre; all are logarithms."""

    value: np.ndarray
    variance: np.ndarray
    """Of the value."""
    freedom: np.ndarray
    """Of the variance, in degrees."""


def _pacemakers(runs: Sequence[pl.DataFrame]) -> list[pl.Expr]:
    """Return what tells how slow the machine is, in each run; their logarithms.

    Where one tells nothing, it is what it is elsewhere. A program that measures itself has none.
    """
    known = {
        "beat_ns": pl.col("beat_ns").cast(pl.Float64),
        "client_cpu_s": pl.col("client_cpu_s") / pl.col("requests"),
    }
    told = [
        pl.when(pace > 0).then(pace.log())
        for name, pace in known.items()
        if all(name in raw.columns for raw in runs)
    ]
    return [pace.fill_null(pace.mean().over("point", "server")).fill_null(0.0) for pace in told]


def _samples(raw: pl.DataFrame, figure: str, paces: Sequence[pl.Expr]) -> _Samples:
    """Return a figure of sound measurements and its pacemakers', by round: their logarithms."""
    if figure not in raw.columns:
        return {}
    void = pl.col("void") if "void" in raw.columns else pl.lit(None)
    sound = raw.filter(pl.col("failure").is_null(), void.is_null(), pl.col(figure) > 0)
    named = [pace.alias(f"pace {i}") for i, pace in enumerate(paces)]
    sound = sound.select("point", "server", "round", pl.col(figure).log(), *named)
    found: _Samples = {}
    for point, server, number, *values in sound.iter_rows():
        found.setdefault((point, server), {})[number] = values
    return {place: values for place, values in found.items() if len(values) >= _FEWEST_ROUNDS}


def _tables(samples: _Samples, places: Sequence[Place], count: int) -> np.ndarray:
    """Return figures and pacemakers': a line for each place, a column for each round, or NaN."""
    rounds = sorted({number for place in places for number in samples[place]})
    nothing = [np.nan] * count
    table = [[samples[place].get(number, nothing) for number in rounds] for place in places]
    return np.moveaxis(np.array(table), 2, 0)


def _within(table: np.ndarray, places: Sequence[Place]) -> np.ndarray:
    """Return what the places of each point have in common in each round, beside the whole run."""
    beside = table - np.nanmean(table, axis=1, keepdims=True)
    few = len({place[1] for place in places}) < _FEWEST_FOR_DRIFT
    overall = np.zeros(table.shape[1]) if few else np.nanmedian(beside, axis=0)
    named = np.array([place[0] for place in places])
    found = np.tile(overall, (len(table), 1))
    for point in dict.fromkeys(named):
        here = named == point
        told = np.isfinite(beside[here]).sum(axis=0) >= _FEWEST_FOR_DRIFT
        found[np.ix_(here, told)] = np.nanmedian(beside[np.ix_(here, told)], axis=0)
    return found


def between(
    moved: np.ndarray, variance: np.ndarray, places: Sequence[Place]
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the others at each place's point moved by between two runs, with its variance.

    A subject has no part in what it is set beside: it would hide a part of its own change.
    """
    points = np.array([place[0] for place in places])
    subjects = np.array([place[1] for place in places])
    common, error = np.zeros(len(moved)), np.zeros(len(moved))
    for i, (point, subject) in enumerate(places):
        others = subjects != subject
        for here in (others & (points == point), others):
            if len(set(subjects[here])) >= _FEWEST_FOR_DRIFT - 1:
                common[i] = np.median(moved[here])
                error[i] = _OF_MEDIAN * variance[here].mean() / here.sum()
                break
    return common, error


def _shares(tables: Sequence[np.ndarray], places: Sequence[Place]) -> np.ndarray:
    """Return how much of what moves each pacemaker moves the figure too, by least squares."""
    beside = [
        np.array([part - _within(part, places) for part in table])
        for table in (table - np.nanmean(table, axis=2, keepdims=True) for table in tables)
    ]
    all_of = np.concatenate([table.reshape(len(table), -1) for table in beside], axis=1)
    figure, *paces = all_of[:, np.isfinite(all_of[0])]
    shares = np.linalg.lstsq(np.array(paces).T, figure)[0] if paces else np.zeros(0)
    return np.clip(shares, 0.0, 1.0)


def _settled(table: np.ndarray, places: Sequence[Place]) -> Settled:
    """Return the trimmed means of what is left without drift, with their variances."""
    values, variances, freedoms = [], [], []
    for line in table - _within(table, places):
        found = np.sort(line[np.isfinite(line)])
        trimmed = int(_TRIMMED * len(found))
        kept = len(found) - 2 * trimmed
        # What is left out counts as the last that is not (Yuen 1974).
        spread = np.clip(found, found[trimmed], found[-trimmed - 1]).var(ddof=1)
        values.append(found[trimmed : trimmed + kept].mean())
        variances.append(spread * (len(found) - 1) / (kept * (kept - 1)))
        freedoms.append(kept - 1)
    return Settled(np.array(values), np.array(variances), np.array(freedoms))


def settled(runs: Sequence[pl.DataFrame], figure: str) -> tuple[list[Place], list[Settled]]:
    """Return the places at which all these runs have a figure, and what each run says of them."""
    paces = _pacemakers(runs)
    samples = [_samples(raw, figure, paces) for raw in runs]
    places = [place for place in samples[0] if all(place in others for others in samples)]
    if not places:
        return [], []
    tables = [_tables(found, places, 1 + len(paces)) for found in samples]
    centre = sum(np.nanmean(table, axis=2) for table in tables) / len(tables)
    beside = [table - centre[:, :, None] for table in tables]
    shares = _shares(tables, places)
    return places, [
        _settled(part[0] - np.tensordot(shares, part[1:], 1), places) for part in beside
    ]


def standard_errors(variances: np.ndarray, freedoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors with their degrees of freedom, from variances with theirs."""
    prior = Prior.of(variances, freedoms)
    return np.sqrt(prior.moderated(variances, freedoms)), freedoms + prior.freedom
