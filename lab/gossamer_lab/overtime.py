"""Figures of an open load: of the whole, and a line of them over time."""

import json
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from gossamer_lab.arrivals import Asked, Fate, Sample

_SETTLED = 0.5
"""The part of a load after which its windows begin: 30 s of a minute."""
_WINDOWS = 3
"""In which the rest of a load is parted: of 10 s each in a load of a minute."""
BINS = 30
"""In which the whole load is parted for the line of figures."""
ACCEPTED, REFUSED = "200", "503"


def p90(asked: Iterable[Asked]) -> float | None:
    """Return the 90th percentile of the times taken; None: there are none.

    What was not answered took longer than it was waited for, and counts as taking so long.
    """
    times = sorted(one.took_s for one in asked if one.status in {ACCEPTED, ""})
    return times[math.ceil(0.9 * len(times)) - 1] if times else None


def _within(asked: Iterable[Asked], start_s: float, end_s: float) -> list[Asked]:
    return [one for one in asked if start_s <= one.at_s < end_s]


def _answered(fate: Fate, status: str, start_s: float, end_s: float) -> float:
    """Return how many a second were answered so in a time."""
    times = (one.at_s + one.took_s for one in fate.asked if one.status == status)
    return sum(start_s <= time < end_s for time in times) / (end_s - start_s)


def _last(samples: Iterable[Sample], start_s: float, end_s: float) -> Sample | None:
    within = [sample for sample in samples if start_s <= sample.at_s < end_s]
    return within[-1] if within else None


def timeline(fate: Fate) -> list[dict[str, float | None]]:
    """Return figures of equal parts of a load, each with the time at its end."""
    width_s = fate.seconds / BINS
    lines = []
    for number in range(BINS):
        start_s, end_s = number * width_s, (number + 1) * width_s
        sample = _last(fate.samples, start_s, end_s)
        lines.append(
            {
                "time_s": round(end_s, 3),
                "p90_s": p90(_within(fate.asked, start_s, end_s)),
                "accepted_per_s": _answered(fate, ACCEPTED, start_s, end_s),
                "refused_per_s": _answered(fate, REFUSED, start_s, end_s),
                "queue": sample.queue if sample else None,
                "threads": sample.threads if sample else None,
            }
        )
    return lines


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def summed_up(fate: Fate) -> dict[str, Any]:
    """Return the figures of a load, and its line of them as JSON."""
    kinds = Counter(one.status for one in fate.asked)
    errors = {kind: n for kind, n in kinds.items() if kind not in {ACCEPTED, REFUSED, ""}}
    start_s, requests = _SETTLED * fate.seconds, len(fate.asked)
    late = _within(fate.asked, start_s, fate.seconds)
    width_s = (fate.seconds - start_s) / _WINDOWS
    starts = [start_s + number * width_s for number in range(_WINDOWS)]
    percentiles = [p90(_within(fate.asked, start, start + width_s)) for start in starts]
    refusals = sorted(one.took_s for one in fate.asked if one.status == REFUSED)
    return {
        "requests": requests,
        "seconds": fate.seconds,
        "throughput_per_s": kinds[ACCEPTED] / fate.seconds,
        "errors": sum(errors.values()),
        "errors_by_kind": ", ".join(f"{kind}: {n}" for kind, n in errors.items()),
        "worst_p90_s": max((found for found in percentiles if found), default=None),
        "accepted_per_s": _answered(fate, ACCEPTED, start_s, fate.seconds),
        "refused_share": _share(sum(one.status == REFUSED for one in late), len(late)),
        "answered_share": _share(kinds[ACCEPTED] + kinds[REFUSED], requests),
        "refusal_p90_s": refusals[math.ceil(0.9 * len(refusals)) - 1] if refusals else None,
        "queue_most": max((sample.queue for sample in fate.samples), default=None),
        "threads_most": max((sample.threads for sample in fate.samples), default=None),
        "timeline": json.dumps(timeline(fate)),
    }
