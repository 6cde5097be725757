"""Every architecture beside the others: requests, CPU time, switches, p99, memory."""

import random
import sys
from itertools import product

import holding
from figures import Figures, arguments
from points import architectures, bench

from gossamer_lab import measure, paths
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.schedule import Step
from gossamer_lab.servers.peers import absent_peers, present_peers
from gossamer_lab.servers.server import Server
from gossamer_lab.workshop import Workshop, workshop

PEERS = ("apache-worker",)
POINTS = tuple(Point(f"{n} connections", 305, n, 0) for n in (1, 128, 1000, 10_000))
LIMITED = ("128 connections", "1000 connections")
HELD = (128, 1000, 10_000)
BLOCKING = ("thread", "pool", "queue")
TENTH = "one in ten"


def cpu_name(point: str) -> str:
    """Return the name of the figures of CPU time."""
    return f"{point}: CPU"


def switches_name(point: str) -> str:
    """Return the name of the figures of context switches by the kernel."""
    return f"{point}: switches"


def report(figures: Figures, point: Point, server: Server, row: measure.Row) -> None:
    """Add what one measurement gave."""
    name = point.key
    print(f"  {name} {server.name}: {row['server_cpu_us_per_request']}", file=sys.stderr)
    if row["failure"] or row["errors"] or not row["requests"]:
        reason = row["failure"] or row["errors_by_kind"] or "no request was answered"
        figures.miss(cpu_name(name), server.name, str(reason))
        return
    figures.add_cost(cpu_name(name), server.name, row["server_cpu_us_per_request"], "us a request")
    figures.add(f"{name}: requests", server.name, row["throughput_per_s"], "a second")
    figures.add(f"{name}: p99", server.name, row["response_p99_us"], "us")
    switches = row["server_switches_per_s"]
    if switches is None:
        figures.miss(switches_name(name), server.name, "the load was over before they were counted")
        return
    figures.add(f"{name}: switches a second", server.name, switches, "a second")
    figures.add(switches_name(name), server.name, switches / row["throughput_per_s"], "a request")


def measure_points(figures: Figures, shop: Workshop, servers: list[Server]) -> None:
    """Measure every point, the servers of each in a new order every round."""
    settings = arguments(__doc__ or "")
    each = bench(shop, settings.seconds)
    for number, point in product(range(settings.rounds), POINTS):
        for server in random.sample(servers, len(servers)):
            if settings.only in f"{point.key} {server.name}":
                step = Step(0, number, point, "")
                report(figures, point, server, measure.measure(step, server, each))


def measure_memory(figures: Figures, shop: Workshop, server: Server) -> None:
    """Measure what held connections cost."""
    reason = "what one connection needs is less than what else changes meanwhile"
    figures.miss("1 connections: memory", server.name, reason)
    for connections in HELD:
        holding.measure(figures, shop, server, connections, f"{connections} connections: memory")


def set_limits(figures: Figures, chosen: str) -> None:
    """State what is to be reached."""
    for point in LIMITED:
        if chosen not in point:
            continue
        for name in BLOCKING:
            figures.limit(cpu_name(point), name, PEERS, 0.7)
        figures.limit(cpu_name(point), "stage", ("event",), 1.5)
        figures.add(switches_name(point), TENTH, 0.1, "a request")
        figures.limit(switches_name(point), "stage", (TENTH,), 1.0)


def main() -> int:
    """Measure all; 1 if a limit is not kept."""
    settings = arguments(__doc__ or "")
    figures = Figures()
    program = paths.program()
    with workshop(Experiment("arch", "", POINTS, (), PEERS), program) as shop:
        ours = architectures(program)
        for name in absent_peers(PEERS):
            figures.miss("all", name, "not installed: make peers")
        measure_points(figures, shop, [*ours, *present_peers(PEERS)])
        for server in ours:
            if settings.only in f"memory {server.name}":
                measure_memory(figures, shop, server)
    set_limits(figures, settings.only)
    return figures.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
