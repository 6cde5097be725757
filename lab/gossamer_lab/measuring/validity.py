"""Whether a measurement is valid: it must not be limited by anything but the server."""

from collections.abc import Mapping
from typing import Any

from gossamer_lab.experiments.manifest import Point, ValidityRules

MAX_CLIENT_BUSY = 0.95
"""Share of its core above which the load generator was the limit, in every experiment."""
MIN_CPU_SHARE = 0.95
"""Minimum of what a limited server got of its core, relative to what it was to get."""


def load_share(row: Mapping[str, Any], connections: int) -> float:
    """Return the measured load as a share of its maximum in a run of that length.

    Measured load is n * tr / t (Kerneis and Chroboczek 2009). It excludes the requests that the end
    of the run cuts off: one for each connection, half complete on average.
    """
    half_s = (row["response_mean_us"] + (row.get("connect_mean_us") or 0)) / 2e6
    maximum = connections * max(1 - half_s / row["seconds"], 0.5)
    return float(row["measured_load"]) / maximum


def _is_short_of_cpu(row: Mapping[str, Any], point: Point) -> bool:
    """Return whether a server that was always busy got less of its core than it was to get."""
    wanted, got = row.get("server_cpu_share"), row.get("server_cpu_share_got")
    if not point.is_saturating or point.think_ms or not wanted or got is None:
        return False
    return bool(got < MIN_CPU_SHARE * wanted)


def _limited_by_other(row: Mapping[str, Any], point: Point, rule: ValidityRules) -> str | None:
    """Return what limited the requests of a load, None if it was the server."""
    if row["client_busy"] > MAX_CLIENT_BUSY:
        return "the client was the limit"
    if row["server"] in rule.exempt:
        return None
    if not point.think_ms and load_share(row, point.connections) < rule.min_load_share:
        return "the measured load fell short of the offered load"
    if _is_short_of_cpu(row, point):
        got, wanted = row["server_cpu_share_got"], row["server_cpu_share"]
        return f"the server got {got:.0%} of its core, not {wanted:.0%}"
    return None


def invalid_reason(row: Mapping[str, Any], point: Point, rule: ValidityRules | None) -> str | None:
    """Return why a measurement is invalid, None if it is valid."""
    if rule is None:
        return None
    if not row["response_mean_us"]:
        return "invalid: too few responses"
    if row["errors"] and row["server"] not in rule.may_fail:
        return f"invalid: {row['errors']} requests failed ({row['errors_by_kind']})"
    limit = _limited_by_other(row, point, rule)
    return f"invalid: {limit}" if limit else None
