"""Claims, as data: the rule that decides each is fixed before anything is measured."""

import math
from dataclasses import dataclass

from gossamer_lab.claims.quantities import Quantity


def plain(value: float) -> str:
    """Return a number without an exponent: 1,000,000 or 0.05."""
    if math.isinf(value):
        return "unlimited"
    whole = f"{value:,.0f}"
    return whole if abs(value) >= 1000 or value == int(value) else f"{value:.6f}".rstrip("0")


@dataclass(frozen=True)
class Claim:
    """A claim: its source, what was published, and the range that decides."""

    key: str
    text: str
    section: str
    """Place in the document."""
    published: str
    """What the document says; empty for a claim of ours."""
    quantity: Quantity
    holds_from: float = -math.inf
    holds_to: float = math.inf
    reading: str = ""
    """Our reading of what the document says without a number, or of a condition that differs."""

    @property
    def is_ours(self) -> bool:
        """Whether the claim is ours, not the document's."""
        return not self.published

    @property
    def range_text(self) -> str:
        """The range in words."""
        low, high = self.holds_from, self.holds_to
        if math.isinf(low):
            return f"at most {plain(high)}"
        if math.isinf(high):
            return f"at least {plain(low)}"
        return f"from {plain(low)} to {plain(high)}"

    @property
    def rule(self) -> str:
        """The rule in words."""
        return (
            f"holds if the whole 95 % interval of {self.quantity.description} is "
            f"{self.range_text}; does not hold if the whole interval is outside"
        )
