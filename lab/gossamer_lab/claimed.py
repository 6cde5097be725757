"""What two runs of an experiment say of the same claims."""

from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from gossamer_lab.store import Run


@dataclass(frozen=True)
class Claimed:
    """A claim, with the figure that decides it and what became of it in each of the runs."""

    key: str
    claim: str
    figure: str
    before: float | None
    after: float | None
    verdict_before: str
    verdict_after: str
    because: str
    """Why the later verdict is what it is."""

    @property
    def ratio(self) -> float | None:
        """The later figure as a ratio to the earlier one, where there are both."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def differs(self) -> bool:
        """Whether the verdict is another one."""
        return self.verdict_before != self.verdict_after


def claimed(before: Run, after: Run) -> list[Claimed]:
    """Return the claims that both runs decide on."""
    known: dict[str, dict[str, Any]] = {found["key"]: found for found in before.results["verdicts"]}
    return [
        Claimed(
            later["key"],
            later["claim"],
            later["figure"],
            earlier["value"],
            later["value"],
            earlier["verdict"],
            later["verdict"],
            later["because"],
        )
        for later in after.results["verdicts"]
        if (earlier := known.get(later["key"]))
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}"


def show_claims(claims: list[Claimed], console: Console) -> None:
    """Print the figures that decide beside each other, and the verdicts that differ."""
    if not claims:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("the figure that decides a claim")
    for name in ("before", "after", "after / before"):
        table.add_column(name, justify="right")
    for claim in claims:
        ratio = "-" if claim.ratio is None else f"{claim.ratio:.3f}"
        table.add_row(claim.figure, _number(claim.before), _number(claim.after), ratio)
    console.print(table)
    for claim in claims:
        if claim.differs:
            console.print(
                f"{claim.claim}: {claim.verdict_before} before, {claim.verdict_after} after: "
                f"{claim.because}",
                style="yellow",
                markup=False,
            )
    if not any(claim.differs for claim in claims):
        console.print("No verdict differs.")
