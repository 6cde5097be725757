"""Compares all architectures: CPU time and context switches of a request."""

import random
import sys
from itertools import product

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
POINTS = tuple(Point(f"{n} connections", 305, n, 0) for n in (128, 1000))
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
    switches = row["server_switches_per_s"]
    if switches is None:
        results.skip(switches_name(name), server.name, "the load ended before they were counted")
        return
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


def set_limits(results: Results, chosen: str) -> None:
    """Set the limits."""
    for point in (point.key for point in POINTS if chosen in point.key):
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
        for name in absent_peers(PEERS):
            results.skip("all", name, "not installed: make peers")
        measure_points(results, workspace, [*architectures(program), *present_peers(PEERS)])
    set_limits(results, settings.only)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
