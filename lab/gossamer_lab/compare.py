"""What changed between two runs of an experiment, with false alarms kept to one run in a hundred.

A figure is compared with itself in the other run, relative to what all figures of that point
changed by: a machine that was slower as a whole on one day changes nothing. Rounds vary alike for
all subjects of a point, so they tell together how much a figure varies by chance.
"""

import math
import statistics as stats
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

from gossamer_lab.statistics import LEVEL, holm, two_sided_p
from gossamer_lab.store import Run

ALARM = 0.01
"""How often a comparison of two runs that are alike may flag anything at all."""
_FEWEST_FOR_DRIFT = 3
_FIGURES = ("server_cpu_us_per_request", "total_us", "request_ns")
"""The figure that is compared: the first of these that a point has."""

Samples = Mapping[tuple[str, str], list[float]]
"""Logarithms of a figure by point and subject."""


class NotComparableError(Exception):
    """Two runs have nothing in common that can be compared; says why."""


@dataclass(frozen=True)
class Change:
    """A figure of the later run as a ratio to that of the earlier one."""

    point: str
    server: str
    figure: str
    ratio: float
    low: float
    high: float
    drift: float
    """What all figures of this point changed by; it is taken out of the chance and the flag."""
    chance: float
    """Of a change so large with nothing changed, adjusted for all comparisons."""

    @property
    def is_flagged(self) -> bool:
        """Whether something changed beyond chance."""
        return self.chance < ALARM


def _samples(raw: pl.DataFrame, figure: str) -> dict[tuple[str, str], list[float]]:
    """Return the logarithms of a figure in sound measurements."""
    found: dict[tuple[str, str], list[float]] = {}
    if figure not in raw.columns:
        return found
    for row in raw.iter_rows(named=True):
        value = row[figure]
        if row["failure"] is None and not row.get("void") and value is not None and value > 0:
            found.setdefault((row["point"], row["server"]), []).append(math.log(value))
    return {place: values for place, values in found.items() if len(values) > 1}


def _spread(both: Sequence[Samples], places: Sequence[tuple[str, str]]) -> tuple[float, int]:
    """Return the variance of rounds, of all figures of a point together, and its freedom."""
    squares, freedom = 0.0, 0
    for samples in both:
        for place in places:
            squares += stats.variance(samples[place]) * (len(samples[place]) - 1)
            freedom += len(samples[place]) - 1
    return squares / freedom, freedom


def _at_point(both: Sequence[Samples], places: list[tuple[str, str]], figure: str) -> list[Change]:
    """Compare all subjects of a point; chances are not adjusted yet."""
    before, after = both
    moved = {place: stats.mean(after[place]) - stats.mean(before[place]) for place in places}
    drift = stats.median(moved.values()) if len(places) >= _FEWEST_FOR_DRIFT else 0.0
    variance, freedom = _spread(both, places)
    changes = []
    for place in places:
        error = math.sqrt(variance * (1 / len(before[place]) + 1 / len(after[place])))
        # The drift is a median of as many figures, and no surer than that.
        unsure = error * math.sqrt(1 + math.pi / 2 / len(places)) if drift else error
        half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
        chance = two_sided_p((moved[place] - drift) / unsure, freedom) if unsure else 1.0
        limits = (math.exp(moved[place] + way * half) for way in (0, -1, 1))
        changes.append(Change(*place, figure, *limits, math.exp(drift), chance))
    return changes


def compare_frames(before: pl.DataFrame, after: pl.DataFrame) -> list[Change]:
    """Return how every figure changed that both runs measured in two rounds or more."""
    changes: list[Change] = []
    for figure in _FIGURES:
        both = (_samples(before, figure), _samples(after, figure))
        common = [place for place in both[0] if place in both[1]]
        for point in dict.fromkeys(place[0] for place in common):
            places = [place for place in common if place[0] == point]
            changes += _at_point(both, places, figure)
    adjusted = holm([change.chance for change in changes])
    return [
        Change(**{**vars(change), "chance": chance})
        for change, chance in zip(changes, adjusted, strict=True)
    ]


def compare(before: Run, after: Run) -> list[Change]:
    """Compare two runs; NotComparableError if they are not of one kind."""
    for name in ("experiment", "brake"):
        one, other = (run.results[name] for run in (before, after))
        if name == "brake":
            one, other = one["is_on"], other["is_on"]
        if one != other:
            raise NotComparableError(f"the runs differ in their {name}: {one}, {other}")
    changes = compare_frames(before.raw, after.raw)
    if not changes:
        raise NotComparableError("the runs have no figure of two rounds or more in common")
    return changes


def show_changes(changes: Sequence[Change], console: Console) -> None:
    """Print every change, what is beyond chance marked."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("point", "subject", "figure"):
        table.add_column(name)
    for name in ("after / before", "interval", "drift", "chance"):
        table.add_column(name, justify="right")
    for change in changes:
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
    flagged = sum(change.is_flagged for change in changes)
    console.print(
        f"{flagged} of {len(changes)} figures changed beyond chance (*): relative to the drift of "
        f"their point, at a rate of false alarms of {ALARM:.0%} for all together."
    )
