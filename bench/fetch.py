"""Compares HTTP clients: 10,000 pages by 500 user threads, and by 500 goroutines with net/http.

The clients have one core and get pages from the same server, in alternating pieces of a run; each
keeps its connections. The package is golang. Configure and build the release preset first; this
script builds the program in Go.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from building import build_go
from results import Results, options
from running import cpu_us, running

from gossamer_lab import paths
from gossamer_lab.measuring.workspace import two_cores

HERE = Path(__file__).resolve().parent
OURS, GO = "ours", "go"
THREADS, PAGES, SIZE = 500, 10000, 1000
NAME = f"{PAGES} pages of {SIZE} bytes by {THREADS} threads"
LIMIT = 0.5


def build(folder: Path) -> Path | None:
    """Build the client in Go, if its compiler is installed."""
    program = folder / GO
    build_go(HERE / "fetch/go", program)
    return program if program.exists() else None


def get_pages(client: subprocess.Popen[str]) -> float:
    """Let a client get all pages; return its CPU time per page."""
    before = cpu_us(client.pid)
    client.stdin.write(f"{PAGES}\n")
    client.stdin.flush()
    if int(client.stdout.readline()) != PAGES * SIZE:
        raise RuntimeError("a page is incomplete")
    return (cpu_us(client.pid) - before) / PAGES


def measure(results: Results, go: Path, rounds: int) -> None:
    """Measure both clients; their order is random in each round."""
    folder = paths.program().parent / "bench"
    server_core, client_core = two_cores()
    with contextlib.ExitStack() as stack:
        command = [str(folder / "servers/app"), str(SIZE)]
        server = stack.enter_context(running(command, server_core))
        url = server.stdout.readline().split()[2]
        programs = {OURS: str(folder / "clients/get_pages"), GO: str(go)}
        clients = {
            name: stack.enter_context(running([program, url, str(THREADS)], client_core))
            for name, program in programs.items()
        }
        for client in clients.values():
            get_pages(client)  # connecting does not count
        for _ in range(3 * rounds):
            for name in random.sample(list(clients), len(clients)):
                cost = get_pages(clients[name])
                print(f"  {NAME}, {name}: {cost:.2f}", file=sys.stderr)
                results.add_cost(NAME, name, cost, "us per page")


def main() -> int:
    """Measure; return 1 if the limit is not met."""
    settings = options(__doc__ or "").parse_args()
    results = Results()
    with tempfile.TemporaryDirectory(prefix="gossamer-fetch-") as name:
        go = build(Path(name))
        if go:
            measure(results, go, settings.rounds)
            results.limit(NAME, OURS, (GO,), LIMIT)
        else:
            results.skip(NAME, GO, "not built: golang")
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
