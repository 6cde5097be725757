"""Verdicts on claims, decided from the raw rows alone."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from gossamer_lab.claims import Claim, Correlation, Extreme, Quantity, Round, UntestableError
from gossamer_lab.statistics import Interval, mean_interval

HOLDS, FAILS, INCONCLUSIVE = "holds", "does not hold", "inconclusive"
_MIN_ROUNDS = 2


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, with the value that decides it."""

    key: str
    claim: str
    section: str
    published: str
    rule: str
    verdict: str
    reason: str
    quantity: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0


def _is_correlation(quantity: Quantity) -> bool:
    if isinstance(quantity, Extreme):
        return all(map(_is_correlation, quantity.of_all))
    return isinstance(quantity, Correlation)


def _scale(
    quantity: Quantity, values: Sequence[float]
) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """Return the transformation that makes values nearly symmetric, and its inverse."""
    if _is_correlation(quantity):
        return lambda r: math.atanh(max(min(r, 1 - 1e-12), -1 + 1e-12)), math.tanh
    if min(values) > 0:
        return math.log, math.exp
    return float, float


def interval_of(quantity: Quantity, values: Sequence[float]) -> Interval:
    """Return the confidence interval of values, computed on a scale that suits the quantity."""
    forward, back = _scale(quantity, values)
    found = mean_interval([forward(value) for value in values])
    return Interval(back(found.value), back(found.low), back(found.high), found.runs)


def rounds_of(
    raw: pl.DataFrame, points: Sequence[Mapping[str, Any]], absent: Mapping[str, str]
) -> list[Round]:
    """Split the raw rows into rounds; invalid and failed rows are not valid.

    `absent` says why subjects and points are not part of the run at all.
    """
    known = {str(point["key"]): point for point in points}
    present = set(raw["server"]) if "server" in raw.columns else set()
    found = []
    for (_,), part in raw.sort("round").group_by("round", maintain_order=True):
        valid: dict[tuple[str, str], Mapping[str, Any]] = {}
        reasons: dict[tuple[str, str], str] = {}
        for row in part.iter_rows(named=True):
            key = (row["point"], row["server"])
            if reason := row["failure"] or row.get("invalid"):
                reasons[key] = f"{row['server']}: {reason}"
            else:
                valid[key] = row

        def missing(point: str, server: str, reasons: Mapping[Any, str] = reasons) -> str:
            if server not in present:
                return absent.get(server) or f"{server} is not part of this run"
            return reasons.get((point, server)) or absent.get(point) or f"{server} was not measured"

        found.append(Round(known, valid, missing))
    return found


def _measured(claim: Claim, rounds: Sequence[Round]) -> tuple[list[float], str]:
    """Return the values of all rounds that have one, and the main reason for missing ones."""
    values, reasons = [], Counter[str]()
    for round_ in rounds:
        try:
            values.append(claim.quantity.of(round_))
        except UntestableError as error:
            reasons[str(error)] += 1
    return values, reasons.most_common(1)[0][0] if reasons else "too few rounds"


def _limits_inside(claim: Claim, interval: Interval) -> str:
    limits = [x for x in (claim.holds_from, claim.holds_to) if interval.low <= x <= interval.high]
    return " and ".join(f"{limit:g}" for limit in limits)


def decide(claim: Claim, rounds: Sequence[Round]) -> Verdict:
    """Apply the rule of a claim."""

    def verdict(word: str, reason: str, interval: Interval | None = None) -> Verdict:
        numbers = (interval.value, interval.low, interval.high, interval.runs) if interval else ()
        head = (claim.key, claim.text, claim.section, claim.published, claim.rule)
        return Verdict(*head, word, reason, claim.quantity.description, *numbers)

    values, reason = _measured(claim, rounds)
    if len(values) < _MIN_ROUNDS:
        if values:
            reason = f"an interval needs two rounds: {reason}"
        return verdict(INCONCLUSIVE, reason)
    interval = interval_of(claim.quantity, values)
    if claim.holds_from <= interval.low and interval.high <= claim.holds_to:
        return verdict(HOLDS, f"expected: {claim.range_text}", interval)
    if interval.high < claim.holds_from or interval.low > claim.holds_to:
        return verdict(FAILS, f"expected: {claim.range_text}", interval)
    words = f"the interval includes {_limits_inside(claim, interval)}: more rounds are needed"
    return verdict(INCONCLUSIVE, words, interval)


def verdicts(
    claims: Sequence[Claim],
    raw: pl.DataFrame,
    points: Sequence[Mapping[str, Any]],
    absent: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return the verdict on each claim."""
    rounds = rounds_of(raw, points, absent)
    return [asdict(decide(claim, rounds)) for claim in claims]
