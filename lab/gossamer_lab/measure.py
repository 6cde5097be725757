"""One measurement: a fresh server, a warm-up, then a load with the server's CPU time around it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from gossamer_lab import brake, cgroup
from gossamer_lab.accounting import (
    CpuTime,
    accept_queue_overflows,
    core_busy_s,
    family_cpu,
    family_memory_kb,
    family_pids,
    stolen_s,
)
from gossamer_lab.arrivals import Stream, saturated, stream
from gossamer_lab.bursts import connect_burst
from gossamer_lab.experiment import Arrivals, Case, Point, Program, Scale, Soundness
from gossamer_lab.load import (
    REPORTED,
    Generator,
    HostsDiedError,
    Load,
    LoadFailedError,
    Spread,
)
from gossamer_lab.overtime import BINS, summed_up
from gossamer_lab.program import ProgramFailedError, Runner, run_program
from gossamer_lab.schedule import Step
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Running, Server, ServerFailedError, Site, serving
from gossamer_lab.soundness import void_reason
from gossamer_lab.switches import Switches, counted

_ATTEMPTS = 3
"""At a measurement in which client hosts die."""
_SETTLE_S = 0.05
"""After the warm-up: the server closes its connections before its CPU time is read."""

Row = dict[str, Any]
"""One measurement as it stands in the raw data."""

_LATENCIES = ("response", "connect", "first_byte")
_WAITING = {"connect": "waiting_to_connect", "response": "waiting_for_answer"}
"""What the end of a load cuts off, beside the times that it belongs to."""
_QUANTILES = ("mean", "p50", "p75", "p90", "p99", "p999", "max")
_FIGURES = (
    *REPORTED,
    "errors",
    "errors_by_kind",
    *(f"{kind}_{quantile}_us" for kind in _LATENCIES for quantile in _QUANTILES),
    *(f"{kind}_longest_us" for kind in _WAITING),
    *_WAITING.values(),
    *("server_user_s", "server_system_s", "server_cpu_us_per_request"),
    *("server_busy", "client_busy", "server_core_lost"),
    *("server_switches_per_s", "server_memory_kb", "accept_queue_overflows", "void"),
    *("brake_share", "beat_ns", "connect_burst"),
)


@dataclass(frozen=True)
class Bench:
    """What every measurement of a run shares."""

    site: Site
    generator: Generator
    server_core: int
    seconds: float
    """How long a load lasts, unless it needs more."""
    scale: Scale
    soundness: Soundness | None
    server_share: float | None
    """What the brake leaves of the server's core; None: there is no brake."""
    runner: Runner


def with_hosts(bench: Bench, hosts: Spread | None) -> Bench:
    """Return a bench whose loads such client hosts make."""
    return replace(bench, generator=replace(bench.generator, hosts=hosts))


@dataclass(frozen=True)
class Used:
    """What was used while a load lasted."""

    cpu: CpuTime
    """By the server."""
    core_s: float
    """Of the server's core, by the server and by anything else."""
    wall_s: float
    beat_ns: float | None = None
    """CPU time of a beat of the brake."""
    switches_per_s: float | None = None
    """By the kernel, away from the server's threads."""
    overflows: int | None = None
    """Of accept queues, on the whole machine."""


def figures(report: dict[str, Any], used: Used) -> Row:
    """Return the figures of a measurement from the load's report and the server's CPU time.

    The load counts every request since its start, as the CPU time does: their quotient is exact
    but for the connections' set-up and the requests cut off at the end.
    """
    row: Row = {name: report[name] for name in REPORTED}
    errors: dict[str, int] = report["errors"]
    row["errors"] = sum(errors.values())
    row["errors_by_kind"] = ", ".join(f"{kind}: {n}" for kind, n in errors.items() if n)
    for kind in _LATENCIES:
        histogram = report.get(f"{kind}_us") or {}
        for quantile in _QUANTILES:
            row[f"{kind}_{quantile}_us"] = histogram.get(quantile)
    for kind, name in _WAITING.items():
        row[name] = report[name]["count"]
        row[f"{kind}_longest_us"] = max(row[f"{kind}_max_us"] or 0, report[name]["longest_us"])
    row["client_busy"] = report["client_cpu_s"] / used.wall_s
    return row | _of_server(used, report["requests"])


def _of_server(used: Used, requests: int) -> Row:
    """Return what a server used."""
    cpu, wall_s = used.cpu, used.wall_s
    return {
        "server_user_s": cpu.user_s,
        "server_system_s": cpu.system_s,
        "server_cpu_us_per_request": cpu.total_s / requests * 1e6 if requests else None,
        "server_busy": cpu.total_s / wall_s,
        "server_core_lost": max(used.core_s - cpu.total_s, 0.0) / wall_s,
        "beat_ns": used.beat_ns,
        "server_switches_per_s": used.switches_per_s,
        "accept_queue_overflows": used.overflows,
    }


@dataclass(frozen=True)
class _Reading:
    """Counters of one moment."""

    cpu: CpuTime
    core_s: float
    beats: brake.Beats
    overflows: int
    clock_s: float

    @classmethod
    def take(cls, cpu: CpuTime, core: int, held: brake.Brake) -> "_Reading":
        """Read them; what the brake has used is not counted as anybody's use of the core."""
        core_s = core_busy_s(core) - held.used_s()
        return cls(cpu, core_s, held.beats(), accept_queue_overflows(), time.monotonic())

    def until(self, after: "_Reading", switches_per_s: float | None) -> Used:
        """Return what was used between this reading and a later one."""
        return Used(
            after.cpu - self.cpu,
            after.core_s - self.core_s,
            after.clock_s - self.clock_s,
            after.beats.each_ns(self.beats),
            switches_per_s=switches_per_s,
            overflows=after.overflows - self.overflows,
        )


class _Halfway:
    """Reads once, halfway through a load, what is no longer there at its end."""

    def __init__(self, pid: int, switches: Switches, generator: Generator, seconds: float) -> None:
        """Count context switches over the whole load, where those of ended threads are kept."""
        self.pid, self.switches = pid, switches
        self.generator = replace(generator, tick=self._tick)
        self.tick = generator.tick
        self.before, self.began = switches.so_far(), time.monotonic()
        self.due = self.began + seconds / 2
        self.switches_per_s: float | None = None
        self.memory_kb: int | None = None

    def _tick(self) -> None:
        self.tick()
        if self.memory_kb is None and time.monotonic() >= self.due:
            if not self.switches.has_ended:
                self._count(time.monotonic() - self.began)
            self.memory_kb = family_memory_kb(self.pid)

    def _count(self, seconds: float) -> None:
        self.switches_per_s = max(self.switches.so_far() - self.before, 0) / seconds

    def run(self, load: Load) -> dict[str, Any]:
        """Put the server under load; return the report."""
        report = self.generator.run(load)
        if self.switches.has_ended:
            self._count(report["seconds"])
        if self.memory_kb is None:
            self.memory_kb = family_memory_kb(self.pid)
        return report


def _loaded(
    point: Point,
    running: Running,
    bench: Bench,
    read: Callable[[], _Reading],
    switches: Switches,
) -> Row:
    """Warm a server up and measure it under load."""
    if bench.scale.warmup_s > 0:
        alone = replace(bench.generator, hosts=None)
        alone.run(Load(running.url, point, bench.scale.warmup_s))
        time.sleep(_SETTLE_S)
    before = read()
    halfway = _Halfway(running.pid, switches, bench.generator, bench.seconds)
    load = Load(running.url, point, bench.seconds, bench.scale.drop, is_kept=True)
    report = halfway.run(load)
    used = before.until(read(), halfway.switches_per_s)
    row = figures(report, used) | {"server_memory_kb": halfway.memory_kb}
    row["connect_burst"] = connect_burst(bench.generator.histograms)
    if "hosts" not in report:
        return row
    # They do nothing until their common start.
    wall = used.wall_s / report["seconds"]
    busy = {name: row[name] * wall for name in ("server_busy", "client_busy")}
    return row | busy | {"hosts": report["hosts"]}


def _saturation(point: Arrivals, bench: Bench) -> float:
    """Return the rate that saturates the probe; ServerFailedError if it answers nothing."""
    generator = bench.generator
    (probe,) = our_servers(generator.program, (point.probe,))
    page = (point.path, point.size)
    with serving(replace(probe, name="probe"), bench.site, bench.server_core, page) as running:
        rate = saturated(running.url, point.page, bench.scale.warmup_s, generator.tick)
    if not rate:
        raise ServerFailedError(f"{point.probe.name} answered nothing while it was to be saturated")
    return rate


def _streamed(point: Arrivals, running: Running, bench: Bench, read: Callable[[], _Reading]) -> Row:
    """Measure a server under an open load, a multiple of what saturates at this moment."""
    rate = _saturation(point, bench)
    seconds = bench.seconds
    load = Stream(point.page, point.metrics, point.saturation * rate, seconds, seconds / BINS)
    before = read()
    fate = stream(running.url, load, bench.generator.tick)
    row = summed_up(fate) | {"saturation_per_s": rate, "offered_per_s": load.rate}
    row |= _of_server(before.until(read(), None), row["requests"])
    return row | {"server_memory_kb": family_memory_kb(running.pid)}


def _measured(step: Step, server: Server, bench: Bench) -> Row:
    """Start the server, warm it up, measure; the failures of server and load pass through."""
    point = step.point
    assert isinstance(point, Point)
    core, folder = bench.server_core, bench.site.folder
    share = bench.server_share if point.is_braked else None
    # The brake keeps the server's core awake, and the client's has to be, too: to wake one that has
    # halted costs a virtual machine's server more, and how much depends on the host's other guests.
    generator = replace(bench.generator, keeps_awake=share is not None)
    seconds = bench.scale.length_of(point, bench.seconds, server.name)
    bench = replace(bench, generator=generator, seconds=seconds)
    hosts = bench.generator.hosts
    site = hosts.site(bench.site, point) if hosts else bench.site
    with (
        cgroup.fresh() as group,
        serving(server, site, core, (point.path, point.size)) as running,
        brake.put_on(running.pid, share, core, folder) as held,
        counted(group, running.pid) as switches,
    ):
        if group:
            group.take(family_pids(running.pid))

        def read() -> _Reading:
            cpu = group.cpu() if group else family_cpu(running.pid)
            return _Reading.take(cpu, core, held)

        if isinstance(point, Arrivals):
            row = _streamed(point, running, bench, read)
        else:
            row = _loaded(point, running, bench, read, switches)
    named = row | {"server": server.name, "brake_share": share}
    return named | {"void": void_reason(named, point, bench.soundness)}


def _repeated(step: Step, server: Server, bench: Bench) -> Row:
    """Measure again if client hosts die in the middle of it; void if they do each time."""
    if not bench.generator.hosts:
        return _measured(step, server, bench)
    died: list[str] = []
    for _ in range(_ATTEMPTS):
        try:
            return _measured(step, server, bench) | {"hosts_died": "; ".join(died) or None}
        except HostsDiedError as error:
            died.append(str(error))
    said = {"void": f"void: client hosts died in each of {_ATTEMPTS} attempts"}
    return dict.fromkeys(_FIGURES) | said | {"hosts_died": "; ".join(died)}


def _tried(step: Step, subject: Server | Program, bench: Bench) -> Row:
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
            return row | _repeated(step, subject, bench)
        assert isinstance(point, Case)
        return row | run_program(subject, point, bench.runner, bench.scale.repeats)
    except (ServerFailedError, LoadFailedError, ProgramFailedError) as failure:
        columns = point.columns if isinstance(point, Case) else _FIGURES
        return row | dict.fromkeys(columns) | {"failure": str(failure)}


def measure(step: Step, subject: Server | Program, bench: Bench) -> Row:
    """Carry out one step, and record what the host of a virtual machine took from it meanwhile."""
    cores = {bench.server_core, bench.generator.core}
    before, began = stolen_s(cores), time.monotonic()
    row = _tried(step, subject, bench)
    wall_s = time.monotonic() - began
    return row | {"stolen": (stolen_s(cores) - before) / len(cores) / wall_s}
