"""Cost of a request with 1 to 1,000,000 threads, compared with an event-driven server.

This follows Figure 2 of von Behren, Condit and Brewer, Why Events Are a Bad Idea (2003). Each
request reads 8 KB of a cached file. Requests visit all threads, or contexts of the event-driven
server, in turn, so that every thread parks. Threads are compared with contexts where each has a
buffer of its own, `threads` and `contexts`, and where all use one, `called` and `events`: threads
call a function on the worker's stack, which has the buffer. Counts that need more memory than is
available are skipped, and their limits are not met.
"""

import subprocess
import sys
from pathlib import Path

from results import Results, options

COUNTS = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
PAIRS = (("threads", "contexts"), ("called", "events"), ("threads", "events"))
SERVERS = ("threads", "contexts", "called", "events")
THREAD_BYTES = 13 * 1024  # per thread: its buffer, stack and page tables
HERE = Path(__file__).resolve().parent
CORE = "1"


def available_memory() -> int:
    """Return the available memory in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(results: Results, program: Path, subject: str, count: int) -> None:
    """Measure one kind of server with this number of threads or contexts."""
    name = f"request among {count}"
    if available_memory() < count * THREAD_BYTES:
        results.skip(name, subject, f"needs {count * THREAD_BYTES >> 30} GiB of free memory")
        return
    command = ["taskset", "-c", CORE, str(program), subject, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        results.skip(name, subject, f"status {done.returncode}: {done.stderr[:200].strip()}")
        return
    each_ns, switches = map(float, done.stdout.split())
    results.add_cost(name, subject, each_ns, "ns")
    if subject in {"threads", "called"}:
        results.add(f"switches per request among {count}", subject, switches, "")


def main() -> int:
    """Measure all servers at every count, interleaved."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--program",
        type=Path,
        metavar="FILE",
        default=HERE.parent / "build/release/bench/threads/figure2",
        help="the built bench/threads/figure2.c",
    )
    found = parser.parse_args()
    results = Results()
    counts = [count for count in COUNTS if found.only in f"among {count}"]
    for count in counts:
        for _ in range(found.rounds if count < COUNTS[-1] else 1):
            for subject in SERVERS:
                measure(results, found.program, subject, count)
        for threads, events in PAIRS:
            results.limit(f"request among {count}", threads, (events,), 1.0)
    return results.finish(found.json)


if __name__ == "__main__":
    sys.exit(main())
