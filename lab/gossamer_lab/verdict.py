"""Verdicts on claims, decided from the raw rows alone."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from gossamer_lab.claims import Claim, Correlation, Extreme, Quantity, Round, UntestableError
from gossamer_lab.statistics import Interval, mean_interval

HOLDS, FAILS, UNTESTED = "holds", "does not hold", "cannot be tested here"
_FEWEST_ROUNDS = 2


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, with the figure that decided."""

    key: str
    claim: str
    where: str
    published: str
    rule: str
    verdict: str
    because: str
    figure: str
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
    """Return how values become nearly symmetric, and the way back."""
    if _is_correlation(quantity):
        return lambda r: math.atanh(max(min(r, 1 - 1e-12), -1 + 1e-12)), math.tanh
    if min(values) > 0:
        return math.log, math.exp
    return float, float


def interval_of(quantity: Quantity, values: Sequence[float]) -> Interval:
    """Return the interval of values, on a scale that suits the quantity."""
    there, back = _scale(quantity, values)
    found = mean_interval([there(value) for value in values])
    return Interval(back(found.value), back(found.low), back(found.high), found.runs)


def rounds_of(
    raw: pl.DataFrame, points: Sequence[Mapping[str, Any]], absent: Mapping[str, str]
) -> list[Round]:
    """Part the raw rows into rounds; void and failed ones are not sound.

    `absent` says why subjects and points are not part of the run at all.
    """
    known = {str(point["key"]): point for point in points}
    present = set(raw["server"]) if "server" in raw.columns else set()
    found = []
    for (_,), part in raw.sort("round").group_by("round", maintain_order=True):
        sound: dict[tuple[str, str], Mapping[str, Any]] = {}
        faults: dict[tuple[str, str], str] = {}
        for row in part.iter_rows(named=True):
            place = (row["point"], row["server"])
            if reason := row["failure"] or row.get("void"):
                faults[place] = f"{row['server']}: {reason}"
            else:
                sound[place] = row

        def missing(point: str, server: str, faults: Mapping[Any, str] = faults) -> str:
            if server not in present:
                return absent.get(server) or f"{server} takes no part here"
            return faults.get((point, server)) or absent.get(point) or f"{server} is not measured"

        found.append(Round(known, sound, missing))
    return found


def _measured(claim: Claim, rounds: Sequence[Round]) -> tuple[list[float], str]:
    """Return the values of all rounds that have one, and why others have none."""
    values, reasons = [], Counter[str]()
    for round_ in rounds:
        try:
            values.append(claim.quantity.of(round_))
        except UntestableError as error:
            reasons[str(error)] += 1
    return values, reasons.most_common(1)[0][0] if reasons else "too few rounds were measured"


def _limit_inside(claim: Claim, interval: Interval) -> str:
    limits = [x for x in (claim.holds_from, claim.holds_to) if interval.low <= x <= interval.high]
    return " and ".join(f"{limit:g}" for limit in limits)


def decide(claim: Claim, rounds: Sequence[Round]) -> Verdict:
    """Apply the rule of a claim."""

    def verdict(word: str, because: str, interval: Interval | None = None) -> Verdict:
        told = (interval.value, interval.low, interval.high, interval.runs) if interval else ()
        head = (claim.key, claim.text, claim.where, claim.published, claim.rule)
        return Verdict(*head, word, because, claim.quantity.words, *told)

    values, reason = _measured(claim, rounds)
    if len(values) < _FEWEST_ROUNDS:
        if values:
            reason = f"an interval needs two rounds: {reason}"
        return verdict(UNTESTED, reason)
    interval = interval_of(claim.quantity, values)
    if claim.holds_from <= interval.low and interval.high <= claim.holds_to:
        return verdict(HOLDS, f"wanted: {claim.range_words}", interval)
    if interval.high < claim.holds_from or interval.low > claim.holds_to:
        return verdict(FAILS, f"wanted: {claim.range_words}", interval)
    words = f"the interval reaches over {_limit_inside(claim, interval)}: more rounds are needed"
    return verdict(UNTESTED, words, interval)


def verdicts(
    claims: Sequence[Claim],
    raw: pl.DataFrame,
    points: Sequence[Mapping[str, Any]],
    absent: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Return what becomes of each claim."""
    rounds = rounds_of(raw, points, absent)
    return [asdict(decide(claim, rounds)) for claim in claims]
