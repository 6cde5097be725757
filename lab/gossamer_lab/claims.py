"""Claims of a document, as data: what decides each is written down before anything is measured.

A quantity gives one value for each round of a run, or says why it cannot. Its interval is over the
rounds; a claim holds if the whole interval lies in its range, and does not if all lies outside.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gossamer_lab.statistics import linear_fit, proportional_fit


class UntestableError(Exception):
    """A round does not hold what a quantity needs; says what is missing."""


@dataclass(frozen=True)
class Round:
    """What one round measured: its sound rows by point and subject, and why others are missing."""

    points: Mapping[str, Mapping[str, Any]]
    rows: Mapping[tuple[str, str], Mapping[str, Any]]
    missing: Callable[[str, str], str]
    """Why there is no sound row of a point and a subject."""

    def value(self, point: str, server: str, column: str) -> float:
        """Return a figure; UntestableError if it was not measured."""
        row = self.rows.get((point, server))
        if row is None or row.get(column) is None:
            raise UntestableError(self.missing(point, server))
        return float(row[column])

    def chosen(self, where: Mapping[str, Any]) -> list[str]:
        """Return the points that have these fields; of a tuple one value is enough."""

        def fits(point: Mapping[str, Any]) -> bool:
            return all(
                point.get(name) in (wanted if isinstance(wanted, tuple) else (wanted,))
                for name, wanted in where.items()
            )

        return [key for key, point in self.points.items() if fits(point)]


class Quantity(Protocol):
    """What can be worked out from each round."""

    @property
    def words(self) -> str:
        """What it is."""

    def of(self, round_: Round) -> float:
        """Return its value in a round, or raise UntestableError."""


Where = tuple[tuple[str, Any], ...]
"""Fields that points must have."""


@dataclass(frozen=True)
class Mean:
    """The geometric mean of a figure over points, sound ones only."""

    server: str
    column: str
    where: Where
    words: str

    def of(self, round_: Round) -> float:
        """Return the mean; a figure that is not positive has none."""
        logs = [math.log(value) for value in _values(self, round_) if value > 0]
        if not logs:
            raise UntestableError(f"{self.words} was never above zero")
        return math.exp(sum(logs) / len(logs))


@dataclass(frozen=True)
class Highest:
    """The highest of a figure over points."""

    server: str
    column: str
    where: Where
    words: str

    def of(self, round_: Round) -> float:
        """Return the highest value."""
        return max(_values(self, round_))


def _values(of: Mean | Highest, round_: Round) -> list[float]:
    """Return the figure at every chosen point where it was measured, at least at one."""
    keys = round_.chosen(dict(of.where))
    if not keys:
        raise UntestableError("this scale has none of the points that are needed")
    found = []
    refusal: UntestableError | None = None
    for key in keys:
        try:
            found.append(round_.value(key, of.server, of.column))
        except UntestableError as error:
            refusal = refusal or error
    if refusal and not found:
        raise refusal
    return found


@dataclass(frozen=True)
class _OfLine:
    """A quantity of a figure of a subject against a field of the points."""

    server: str
    x: str
    y: str
    where: Where = ()

    def line(self, round_: Round) -> tuple[list[float], list[float]]:
        """Return the places and figures of the subject's sound rows; three or more."""
        keys = [
            key
            for key in round_.chosen(dict(self.where))
            if round_.points[key].get(self.x) is not None
        ]
        sound = [key for key in keys if (key, self.server) in round_.rows]
        if len(sound) < 3:
            if gone := next((key for key in keys if key not in sound), None):
                raise UntestableError(round_.missing(gone, self.server))
            raise UntestableError("this scale has fewer than three of the loads that are needed")
        return (
            [float(round_.points[key][self.x]) for key in sound],
            [round_.value(key, self.server, self.y) for key in sound],
        )


class Slope(_OfLine):
    """The slope of the line through figures that stray in proportion to their size."""

    @property
    def words(self) -> str:
        """What it is."""
        return f"slope of {self.server}"

    def of(self, round_: Round) -> float:
        """Return the slope."""
        return proportional_fit(*self.line(round_)).slope


class Correlation(_OfLine):
    """The correlation of the figure with the field."""

    @property
    def words(self) -> str:
        """What it is."""
        return f"correlation of {self.server}"

    def of(self, round_: Round) -> float:
        """Return the correlation."""
        return linear_fit(*self.line(round_)).correlation


class Scatter(_OfLine):
    """How far the figure strays from its line, beside its mean."""

    @property
    def words(self) -> str:
        """What it is."""
        return f"scatter of {self.server} about its line"

    def of(self, round_: Round) -> float:
        """Return the root of the mean square of the distances, divided by the mean."""
        places, figures = self.line(round_)
        fit = linear_fit(places, figures)
        lines = zip(places, figures, strict=True)
        squares = [(y - fit.at(x)) ** 2 for x, y in lines]
        return math.sqrt(sum(squares) / len(squares)) * len(figures) / sum(figures)


@dataclass(frozen=True)
class Extreme:
    """The least or the greatest of quantities, of those that can be had: `fewest` at least."""

    which: str
    of_all: Sequence[Quantity]
    words: str
    fewest: int = 1

    def of(self, round_: Round) -> float:
        """Return it; what cannot be had is passed over while enough are left."""
        found, refusals = [], []
        for quantity in self.of_all:
            try:
                found.append(quantity.of(round_))
            except UntestableError as error:
                refusals.append(str(error))
        if len(found) < self.fewest:
            raise UntestableError("; ".join(dict.fromkeys(refusals)))
        return min(found) if self.which == "least" else max(found)


@dataclass(frozen=True)
class Ratio:
    """One quantity divided by another of the same round."""

    over: Quantity
    under: Quantity

    @property
    def words(self) -> str:
        """What it is."""
        return f"{self.over.words} / {self.under.words}"

    def of(self, round_: Round) -> float:
        """Return the ratio."""
        under = self.under.of(round_)
        if under <= 0:
            raise UntestableError(f"{self.under.words} was not above zero")
        return self.over.of(round_) / under


@dataclass(frozen=True)
class Total:
    """The sum of quantities."""

    of_all: Sequence[Quantity]

    @property
    def words(self) -> str:
        """What it is."""
        return " + ".join(quantity.words for quantity in self.of_all)

    def of(self, round_: Round) -> float:
        """Return the sum; all have to be known."""
        return sum(quantity.of(round_) for quantity in self.of_all)


@dataclass(frozen=True)
class Provided:
    """A quantity of rounds in which another reaches a value, without which it says nothing."""

    condition: Quantity
    least: float
    reason: str
    """Why it says nothing otherwise."""
    quantity: Quantity

    @property
    def words(self) -> str:
        """What it is."""
        return self.quantity.words

    def of(self, round_: Round) -> float:
        """Return the value."""
        if self.condition.of(round_) < self.least:
            raise UntestableError(self.reason)
        return self.quantity.of(round_)


@dataclass(frozen=True)
class Claim:
    """A claim: where it stands, what was published, and the range that decides."""

    key: str
    text: str
    where: str
    """The place in the document."""
    published: str
    quantity: Quantity
    holds_from: float = -math.inf
    holds_to: float = math.inf

    @property
    def range_words(self) -> str:
        """The range in words."""
        low, high = self.holds_from, self.holds_to
        if math.isinf(low):
            return f"at most {high:g}"
        return f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"

    @property
    def rule(self) -> str:
        """The rule in words."""
        return (
            f"holds if the whole interval of {self.quantity.words} is {self.range_words}, "
            "does not if none of it is"
        )
