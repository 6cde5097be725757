"""One measurement: a fresh server, a warm-up, then a load with the server's CPU time around it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gossamer_lab import brake
from gossamer_lab.accounting import (
    CpuTime,
    accept_queue_overflows,
    core_busy_s,
    family_cpu,
    family_memory_kb,
    family_switches,
)
from gossamer_lab.experiment import Case, Point, Program, Scale, Soundness
from gossamer_lab.load import Generator, Load, LoadFailedError
from gossamer_lab.program import ProgramFailedError, Runner, run_program
from gossamer_lab.schedule import Step
from gossamer_lab.servers.server import Running, Server, ServerFailedError, Site, serving
from gossamer_lab.soundness import void_reason

_COUNTED_AFTER = 0.5
"""Of a load, before the context switches are counted."""
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
    *("server_switches_per_s", "server_memory_kb", "accept_queue_overflows", "void"),
    "brake_share",
)


@dataclass(frozen=True)
class Bench:
    """What every measurement of a run shares."""

    site: Site
    generator: Generator
    server_core: int
    seconds: float
    scale: Scale
    soundness: Soundness | None
    server_share: float | None
    """What the brake leaves of the server's core; None: there is no brake."""
    runner: Runner


@dataclass(frozen=True)
class Used:
    """What was used while a load lasted."""

    cpu: CpuTime
    """By the server."""
    core_s: float
    """Of the server's core, by the server and by anything else."""
    wall_s: float
    switches_per_s: float | None = None
    """By the kernel, away from the server's threads."""
    overflows: int | None = None
    """Of accept queues, on the whole machine."""


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
    row["server_switches_per_s"] = used.switches_per_s
    row["accept_queue_overflows"] = used.overflows
    return row


@dataclass(frozen=True)
class _Reading:
    """Counters of one moment."""

    cpu: CpuTime
    core_s: float
    overflows: int
    clock_s: float

    @classmethod
    def take(cls, server: int, core: int, held: brake.Brake) -> "_Reading":
        """Read them; what the brake has used is not counted as anybody's use of the core."""
        core_s = core_busy_s(core) - held.used_s()
        return cls(family_cpu(server), core_s, accept_queue_overflows(), time.monotonic())

    def until(self, after: "_Reading", switches_per_s: float | None) -> Used:
        """Return what was used between this reading and a later one."""
        return Used(
            after.cpu - self.cpu,
            after.core_s - self.core_s,
            after.clock_s - self.clock_s,
            switches_per_s=switches_per_s,
            overflows=after.overflows - self.overflows,
        )


class _Switches:
    """Counts a server's context switches while the load lasts: threads take theirs with them."""

    def __init__(self, server: int, generator: Generator, seconds: float) -> None:
        """Count once, in the second half of the load."""
        self.server = server
        self.generator = replace(generator, tick=self._tick)
        self.tick = generator.tick
        self.before, self.began = family_switches(server), time.monotonic()
        self.due = self.began + _COUNTED_AFTER * seconds
        self.per_s: float | None = None

    def _tick(self) -> None:
        self.tick()
        now = time.monotonic()
        if self.per_s is None and now >= self.due:
            counted = family_switches(self.server) - self.before
            self.per_s = max(counted, 0) / (now - self.began)


def _loaded(point: Point, running: Running, bench: Bench, read: Callable[[], _Reading]) -> Row:
    """Warm a server up and measure it under load."""
    if bench.scale.warmup_s > 0:
        bench.generator.run(Load(running.url, point, bench.scale.warmup_s))
        time.sleep(_SETTLE_S)
    before = read()
    switches = _Switches(running.pid, bench.generator, bench.seconds)
    load = Load(running.url, point, bench.seconds, bench.scale.drop, is_kept=True)
    report = switches.generator.run(load)
    return figures(report, before.until(read(), switches.per_s))


def _measured(step: Step, server: Server, bench: Bench) -> Row:
    """Start the server, warm it up, measure; the failures of server and load pass through."""
    point = step.point
    assert isinstance(point, Point)
    core, folder = bench.server_core, bench.site.folder
    with (
        serving(server, bench.site, core, (point.path, point.size)) as running,
        brake.put_on(running.pid, bench.server_share, core, folder) as held,
    ):
        row = _loaded(point, running, bench, lambda: _Reading.take(running.pid, core, held))
        row["server_memory_kb"] = family_memory_kb(running.pid)
    named = row | {"server": server.name, "brake_share": bench.server_share}
    return named | {"void": void_reason(named, point, bench.soundness)}


def measure(step: Step, subject: Server | Program, bench: Bench) -> Row:
    """Carry out one step; a failure gives a row too, without figures but with the reason."""
    point = step.point
    row: Row = {
        "order": step.order,
        "round": step.round,
        "point": point.key,
        "server": subject.name,
        "ours": subject.ours if isinstance(subject, Server) else not subject.package,
        "started": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "failure": None,
    }
    try:
        if isinstance(subject, Server):
            return row | _measured(step, subject, bench)
        assert isinstance(point, Case)
        return row | run_program(subject, point, bench.runner, bench.scale.repeats)
    except (ServerFailedError, LoadFailedError, ProgramFailedError) as failure:
        columns = point.columns if isinstance(point, Case) else _FIGURES
        return row | dict.fromkeys(columns) | {"failure": str(failure)}
