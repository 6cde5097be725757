"""User-level threads beside State Threads, Pth, Boost and kernel threads: switch, spawn, memory."""

import subprocess
import sys
from pathlib import Path

from figures import Figures, arguments

# Figure, its label, unit, and the subjects that have it.
FIGURES = (
    ("switch", "switch", "ns", ("ours", "context", "fiber", "pth", "kernel")),
    ("switch2", "switch, two workers", "ns", ("ours",)),
    ("condition", "condition", "ns", ("ours", "st")),
    ("spawn", "spawn and join", "ns", ("ours", "st", "fiber", "pth", "kernel")),
    ("mutex", "mutex", "ns", ("ours",)),
    ("mutex2", "mutex, two workers", "ns", ("ours", "exchange")),
)
COUNTS = (10_000, 100_000, 1_000_000)
PACKAGES = {
    "st": "libst-dev",
    "pth": "libpth-dev",
    "context": "libboost-context-dev",
    "fiber": "libboost-fiber-dev",
}
FOLDER = Path(__file__).resolve().parent.parent / "build/release/bench/threads"
CORE = "1"


def measure(figures: Figures, subject: str, words: tuple[str, ...], label: str, unit: str) -> None:
    """Run a subject's program for one figure."""
    if subject == "exchange":
        program, words = FOLDER / "ours", ("exchange",)
    else:
        program = FOLDER / subject
    if not program.exists():
        figures.miss(label, subject, f"not built: install {PACKAGES.get(subject, 'what it needs')}")
        return
    command = ["taskset", "-c", CORE, str(program), *words]
    if words[0].endswith("2"):
        command = [str(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        figures.miss(label, subject, f"status {done.returncode}: {done.stderr.strip()}")
        return
    figures.add(label, subject, float(done.stdout), unit)


def measure_all(figures: Figures, only: str) -> None:
    """Measure every figure once, each subject right after the other."""
    for figure, label, unit, subjects in FIGURES:
        for subject in subjects if only in label else ():
            measure(figures, subject, (figure,), label, unit)


def measure_many(figures: Figures, count: int, only: str) -> None:
    """Measure so many threads at once."""
    labels = (
        ("memory", f"memory of {count}", "bytes"),
        ("tables", f"page tables of {count}", "bytes"),
        ("create", f"create {count}", "ns"),
    )
    for figure, label, unit in labels:
        for subject in ("ours", "st") if only in label else ():
            measure(figures, subject, (figure, str(count)), label, unit)
    figures.add(f"memory of {count}", "allowed", 4.3 * 1024, "bytes")


def compare(figures: Figures) -> None:
    """Add the ratios that have a limit."""
    figures.limit("switch", "ours", ("context",), 1.5)
    figures.limit("condition", "ours", ("st",), 1.0)
    figures.limit("spawn and join", "ours", ("st",), 0.5)
    figures.limit("mutex, two workers", "ours", ("exchange",), 1.1)
    for count in COUNTS:
        figures.limit(f"memory of {count}", "ours", ("allowed",), 1.0)
    figures.limit(f"create {COUNTS[-1]}", "ours", ("st",), 1.0)


def main() -> int:
    """Measure everything, interleaved."""
    options = arguments(__doc__ or "")
    figures = Figures()
    for _ in range(options.rounds):
        measure_all(figures, options.only)
    for count in COUNTS:
        measure_many(figures, count, options.only)
    compare(figures)
    return figures.finish(Path(options.json) if options.json else None)


if __name__ == "__main__":
    sys.exit(main())
