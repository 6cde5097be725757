"""Compares the web server with nginx, lighttpd, h2o and a baseline; and an application."""

import os
import random
import resource
import socket
import sys
import time
import urllib.parse
from pathlib import Path

from points import bench
from results import Results, arguments
from web_h2 import H2_POINTS, measure_h2, set_h2_limits
from web_points import OURS, PEERS, THREADS, cpu_name, measure_idle, p99_name, report
from web_tls import TLS_POINTS, measure_tls, set_tls_limits

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring import measure
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Launch, Server, Site, connect, serving

KEEP, CLOSE = 0, 1
POINTS = (
    *(Point(f"305-keep-{n}", 305, n, KEEP) for n in (16, 128, 1000, 10_000)),
    *(Point(f"8192-keep-{n}", 8192, n, KEEP) for n in (128, 1000)),
    *(Point(f"305-close-{n}", 305, n, CLOSE) for n in (64, 256, 1000)),
)
IDLE_CONNECTIONS = 10_000
IDLE = f"{IDLE_CONNECTIONS} idle connections"
IDLE_POINT = Point(IDLE, 305, IDLE_CONNECTIONS, KEEP, think_ms=60_000)
IDLE_S = 8.0
"""Within half of this time all connections are open and have had their response."""
OPENING = f"{IDLE_CONNECTIONS} connections opened sequentially"
RING = "event-io_uring"
BASELINE, BASELINE_RING = "baseline", "baseline-io_uring"
APP = "app"
"""A handler of gs_http_serve that responds from memory."""


def response_length(server: Server, site: Site, size: int, core: int) -> int:
    """Return the length of our response with the page, including its header."""
    point = Point("", size, 1, KEEP)
    with serving(server, site, core, (point.path, point.size)) as running:
        connection = connect(running.url)
        connection.request("GET", point.path)
        response = connection.getresponse()
        head = sum(len(name) + len(value) + 4 for name, value in response.getheaders())
        length = len("HTTP/1.1 200 OK\r\n") + head + 2 + len(response.read())
        connection.close()
    return length


def baseline_server(kind: str, size: int, total: int) -> Server:
    """Return the baseline server, with responses of this length; kind: keep, ring or close."""
    program = paths.program().parent / "bench/servers/baseline"

    def configure(_site: Site) -> Launch:
        return Launch((str(program), kind, str(size), str(total)))

    name = BASELINE_RING if kind == "ring" else BASELINE
    return Server(name, False, "baseline", "this checkout", configure)


def application(size: int) -> Server:
    """Return the application, which responds to each request with this many bytes."""
    program = paths.program().parent / "bench/servers/app"

    def configure(_site: Site) -> Launch:
        return Launch((str(program), str(size)))

    return Server(APP, False, "app", "this checkout", configure)


def ring_servers(results: Results, program: Path) -> list[Server]:
    """Return our architecture event over io_uring, if the kernel permits it."""
    disabled = Path("/proc/sys/kernel/io_uring_disabled")
    version = tuple(int(number) for number in os.uname().release.split(".")[:2])
    if version < (6, 1) or (disabled.exists() and disabled.read_text().strip() != "0"):
        for name in (RING, BASELINE_RING):
            results.skip("all", name, "io_uring is not available")
        return []

    options = ("--arch", OURS, "--poller", "io_uring", "--workers", "1")
    command = (str(program), "serve", *options, "--listen", "127.0.0.1:0")
    return [
        Server(
            RING,
            True,
            "event over io_uring",
            "this checkout",
            lambda site: Launch((*command, str(site.root))),
        )
    ]


def measure_points(results: Results, workspace: Workspace, servers: list[Server]) -> None:
    """Measure every point; the order of the servers is random in each round."""
    settings = arguments(__doc__ or "")
    each = bench(workspace, settings.seconds)
    points = [point for point in POINTS if settings.only in point.key]
    lengths = {
        size: response_length(servers[0], workspace.site, size, workspace.server_core)
        for size in {point.size for point in points}
    }
    for number in range(settings.rounds):
        for point in points:
            has_ring = RING in {server.name for server in servers}
            kinds = ("keep", "ring")[: 1 + has_ring] if point.is_keep_alive else ("close",)
            baselines = [baseline_server(kind, point.size, lengths[point.size]) for kind in kinds]
            subjects = [*servers, *baselines, application(point.size)]
            random.shuffle(subjects)
            step = Step(0, number, point, "")
            for server in subjects:
                report(results, point, server.name, measure.measure(step, server, each))


def measure_opening(results: Results, workspace: Workspace, server: Server) -> None:
    """Measure the time to open connections sequentially, with one request on each."""
    request = b"GET /page-305.html HTTP/1.1\r\nHost: bench\r\n\r\n"
    before = os.sched_getaffinity(0)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with serving(server, workspace.site, workspace.server_core, ("/page-305.html", 305)) as running:
        port = urllib.parse.urlsplit(running.url).port or 80
        connections = []
        os.sched_setaffinity(0, {workspace.client_core})
        start = time.monotonic()
        for i in range(IDLE_CONNECTIONS):
            source = (f"127.0.0.{2 + i % 50}", 0)
            connection = socket.create_connection(("127.0.0.1", port), 30, source)
            connection.send(request)
            connection.recv(4096)
            connections.append(connection)
        results.add(OPENING, server.name, time.monotonic() - start, "s")
        os.sched_setaffinity(0, before)
        for connection in connections:
            connection.close()


def measure_openings(
    results: Results, workspace: Workspace, servers: list[Server], rounds: int
) -> None:
    """Measure each server once per round."""
    for server in servers * rounds:
        measure_opening(results, workspace, server)


def set_limits(results: Results, chosen: str) -> None:
    """Set the limits."""
    for point in POINTS:
        if chosen not in point.key:
            continue
        cpu, p99 = cpu_name(point), p99_name(point)
        if not point.is_keep_alive:
            results.limit(cpu, OURS, ("h2o",), 0.9)
            results.limit(cpu, OURS, (BASELINE,), 1.2)
            continue
        small = point.size == 305
        results.limit(cpu, OURS, PEERS, 0.85 if small else 0.9)
        results.limit(cpu, OURS, (BASELINE,), 1.08 if small else 1.1)
        if small and point.connections in (128, 1000):
            results.limit(p99, OURS, PEERS, 1.0)
        if small:
            results.limit(cpu, RING, (OURS,), 1.0)
            if point.connections >= 128:
                results.limit(cpu, RING, (BASELINE,), 0.92)
            results.limit(cpu, THREADS, (OURS,), 1.05 if point.connections == 10_000 else 1.02)
    if chosen in "idle":
        results.limit(IDLE, THREADS, ("5 KiB",), 1.0)
        results.limit(OPENING, THREADS, (OURS,), 1.2)
        results.limit(IDLE, OURS, ("526 bytes",), 1.0)


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    settings = arguments(__doc__ or "")
    results = Results()
    experiment = Experiment("web", "", (*POINTS, *TLS_POINTS, *H2_POINTS), (), PEERS)
    program = paths.program()
    with open_workspace(experiment, program) as workspace:
        ours = [server for server in our_servers(program) if server.name in (OURS, THREADS)]
        servers = [*ours, *ring_servers(results, program), *present_peers(PEERS)]
        for name in absent_peers(PEERS):
            results.skip("all", name, "not installed: make peers")
        measure_points(results, workspace, servers)
        if settings.only in "idle":
            measure_idle(results, bench(workspace, IDLE_S), IDLE_POINT, servers)
            results.add(IDLE, "526 bytes", 526, "bytes each")
            results.add(IDLE, "5 KiB", 5120, "bytes each")
            measure_openings(results, workspace, ours, settings.rounds)
        measure_tls(results, workspace, settings)
        measure_h2(results, workspace, settings)
    set_limits(results, settings.only)
    set_tls_limits(results, settings.only)
    set_h2_limits(results, settings.only)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
