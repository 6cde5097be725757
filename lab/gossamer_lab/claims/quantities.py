"""Quantities that claims are about, computed from the rows of a run.

Most have one value for each round. Those that describe the shape of a curve are computed from the
means over the rounds (`pools`), because noise distorts the shape of a single round: the correlation
of a perfect line falls, and the worst of its points moves away from it.

A quantity needs every point that it names: if one is missing or invalid in a round, it has no value
in this round, instead of one over fewer points.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from gossamer_lab.statistics.intervals import linear_fit, proportional_fit


class UntestableError(Exception):
    """A round lacks what a quantity needs; the message says what is missing."""


@dataclass(frozen=True)
class Round:
    """Measurements of a round: valid rows by point and subject, and why others are missing."""

    points: Mapping[str, Mapping[str, Any]]
    rows: Mapping[tuple[str, str], Mapping[str, Any]]
    missing: Callable[[str, str], str]
    """Returns why there is no valid row of a point and a subject."""

    def value(self, point: str, server: str, column: str) -> float:
        """Return a column of a row; UntestableError if it was not measured."""
        row = self.rows.get((point, server))
        if row is None:
            raise UntestableError(self.missing(point, server))
        value = row.get(column)
        if value is None:
            raise UntestableError(f"{server}: {column} was not measured")
        return float(value)

    def matching_points(self, where: Mapping[str, Any]) -> list[str]:
        """Return the points whose fields match; a tuple matches any of its values.

        UntestableError if the scale has none of them.
        """
        values = {
            name: wanted if isinstance(wanted, tuple) else (wanted,)
            for name, wanted in where.items()
        }
        found = [
            key
            for key, point in self.points.items()
            if all(point.get(name) in wanted for name, wanted in values.items())
        ]
        if not found:
            raise UntestableError("this scale has none of the required points")
        return found


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean if all values are positive, else the arithmetic mean."""
    if min(values) > 0:
        return math.exp(sum(map(math.log, values)) / len(values))
    return sum(values) / len(values)


class _MeanRow(Mapping[str, Any]):
    """The means of the numbers of a row over rounds, computed when needed."""

    def __init__(self, same: Sequence[Mapping[str, Any]]) -> None:
        """Keep the row of each round."""
        self._same = same

    def __getitem__(self, name: str) -> float:
        """Return the mean of a column; KeyError unless all rounds have a number."""
        values = [one[name] for one in self._same]
        if not all(isinstance(value, int | float) for value in values):
            raise KeyError(name)
        return _mean([float(value) for value in values])

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the columns, also of those without a mean."""
        return iter(self._same[0])

    def __len__(self) -> int:
        """Return the number of columns."""
        return len(self._same[0])


class _MeanRows(Mapping[tuple[str, str], Mapping[str, Any]]):
    """The means of the rounds' rows, of those that all of them have; computed when needed."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        """Keep the rounds."""
        self._rounds = rounds

    def __getitem__(self, key: tuple[str, str]) -> Mapping[str, Any]:
        """Return the means of the numbers of a row."""
        return _MeanRow([round_.rows[key] for round_ in self._rounds])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of rows that all rounds have."""
        return (key for key in self._rounds[0].rows if all(key in r.rows for r in self._rounds))

    def __len__(self) -> int:
        """Return the number of these rows."""
        return sum(1 for _ in self)


def mean_round(rounds: Sequence[Round]) -> Round:
    """Return the means of the rounds, of rows that all of them have."""
    return Round(rounds[0].points, _MeanRows(rounds), rounds[0].missing)


class Quantity(Protocol):
    """A value computed from each round, or from all of them together."""

    @property
    def description(self) -> str:
        """Its name in reports."""

    @property
    def pools(self) -> bool:
        """Whether it is computed from all rounds together, by `over`."""

    def of(self, round_: Round) -> float:
        """Return its value in a round, or raise UntestableError."""

    def over(self, rounds: Sequence[Round]) -> float:
        """Return its value over rounds in which `of` has one."""


class _OfRound:
    """A quantity with a value for each round."""

    pools = False

    def of(self, round_: Round) -> float:
        raise NotImplementedError

    def over(self, rounds: Sequence[Round]) -> float:
        """Return the mean of the values."""
        return _mean([self.of(round_) for round_ in rounds])


class _OfMeans(_OfRound):
    """A quantity of the means over the rounds."""

    pools = True

    def over(self, rounds: Sequence[Round]) -> float:
        """Return the value of the means."""
        return self.of(mean_round(rounds))


Where = tuple[tuple[str, Any], ...]
"""Field values that select points."""


def _values(of: "Mean | Maximum | Share", round_: Round) -> list[float]:
    """Return the column at every selected point."""
    keys = round_.matching_points(dict(of.where))
    return [round_.value(key, of.server, of.column) for key in keys]


@dataclass(frozen=True)
class Mean(_OfRound):
    """The geometric mean of a column over points; arithmetic if a value is not positive."""

    server: str
    column: str
    where: Where
    description: str

    def of(self, round_: Round) -> float:
        """Return the mean."""
        return _mean(_values(self, round_))


@dataclass(frozen=True)
class Maximum(_OfRound):
    """The maximum of a column over points."""

    server: str
    column: str
    where: Where
    description: str

    def of(self, round_: Round) -> float:
        """Return the maximum."""
        return max(_values(self, round_))


@dataclass(frozen=True)
class Share(_OfRound):
    """The share of requests, or other events, that a column counts, over points."""

    server: str
    column: str
    where: Where
    description: str
    of_column: str = "requests"
    """Column that counts the others."""

    def counts(self, round_: Round) -> tuple[float, float]:
        """Return the number of the counted events, and of all."""
        counted = sum(_values(self, round_))
        keys = round_.matching_points(dict(self.where))
        others = sum(round_.value(key, self.server, self.of_column) for key in keys)
        return counted, counted + others

    def of(self, round_: Round) -> float:
        """Return the share."""
        counted, total = self.counts(round_)
        if not total:
            raise UntestableError(f"{self.server} had no requests")
        return counted / total


@dataclass(frozen=True)
class _Curve:
    """A subject's column against a field of the points."""

    server: str
    x: str
    y: str
    where: Where = ()
    by: str = ""
    """Name of the quantity's subject, if not the server's."""

    @property
    def name(self) -> str:
        """The subject in words."""
        return self.by or self.server

    def samples(self, round_: Round) -> tuple[list[float], list[float]]:
        """Return the x and y values of the selected points, ordered; three or more."""
        keys = [
            key
            for key in round_.matching_points(dict(self.where))
            if round_.points[key].get(self.x) is not None
        ]
        keys.sort(key=lambda key: float(round_.points[key][self.x]))
        if len(keys) < 3:
            raise UntestableError("this scale has fewer than three of the required loads")
        return (
            [float(round_.points[key][self.x]) for key in keys],
            [round_.value(key, self.server, self.y) for key in keys],
        )


class Slope(_Curve, _OfRound):
    """The slope of the weighted fit, for errors proportional to the values."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"slope of {self.name}"

    def of(self, round_: Round) -> float:
        """Return the slope."""
        return proportional_fit(*self.samples(round_)).slope


class Correlation(_Curve, _OfMeans):
    """The correlation of the column with the field."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"correlation of {self.name}"

    def of(self, round_: Round) -> float:
        """Return the correlation."""
        return linear_fit(*self.samples(round_)).correlation


class Scatter(_Curve, _OfMeans):
    """How far single rounds are from one line: the root mean square error, relative to the mean."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"scatter of {self.name} about its line"

    def of(self, round_: Round) -> float:
        """Return the scatter of one round."""
        return self.over([round_])

    def over(self, rounds: Sequence[Round]) -> float:
        """Return the scatter of all rounds about the line of their means."""
        xs, means = self.samples(mean_round(rounds))
        fit = linear_fit(xs, means)
        rests = [
            y - fit.at(x) for round_ in rounds for x, y in zip(*self.samples(round_), strict=True)
        ]
        return float(np.sqrt(np.mean(np.square(rests)))) / (sum(means) / len(means))


class Fall(_Curve, _OfMeans):
    """The largest relative fall of the column from one point to any point of a larger field."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"largest fall of {self.name}"

    def of(self, round_: Round) -> float:
        """Return the fall: 0 if the column never falls."""
        highest, fall = 0.0, 0.0
        for y in self.samples(round_)[1]:
            highest = max(highest, y)
            fall = max(fall, 1 - y / highest if highest else 0.0)
        return fall


@dataclass(frozen=True)
class Spread(_OfMeans):
    """How much the ratio of two subjects' columns differs among points: largest / smallest."""

    server: str
    other: str
    column: str
    where: Where
    description: str

    def of(self, round_: Round) -> float:
        """Return the ratio of the ratios."""
        keys = round_.matching_points(dict(self.where))
        ratios = []
        for key in keys:
            other = round_.value(key, self.other, self.column)
            if other <= 0:
                raise UntestableError(f"{self.other} was not positive")
            ratios.append(round_.value(key, self.server, self.column) / other)
        if min(ratios) <= 0:
            raise UntestableError(f"{self.server} was not positive")
        return max(ratios) / min(ratios)


@dataclass(frozen=True)
class _Binary:
    """A quantity of two quantities."""

    left: Quantity
    right: Quantity

    @property
    def pools(self) -> bool:
        """Whether either is computed from all rounds together."""
        return self.left.pools or self.right.pools

    def combine(self, left: float, right: float) -> float:
        raise NotImplementedError

    def of(self, round_: Round) -> float:
        """Return the value of the same round."""
        return self.combine(self.left.of(round_), self.right.of(round_))

    def over(self, rounds: Sequence[Round]) -> float:
        """Return the value over rounds."""
        return self.combine(self.left.over(rounds), self.right.over(rounds))


class Ratio(_Binary):
    """The ratio of two quantities of the same round."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"{self.left.description} / {self.right.description}"

    def combine(self, left: float, right: float) -> float:
        """Return the ratio."""
        if right <= 0:
            raise UntestableError(f"{self.right.description} was not positive")
        return left / right


class Difference(_Binary):
    """The difference of two quantities of the same round."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"{self.left.description} - {self.right.description}"

    def combine(self, left: float, right: float) -> float:
        """Return the difference."""
        return left - right


@dataclass(frozen=True)
class Named:
    """A quantity with another name in reports."""

    quantity: Quantity
    description: str

    @property
    def pools(self) -> bool:
        """As the quantity."""
        return self.quantity.pools

    def of(self, round_: Round) -> float:
        """Return the quantity's value."""
        return self.quantity.of(round_)

    def over(self, rounds: Sequence[Round]) -> float:
        """Return the quantity's value."""
        return self.quantity.over(rounds)


@dataclass(frozen=True)
class Conditional:
    """A quantity of the rounds in which a condition reaches a minimum."""

    condition: Quantity
    min_value: float
    reason: str
    """Why the quantity is meaningless otherwise."""
    quantity: Quantity

    @property
    def description(self) -> str:
        """Its name in reports."""
        return self.quantity.description

    @property
    def pools(self) -> bool:
        """As the quantity."""
        return self.quantity.pools

    def of(self, round_: Round) -> float:
        """Return the value; UntestableError if the condition is below its minimum."""
        if self.condition.of(round_) < self.min_value:
            raise UntestableError(self.reason)
        return self.quantity.of(round_)

    def over(self, rounds: Sequence[Round]) -> float:
        """Return the value over rounds that fulfil the condition."""
        return self.quantity.over(rounds)


@dataclass(frozen=True)
class Every:
    """Quantities that a claim is about one by one: at every point, or of every server.

    The claim holds if each of them is in its range, and does not if one is outside.
    """

    of_all: tuple[Quantity, ...]
    words: str
    """What they have in common."""
    pools: bool = field(default=False, init=False)

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"{self.words} (each of {len(self.of_all)})"

    def of(self, round_: Round) -> float:
        """Return the value of the first of them in a round that has all."""
        first, *_ = (quantity.of(round_) for quantity in self.of_all)
        return first

    def over(self, rounds: Sequence[Round]) -> float:
        """Return the value of the first of them."""
        first, *_ = (quantity.over(rounds) for quantity in self.of_all)
        return first
