"""Merges the reports of the hosts of one load into one report."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hdrh.histogram import HdrHistogram

from gossamer_lab.hosts import histograms

Json = dict[str, Any]

_SUMS = ("requests", "throughput_per_s", "bytes_per_s", "offered_load", "measured_load")
_KINDS = ("response", "connect", "first_byte", "total")
_WAITING = ("waiting_to_connect", "waiting_for_response")
_HOST_METRICS = ("requests", "seconds", "throughput_per_s", "offered_load", "measured_load")


def _merged_times(of_hosts: Sequence[Json], merged_histogram: HdrHistogram) -> Json:
    """Return mean and maximum, which are exact, and the quantiles of all hosts together."""
    count = sum(times["count"] for times in of_hosts)
    total = sum(times["mean"] * times["count"] for times in of_hosts)
    maximum = max(times["max"] for times in of_hosts)
    exact = {"count": count, "mean": total / count if count else 0.0, "max": maximum}
    return exact | histograms.quantiles_us(merged_histogram)


def _unfinished(of_hosts: Sequence[Json]) -> Json:
    """Return how many requests the end cut off, and the mean and the longest wait."""
    count = sum(waiting["count"] for waiting in of_hosts)
    waited_us = sum(waiting["count"] * waiting["mean_us"] for waiting in of_hosts)
    return {
        "count": count,
        "mean_us": waited_us / count if count else 0.0,
        "longest_us": max(waiting["longest_us"] for waiting in of_hosts),
    }


def merged(results: Sequence[Json]) -> tuple[Json, str]:
    """Return the report of all hosts together, and their histograms as one log."""
    reports = [result["report"] for result in results]
    total, log = histograms.merged(result["log"] for result in results)
    errors: Counter[str] = Counter()
    for report in reports:
        errors.update(report["errors"])
    report = {name: sum(report[name] for report in reports) for name in _SUMS}
    report |= {
        f"{kind}_us": _merged_times([report[f"{kind}_us"] for report in reports], total[kind])
        for kind in _KINDS
    }
    report |= {name: _unfinished([report[name] for report in reports]) for name in _WAITING}
    return report | {
        "errors": dict(errors),
        "seconds": max(report["seconds"] for report in reports),
        "hosts": [host_row(result) for result in results],
    }, log


def host_row(result: Json) -> Json:
    """Return the metrics of one host."""
    report = result["report"]
    row = {"host": result["host"], "began_s": result["began_s"]}
    row |= {name: report[name] for name in _HOST_METRICS}
    row["errors"] = sum(report["errors"].values())
    for kind in _KINDS:
        times = {name: us for name, us in report[f"{kind}_us"].items() if name != "saturated"}
        row |= {f"{kind}_{name}_us": us for name, us in times.items() if name != "count"}
    return row


def parsed(result: Json) -> Json:
    """Return a host's result with its report parsed; None if it has none."""
    try:
        report = json.loads(result["report"])
    except ValueError:
        report = None
    return result | {"report": report}
