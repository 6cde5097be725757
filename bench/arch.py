"""Compares all architectures: requests, CPU time, context switches, p99, memory."""

import random
import sys
from itertools import product

import connection_memory
from points import architectures, bench
from results import Results, arguments

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring import measure
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Server

PEERS = ("apache-worker",)
POINTS = tuple(Point(f"{n} connections", 305, n, 0) for n in (1, 128, 1000, 10_000))
LIMITED = ("128 connections", "1000 connections")
IDLE_CONNECTIONS = (128, 1000, 10_000)
BLOCKING = ("thread", "pool", "queue")
TENTH = "one in ten"


def cpu_name(point: str) -> str:
    """Return the name of the measurements of CPU time."""
    return f"{point}: CPU"


def switches_name(point: str) -> str:
    """Return the name of the measurements of context switches by the kernel."""
    return f"{point}: switches"


def report(results: Results, point: Point, server: Server, row: measure.Row) -> None:
    """Add the results of one measurement."""
    name = point.key
    print(f"  {name} {server.name}: {row['server_cpu_us_per_request']}", file=sys.stderr)
    if row["failure"] or row["errors"] or not row["requests"]:
        reason = row["failure"] or row["errors_by_kind"] or "no request was answered"
        results.skip(cpu_name(name), server.name, str(reason))
        return
    results.add_cost(
        cpu_name(name), server.name, row["server_cpu_us_per_request"], "us per request"
    )
    results.add(f"{name}: requests", server.name, row["throughput_per_s"], "per second")
    results.add(f"{name}: p99", server.name, row["response_p99_us"], "us")
    switches = row["server_switches_per_s"]
    if switches is None:
        results.skip(switches_name(name), server.name, "the load ended before they were counted")
        return
    results.add(f"{name}: switches per second", server.name, switches, "per second")
    results.add(switches_name(name), server.name, switches / row["throughput_per_s"], "per request")


def measure_points(results: Results, workspace: Workspace, servers: list[Server]) -> None:
    """Measure every point; the order of the servers is random in each round."""
    settings = arguments(__doc__ or "")
    each = bench(workspace, settings.seconds)
    for number, point in product(range(settings.rounds), POINTS):
        for server in random.sample(servers, len(servers)):
            if settings.only in f"{point.key} {server.name}":
                step = Step(0, number, point, "")
                report(results, point, server, measure.measure(step, server, each))


def measure_memory(results: Results, workspace: Workspace, server: Server) -> None:
    """Measure the memory of idle connections."""
    reason = "the memory of one connection is less than other changes"
    results.skip("1 connections: memory", server.name, reason)
    for connections in IDLE_CONNECTIONS:
        connection_memory.measure(
            results, workspace, server, connections, f"{connections} connections: memory"
        )


def set_limits(results: Results, chosen: str) -> None:
    """Set the limits."""
    for point in LIMITED:
        if chosen not in point:
            continue
        for name in BLOCKING:
            results.limit(cpu_name(point), name, PEERS, 0.7)
        results.limit(cpu_name(point), "stage", ("event",), 1.5)
        results.add(switches_name(point), TENTH, 0.1, "per request")
        results.limit(switches_name(point), "stage", (TENTH,), 1.0)


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    settings = arguments(__doc__ or "")
    results = Results()
    program = paths.program()
    with open_workspace(Experiment("arch", "", POINTS, (), PEERS), program) as workspace:
        ours = architectures(program)
        for name in absent_peers(PEERS):
            results.skip("all", name, "not installed: make peers")
        measure_points(results, workspace, [*ours, *present_peers(PEERS)])
        for server in ours:
            if settings.only in f"memory {server.name}":
                measure_memory(results, workspace, server)
    set_limits(results, settings.only)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
