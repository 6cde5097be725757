"""The web server beside nginx, lighttpd, h2o and the floor: CPU a request, p99, idle memory."""

import http.client
import os
import random
import subprocess
import sys
import time
import urllib.parse
from functools import partial
from pathlib import Path

from figures import Figures, arguments

from gossamer_lab import measure, paths
from gossamer_lab.accounting import CpuTime, family_pids
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.load import Generator, LoadFailedError
from gossamer_lab.schedule import Step
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Launch, Server, ServerFailedError, Site, serving
from gossamer_lab.workshop import Workshop, workshop

PEERS = ("nginx", "lighttpd", "h2o")
KEEP, CLOSE = 0, 1
POINTS = (
    *(Point(f"305-keep-{n}", 305, n, KEEP) for n in (16, 128, 1000, 10_000)),
    *(Point(f"8192-keep-{n}", 8192, n, KEEP) for n in (128, 1000)),
    *(Point(f"305-close-{n}", 305, n, CLOSE) for n in (64, 256, 1000)),
)
IDLE_CONNECTIONS = 10_000
OURS = "event"
FLOOR = "floor"


def answer_length(server: Server, site: Site, size: int, core: int) -> int:
    """Return the length of our whole answer for the page, its header included."""
    point = Point("", size, 1, KEEP)
    with serving(server, site, core, (point.path, point.size)) as running:
        address = urllib.parse.urlsplit(running.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port)
        connection.request("GET", point.path)
        response = connection.getresponse()
        head = sum(len(name) + len(value) + 4 for name, value in response.getheaders())
        length = len("HTTP/1.1 200 OK\r\n") + head + 2 + len(response.read())
        connection.close()
    return length


def floor_server(kind: str, size: int, total: int) -> Server:
    """Return the bare loop that answers with as many bytes."""
    program = paths.program().parent / "bench/servers/floor"

    def configure(_site: Site) -> Launch:
        return Launch((str(program), kind, str(size), str(total)))

    return Server(FLOOR, False, "a bare loop", "this checkout", configure)


def measure_points(figures: Figures, shop: Workshop, servers: list[Server], chosen: str) -> None:
    """Measure every point, the servers of each in a new order every round."""
    settings = arguments(__doc__ or "")
    bench = measure.Bench(
        shop.site,
        Generator(shop.program, shop.client_core, shop.site.folder, lambda: None),
        shop.server_core,
        settings.seconds,
        0.3,
    )
    points = [point for point in POINTS if chosen in point.key]
    lengths = {
        size: answer_length(servers[0], shop.site, size, shop.server_core)
        for size in {point.size for point in points}
    }
    for number in range(settings.rounds):
        for point in points:
            floor = floor_server(
                "keep" if point.kept_alive else "close", point.size, lengths[point.size]
            )
            subjects = [*servers, floor]
            random.shuffle(subjects)
            for server in subjects:
                row = measure.measure(Step(0, number, point, server.name), server, bench)
                report(figures, point, server.name, row)


def report(figures: Figures, point: Point, subject: str, row: measure.Row) -> None:
    """Add what one measurement gave."""
    cpu, p99 = f"{point.key} CPU", f"{point.key} p99"
    print(f"  {point.key} {subject}: {row['server_cpu_us_per_request']}", file=sys.stderr)
    if row["failure"] or row["errors"]:
        figures.miss(cpu, subject, row["failure"] or row["errors_by_kind"])
        return
    figures.add(cpu, subject, row["server_cpu_us_per_request"], "us a request")
    figures.add(p99, subject, row["response_p99_us"], "us")


def resident_bytes(pid: int) -> int:
    """Return the memory of a server and its processes, shared pages in parts."""
    total = 0
    for member in family_pids(pid):
        for line in Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def measure_idle(figures: Figures, shop: Workshop, server: Server) -> None:
    """Open connections that are answered once and then stay idle; measure the growth."""
    name = f"{IDLE_CONNECTIONS} idle connections"
    load = (
        str(shop.program),
        "load",
        "-c",
        str(IDLE_CONNECTIONS),
        "--think",
        "60000",
        "-d",
        "4",
        "--timeout",
        "120",
    )
    try:
        with serving(server, shop.site, shop.server_core, ("/page-305.html", 305)) as running:
            time.sleep(0.2)
            before = resident_bytes(running.pid)
            client = subprocess.Popen(
                (*load, running.url + "/page-305.html"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(3)
            after = resident_bytes(running.pid)
            held = established(running.url)
            client.terminate()
            client.wait()
    except ServerFailedError as failure:
        figures.miss(name, server.name, str(failure))
        return
    if held < IDLE_CONNECTIONS:
        figures.miss(name, server.name, f"only {held} connections were open")
        return
    figures.add(name, server.name, (after - before) / IDLE_CONNECTIONS, "bytes each")


def established(url: str) -> int:
    """Return how many connections the server of this address has."""
    port = f"{urllib.parse.urlsplit(url).port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(
        1 for line in lines if line.split()[1].endswith(f":{port}") and line.split()[3] == "01"
    )


def client_cost(figures: Figures, shop: Workshop, seconds: float) -> None:
    """Measure what a request costs each load generator, against the same bare loop."""
    name = "client CPU a request"
    floor = floor_server("keep", 305, 545)
    wrk = paths.peer("wrk")
    ours = ("load", "-c", "128", "-d", f"{seconds:g}", "--json", str(shop.site.folder / "cost"))
    commands = {"gossamer load": (str(shop.program), *ours)}
    if wrk:
        commands["wrk"] = (str(wrk), "-t1", "-c128", f"-d{max(1, round(seconds))}s")
    else:
        figures.miss(name, "wrk", "not installed: make peers")
    for subject, command in commands.items():
        with serving(floor, shop.site, shop.server_core, ("/", 305)) as running:
            before = os.times()
            done = subprocess.run(
                (*command, running.url + "/"),
                check=True,
                capture_output=True,
                text=True,
                preexec_fn=partial(os.sched_setaffinity, 0, {shop.client_core}),
            )
            after = os.times()
        requests = requests_of(subject, done.stdout, shop.site.folder / "cost")
        cpu = CpuTime(
            after.children_user - before.children_user,
            after.children_system - before.children_system,
        )
        figures.add(name, subject, cpu.total_s / requests * 1e6, "us a request")


def requests_of(subject: str, output: str, path: Path) -> int:
    """Return how many requests a load generator says that it made."""
    if subject == "wrk":
        return int(next(line for line in output.splitlines() if "requests in" in line).split()[0])
    text = path.read_text()
    return int(text.split('"requests":')[1].split(",")[0])


def set_limits(figures: Figures, chosen: str) -> None:
    """State what is to be reached."""
    for point in POINTS:
        if chosen not in point.key:
            continue
        cpu, p99 = f"{point.key} CPU", f"{point.key} p99"
        if not point.kept_alive:
            figures.limit(cpu, OURS, ("h2o",), 0.9)
            figures.limit(cpu, OURS, (FLOOR,), 1.2)
            continue
        small = point.size == 305
        figures.limit(cpu, OURS, PEERS, 0.85 if small else 0.9)
        figures.limit(cpu, OURS, (FLOOR,), 1.08 if small else 1.1)
        if small and point.connections in (128, 1000):
            figures.limit(p99, OURS, PEERS, 1.0)
    if chosen in "idle":
        figures.limit(f"{IDLE_CONNECTIONS} idle connections", OURS, ("526 bytes",), 1.0)
    if chosen in "client":
        figures.limit("client CPU a request", "gossamer load", ("wrk",), 1.0)


def main() -> int:
    """Measure all; 1 if a limit is not kept."""
    settings = arguments(__doc__ or "")
    figures = Figures()
    experiment = Experiment("web", "", POINTS, (), PEERS)
    program = paths.program()
    with workshop(experiment, program) as shop:
        ours = [server for server in our_servers(program) if server.name == OURS]
        servers = [*ours, *present_peers(PEERS)]
        for name in absent_peers(PEERS):
            figures.miss("all", name, "not installed: make peers")
        measure_points(figures, shop, servers, settings.only)
        if settings.only in "idle":
            for server in servers:
                measure_idle(figures, shop, server)
            figures.add(f"{IDLE_CONNECTIONS} idle connections", "526 bytes", 526, "bytes each")
        if settings.only in "client":
            for _ in range(settings.rounds):
                client_cost(figures, shop, settings.seconds)
    set_limits(figures, settings.only)
    return figures.finish(settings.json)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LoadFailedError as failure:
        sys.exit(f"web: {failure}")
