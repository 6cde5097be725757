"""The web server beside nginx, lighttpd, h2o and the floor: CPU a request, p99, idle memory."""

import http.client
import json
import os
import random
import resource
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import holding
import wrk
from figures import Figures, arguments
from points import bench

from gossamer_lab import measure, paths
from gossamer_lab.accounting import CpuTime
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.load import LoadFailedError
from gossamer_lab.schedule import Step
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Launch, Server, Site, serving
from gossamer_lab.workshop import Workshop, workshop

PEERS = ("nginx", "lighttpd", "h2o")
KEEP, CLOSE = 0, 1
POINTS = (
    *(Point(f"305-keep-{n}", 305, n, KEEP) for n in (16, 128, 1000, 10_000)),
    *(Point(f"8192-keep-{n}", 8192, n, KEEP) for n in (128, 1000)),
    *(Point(f"305-close-{n}", 305, n, CLOSE) for n in (64, 256, 1000)),
)
LOAD, WRK = "load", "wrk"
"""The clients, of which each figure names the one that it was measured with."""
WRK_POINTS = tuple(
    point
    for point in POINTS
    if point.kept_alive and point.size == 305 and point.connections in (16, 128, 1000)
)
IDLE_CONNECTIONS = 10_000
IDLE = f"{IDLE_CONNECTIONS} idle connections"
OURS, THREADS = "event", "user"
OPENING = f"{IDLE_CONNECTIONS} connections opened one after another"
RING = "event-io_uring"
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


def ring_servers(figures: Figures, program: Path) -> list[Server]:
    """Return our event architecture over io_uring, where the kernel has that for us."""
    forbidden = Path("/proc/sys/kernel/io_uring_disabled")
    version = tuple(int(number) for number in os.uname().release.split(".")[:2])
    if version < (6, 1) or (forbidden.exists() and forbidden.read_text().strip() != "0"):
        figures.miss("all", RING, "the kernel has no io_uring for us")
        return []

    def configure(site: Site) -> Launch:
        words = ("--arch", OURS, "--poller", "io_uring", "--workers", "1")
        return Launch((str(program), "serve", *words, "--listen", "127.0.0.1:0", str(site.root)))

    return [Server(RING, True, "the same over io_uring", "this checkout", configure)]


def measure_points(figures: Figures, shop: Workshop, servers: list[Server]) -> None:
    """Measure every point, the servers of each in a new order every round."""
    settings = arguments(__doc__ or "")
    second = wrk.installed()
    if not second:
        figures.miss("all", WRK, "not installed: make peers")
    each = bench(shop, settings.seconds)
    points = [point for point in POINTS if settings.only in point.key]
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
            step = Step(0, number, point, "")
            for server in subjects:
                report(figures, point, server.name, measure.measure(step, server, each))
            for server in subjects if second and point in WRK_POINTS else []:
                measure_with_wrk(figures, second, shop, server, point)


def measure_with_wrk(
    figures: Figures, second: wrk.Wrk, shop: Workshop, server: Server, point: Point
) -> None:
    """Measure the same once more, with the other client."""
    name, seconds = cpu_name(point, WRK), arguments(__doc__ or "").seconds
    try:
        cost = wrk.server_cpu(second, shop, server, point, seconds)
    except wrk.WrkFailedError as failure:
        figures.miss(name, server.name, str(failure))
        return
    print(f"  {point.key} {server.name} under wrk: {cost}", file=sys.stderr)
    figures.add_cost(name, server.name, cost, "us a request")


def cpu_name(point: Point, client: str) -> str:
    """Return the name of the figures of a point's CPU time."""
    return f"{point.key} {client} CPU"


def p99_name(point: Point) -> str:
    """Return the name of the figures of a point's 99th percentile."""
    return f"{point.key} {LOAD} p99"


def report(figures: Figures, point: Point, subject: str, row: measure.Row) -> None:
    """Add what one measurement gave."""
    cpu, p99 = cpu_name(point, LOAD), p99_name(point)
    print(f"  {point.key} {subject}: {row['server_cpu_us_per_request']}", file=sys.stderr)
    if row["failure"] or row["errors"]:
        figures.miss(cpu, subject, row["failure"] or row["errors_by_kind"])
        return
    figures.add_cost(cpu, subject, row["server_cpu_us_per_request"], "us a request")
    figures.add(p99, subject, row["response_p99_us"], "us")


def measure_opening(figures: Figures, shop: Workshop, server: Server) -> None:
    """Open connections one after another, each answered once and then kept; measure the time."""
    request = b"GET /page-305.html HTTP/1.1\r\nHost: bench\r\n\r\n"
    before = os.sched_getaffinity(0)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with serving(server, shop.site, shop.server_core, ("/page-305.html", 305)) as running:
        port = urllib.parse.urlsplit(running.url).port or 80
        connections = []
        os.sched_setaffinity(0, {shop.client_core})
        start = time.monotonic()
        for i in range(IDLE_CONNECTIONS):
            source = (f"127.0.0.{2 + i % 50}", 0)
            connection = socket.create_connection(("127.0.0.1", port), 30, source)
            connection.send(request)
            connection.recv(4096)
            connections.append(connection)
        figures.add(OPENING, server.name, time.monotonic() - start, "s")
        os.sched_setaffinity(0, before)
        for connection in connections:
            connection.close()


def measure_openings(figures: Figures, shop: Workshop, servers: list[Server], rounds: int) -> None:
    """Measure each in turn, several times."""
    for server in servers * rounds:
        measure_opening(figures, shop, server)


def client_cost(figures: Figures, shop: Workshop, seconds: float) -> None:
    """Measure what a request costs each load generator, against the same bare loop."""
    name = "client CPU a request"
    floor = floor_server("keep", 305, 545)
    ours = ("load", "-c", "128", "-d", f"{seconds:g}", "--json", str(shop.site.folder / "cost"))
    second = wrk.installed()
    runs: dict[str, Callable[[str], int]] = {
        "gossamer load": lambda url: our_requests(shop, (str(shop.program), *ours, url))
    }
    if second:
        runs[WRK] = lambda url: second.run(url, 128, seconds)
    else:
        figures.miss(name, WRK, "not installed: make peers")
    for subject, run in runs.items():
        with serving(floor, shop.site, shop.server_core, ("/", 305)) as running:
            before = os.times()
            requests = run(running.url + "/")
            after = os.times()
        cpu = CpuTime(
            after.children_user - before.children_user,
            after.children_system - before.children_system,
        )
        figures.add_cost(name, subject, cpu.total_s / requests * 1e6, "us a request")


def our_requests(shop: Workshop, command: tuple[str, ...]) -> int:
    """Run our load generator, which keeps to our own core; return how many requests it made."""
    subprocess.run(command, check=True, capture_output=True)
    requests: int = json.loads((shop.site.folder / "cost").read_text())["requests"]
    return requests


def set_limits(figures: Figures, chosen: str) -> None:
    """State what is to be reached."""
    for point in POINTS:
        if chosen not in point.key:
            continue
        cpu, p99 = cpu_name(point, LOAD), p99_name(point)
        if not point.kept_alive:
            figures.limit(cpu, OURS, ("h2o",), 0.9)
            figures.limit(cpu, OURS, (FLOOR,), 1.2)
            continue
        small = point.size == 305
        figures.limit(cpu, OURS, PEERS, 0.85 if small else 0.9)
        figures.limit(cpu, OURS, (FLOOR,), 1.08 if small else 1.1)
        if point in WRK_POINTS:
            figures.limit(cpu_name(point, WRK), OURS, PEERS, 0.85)
            figures.limit(cpu_name(point, WRK), OURS, (FLOOR,), 1.08)
        if small and point.connections in (128, 1000):
            figures.limit(p99, OURS, PEERS, 1.0)
        if small:
            figures.limit(cpu, RING, (OURS,), 1.0)
            figures.limit(cpu, THREADS, (OURS,), 1.1 if point.connections == 10_000 else 1.05)
    if chosen in "idle":
        figures.limit(IDLE, THREADS, ("5 KiB",), 1.0)
        figures.limit(OPENING, THREADS, (OURS,), 1.2)
        figures.limit(IDLE, OURS, ("526 bytes",), 1.0)
    if chosen in "client":
        figures.limit("client CPU a request", "gossamer load", (WRK,), 1.0)


def main() -> int:
    """Measure all; 1 if a limit is not kept."""
    settings = arguments(__doc__ or "")
    figures = Figures()
    experiment = Experiment("web", "", POINTS, (), PEERS)
    program = paths.program()
    with workshop(experiment, program) as shop:
        ours = [server for server in our_servers(program) if server.name in (OURS, THREADS)]
        servers = [*ours, *ring_servers(figures, program), *present_peers(PEERS)]
        for name in absent_peers(PEERS):
            figures.miss("all", name, "not installed: make peers")
        measure_points(figures, shop, servers)
        if settings.only in "idle":
            for server in servers:
                holding.measure(figures, shop, server, IDLE_CONNECTIONS, IDLE)
            figures.add(IDLE, "526 bytes", 526, "bytes each")
            figures.add(IDLE, "5 KiB", 5120, "bytes each")
            measure_openings(figures, shop, ours, settings.rounds)
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
