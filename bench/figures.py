"""Rows of a benchmark: what was measured, and the ratios that have a limit."""

import argparse
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def options(summary: str) -> argparse.ArgumentParser:
    """Return a parser of the options that every program of bench/ has, for some of its own."""
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each subject")
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="length of one measurement"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="just figures that hold TEXT")
    return parser


def arguments(summary: str) -> argparse.Namespace:
    """Read the options that every program of bench/ has."""
    return options(summary).parse_args()


@dataclass
class Figures:
    """All rows of a run; samples of the same name and subject are summed up by their median.

    Costs are summed up by the least of them: what else the machine does only ever adds to a cost.
    """

    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    costs: set[str] = field(default_factory=set)
    absent: list[dict[str, Any]] = field(default_factory=list)
    ratios: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, subject: str, value: float, unit: str) -> None:
        """Add one measurement."""
        self.samples.setdefault((name, subject), []).append(value)
        self.units[name] = unit

    def add_cost(self, name: str, subject: str, value: float, unit: str) -> None:
        """Add one measurement of what something costs."""
        self.costs.add(name)
        self.add(name, subject, value, unit)

    def miss(self, name: str, subject: str, reason: str) -> None:
        """Note that a subject could not be measured."""
        row = {"name": name, "subject": subject, "value": None, "unit": "", "reason": reason}
        if row not in self.absent:
            self.absent.append(row)

    def value(self, name: str, subject: str) -> float | None:
        """Return what a subject's measurements are summed up to; None if there are none."""
        found = self.samples.get((name, subject))
        if not found:
            return None
        return min(found) if name in self.costs else statistics.median(found)

    def limit(self, name: str, ours: str, against: tuple[str, ...], limit: float) -> None:
        """Compare ours with the best, that is smallest, of others; without any it is not met."""
        label = f"{name}: {ours} / {'best of ' if len(against) > 1 else ''}{', '.join(against)}"
        value = self.value(name, ours)
        others = [found for other in against if (found := self.value(name, other))]
        row: dict[str, Any] = {"name": label, "ratio": None, "limit": limit, "ok": False}
        if value is None or not others:
            row["reason"] = f"not measured: {ours if value is None else ', '.join(against)}"
        else:
            row["ratio"] = round(value / min(others), 4)
            row["ok"] = value / min(others) <= limit
        self.ratios.append(row)

    def rows(self) -> list[dict[str, Any]]:
        """Return everything that was measured, what was missed, then the ratios."""
        values = [
            {
                "name": name,
                "subject": subject,
                "value": round(self.value(name, subject) or 0.0, 4),
                "unit": self.units[name],
                "all": [round(value, 4) for value in found],
            }
            for (name, subject), found in self.samples.items()
        ]
        return [*values, *self.absent, *self.ratios]

    def print_table(self) -> None:
        """Print a table of subjects by figures, then the ratios with their limits."""
        subjects = list(dict.fromkeys(subject for _, subject in self.samples))
        names = list(dict.fromkeys(name for name, _ in self.samples))
        width = max(map(len, names), default=0)
        print(f"{'':{width}}  " + " ".join(f"{subject:>10}" for subject in subjects))
        for name in names:
            cells = [self.value(name, subject) for subject in subjects]
            texts = " ".join(f"{'-' if cell is None else f'{cell:.2f}':>10}" for cell in cells)
            print(f"{name:{width}}  {texts}  {self.units[name]}")
        print()
        for row in self.ratios:
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
            verdict = "ok" if row["ok"] else "NOT REACHED"
            print(f"{ratio:>7} of {row['limit']:.2f}  {verdict:12} {row['name']}")

    def finish(self, path: Path | None) -> int:
        """Print all, write the rows, and return the exit status: 1 if a limit is not kept."""
        self.print_table()
        for row in self.absent:
            print(f"missing: {row['name']} of {row['subject']}: {row['reason']}")
        if path:
            path.write_text(json.dumps(self.rows(), indent=1) + "\n")
        return 0 if all(row["ok"] for row in self.ratios) else 1
