"""Compares the verdicts of two runs of an experiment on the same claims."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from gossamer_lab.report.table import number
from gossamer_lab.store import Run


@dataclass(frozen=True)
class ClaimComparison:
    """A claim, with its quantity and verdict in each of the two runs."""

    key: str
    claim: str
    quantity: str
    before: float | None
    after: float | None
    verdict_before: str
    verdict_after: str
    reason: str
    """The reason for the later verdict."""

    @property
    def ratio(self) -> float | None:
        """The later value as a ratio to the earlier one, if there are both."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def verdict_changed(self) -> bool:
        """Whether the verdicts differ."""
        return self.verdict_before != self.verdict_after


def compare_claims(before: Run, after: Run) -> list[ClaimComparison]:
    """Return the claims that both runs have a verdict on."""
    known: dict[str, dict[str, Any]] = {found["key"]: found for found in before.results["verdicts"]}
    return [
        ClaimComparison(
            later["key"],
            later["claim"],
            later["quantity"],
            earlier["value"],
            later["value"],
            earlier["verdict"],
            later["verdict"],
            later["reason"],
        )
        for later in after.results["verdicts"]
        if (earlier := known.get(later["key"]))
    ]


def show_claims(claims: list[ClaimComparison], console: Console) -> None:
    """Print the quantities of both runs side by side, and the verdicts that differ."""
    if not claims:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("quantity")
    for name in ("before", "after", "after / before"):
        table.add_column(name, justify="right")
    for claim in claims:
        ratio = "-" if claim.ratio is None else f"{claim.ratio:.3f}"
        table.add_row(claim.quantity, number(claim.before), number(claim.after), ratio)
    console.print(table)
    for claim in claims:
        if claim.verdict_changed:
            console.print(
                f"{claim.claim}: {claim.verdict_before} before, {claim.verdict_after} after: "
                f"{claim.reason}",
                style="yellow",
                markup=False,
            )
    if not any(claim.verdict_changed for claim in claims):
        console.print("No verdict differs.")
