"""Throughput against the number of threads, beside an event server: 1 to 1,000,000 of them.

After Figure 2 of von Behren, Condit and Brewer, Why Events Are a Bad Idea (2003). Each request
reads 8 KB of a cached file; requests go through all threads, or contexts of the event server, in
turn, so that every thread parks. What takes more memory than there is, is left out, and its limit
not met.
"""

import subprocess
import sys
from pathlib import Path

from figures import Figures, options

COUNTS = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
BYTES = 13 * 1024  # that a thread takes here: its buffer, what it is itself, page tables
HERE = Path(__file__).resolve().parent
CORE = "1"


def available_memory() -> int:
    """Return how many bytes programs may still take."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(figures: Figures, program: Path, subject: str, count: int) -> None:
    """Measure one kind of server with so many threads or contexts."""
    name = f"request among {count}"
    if available_memory() < count * BYTES:
        figures.miss(name, subject, f"needs {count * BYTES >> 30} GiB of free memory")
        return
    command = ["taskset", "-c", CORE, str(program), subject, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        figures.miss(name, subject, f"status {done.returncode}: {done.stderr[:200].strip()}")
        return
    each_ns, switches = map(float, done.stdout.split())
    figures.add(name, subject, each_ns, "ns")
    if subject == "threads":
        figures.add(f"switches a request among {count}", subject, switches, "")


def main() -> int:
    """Measure both at every count, interleaved."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--program",
        type=Path,
        metavar="FILE",
        default=HERE.parent / "build/release/bench/threads/figure2",
        help="the built bench/threads/figure2.c",
    )
    found = parser.parse_args()
    figures = Figures()
    counts = [count for count in COUNTS if found.only in f"among {count}"]
    for count in counts:
        for _ in range(found.rounds if count < COUNTS[-1] else 1):
            for subject in ("threads", "events"):
                measure(figures, found.program, subject, count)
        figures.limit(f"request among {count}", "threads", ("events",), 1.0)
    return figures.finish(found.json)


if __name__ == "__main__":
    sys.exit(main())
