"""Whether a measurement is valid: it must not be limited by anything but the server."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from gossamer_lab.experiments.manifest import Experiment, Point, ValidityRules

MAX_CLIENT_BUSY = 0.95
"""Share of its core above which the load generator was the limit, in experiments about throughput.

What other processes used of that core counts too: the generator could not have had it.
"""
MIN_CPU_SHARE = 0.95
"""Minimum of what a server could get of its core under a CPU limit, relative to what it was to get.

It is the share of the core's time that the server and the limiter had together: the limiter is
always busy, and what neither used went to other processes or guests. Without a limit, others may
have the same share of the core's time at most.
"""


def load_share(row: Mapping[str, Any], connections: int) -> float:
    """Return the measured load as a share of its maximum in a run of that length.

    Measured load is n * tr / t (Kerneis and Chroboczek 2009). It excludes the requests that the end
    of the run cuts off: one for each connection, half complete on average.
    """
    half_s = (row["response_mean_us"] + (row.get("connect_mean_us") or 0)) / 2e6
    maximum = connections * max(1 - half_s / row["seconds"], 0.5)
    return float(row["measured_load"]) / maximum


def _others_beside_server(row: Mapping[str, Any]) -> float:
    """Return the share of the server's core that neither it nor its limiter had."""
    both = row.get("core_share_of_both")
    return (row.get("server_core_interference") or 0.0) if both is None else 1.0 - float(both)


def _short_load(row: Mapping[str, Any], point: Point, rule: ValidityRules) -> str | None:
    """Return whether something delayed requests, such as a full accept queue."""
    if not point.think_ms and load_share(row, point.connections) < rule.min_load_share:
        return "the measured load fell short of the offered load"
    return None


def _limited_by_other(row: Mapping[str, Any], point: Point, rule: ValidityRules) -> str | None:
    """Return what limited the requests of a load, None if it was the server."""
    others = row.get("client_core_interference") or 0.0
    if row["client_busy"] > MAX_CLIENT_BUSY:
        return "the client was the limit"
    if row["client_busy"] + others > MAX_CLIENT_BUSY:
        return f"the client was the limit: other processes used {others:.0%} of its core"
    if _others_beside_server(row) > 1 - MIN_CPU_SHARE:
        return f"other processes used {_others_beside_server(row):.0%} of the server's core"
    return None if row["server"] in rule.exempt else _short_load(row, point, rule)


def _connections_only_wait(row: Mapping[str, Any], point: Point) -> bool:
    """Return whether clients think for longer than the load: its memory is measured, not speed."""
    return point.think_ms >= 1000 * float(row["seconds"])


def invalid_reason(row: Mapping[str, Any], point: Point, rule: ValidityRules | None) -> str | None:
    """Return why a measurement is invalid, None if it is valid."""
    if rule is None:
        return None
    if not row["response_mean_us"]:
        return "invalid: too few responses"
    if row["errors"] and row["server"] not in rule.may_fail:
        return f"invalid: {row['errors']} requests failed ({row['errors_by_kind']})"
    if _connections_only_wait(row, point):
        return None
    limit = _limited_by_other(row, point, rule)
    return f"invalid: {limit}" if limit else None


def judged_anew(raw: pl.DataFrame, experiment: Experiment) -> pl.DataFrame:
    """Return stored rows with the experiment's present rules applied to the closed loads.

    What has no metrics, because it failed or its client hosts died, stays as it is.
    """
    rule = experiment.validity_rules
    loads = {point.key: point for point in experiment.points if isinstance(point, Point)}
    if rule is None or "invalid" not in raw.columns:
        return raw

    def reason(row: Mapping[str, Any]) -> str | None:
        point = loads.get(row["point"])
        if point is None or row["failure"] or row["requests"] is None:
            return str(row["invalid"]) if row["invalid"] else None
        return invalid_reason(row, point, rule)

    reasons = [reason(row) for row in raw.iter_rows(named=True)]
    return raw.with_columns(pl.Series("invalid", reasons, dtype=pl.String))
