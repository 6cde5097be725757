"""What the groups of bench/web share: the servers, and the results of a measurement."""

import sys
from dataclasses import replace

from results import Results

from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring import measure
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.servers.server import Server

PEERS = ("nginx", "lighttpd", "h2o")
OURS, THREADS = "event", "user"


def cpu_name(point: Point) -> str:
    """Return the name of the measurements of a point's CPU time."""
    return f"{point.key} CPU"


def p99_name(point: Point) -> str:
    """Return the name of the measurements of a point's 99th percentile."""
    return f"{point.key} p99"


def report(results: Results, point: Point, subject: str, row: measure.Row) -> None:
    """Add the results of one measurement."""
    cpu, p99 = cpu_name(point), p99_name(point)
    print(f"  {point.key} {subject}: {row['server_cpu_us_per_request']}", file=sys.stderr)
    if row["failure"] or row["errors"]:
        results.skip(cpu, subject, row["failure"] or row["errors_by_kind"])
        return
    results.add_cost(cpu, subject, row["server_cpu_us_per_request"], "us per request")
    results.add(p99, subject, row["response_p99_us"], "us")


def reason_to_refuse(row: measure.Row, point: Point) -> str | None:
    """Return why the memory of idle connections does not count; None: it does.

    It counts only if all connections were open, and each has had one response.
    """
    if row["failure"] or row["errors"]:
        return str(row["failure"] or row["errors_by_kind"])
    if row["server_memory_per_connection"] is None:
        return "no sample"
    wanted, opened, responses = point.connections, row["server_connections"], row["requests"]
    if opened < wanted or responses != wanted:
        return f"{opened} connections were open, with {responses} responses, instead of {wanted}"
    return None


def measure_idle(
    results: Results, setup: measure.MeasurementSetup, point: Point, servers: list[Server]
) -> None:
    """Measure the memory of each idle connection, after one request on each."""
    setup = replace(setup, scale=replace(setup.scale, warmup_s=0.0))
    for server in servers:
        row = measure.measure(Step(0, 1, point, server.name), server, setup)
        size, reason = row["server_memory_per_connection"], reason_to_refuse(row, point)
        print(f"  {point.key} {server.name}: {reason or round(size)}", file=sys.stderr)
        if reason:
            results.skip(point.key, server.name, reason)
        else:
            results.add(point.key, server.name, size, "bytes each")
