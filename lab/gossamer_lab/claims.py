"""Claims of a document, as data: the rule that decides each is fixed before anything is measured.

A quantity has one value for each round of a run, or a reason why it has none. Its confidence
interval is over the rounds. A claim holds if the whole interval lies in its range, and does not
hold if the whole interval lies outside.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gossamer_lab.statistics import linear_fit, proportional_fit


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
        if row is None or row.get(column) is None:
            raise UntestableError(self.missing(point, server))
        return float(row[column])

    def matching_points(self, where: Mapping[str, Any]) -> list[str]:
        """Return the points whose fields match; a tuple matches any of its values."""

        def matches(point: Mapping[str, Any]) -> bool:
            return all(
                point.get(name) in (wanted if isinstance(wanted, tuple) else (wanted,))
                for name, wanted in where.items()
            )

        return [key for key, point in self.points.items() if matches(point)]


class Quantity(Protocol):
    """A value computed from each round."""

    @property
    def description(self) -> str:
        """Its name in reports."""

    def of(self, round_: Round) -> float:
        """Return its value in a round, or raise UntestableError."""


Where = tuple[tuple[str, Any], ...]
"""Field values that select points."""


@dataclass(frozen=True)
class Mean:
    """The geometric mean of a column over points, valid ones only."""

    server: str
    column: str
    where: Where
    description: str

    def of(self, round_: Round) -> float:
        """Return the mean of the positive values."""
        logs = [math.log(value) for value in _values(self, round_) if value > 0]
        if not logs:
            raise UntestableError(f"{self.description} was never positive")
        return math.exp(sum(logs) / len(logs))


@dataclass(frozen=True)
class Maximum:
    """The maximum of a column over points."""

    server: str
    column: str
    where: Where
    description: str

    def of(self, round_: Round) -> float:
        """Return the maximum."""
        return max(_values(self, round_))


def _values(of: Mean | Maximum, round_: Round) -> list[float]:
    """Return the column at every selected point where it was measured; at least one."""
    keys = round_.matching_points(dict(of.where))
    if not keys:
        raise UntestableError("this scale has none of the required points")
    found = []
    first_error: UntestableError | None = None
    for key in keys:
        try:
            found.append(round_.value(key, of.server, of.column))
        except UntestableError as error:
            first_error = first_error or error
    if first_error and not found:
        raise first_error
    return found


@dataclass(frozen=True)
class _Regression:
    """A quantity of the regression of a subject's column on a field of the points."""

    server: str
    x: str
    y: str
    where: Where = ()

    def samples(self, round_: Round) -> tuple[list[float], list[float]]:
        """Return the x and y values of the subject's valid rows; three or more."""
        keys = [
            key
            for key in round_.matching_points(dict(self.where))
            if round_.points[key].get(self.x) is not None
        ]
        valid = [key for key in keys if (key, self.server) in round_.rows]
        if len(valid) < 3:
            if gone := next((key for key in keys if key not in valid), None):
                raise UntestableError(round_.missing(gone, self.server))
            raise UntestableError("this scale has fewer than three of the required loads")
        return (
            [float(round_.points[key][self.x]) for key in valid],
            [round_.value(key, self.server, self.y) for key in valid],
        )


class Slope(_Regression):
    """The slope of the weighted fit, for errors proportional to the values."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"slope of {self.server}"

    def of(self, round_: Round) -> float:
        """Return the slope."""
        return proportional_fit(*self.samples(round_)).slope


class Correlation(_Regression):
    """The correlation of the column with the field."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"correlation of {self.server}"

    def of(self, round_: Round) -> float:
        """Return the correlation."""
        return linear_fit(*self.samples(round_)).correlation


class RelativeRmse(_Regression):
    """The root mean square error of the linear fit, relative to the mean."""

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"relative RMSE of {self.server} about its linear fit"

    def of(self, round_: Round) -> float:
        """Return the root mean square of the residuals, divided by the mean."""
        xs, ys = self.samples(round_)
        fit = linear_fit(xs, ys)
        lines = zip(xs, ys, strict=True)
        squares = [(y - fit.at(x)) ** 2 for x, y in lines]
        return math.sqrt(sum(squares) / len(squares)) * len(ys) / sum(ys)


@dataclass(frozen=True)
class Extreme:
    """The minimum or maximum of quantities, of those that have a value: at least `min_count`."""

    which: str
    of_all: Sequence[Quantity]
    description: str
    min_count: int = 1

    def of(self, round_: Round) -> float:
        """Return the extreme; quantities without a value are ignored while enough remain."""
        found, refusals = [], []
        for quantity in self.of_all:
            try:
                found.append(quantity.of(round_))
            except UntestableError as error:
                refusals.append(str(error))
        if len(found) < self.min_count:
            raise UntestableError("; ".join(dict.fromkeys(refusals)))
        return min(found) if self.which == "min" else max(found)


@dataclass(frozen=True)
class Ratio:
    """The ratio of two quantities of the same round."""

    numerator: Quantity
    denominator: Quantity

    @property
    def description(self) -> str:
        """Its name in reports."""
        return f"{self.numerator.description} / {self.denominator.description}"

    def of(self, round_: Round) -> float:
        """Return the ratio."""
        denominator = self.denominator.of(round_)
        if denominator <= 0:
            raise UntestableError(f"{self.denominator.description} was not positive")
        return self.numerator.of(round_) / denominator


@dataclass(frozen=True)
class Sum:
    """The sum of quantities."""

    of_all: Sequence[Quantity]

    @property
    def description(self) -> str:
        """Its name in reports."""
        return " + ".join(quantity.description for quantity in self.of_all)

    def of(self, round_: Round) -> float:
        """Return the sum; every quantity must have a value."""
        return sum(quantity.of(round_) for quantity in self.of_all)


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

    def of(self, round_: Round) -> float:
        """Return the value; UntestableError if the condition is below its minimum."""
        if self.condition.of(round_) < self.min_value:
            raise UntestableError(self.reason)
        return self.quantity.of(round_)


@dataclass(frozen=True)
class Claim:
    """A claim: its source, what was published, and the range that decides."""

    key: str
    text: str
    section: str
    """Place in the document."""
    published: str
    quantity: Quantity
    holds_from: float = -math.inf
    holds_to: float = math.inf

    @property
    def range_text(self) -> str:
        """The range in words."""
        low, high = self.holds_from, self.holds_to
        if math.isinf(low):
            return f"at most {high:g}"
        return f"at least {low:g}" if math.isinf(high) else f"from {low:g} to {high:g}"

    @property
    def rule(self) -> str:
        """The rule in words."""
        return (
            f"holds if the whole interval of {self.quantity.description} is {self.range_text}, "
            "does not if none of it is"
        )
