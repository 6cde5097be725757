"""A server compiled from threads by `gossamer cc`, beside the same by hand on the event loop.

Beside them are the same source with POSIX threads, and threads of the library with stacks. The
servers are the toys `cpc`, `loop`, `kernel` and `threads` (bench/toys). Measured are the CPU time
of the server for each request, on a core of its own, and its resident memory for each connection,
all in turn.
"""

import json
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

from results import Results, options

BUILD = Path(__file__).resolve().parents[1] / "build/release"
SERVERS = {
    "loop": "hand-written",
    "cpc": "compiled",
    "threads": "with stacks",
    "kernel": "POSIX threads",
}
CONNECTIONS = (128, 1000, 10000)
SERVER_CORE, CLIENT_CORE = "1", "0"
WARM_UP_S = 1.5  # opens all connections


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process at most."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def load(url: str, connections: int, seconds: float, pid: int) -> float:
    """Return the CPU time of the server for a request when all connections are open."""
    command = ("taskset", "-c", CLIENT_CORE, BUILD / "gossamer", "load", "-c", str(connections))
    how = ("--warmup", f"{WARM_UP_S}s", "-d", f"{seconds}s", "--json", "-")
    with subprocess.Popen((*command, *how, url), stdout=subprocess.PIPE, text=True) as client:
        time.sleep(WARM_UP_S)
        began_s, used_s = time.monotonic(), cpu_seconds(pid)
        time.sleep(seconds)
        busy = (cpu_seconds(pid) - used_s) / (time.monotonic() - began_s)
        result = json.loads(client.communicate()[0])
    return busy * seconds / result["requests"]


def measure(results: Results, toy: str, connections: int, seconds: float) -> None:
    """Measure one server with so many connections."""
    name = SERVERS[toy]
    command = ("taskset", "-c", SERVER_CORE, BUILD / "bench/toys" / toy)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            url = server.stdout.readline().split()[-1] + "/"
            before = resident_bytes(server.pid)
            cost = load(url, connections, seconds, server.pid) * 1e6
            size = (resident_bytes(server.pid) - before) / connections
        finally:
            server.terminate()
    results.add_cost(f"cpu-{connections}", name, cost, "us")
    results.add_cost(f"memory-{connections}", name, size, "bytes")


def main() -> int:
    """Measure the servers in turn."""
    chosen = options(__doc__.splitlines()[0]).parse_args()
    results = Results()
    counts = [count for count in CONNECTIONS if chosen.only in f"cpu-{count} memory-{count}"]
    for _, connections, toy in product(range(chosen.rounds), counts, SERVERS):
        measure(results, toy, connections, chosen.seconds)
    for connections in counts:
        results.limit(f"cpu-{connections}", "compiled", ("hand-written",), 1.03)
        results.limit(f"memory-{connections}", "compiled", ("hand-written",), 1.3)
    return results.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
