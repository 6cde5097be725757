"""Number of rounds of a run: more than the minimum on a noisy machine.

The stopping rule depends on the precision of the costs, never on a claim: stopping when a claim is
decided would inflate the rate of false decisions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gossamer_lab.plan import Plan
from gossamer_lab.precision import precision
from gossamer_lab.store import raw_frame

TARGET_PRECISION = 0.006
"""Relative standard error at which a run stops, as precision.py computes it."""


def _measurements_per_round(plan: Plan) -> int:
    """Return the number of measurements in a round."""
    return len(plan.steps) // plan.max_rounds


def complete_rounds(plan: Plan, steps: int) -> int:
    """Return how many rounds this many steps are."""
    return steps // _measurements_per_round(plan)


def required(plan: Plan, rows: Sequence[dict[str, Any]]) -> int:
    """Return how many measurements a run needs, as far as is known after the first of them."""
    each = _measurements_per_round(plan)
    complete, begun = divmod(len(rows), each)
    if complete < plan.min_rounds:
        return plan.min_rounds * each
    if begun or complete >= plan.max_rounds:
        return (complete + bool(begun)) * each
    error = precision(raw_frame(list(rows)))
    return len(rows) if error is None or error <= TARGET_PRECISION else len(rows) + each


def has_adaptive_rounds(method: Mapping[str, Any]) -> bool:
    """Return whether a run with this method could add rounds to reach its target precision."""
    return bool(method.get("max_rounds", 0) > method.get("min_rounds", 0))
