"""What the hosts of one load report, as one report."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hdrh.histogram import HdrHistogram

from gossamer_lab.hosts import histograms

Json = dict[str, Any]

_SUMS = ("requests", "throughput_per_s", "bytes_per_s", "offered_load", "measured_load")
_KINDS = ("response", "connect", "first_byte")
_WAITING = ("waiting_to_connect", "waiting_for_answer")
_OF_HOST = ("requests", "seconds", "throughput_per_s", "offered_load", "measured_load")


def _times(of_hosts: Sequence[Json], whole: HdrHistogram) -> Json:
    """Return mean and maximum, which are exact, and the quantiles of all hosts together."""
    count = sum(times["count"] for times in of_hosts)
    total = sum(times["mean"] * times["count"] for times in of_hosts)
    most = max(times["max"] for times in of_hosts)
    exact = {"count": count, "mean": total / count if count else 0.0, "max": most}
    return exact | histograms.quantiles_us(whole)


def _cut_off(of_hosts: Sequence[Json]) -> Json:
    """Return how many requests the end cut off, and the longest wait."""
    return {
        "count": sum(waiting["count"] for waiting in of_hosts),
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
        f"{kind}_us": _times([report[f"{kind}_us"] for report in reports], total[kind])
        for kind in _KINDS
    }
    report |= {name: _cut_off([report[name] for report in reports]) for name in _WAITING}
    return report | {
        "errors": dict(errors),
        "seconds": max(report["seconds"] for report in reports),
        "hosts": [host_row(result) for result in results],
    }, log


def host_row(result: Json) -> Json:
    """Return the figures of one host."""
    report = result["report"]
    row = {"host": result["host"], "began_s": result["began_s"]}
    row |= {name: report[name] for name in _OF_HOST}
    row["errors"] = sum(report["errors"].values())
    for kind in _KINDS:
        times = {name: us for name, us in report[f"{kind}_us"].items() if name != "saturated"}
        row |= {f"{kind}_{name}_us": us for name, us in times.items() if name != "count"}
    return row


def unpacked(result: Json) -> Json:
    """Return what a host has sent with its report read; None if it has left none."""
    try:
        report = json.loads(result["report"])
    except ValueError:
        report = None
    return result | {"report": report}
