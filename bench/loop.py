"""Compares the event loop with libev, libevent, libuv and bare epoll: libev's benchmark.

There are N socket pairs with a watcher each, which are all stopped and started again before each
round; A of them are active. The results are the total, setup and poll time of the second round, as
minima of six runs, with and without timeouts. Further measurements are timers and memory.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from results import Results, options

FOLDER = Path(__file__).resolve().parent.parent / "build/release/bench/loops"
CORE = "1"
RUNS = 6
UNSUPPORTED = 3
PACKAGES = {"libev": "libev-dev", "libevent": "libevent-dev", "libuv": "libuv1-dev"}
# Label, program, and how a stopped watcher is restarted. "set": its descriptor is set again, so
# each library has to verify it with the kernel.
SUBJECTS = (
    ("ours", "ours", "same"),
    ("ours, set", "ours", "set"),
    ("libev", "libev", "same"),
    ("libev, set", "libev", "set"),
    ("libevent", "libevent", "same"),
    ("as libevent", "compat_libevent", "same"),
    ("libuv", "libuv", "same"),
    ("bare", "bare", "same"),
)
LIBRARIES = ("ours", "libev", "libevent", "libuv")
# The second iteration, which libev's authors measured, and the minimum of later ones, when the
# kernel's memory is in a steady state.
PARTS = ("total", "setup", "poll")
LATER_PARTS = ("later total", "later setup", "later poll")
TIMERS = (1_000, 100_000, 1_000_000)
TIMER_PARTS = ("add", "re-arm", "expire")
SPARE_DESCRIPTORS = 100
PAIRS_MAX = 9_900


def max_pairs() -> int:
    """Return the number of pairs that the limit of descriptors allows."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return min(PAIRS_MAX, (limit - SPARE_DESCRIPTORS) // 2)


def pinned() -> list[str]:
    """Return the command prefix that pins a program to a core, with real-time priority."""
    first = ["taskset", "-c", CORE] if (os.cpu_count() or 1) > int(CORE) else []
    realtime = ["chrt", "-f", "1"]
    if shutil.which("chrt"):
        probe = subprocess.run([*realtime, "true"], capture_output=True, check=False)
        return [*realtime, *first] if not probe.returncode else first
    return first


class Bench:
    """Runs the programs, and stores the minimum of each measurement."""

    def __init__(self, folder: Path, only: str) -> None:
        """Store the folder of the programs, and which results to measure."""
        self.folder = folder
        self.only = only
        self.prefix = pinned()
        self.minima: dict[tuple[str, str], tuple[float, str]] = {}
        self.results = Results()

    def _numbers(self, label: str, name: str, program: str, argv: list[str]) -> list[float]:
        path = self.folder / program
        if not path.exists():
            package = PACKAGES.get(program, "its library")
            self.results.skip(name, label, f"not built: install {package}")
            return []
        done = subprocess.run(
            [*self.prefix, str(path), *argv], capture_output=True, text=True, check=False
        )
        if done.returncode == UNSUPPORTED:
            self.results.skip(name, label, "not supported")
        elif done.returncode:
            reason = f"status {done.returncode}: {done.stderr.strip()}"
            self.results.skip(name, label, reason)
        return [float(number) for number in done.stdout.split()] if not done.returncode else []

    def run(self, label: str, program: str, argv: list[str], names: list[tuple[str, str]]) -> None:
        """Run a program that prints a number for each (name, unit)."""
        if not any(self.only in name for name, _ in names):
            return
        numbers = self._numbers(label, names[0][0], program, argv)
        for (name, unit), number in zip(names, numbers, strict=False):
            before = self.minima.get((name, label))
            if before is None or number < before[0]:
                self.minima[name, label] = (number, unit)

    def collect(self) -> None:
        """Add the minima to the results."""
        for (name, label), (number, unit) in self.minima.items():
            self.results.add(name, label, number, unit)


def configurations(pairs_max: int) -> Iterator[tuple[int, int, bool]]:
    """Yield the number of pairs, of active ones, and whether there are timeouts."""
    for pairs in dict.fromkeys((100, 1000, pairs_max)):
        for active in (100, 1000):
            if active <= pairs:
                yield pairs, active, False
                yield pairs, active, True


def name_of(part: str, pairs: int, active: int, has_timeouts: bool) -> str:
    """Return the name of a result with socket pairs."""
    return f"{part} {pairs}/{active}{' timeouts' if has_timeouts else ''}"


def measure_pairs(bench: Bench, pairs_max: int) -> None:
    """Run every subject once in every configuration."""
    for pairs, active, has_timeouts in configurations(pairs_max):
        names = [
            (name_of(part, pairs, active, has_timeouts), "us") for part in (*PARTS, *LATER_PARTS)
        ]
        for label, program, mode in SUBJECTS:
            if program == "bare" and has_timeouts:
                continue
            argv = ["pairs", mode, str(pairs), str(active), str(int(has_timeouts))]
            bench.run(label, program, argv, names)


def measure_rest(bench: Bench, pairs_max: int) -> None:
    """Measure timers and memory."""
    for subject in LIBRARIES:
        for count in TIMERS:
            names = [(f"{part} {count} timers", "ns") for part in TIMER_PARTS]
            bench.run(subject, subject, ["timers", str(count)], names)
        names = [("memory of an I/O watcher", "bytes"), ("memory of a timer", "bytes")]
        bench.run(subject, subject, ["memory", str(pairs_max)], names)


def compare_pairs(results: Results, pairs_max: int) -> None:
    """Add the limits for socket pairs. libev's authors measured "libev, set"."""
    for pairs, active, has_timeouts in configurations(pairs_max):
        total, later, poll = (
            name_of(part, pairs, active, has_timeouts) for part in ("total", "later total", "poll")
        )
        limits = {100: 0.95, pairs_max: 0.25 if active == 100 else 0.70}
        if pairs in limits:
            results.limit(total, "ours", ("libev, set",), limits[pairs])
            results.limit(total, "ours", ("libev",), limits[pairs])
            results.limit(total, "ours, set", ("libev, set",), 0.9)
            results.limit(later, "ours, set", ("libev, set",), 0.9)
        if pairs == pairs_max:
            results.limit(total, "ours", ("libevent",), 0.35)
            results.limit(total, "ours", ("libuv",), 0.35)
            results.limit(total, "as libevent", ("libevent",), 0.45)
            # Both verify each descriptor with the kernel.
            results.limit(total, "as libevent", ("ours, set",), 1.2)
        if not has_timeouts:
            results.limit(poll, "ours", ("bare",), 1.05)


def compare_rest(results: Results) -> None:
    """Add the limits for timers."""
    for part, limit in zip(TIMER_PARTS, (0.8, 0.3, 0.8), strict=True):
        results.limit(f"{part} {TIMERS[-1]} timers", "ours", ("libev",), limit)


def arguments() -> argparse.Namespace:
    """Parse the options."""
    parser = options(__doc__.splitlines()[0] if __doc__ else "")
    parser.set_defaults(rounds=RUNS)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder of the programs")
    return parser.parse_args()


def main() -> int:
    """Measure everything, interleaved."""
    chosen = arguments()
    pairs_max = max_pairs()
    bench = Bench(chosen.folder, chosen.only)
    for number in range(chosen.rounds):
        measure_pairs(bench, pairs_max)
        if number % 2 == 0:
            measure_rest(bench, pairs_max)
    bench.collect()
    compare_pairs(bench.results, pairs_max)
    compare_rest(bench.results)
    return bench.results.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
