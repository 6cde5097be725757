"""One measurement: a fresh server, a warm-up, then a load with the server's CPU time around it."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gossamer_lab.accounting import CpuTime, core_busy_s, family_cpu
from gossamer_lab.load import Generator, LoadFailedError
from gossamer_lab.schedule import Step
from gossamer_lab.servers.server import Server, ServerFailedError, Site, serving

_SETTLE_S = 0.05
"""After the warm-up: the server closes its connections before its CPU time is read."""

Row = dict[str, Any]
"""One measurement as it stands in the raw data."""

_LATENCIES = ("response", "connect", "first_byte")
_QUANTILES = ("mean", "p50", "p75", "p90", "p99", "p999", "max")
_REPORTED = (
    "requests",
    "seconds",
    "throughput_per_s",
    "bytes_per_s",
    "offered_load",
    "measured_load",
    "client_cpu_s",
)
_FIGURES = (
    *_REPORTED,
    "errors",
    "errors_by_kind",
    *(f"{kind}_{quantile}_us" for kind in _LATENCIES for quantile in _QUANTILES),
    *("server_user_s", "server_system_s", "server_cpu_us_per_request"),
    *("server_busy", "client_busy", "server_core_lost"),
)


@dataclass(frozen=True)
class Bench:
    """What every measurement of a run shares."""

    site: Site
    generator: Generator
    server_core: int
    seconds: float
    warmup_s: float


@dataclass(frozen=True)
class Used:
    """What was used while a load lasted."""

    cpu: CpuTime
    """By the server."""
    core_s: float
    """Of the server's core, by the server and by anything else."""
    wall_s: float


def figures(report: dict[str, Any], used: Used) -> Row:
    """Return the figures of a measurement from the load's report and the server's CPU time.

    The load counts every request since its start, as the CPU time does: their quotient is exact
    but for the connections' set-up and the requests cut off at the end.
    """
    row: Row = {name: report[name] for name in _REPORTED}
    errors: dict[str, int] = report["errors"]
    row["errors"] = sum(errors.values())
    row["errors_by_kind"] = ", ".join(f"{kind}: {n}" for kind, n in errors.items() if n)
    for kind in _LATENCIES:
        histogram = report.get(f"{kind}_us") or {}
        for quantile in _QUANTILES:
            row[f"{kind}_{quantile}_us"] = histogram.get(quantile)
    cpu, wall_s = used.cpu, used.wall_s
    row["server_user_s"], row["server_system_s"] = cpu.user_s, cpu.system_s
    requests = report["requests"]
    row["server_cpu_us_per_request"] = cpu.total_s / requests * 1e6 if requests else None
    row["server_busy"] = cpu.total_s / wall_s
    row["client_busy"] = report["client_cpu_s"] / wall_s
    row["server_core_lost"] = max(used.core_s - cpu.total_s, 0.0) / wall_s
    return row


def _readings(server: int, core: int) -> tuple[CpuTime, float, float]:
    """Read the server's CPU time, the use of its core, and the clock."""
    return family_cpu(server), core_busy_s(core), time.monotonic()


def _measured(step: Step, server: Server, bench: Bench) -> Row:
    """Start the server, warm it up, measure; the failures of server and load pass through."""
    point = step.point
    with serving(server, bench.site, bench.server_core, (point.path, point.size)) as running:
        if bench.warmup_s > 0:
            bench.generator.run(running.url, point, bench.warmup_s)
            time.sleep(_SETTLE_S)
        before, core, began = _readings(running.pid, bench.server_core)
        report = bench.generator.run(running.url, point, bench.seconds)
        after, core_after, ended = _readings(running.pid, bench.server_core)
    return figures(report, Used(after - before, core_after - core, ended - began))


def measure(step: Step, server: Server, bench: Bench) -> Row:
    """Carry out one step; a failure gives a row too, without figures but with the reason."""
    row: Row = {
        "order": step.order,
        "round": step.round,
        "point": step.point.key,
        "server": server.name,
        "ours": server.ours,
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "failure": None,
    }
    try:
        return row | _measured(step, server, bench)
    except (ServerFailedError, LoadFailedError) as failure:
        return row | dict.fromkeys(_FIGURES) | {"failure": str(failure)}
