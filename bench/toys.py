"""CPU time of a request to the toys of bench/toys, with a connection for each request.

The toys differ only in their model: `loop` is our event loop, `threads` our user-level threads,
`st` State Threads and `pth` GNU Pth. They are measured in turn. The client, on a core of its own,
needs more time for a request than a toy does: so each toy has a sixth of its core, and a busy loop
the rest. Otherwise a toy would sleep after nearly each request, and that is what would be measured.
State Threads is the package libst-dev, Pth libpth-dev.
"""

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path

from results import Results, options

BUILD = Path(__file__).resolve().parents[1] / "build/release"
TOYS = ("loop", "threads", "st", "pth")
CONNECTIONS = (10, 100, 500)  # Debian's State Threads uses select, up to descriptor 1023
SERVER_CORE, CLIENT_CORE = "1", "0"
SHARE = ("nice", "-n", "8")  # a weight of 172, and 1024 for the busy loop
BUSY = ("taskset", "-c", SERVER_CORE, "sh", "-c", "while :; do :; done")


def cpu_ns(pid: int) -> int:
    """Return the CPU time of a process with one kernel thread, or the sum over its threads."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads)


def load(client: Path, url: str, connections: int, seconds: float, kept: int) -> int:
    """Request from the server; return how many requests it answered."""
    command = ("taskset", "-c", CLIENT_CORE, client, "load", "-c", str(connections))
    how = ("-k", str(kept), "-d", f"{seconds}s", "--json", "-")
    done = subprocess.run((*command, *how, url), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["requests"]


def measure(results: Results, client: Path, toy: str, connections: int, seconds: float) -> None:
    """Measure one toy with so many connections at a time."""
    name = f"{connections} connections"
    program = BUILD / "bench/toys" / toy
    if not program.exists():
        results.skip(name, toy, "not built: install what it needs")
        return
    command = (*SHARE, "taskset", "-c", SERVER_CORE, program)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().split()[-1] + "/"
            load(client, url, connections, 0.2, 1)
            begin = cpu_ns(server.pid)
            requests = load(client, url, connections, seconds, 1)
            results.add_cost(name, toy, (cpu_ns(server.pid) - begin) / requests / 1e3, "us")
        finally:
            server.terminate()


def measure_all(results: Results, chosen: argparse.Namespace) -> None:
    """Measure all toys in turn, beside a busy loop."""
    with subprocess.Popen(BUSY) as busy:
        try:
            wanted = [n for n in CONNECTIONS if chosen.only in f"{n} connections"]
            for _, connections, toy in product(range(chosen.rounds), wanted, TOYS):
                measure(results, chosen.client, toy, connections, chosen.seconds)
        finally:
            busy.kill()


def main() -> int:
    """Measure all toys, and compare them."""
    parser = options(__doc__ or "")
    parser.set_defaults(rounds=8)  # a round differs from the next by up to a fifth
    parser.add_argument(
        "--client", type=Path, metavar="FILE", default=BUILD / "gossamer", help="the load generator"
    )
    chosen = parser.parse_args()
    results = Results()
    measure_all(results, chosen)
    for connections in CONNECTIONS:
        name = f"{connections} connections"
        if chosen.only in name:
            results.limit(name, "loop", ("st",), 0.97)
            results.limit(name, "threads", ("st",), 1.0)
    return results.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
