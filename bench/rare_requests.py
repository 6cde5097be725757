"""Response times of very many connections, each of which sends a request every few seconds.

A process has few descriptors, so there are several servers, and a load generator for each.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from results import Results, options

from gossamer_lab import paths

OURS, THREADS = "event", "user"
NAMES = {0.5: "median response", 0.99: "99th percentile", 0.999: "99.9th percentile"}
LIMIT = 1.5
SERVER_CORE, CLIENT_CORE = "0", "1"
DESCRIPTORS_KEPT = 200
WARM_UP_S, SURPLUS_S = 3.0, 60.0
MAX_SEND_DELAY = "1s"
"""All load generators share a core."""
PAGE = "page.html"


def on_core(core: str, *command: str) -> tuple[str, ...]:
    """Return the command that runs another one on a core."""
    return ("taskset", "-c", core, str(paths.program()), *command)


@contextmanager
def server(arch: str, connections: int, root: Path) -> Iterator[tuple[str, int]]:
    """Run a server; yield its URL and its process."""
    command = on_core(
        SERVER_CORE, "serve", "--arch", arch, "--workers", "1", "--poller", "epoll",
        "--max-connections", str(connections + 500), "--idle-timeout", "120s",
        "--listen", "127.0.0.1:0", str(root),
    )  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        yield line.split()[2], process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(processes: list[int]) -> float:
    """Return the CPU time that the processes have used."""
    stats = [Path(f"/proc/{process}/stat").read_text() for process in processes]
    ticks = sum(int(n) for stat in stats for n in stat.rsplit(")", 1)[1].split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def percentile(tables: list[Path], part: float) -> float:
    """Return a percentile, in us, of the response times of all tables together.

    Each line of a table of HdrHistogram has a time and how many responses took at most that.
    """
    times: list[tuple[float, int]] = []
    for table in tables:
        before = 0
        for line in table.read_text().splitlines():
            fields = line.split()
            if len(fields) < 3 or not fields[0][0].isdigit():
                continue
            times.append((float(fields[0]), int(fields[2]) - before))
            before = int(fields[2])
    wanted = part * sum(count for _, count in times)
    for time_us, count in sorted(times):
        wanted -= count
        if wanted <= 0:
            return time_us
    return 0.0


def load(url: str, connections: int, interval_s: float, seconds: float, result: Path) -> list[str]:
    """Return the command of a load generator, in which clients take turns, evenly spaced."""
    rate = round(connections / interval_s)
    return list(on_core(
        CLIENT_CORE, "load", "-c", str(connections), "--rate", str(rate),
        "--warmup", f"{interval_s + WARM_UP_S}s", "-d", f"{seconds}s", "--processes", "1",
        "--max-send-delay", MAX_SEND_DELAY, "--json", str(result),
        "--hdr", str(result.with_suffix(".hdr")), f"{url}/{PAGE}",
    ))  # fmt: skip


def measure(
    results: Results, arch: str, each: list[int], interval_s: float, seconds: float
) -> None:
    """Measure an architecture with a server for each number of connections."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        root, folder = Path(name) / "www", Path(name)
        root.mkdir()
        (root / PAGE).write_text("0" * 305)
        servers = [stack.enter_context(server(arch, count, root)) for count in each]
        files = [folder / f"{i}.json" for i in range(len(each))]
        clients = [
            subprocess.Popen(load(url, count, interval_s, seconds, file), stdout=subprocess.DEVNULL)
            for (url, _), count, file in zip(servers, each, files, strict=True)
        ]
        time.sleep(interval_s + WARM_UP_S)
        processes = [process for _, process in servers]
        began_s, used_s = time.monotonic(), cpu_seconds(processes)
        codes = [client.wait(seconds + SURPLUS_S) for client in clients]
        busy = (cpu_seconds(processes) - used_s) / (time.monotonic() - began_s)
        found = [json.loads(file.read_text()) for file in files if file.exists()]
        tables = [file.with_suffix(".hdr") for file in files]
        times = {part: percentile(tables, part) for part in NAMES} if not any(codes) else {}
    if any(codes) or len(found) < len(each):
        results.skip("response", arch, f"the load generators ended with {codes}")
        return
    for part, title in NAMES.items():
        results.add(title, arch, times[part], "us")
    results.add("CPU of all servers", arch, busy, "of a core")
    total = sum(run["response_us"]["count"] for run in found)
    results.add("requests per second", arch, total / seconds, "1/s")


def main() -> int:
    """Measure both architectures in turn."""
    parser = options(__doc__ or "")
    parser.add_argument("--connections", type=int, default=100_000, metavar="N")
    parser.add_argument("--interval", type=float, default=5.0, metavar="S")
    found = parser.parse_args()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    if (os.cpu_count() or 1) < 2:
        sys.exit("it needs two cores")
    servers = -(-found.connections // (limit - DESCRIPTORS_KEPT))
    each = [(found.connections + i) // servers for i in range(servers)]
    results = Results()
    for _ in range(found.rounds):
        for arch in (OURS, THREADS):
            measure(results, arch, each, found.interval, found.seconds)
    results.limit(NAMES[0.99], THREADS, (OURS,), LIMIT)
    return results.finish(found.json)


if __name__ == "__main__":
    sys.exit(main())
