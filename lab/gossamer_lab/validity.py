"""Whether a measurement is valid: it must not be limited by anything but the server."""

from collections.abc import Mapping
from typing import Any

from gossamer_lab.experiment import Point, ValidityRules


def load_share(row: Mapping[str, Any], connections: int) -> float:
    """Return the measured load as a share of its maximum in a run of that length.

    Measured load is n * tr / t (Kerneis and Chroboczek 2009). It excludes the requests that the end
    of the run cuts off: one for each connection, half complete on average.
    """
    half_s = (row["response_mean_us"] + (row.get("connect_mean_us") or 0)) / 2e6
    maximum = connections * max(1 - half_s / row["seconds"], 0.5)
    return float(row["measured_load"]) / maximum


def invalid_reason(row: Mapping[str, Any], point: Point, rule: ValidityRules | None) -> str | None:
    """Return why a measurement is invalid, None if it is valid."""
    if rule is None:
        return None
    if not row["response_mean_us"]:
        return "invalid: too few responses"
    if row["errors"] and not rule.tolerates_errors:
        return f"invalid: {row['errors']} requests failed ({row['errors_by_kind']})"
    if row["client_busy"] > rule.max_client_busy:
        return "invalid: the client was the limit"
    share = load_share(row, point.connections)
    if row["server"] not in rule.exempt and not point.think_ms and share < rule.min_load_share:
        return "invalid: the measured load fell short of the offered load"
    return None
