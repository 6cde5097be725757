"""What a run says a subject costs: figures without what the machine did to them, and their errors.

All are logarithms. Three things are taken out. What the load generator's own cost says of the
machine: a core whose neighbours are busy makes both sides slower. What the subjects of a point have
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


@dataclass(frozen=True)
class Settled:
    """A figure of a run at each place, beside its centre; all are logarithms."""

    value: np.ndarray
    variance: np.ndarray
    """Of the value."""
    freedom: np.ndarray
    """Of the variance, in degrees."""


def _samples(raw: pl.DataFrame, figure: str) -> dict[Place, dict[int, tuple[float, float]]]:
    """Return a figure of sound measurements and its client's cost, by round: their logarithms.

    A program that measures itself has no client: the cost is the same in all rounds.
    """
    if figure not in raw.columns:
        return {}
    client = pl.lit(1.0)
    if "client_cpu_s" in raw.columns:
        client = pl.col("client_cpu_s") / pl.col("requests")
    void = pl.col("void") if "void" in raw.columns else pl.lit(None)
    sound = raw.filter(pl.col("failure").is_null(), void.is_null(), pl.col(figure) > 0)
    by = client.log().fill_null(0.0).alias("by")
    sound = sound.select("point", "server", "round", pl.col(figure).log(), by)
    found: dict[Place, dict[int, tuple[float, float]]] = {}
    for point, server, number, *both in sound.iter_rows():
        found.setdefault((point, server), {})[number] = (both[0], both[1])
    return {place: values for place, values in found.items() if len(values) >= _FEWEST_ROUNDS}


def _tables(
    samples: dict[Place, dict[int, tuple[float, float]]], places: Sequence[Place]
) -> np.ndarray:
    """Return figures and clients' costs: a line for each place, a column for each round, or NaN."""
    rounds = sorted({number for place in places for number in samples[place]})
    nothing = (np.nan, np.nan)
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


def _share_of_client(tables: Sequence[np.ndarray], places: Sequence[Place]) -> float:
    """Return how much of what moves a client's cost moves the figure too, by least squares."""
    products = squares = 0.0
    for both in tables:
        beside = both - np.nanmean(both, axis=2, keepdims=True)
        figure, client = (part - _within(part, places) for part in beside)
        products += float(np.nansum(figure * client))
        squares += float(np.nansum(client**2))
    return min(max(products / squares, 0.0), 1.0) if squares > 0 else 0.0


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
    samples = [_samples(raw, figure) for raw in runs]
    places = [place for place in samples[0] if all(place in others for others in samples)]
    if not places:
        return [], []
    tables = [_tables(found, places) for found in samples]
    centre = sum(np.nanmean(table, axis=2) for table in tables) / len(tables)
    beside = [table - centre[:, :, None] for table in tables]
    share = _share_of_client(tables, places)
    return places, [
        _settled(figures - share * np.nan_to_num(clients), places) for figures, clients in beside
    ]


def standard_errors(variances: np.ndarray, freedoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors with their degrees of freedom, from variances with theirs."""
    prior = Prior.of(variances, freedoms)
    return np.sqrt(prior.moderated(variances, freedoms)), freedoms + prior.freedom
