"""The results of a benchmark: measurements, and ratios with a limit."""

import argparse
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def options(summary: str) -> argparse.ArgumentParser:
    """Return a parser of the common options of all benchmarks; a benchmark can add others."""
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument(
        "--rounds", type=int, default=3, metavar="N", help="measurements of each subject"
    )
    parser.add_argument(
        "--seconds", type=float, default=2.0, metavar="S", help="length of one measurement"
    )
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only measurements whose name contains TEXT"
    )
    return parser


def arguments(summary: str) -> argparse.Namespace:
    """Parse the common options of all benchmarks."""
    return options(summary).parse_args()


@dataclass
class Results:
    """All results of a run; the samples of one name and subject are summarized by their median.

    Costs are summarized by their minimum, since other work of the machine can only increase a
    cost.
    """

    samples: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    costs: set[str] = field(default_factory=set)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    ratios: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, subject: str, value: float, unit: str) -> None:
        """Add one measurement."""
        self.samples.setdefault((name, subject), []).append(value)
        self.units[name] = unit

    def add_cost(self, name: str, subject: str, value: float, unit: str) -> None:
        """Add one measurement of a cost."""
        self.costs.add(name)
        self.add(name, subject, value, unit)

    def skip(self, name: str, subject: str, reason: str) -> None:
        """Record that a subject could not be measured."""
        row = {"name": name, "subject": subject, "value": None, "unit": "", "reason": reason}
        if row not in self.skipped:
            self.skipped.append(row)

    def summary(self, name: str, subject: str) -> float | None:
        """Return the summary of a subject's measurements; None if there are none."""
        found = self.samples.get((name, subject))
        if not found:
            return None
        return min(found) if name in self.costs else statistics.median(found)

    def limit(self, name: str, ours: str, against: tuple[str, ...], limit: float) -> None:
        """Limit the ratio of ours to the smallest of others; it is not met without measurements."""
        label = f"{name}: {ours} / {'best of ' if len(against) > 1 else ''}{', '.join(against)}"
        value = self.summary(name, ours)
        others = [found for other in against if (found := self.summary(name, other))]
        row: dict[str, Any] = {"name": label, "ratio": None, "limit": limit, "ok": False}
        if value is None or not others:
            row["reason"] = f"not measured: {ours if value is None else ', '.join(against)}"
        else:
            row["ratio"] = round(value / min(others), 4)
            row["ok"] = value / min(others) <= limit
        self.ratios.append(row)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows: measurements, skipped subjects, ratios."""
        values = [
            {
                "name": name,
                "subject": subject,
                "value": round(self.summary(name, subject) or 0.0, 4),
                "unit": self.units[name],
                "all": [round(value, 4) for value in found],
            }
            for (name, subject), found in self.samples.items()
        ]
        return [*values, *self.skipped, *self.ratios]

    def print_table(self) -> None:
        """Print a table of the measurements of all subjects, and the ratios with their limits."""
        subjects = list(dict.fromkeys(subject for _, subject in self.samples))
        names = list(dict.fromkeys(name for name, _ in self.samples))
        width = max(map(len, names), default=0)
        print(f"{'':{width}}  " + " ".join(f"{subject:>10}" for subject in subjects))
        for name in names:
            cells = [self.summary(name, subject) for subject in subjects]
            texts = " ".join(f"{'-' if cell is None else f'{cell:.2f}':>10}" for cell in cells)
            print(f"{name:{width}}  {texts}  {self.units[name]}")
        print()
        for row in self.ratios:
            ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
            verdict = "ok" if row["ok"] else "NOT MET"
            print(f"{ratio:>7} of {row['limit']:.2f}  {verdict:12} {row['name']}")

    def finish(self, path: Path | None) -> int:
        """Print and write all results; return the exit status: 1 if a limit is not met."""
        self.print_table()
        for row in self.skipped:
            print(f"skipped: {row['name']} of {row['subject']}: {row['reason']}")
        if path:
            path.write_text(json.dumps(self.rows(), indent=1) + "\n")
        return 0 if all(row["ok"] for row in self.ratios) else 1
