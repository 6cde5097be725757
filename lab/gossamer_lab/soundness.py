"""Whether a measurement says something of the server."""

from collections.abc import Mapping
from typing import Any

from gossamer_lab.experiment import Point, Soundness


def load_share(row: Mapping[str, Any], connections: int) -> float:
    """Return the measured load as a share of what it can be at the most in a run of that length.

    Measured load is n * tr / t (Kerneis and Chroboczek 2009). It leaves out the requests that are
    cut off by the end, half done in the mean, one for each connection.
    """
    half_s = (row["response_mean_us"] + (row.get("connect_mean_us") or 0)) / 2e6
    whole = connections * max(1 - half_s / row["seconds"], 0.5)
    return float(row["measured_load"]) / whole


def void_reason(row: Mapping[str, Any], point: Point, rule: Soundness | None) -> str | None:
    """Return why a measurement is void, None if it is not."""
    if rule is None:
        return None
    if not row["response_mean_us"]:
        return "void: too few requests were answered"
    if row["errors"] and not rule.forgives_errors:
        return f"void: {row['errors']} requests failed ({row['errors_by_kind']})"
    if row["client_busy"] > rule.most_client:
        return "void: the client was the limit"
    share = load_share(row, point.connections)
    if row["server"] not in rule.spared and not point.think_ms and share < rule.least_load:
        return "void: the measured load fell short of the offered load"
    return None
