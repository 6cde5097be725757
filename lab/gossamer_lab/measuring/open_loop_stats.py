"""Metrics of an open-loop load: of the whole load, and as a time series."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from gossamer_lab.measuring.open_loop import WAITING, LoadRecord, Request, Sample

_SETTLING_FRACTION = 0.5
"""Fraction of a load before its windows begin: 30 s of a minute."""
_WINDOWS = 3
"""Number of windows of the rest of a load: of 10 s each in a load of a minute."""
BINS = 30
"""Number of intervals of the time series."""
ACCEPTED, REJECTED = "200", "503"


def p90(requests: Iterable[Request]) -> float | None:
    """Return the 90th percentile of the response times; None if there are none.

    Requests without a response count with their wait so far.
    """
    times = sorted(one.duration_s for one in requests if one.status in {ACCEPTED, WAITING})
    return times[math.ceil(0.9 * len(times)) - 1] if times else None


def _within(requests: Iterable[Request], start_s: float, end_s: float) -> list[Request]:
    return [one for one in requests if start_s <= one.time_s < end_s]


def _rate(record: LoadRecord, status: str, start_s: float, end_s: float) -> float:
    """Return the rate of responses with this status in an interval."""
    times = (one.time_s + one.duration_s for one in record.requests if one.status == status)
    return sum(start_s <= time < end_s for time in times) / (end_s - start_s)


def _last(samples: Iterable[Sample], start_s: float, end_s: float) -> Sample | None:
    within = [sample for sample in samples if start_s <= sample.time_s < end_s]
    return within[-1] if within else None


def timeline(record: LoadRecord) -> list[dict[str, float | None]]:
    """Return the metrics of equal intervals of a load, each with the time of its end."""
    width_s = record.seconds / BINS
    lines = []
    for number in range(BINS):
        start_s, end_s = number * width_s, (number + 1) * width_s
        sample = _last(record.samples, start_s, end_s)
        lines.append(
            {
                "time_s": round(end_s, 3),
                "p90_s": p90(_within(record.requests, start_s, end_s)),
                "accepted_per_s": _rate(record, ACCEPTED, start_s, end_s),
                "rejected_per_s": _rate(record, REJECTED, start_s, end_s),
                "queue": sample.queue if sample else None,
                "threads": sample.threads if sample else None,
            }
        )
    return lines


def _has_no_answer(record: LoadRecord) -> Callable[[Request], bool]:
    """Return whether a request of the first half of a load got no response until its end."""

    def has_none(request: Request) -> bool:
        return request.status == WAITING and request.time_s < record.seconds / 2

    return has_none


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def summary(record: LoadRecord) -> dict[str, Any]:
    """Return the metrics of a load, with its time series as JSON."""
    kinds = Counter(one.status for one in record.requests)
    errors = {kind: n for kind, n in kinds.items() if kind not in {ACCEPTED, REJECTED, WAITING}}
    start_s, requests = _SETTLING_FRACTION * record.seconds, len(record.requests)
    late = _within(record.requests, start_s, record.seconds)
    width_s = (record.seconds - start_s) / _WINDOWS
    starts = [start_s + number * width_s for number in range(_WINDOWS)]
    percentiles = [p90(_within(record.requests, start, start + width_s)) for start in starts]
    rejections = sorted(one.duration_s for one in record.requests if one.status == REJECTED)
    return {
        "requests": requests,
        "seconds": record.seconds,
        "throughput_per_s": kinds[ACCEPTED] / record.seconds,
        "errors": sum(errors.values()),
        "errors_by_kind": ", ".join(f"{kind}: {n}" for kind, n in errors.items()),
        "worst_p90_s": max((found for found in percentiles if found), default=None),
        "accepted_per_s": _rate(record, ACCEPTED, start_s, record.seconds),
        "rejected_share": _share(sum(one.status == REJECTED for one in late), len(late)),
        "unanswered": sum(errors.values()) + sum(map(_has_no_answer(record), record.requests)),
        "invalid": record.invalid or None,
        "rejection_p90_s": rejections[math.ceil(0.9 * len(rejections)) - 1] if rejections else None,
        "max_queue": max((sample.queue for sample in record.samples), default=None),
        "max_threads": max((sample.threads for sample in record.samples), default=None),
        "timeline": json.dumps(timeline(record)),
    }
