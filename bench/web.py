"""Compares the web server with nginx, lighttpd, h2o and a baseline; and applications."""

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

import connection_memory
import wrk
from points import bench
from results import Results, arguments

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring import measure
from gossamer_lab.measuring.accounting import CpuTime
from gossamer_lab.measuring.load import LoadFailedError
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Launch, Server, Site, serving

PEERS = ("nginx", "lighttpd", "h2o")
KEEP, CLOSE = 0, 1
POINTS = (
    *(Point(f"305-keep-{n}", 305, n, KEEP) for n in (16, 128, 1000, 10_000)),
    *(Point(f"8192-keep-{n}", 8192, n, KEEP) for n in (128, 1000)),
    *(Point(f"305-close-{n}", 305, n, CLOSE) for n in (64, 256, 1000)),
)
LOAD, WRK = "load", "wrk"
"""The load generators; the name of each result contains the one that was used."""
WRK_POINTS = tuple(
    point
    for point in POINTS
    if point.is_keep_alive and point.size == 305 and point.connections in (16, 128, 1000)
)
IDLE_CONNECTIONS = 10_000
IDLE = f"{IDLE_CONNECTIONS} idle connections"
OURS, THREADS = "event", "user"
OPENING = f"{IDLE_CONNECTIONS} connections opened sequentially"
RING = "event-io_uring"
BASELINE, BASELINE_RING = "baseline", "baseline-io_uring"
APP, GO_APP, H2O_APP = "app", "go-app", "h2o-app"
"""Handlers that respond from memory: of gs_http_serve, of Go's net/http, and of libh2o."""


def response_length(server: Server, site: Site, size: int, core: int) -> int:
    """Return the length of our response with the page, including its header."""
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


def baseline_server(kind: str, size: int, total: int) -> Server:
    """Return the baseline server, with responses of this length; kind: keep, ring or close."""
    program = paths.program().parent / "bench/servers/baseline"

    def configure(_site: Site) -> Launch:
        return Launch((str(program), kind, str(size), str(total)))

    name = BASELINE_RING if kind == "ring" else BASELINE
    return Server(name, False, "baseline", "this checkout", configure)


def applications(size: int) -> list[Server]:
    """Return servers that are applications: ours, and those of Go and libh2o if they were built."""
    folder = paths.program().parent / "bench/servers"

    def configure(*command: str) -> Callable[[Site], Launch]:
        return lambda _site: Launch(command)

    found = [Server(APP, False, "app", "this checkout", configure(str(folder / "app"), str(size)))]
    if go := paths.peer("go-http"):
        command = configure(str(go), "-app", str(size), "127.0.0.1")
        found.append(Server(GO_APP, False, "Go's net/http", "peers", command))
    if (h2o := folder / "h2o_app").exists():
        command = configure(str(h2o), str(size))
        found.append(Server(H2O_APP, False, "libh2o", "peers", command))
    return found


def check_application(server: Server, workspace: Workspace, size: int) -> None:
    """End the program unless the application gives the response that all of them must give."""
    with serving(server, workspace.site, workspace.server_core, ("/", size)) as running:
        address = urllib.parse.urlsplit(running.url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        for _ in range(2):  # both on one connection
            connection.request("GET", "/")
            local = connection.sock.getsockname()
            response = connection.getresponse()
            found = (response.status, response.getheader("Content-Type"), response.read())
            if found != (200, "text/html", bytes(size)):
                sys.exit(f"web: {server.name} responds with {found[:2]}, {len(found[2])} bytes")
            if not connection.sock or connection.sock.getsockname() != local:
                sys.exit(f"web: {server.name} closes the connection")
        connection.close()


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
    second = wrk.installed()
    if not second:
        results.skip("all", WRK, "not installed: make peers")
    each = bench(workspace, settings.seconds)
    points = [point for point in POINTS if settings.only in point.key]
    lengths = {
        size: response_length(servers[0], workspace.site, size, workspace.server_core)
        for size in {point.size for point in points}
    }
    for size in lengths:
        for server in applications(size):
            check_application(server, workspace, size)
    for number in range(settings.rounds):
        for point in points:
            has_ring = RING in {server.name for server in servers}
            kinds = ("keep", "ring")[: 1 + has_ring] if point.is_keep_alive else ("close",)
            baselines = [baseline_server(kind, point.size, lengths[point.size]) for kind in kinds]
            subjects = [*servers, *baselines, *applications(point.size)]
            random.shuffle(subjects)
            step = Step(0, number, point, "")
            for server in subjects:
                report(results, point, server.name, measure.measure(step, server, each))
            for server in subjects if second and point in WRK_POINTS else []:
                measure_with_wrk(results, second, workspace, server, point)


def measure_with_wrk(
    results: Results, second: wrk.Wrk, workspace: Workspace, server: Server, point: Point
) -> None:
    """Repeat the measurement of a point with wrk."""
    name, seconds = cpu_name(point, WRK), arguments(__doc__ or "").seconds
    try:
        cost = wrk.server_cpu(second, workspace, server, point, seconds)
    except wrk.WrkFailedError as failure:
        results.skip(name, server.name, str(failure))
        return
    print(f"  {point.key} {server.name} under wrk: {cost}", file=sys.stderr)
    results.add_cost(name, server.name, cost, "us per request")


def cpu_name(point: Point, client: str) -> str:
    """Return the name of the measurements of a point's CPU time."""
    return f"{point.key} {client} CPU"


def p99_name(point: Point) -> str:
    """Return the name of the measurements of a point's 99th percentile."""
    return f"{point.key} {LOAD} p99"


def report(results: Results, point: Point, subject: str, row: measure.Row) -> None:
    """Add the results of one measurement."""
    cpu, p99 = cpu_name(point, LOAD), p99_name(point)
    print(f"  {point.key} {subject}: {row['server_cpu_us_per_request']}", file=sys.stderr)
    if row["failure"] or row["errors"]:
        results.skip(cpu, subject, row["failure"] or row["errors_by_kind"])
        return
    results.add_cost(cpu, subject, row["server_cpu_us_per_request"], "us per request")
    results.add(p99, subject, row["response_p99_us"], "us")


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


def client_cost(results: Results, workspace: Workspace, seconds: float) -> None:
    """Measure the CPU time per request of each load generator, with the baseline server."""
    name = "client CPU per request"
    baseline = baseline_server("keep", 305, 545)
    ours = (
        "load",
        "-c",
        "128",
        "-d",
        f"{seconds:g}",
        "--json",
        str(workspace.site.folder / "cost"),
    )
    second = wrk.installed()
    runs: dict[str, Callable[[str], int]] = {
        "gossamer load": lambda url: our_requests(workspace, (str(workspace.program), *ours, url))
    }
    if second:
        runs[WRK] = lambda url: second.run(url, 128, seconds)
    else:
        results.skip(name, WRK, "not installed: make peers")
    for subject, run in runs.items():
        with serving(baseline, workspace.site, workspace.server_core, ("/", 305)) as running:
            before = os.times()
            requests = run(running.url + "/")
            after = os.times()
        cpu = CpuTime(
            after.children_user - before.children_user,
            after.children_system - before.children_system,
        )
        results.add_cost(name, subject, cpu.total_s / requests * 1e6, "us per request")


def our_requests(workspace: Workspace, command: tuple[str, ...]) -> int:
    """Run our load generator on the core of this process; return the number of requests."""
    subprocess.run(command, check=True, capture_output=True)
    requests: int = json.loads((workspace.site.folder / "cost").read_text())["requests"]
    return requests


def set_limits(results: Results, chosen: str) -> None:
    """Set the limits."""
    for point in POINTS:
        if chosen not in point.key:
            continue
        cpu, p99 = cpu_name(point, LOAD), p99_name(point)
        if not point.is_keep_alive:
            results.limit(cpu, OURS, ("h2o",), 0.9)
            results.limit(cpu, OURS, (BASELINE,), 1.2)
            continue
        small = point.size == 305
        results.limit(cpu, OURS, PEERS, 0.85 if small else 0.9)
        results.limit(cpu, OURS, (BASELINE,), 1.08 if small else 1.1)
        if point in WRK_POINTS:
            results.limit(cpu_name(point, WRK), OURS, PEERS, 0.85)
            results.limit(cpu_name(point, WRK), OURS, (BASELINE,), 1.08)
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
    if chosen in "client":
        results.limit("client CPU per request", "gossamer load", (WRK,), 1.0)


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    settings = arguments(__doc__ or "")
    results = Results()
    experiment = Experiment("web", "", POINTS, (), PEERS)
    program = paths.program()
    with open_workspace(experiment, program) as workspace:
        ours = [server for server in our_servers(program) if server.name in (OURS, THREADS)]
        servers = [*ours, *ring_servers(results, program), *present_peers(PEERS)]
        for name in absent_peers(PEERS):
            results.skip("all", name, "not installed: make peers")
        found = {server.name for server in applications(0)}
        for name in {GO_APP, H2O_APP} - found:
            results.skip("all", name, "not built: make peers build")
        measure_points(results, workspace, servers)
        if settings.only in "idle":
            for server in servers:
                connection_memory.measure(results, workspace, server, IDLE_CONNECTIONS, IDLE)
            results.add(IDLE, "526 bytes", 526, "bytes each")
            results.add(IDLE, "5 KiB", 5120, "bytes each")
            measure_openings(results, workspace, ours, settings.rounds)
        if settings.only in "client":
            for _ in range(settings.rounds):
                client_cost(results, workspace, settings.seconds)
    set_limits(results, settings.only)
    return results.finish(settings.json)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LoadFailedError as failure:
        sys.exit(f"web: {failure}")
