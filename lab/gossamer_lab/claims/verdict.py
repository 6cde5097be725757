"""Verdicts on claims, decided from the raw rows alone."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import polars as pl

from gossamer_lab.claims.claim import Claim, plain
from gossamer_lab.claims.quantities import (
    Conditional,
    Correlation,
    Every,
    Named,
    Quantity,
    Round,
    Share,
    UntestableError,
)
from gossamer_lab.statistics.intervals import (
    LEVEL,
    Interval,
    jackknife_interval,
    mean_interval,
    share_interval,
)

HOLDS, FAILS, INCONCLUSIVE = "holds", "does not hold", "inconclusive"
_MIN_ROUNDS = 2
MIN_DEVIATION = 0.01
"""Minimum standard deviation of a round, as a share of the value: no measurement is exact."""
MIN_CORRELATION_DEVIATION = MIN_DEVIATION**2
"""The same of a correlation: noise lowers it by about the square of its share of the values."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, with the value that decides it."""

    key: str
    claim: str
    section: str
    published: str
    reading: str
    is_ours: bool
    expected: str
    rule: str
    verdict: str
    reason: str
    quantity: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    rounds: int = 0
    stands_jointly: bool | None = None
    """Whether it is the same with intervals that all contain their values together at 95 %."""
    uncorrected: dict[str, Any] | None = None
    """The same without the correction for the speed of the core, if it has one."""


def _core(quantity: Quantity) -> Quantity:
    """Return the quantity without its conditions and names."""
    while isinstance(quantity, Conditional | Named):
        quantity = quantity.quantity
    return quantity


def _identity(value: float) -> float:
    return value


@dataclass(frozen=True)
class _Scale:
    """A transformation that makes values nearly symmetric."""

    forward: Callable[[float], float]
    back: Callable[[float], float]


_LOGARITHM = _Scale(lambda x: math.log(x) if x > 0 else -math.inf, math.exp)
_LINEAR = _Scale(_identity, _identity)


def _scale(quantity: Quantity, values: Sequence[float]) -> _Scale:
    is_correlation = isinstance(_core(quantity), Correlation)
    return _LOGARITHM if min(values) > 0 and not is_correlation else _LINEAR


def _min_deviation(scale: _Scale, value: float) -> float:
    """Return the minimum standard deviation on a scale."""
    return MIN_DEVIATION * max(abs(value), 1.0) if scale is _LINEAR else MIN_DEVIATION


def _of_scale(scale: _Scale, found: Interval) -> Interval:
    return Interval(*(scale.back(x) for x in (found.value, found.low, found.high)), found.runs)


def interval_of(quantity: Quantity, values: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the interval of the mean of values, computed on a scale that suits the quantity."""
    scale = _scale(quantity, values)
    moved = [scale.forward(value) for value in values]
    deviation = _min_deviation(scale, sum(moved) / len(moved))
    return _of_scale(scale, mean_interval(moved, level, deviation))


def _pooled(quantity: Quantity, rounds: Sequence[Round], level: float) -> Interval:
    """Return the interval of a quantity of all rounds together."""
    whole = quantity.over(rounds)
    without = [quantity.over([*rounds[:i], *rounds[i + 1 :]]) for i in range(len(rounds))]
    scale = _scale(quantity, [whole, *without])
    moved = scale.forward(whole)
    is_correlation = isinstance(_core(quantity), Correlation)
    deviation = MIN_CORRELATION_DEVIATION if is_correlation else _min_deviation(scale, moved)
    found = jackknife_interval(moved, [scale.forward(one) for one in without], level, deviation)
    if is_correlation:
        found = replace(found, value=min(found.value, 1.0), high=min(found.high, 1.0))
    return _of_scale(scale, found)


def _of_share(share: Share, rounds: Sequence[Round], level: float) -> Interval:
    """Return the interval of a share: that of its events, or of its rounds if it is wider."""
    counts = [share.counts(round_) for round_ in rounds]
    count, total = sum(c for c, _ in counts), sum(t for _, t in counts)
    of_events = share_interval(count, total, len(rounds), level)
    if count in {0, total}:
        return of_events
    values = [share.of(round_) for round_ in rounds]
    of_rounds = mean_interval(values, level)
    return replace(
        of_events,
        low=min(of_events.low, max(of_rounds.low, 0.0)),
        high=max(of_events.high, min(of_rounds.high, 1.0)),
    )


def estimate(quantity: Quantity, rounds: Sequence[Round], level: float = LEVEL) -> Interval:
    """Return the interval of a quantity; UntestableError says why there is none.

    Rounds that lack something are left out; an interval needs two others.
    """
    usable, reasons = [], Counter[str]()
    values = []
    for round_ in rounds:
        try:
            values.append(quantity.of(round_))
            usable.append(round_)
        except UntestableError as error:
            reasons[str(error)] += 1
    if len(usable) < _MIN_ROUNDS:
        reason = reasons.most_common(1)[0][0] if reasons else "too few rounds"
        raise UntestableError(f"an interval needs two rounds: {reason}" if usable else reason)
    core = _core(quantity)
    if isinstance(core, Share):
        return _of_share(core, usable, level)
    if quantity.pools:
        return _pooled(quantity, usable, level)
    return interval_of(quantity, values, level)


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


@dataclass(frozen=True)
class _Found:
    """The interval of a quantity and what follows from it, or why there is none."""

    quantity: Quantity
    verdict: str
    interval: Interval | None = None
    reason: str = ""


def _limits_inside(claim: Claim, interval: Interval) -> str:
    limits = [x for x in (claim.holds_from, claim.holds_to) if interval.low <= x <= interval.high]
    return " and ".join(map(plain, limits))


def _word(claim: Claim, interval: Interval) -> str:
    if claim.holds_from <= interval.low and interval.high <= claim.holds_to:
        return HOLDS
    if interval.high < claim.holds_from or interval.low > claim.holds_to:
        return FAILS
    return INCONCLUSIVE


def _judge(claim: Claim, quantity: Quantity, rounds: Sequence[Round], level: float) -> _Found:
    """Apply the rule of a claim to one quantity."""
    try:
        interval = estimate(quantity, rounds, level)
    except UntestableError as error:
        return _Found(quantity, INCONCLUSIVE, None, str(error))
    word = _word(claim, interval)
    reason = f"expected: {claim.range_text}"
    if word == INCONCLUSIVE:
        reason = f"the interval includes {_limits_inside(claim, interval)}: this run cannot decide"
    return _Found(quantity, word, interval, reason)


def _margin(claim: Claim, found: _Found) -> float:
    """Return how far inside its range a value is, negative if it is outside."""
    if found.interval is None:
        return math.inf
    scale = _scale(found.quantity, [found.interval.value])
    value = scale.forward(found.interval.value)
    limits = []
    if math.isfinite(claim.holds_from):
        limits.append(value - scale.forward(claim.holds_from))
    if math.isfinite(claim.holds_to):
        limits.append(scale.forward(claim.holds_to) - value)
    return min(limits)


def _judge_every(claim: Claim, every: Every, rounds: Sequence[Round], level: float) -> _Found:
    """Apply the rule to each of several quantities.

    All must be in the range at the level, which is the level of "all are": none may be missing. One
    that is outside at the level divided among them suffices against the claim, and is shown: not
    one whose value is worse, but whose interval decides nothing.
    """
    count = len(every.of_all)
    found = [_judge(claim, quantity, rounds, level) for quantity in every.of_all]
    divided = 1 - (1 - level) / count
    # What is inside at the level is inside the wider interval, too.
    outside = [
        one
        for one in found
        if one.verdict == FAILS and _judge(claim, one.quantity, rounds, divided).verdict == FAILS
    ]
    worst = min(outside or found, key=lambda one: _margin(claim, one))
    name = Named(worst.quantity, f"{every.words}, worst of {count}: {worst.quantity.description}")
    if outside:
        return _Found(name, FAILS, worst.interval, f"expected: {claim.range_text}")
    absent = next((one.reason for one in found if one.interval is None), None)
    if absent:
        return _Found(name, INCONCLUSIVE, None, absent)
    if all(one.verdict == HOLDS for one in found):
        return _Found(name, HOLDS, worst.interval, f"expected: {claim.range_text}")
    reason = worst.reason
    if worst.verdict == FAILS:
        chance = f"outside, but one of {count} intervals may be outside by chance"
        reason = f"expected: {claim.range_text}; {chance}"
    return _Found(name, INCONCLUSIVE, worst.interval, reason)


def _found(claim: Claim, rounds: Sequence[Round], level: float) -> _Found:
    core = _core(claim.quantity)
    if isinstance(core, Every):
        return _judge_every(claim, core, rounds, level)
    return _judge(claim, claim.quantity, rounds, level)


def decide(claim: Claim, rounds: Sequence[Round], level: float = LEVEL) -> Verdict:
    """Apply the rule of a claim."""
    found = _found(claim, rounds, level)
    interval = found.interval
    numbers = (interval.value, interval.low, interval.high, interval.runs) if interval else ()
    return Verdict(
        claim.key,
        claim.text,
        claim.section,
        claim.published,
        claim.reading,
        claim.is_ours,
        claim.range_text,
        claim.rule,
        found.verdict,
        found.reason,
        found.quantity.description,
        *numbers,
    )


def _with_joint(claims: Sequence[Claim], rounds: Sequence[Round]) -> list[Verdict]:
    """Return the verdicts, and whether they are the same with intervals that all hold together."""
    alone = [decide(claim, rounds) for claim in claims]
    decided = sum(verdict.value is not None for verdict in alone)
    level = 1 - (1 - LEVEL) / max(decided, 1)
    return [
        verdict
        if verdict.verdict == INCONCLUSIVE
        else replace(
            verdict, stands_jointly=decide(claim, rounds, level).verdict == verdict.verdict
        )
        for claim, verdict in zip(claims, alone, strict=True)
    ]


def verdicts(
    claims: Sequence[Claim], rounds: Sequence[Round], uncorrected: Sequence[Round]
) -> list[dict[str, Any]]:
    """Return the verdict on each claim, beside that from the uncorrected rounds if they differ."""
    found = []
    for claim, verdict in zip(claims, _with_joint(claims, rounds), strict=True):
        other = decide(claim, uncorrected)
        beside = None
        if (other.value, other.low, other.high) != (verdict.value, verdict.low, verdict.high):
            names = ("verdict", "quantity", "value", "low", "high")
            beside = {name: getattr(other, name) for name in names}
        found.append(asdict(replace(verdict, uncorrected=beside)))
    return found


def chance(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return how many intervals there are, and how many of them miss by chance on average."""
    intervals = sum(verdict["value"] is not None for verdict in verdicts)
    decided = [verdict for verdict in verdicts if verdict["verdict"] != INCONCLUSIVE]
    return {
        "intervals": intervals,
        "misses": (1 - LEVEL) * intervals,
        "decided": len(decided),
        "jointly": sum(bool(verdict["stands_jointly"]) for verdict in decided),
    }
