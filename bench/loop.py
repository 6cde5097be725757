"""The event loop beside libev, libevent, libuv and bare epoll: the benchmark of libev's authors.

N socket pairs with a watcher each, all stopped and started again before each round, A of them
active: total, setup and poll time of the second round, the least of six runs; with and without
timeouts. Then timers, wake-ups, signals, quiet watchers and memory.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from figures import Figures, options

FOLDER = Path(__file__).resolve().parent.parent / "build/release/bench/loops"
CORE = "1"
RUNS = 6
LACKS = 3
PACKAGES = {"libev": "libev-dev", "libevent": "libevent-dev", "libuv": "libuv1-dev"}
# Label, program, and how it says that a watcher is stopped and started again. "set": with the
# descriptor set anew between, which each library has to verify with the kernel.
SUBJECTS = (
    ("ours", "ours", "again"),
    ("ours, set", "ours", "anew"),
    ("libev", "libev", "again"),
    ("libev, set", "libev", "anew"),
    ("libevent", "libevent", "again"),
    ("changelist", "libevent", "changelist"),
    ("libuv", "libuv", "again"),
    ("bare", "bare", "again"),
    ("bare, MOD", "bare", "anew"),
)
LIBRARIES = ("ours", "libev", "libevent", "libuv")
# Of the second iteration, as libev's authors measured; and the least of some later ones, when the
# kernel's own memory has settled.
PARTS = ("total", "setup", "poll")
LATER_PARTS = ("later total", "later setup", "later poll")
TIMERS = (1_000, 100_000, 1_000_000)
TIMER_PARTS = ("add", "re-arm", "expire")
SPARE_DESCRIPTORS = 100
MOST_PAIRS = 9_900


def most_pairs() -> int:
    """Return how many pairs the limit of descriptors allows."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return min(MOST_PAIRS, (limit - SPARE_DESCRIPTORS) // 2)


def pinned() -> list[str]:
    """Return the words before a program that has a core of its own, and real-time priority."""
    first = ["taskset", "-c", CORE] if (os.cpu_count() or 1) > int(CORE) else []
    realtime = ["chrt", "-f", "1"]
    if shutil.which("chrt"):
        probe = subprocess.run([*realtime, "true"], capture_output=True, check=False)
        return [*realtime, *first] if not probe.returncode else first
    return first


class Bench:
    """Runs the programs, and keeps the least of what each measures."""

    def __init__(self, folder: Path, only: str) -> None:
        """Know where the programs are, and which figures are wanted."""
        self.folder = folder
        self.only = only
        self.prefix = pinned()
        self.least: dict[tuple[str, str], tuple[float, str]] = {}
        self.figures = Figures()

    def _numbers(self, label: str, name: str, program: str, words: list[str]) -> list[float]:
        path = self.folder / program
        if not path.exists():
            package = PACKAGES.get(program, "what it needs")
            self.figures.miss(name, label, f"not built: install {package}")
            return []
        prefix = [] if words[0] == "wake" else self.prefix
        done = subprocess.run(
            [*prefix, str(path), *words], capture_output=True, text=True, check=False
        )
        if done.returncode == LACKS:
            self.figures.miss(name, label, "it has no such thing")
        elif done.returncode:
            reason = f"status {done.returncode}: {done.stderr.strip()}"
            self.figures.miss(name, label, reason)
        return [float(number) for number in done.stdout.split()] if not done.returncode else []

    def run(self, label: str, program: str, words: list[str], names: list[tuple[str, str]]) -> None:
        """Run a program that prints a number for each (name, unit)."""
        if not any(self.only in name for name, _ in names):
            return
        numbers = self._numbers(label, names[0][0], program, words)
        for (name, unit), number in zip(names, numbers, strict=False):
            before = self.least.get((name, label))
            if before is None or number < before[0]:
                self.least[name, label] = (number, unit)

    def quiet_cost(self, most: int) -> None:
        """Work out what one more quiet watcher adds to an iteration."""
        for subject in (*LIBRARIES, "bare"):
            few = self.least.get(("iteration, 100 quiet", subject))
            many = self.least.get((f"iteration, {most} quiet", subject))
            if few and many and most > 100:
                cost = (many[0] - few[0]) / (most - 100)
                self.least["each quiet watcher", subject] = (cost, "ns")

    def collect(self) -> None:
        """Hand the least of each to the figures."""
        for (name, label), (number, unit) in self.least.items():
            self.figures.add(name, label, number, unit)


def configurations(most: int) -> Iterator[tuple[int, int, bool]]:
    """Yield pairs, active ones, and whether there are timeouts."""
    for pairs in dict.fromkeys((100, 1000, most)):
        for active in (100, 1000):
            if active <= pairs:
                yield pairs, active, False
                yield pairs, active, True


def name_of(part: str, pairs: int, active: int, has_timeouts: bool) -> str:
    """Name a figure of the pairs."""
    return f"{part} {pairs}/{active}{' timeouts' if has_timeouts else ''}"


def measure_pairs(bench: Bench, most: int) -> None:
    """Run every subject once in every configuration."""
    for pairs, active, has_timeouts in configurations(most):
        names = [
            (name_of(part, pairs, active, has_timeouts), "us") for part in (*PARTS, *LATER_PARTS)
        ]
        for label, program, way in SUBJECTS:
            if program == "bare" and has_timeouts:
                continue
            words = ["pairs", way, str(pairs), str(active), str(int(has_timeouts))]
            bench.run(label, program, words, names)


def measure_rest(bench: Bench, most: int) -> None:
    """Measure what else a loop does."""
    for subject in LIBRARIES:
        for count in TIMERS:
            names = [(f"{part} {count} timers", "ns") for part in TIMER_PARTS]
            bench.run(subject, subject, ["timers", str(count)], names)
    for subject in (*LIBRARIES, "bare"):
        bench.run(subject, subject, ["wake", "100000"], [("wake-up across threads", "ns")])
        for count in (100, most):
            names = [(f"iteration, {count} quiet", "ns")]
            bench.run(subject, subject, ["quiet", str(count)], names)
    for subject in LIBRARIES:
        bench.run(subject, subject, ["signals", "100000"], [("signal", "ns")])
        names = [("memory of an I/O watcher", "bytes"), ("memory of a timer", "bytes")]
        bench.run(subject, subject, ["memory", str(most)], names)


def compare_pairs(figures: Figures, most: int) -> None:
    """Add the limits of the pairs. "libev, set" is what libev's authors measured."""
    for pairs, active, has_timeouts in configurations(most):
        total, later, poll = (
            name_of(part, pairs, active, has_timeouts) for part in ("total", "later total", "poll")
        )
        limits = {100: 0.95, most: 0.25 if active == 100 else 0.70}
        if pairs in limits:
            figures.limit(total, "ours", ("libev, set",), limits[pairs])
            figures.limit(total, "ours", ("libev",), limits[pairs])
            figures.limit(total, "ours, set", ("libev, set",), 0.9)
            figures.limit(later, "ours, set", ("libev, set",), 0.9)
        if pairs == most:
            figures.limit(total, "ours", ("libevent",), 0.35)
            figures.limit(total, "ours", ("libuv",), 0.35)
        if not has_timeouts:
            figures.limit(poll, "ours", ("bare",), 1.05)


def compare_rest(figures: Figures) -> None:
    """Add the limits of the timers."""
    for part, limit in zip(TIMER_PARTS, (0.8, 0.3, 0.8), strict=True):
        figures.limit(f"{part} {TIMERS[-1]} timers", "ours", ("libev",), limit)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = options(__doc__.splitlines()[0] if __doc__ else "")
    parser.set_defaults(rounds=RUNS)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the programs are")
    return parser.parse_args()


def main() -> int:
    """Measure everything, interleaved."""
    chosen = arguments()
    most = most_pairs()
    bench = Bench(chosen.folder, chosen.only)
    for number in range(chosen.rounds):
        measure_pairs(bench, most)
        if number % 2 == 0:
            measure_rest(bench, most)
    bench.quiet_cost(most)
    bench.collect()
    compare_pairs(bench.figures, most)
    compare_rest(bench.figures)
    return bench.figures.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
