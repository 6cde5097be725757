"""How many rounds a run has: more than the least where the machine is restless.

What stops it is how well costs are known, never what they say of a claim: to go on until a claim is
decided would decide it too often.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gossamer_lab.plan import Plan
from gossamer_lab.precision import precision
from gossamer_lab.store import raw_frame

PRECISE = 0.006
"""How well costs have to be known: a relative standard error, as precision.py has it."""


def _in_each(plan: Plan) -> int:
    """Return how many measurements a round has."""
    return len(plan.steps) // plan.most_rounds


def among(plan: Plan, steps: int) -> int:
    """Return how many rounds so many of the steps are."""
    return steps // _in_each(plan)


def needed(plan: Plan, rows: Sequence[dict[str, Any]]) -> int:
    """Return how many measurements a run needs, as far as is known after the first of them."""
    each = _in_each(plan)
    complete, begun = divmod(len(rows), each)
    if complete < plan.least_rounds:
        return plan.least_rounds * each
    if begun or complete >= plan.most_rounds:
        return (complete + bool(begun)) * each
    error = precision(raw_frame(list(rows)))
    return len(rows) if error is None or error <= PRECISE else len(rows) + each


def has_as_many_rounds_as_it_takes(method: Mapping[str, Any]) -> bool:
    """Return whether a run that was made like this had more rounds where it needed them."""
    return bool(method.get("most_rounds", 0) > method.get("least_rounds", 0))
