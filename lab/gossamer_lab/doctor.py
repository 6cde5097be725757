"""Checks this machine: its limits, and which programs are missing."""

import os
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gossamer_lab import paths
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.hosts.network import RELAY, refusal
from gossamer_lab.measuring import cgroup, cpu_limit
from gossamer_lab.measuring.accounting import core_busy_s
from gossamer_lab.measuring.crosscheck import CLIENTS
from gossamer_lab.measuring.program import available_memory, may_be_realtime
from gossamer_lab.measuring.workspace import two_cores
from gossamer_lab.servers.peers import peer_program

OK, LIMITED, MISSING = "ok", "limited", "missing"
_RECOMMENDED_DESCRIPTORS = 200_000
_RECOMMENDED_QUEUE = 1024
_RECOMMENDED_MEMORY = 2 << 30
_SHARE = 0.25
_SAMPLE_S = 1.0
_MAX_NOISE = 0.05


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    state: str
    detail: str


def _descriptors() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    state = OK if limit >= _RECOMMENDED_DESCRIPTORS else LIMITED
    words = "" if state == OK else f"; 100,000 socket pairs need {_RECOMMENDED_DESCRIPTORS:,}"
    return Finding("open files", state, f"{limit:,} a process{words}")


def _cores() -> Finding:
    allowed = len(os.sched_getaffinity(0))
    if allowed < 2:
        return Finding("cores", LIMITED, "one: server and load generator share it")
    return Finding("cores", OK, f"{allowed}: one for the server, one for the load generator")


def _accept_queue() -> Finding:
    limit = int(Path("/proc/sys/net/core/somaxconn").read_text())
    state = OK if limit >= _RECOMMENDED_QUEUE else LIMITED
    return Finding("accept queue", state, f"net.core.somaxconn is {limit}")


def _memory() -> Finding:
    free = available_memory()
    state = OK if free >= _RECOMMENDED_MEMORY else LIMITED
    return Finding("memory", state, f"{free / 2**30:.1f} GiB available")


def _realtime() -> Finding:
    if may_be_realtime():
        return Finding("real-time priority", OK, "permitted")
    return Finding("real-time priority", LIMITED, "not permitted: times of programs vary more")


def _cpu_limit() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        found = cpu_limit.measured_share(_SHARE, two_cores()[0], Path(folder))
    if found is not None and abs(found - _SHARE) < _SHARE / 2:
        return Finding("CPU limit", OK, f"a server can be limited to {found:.0%} of its core")
    words = "this kernel does not share a core between sessions: the client may be the limit"
    return Finding("CPU limit", LIMITED, words)


def _counters() -> Finding:
    if cgroup.are_permitted():
        return Finding("CPU time", OK, "counted to the microsecond, by control groups")
    words = "control groups are not permitted: counted in steps of 10 ms, no --inject-overhead"
    return Finding("CPU time", LIMITED, words)


def _wan_hosts() -> Finding:
    relay, core = paths.programs() / RELAY, two_cores()[1]
    with tempfile.TemporaryDirectory() as folder:
        reason = refusal(relay, core, Path(folder))
    if reason:
        return Finding("WAN emulation", LIMITED, reason)
    return Finding("WAN emulation", OK, "network namespaces connected by a relay")


def _noise() -> Finding:
    """Measure what other processes use of the two cores while the lab is idle."""
    cores = sorted(set(two_cores()))
    began = time.monotonic()
    before = sum(map(core_busy_s, cores))
    time.sleep(_SAMPLE_S)
    after = sum(map(core_busy_s, cores))
    share = (after - before) / (time.monotonic() - began) / len(cores)
    state = OK if share < _MAX_NOISE else LIMITED
    words = "" if state == OK else ": measure on an idle machine"
    return Finding("noise", state, f"other processes use {share:.0%} of the cores{words}")


def _governor() -> Finding:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    try:
        governor = path.read_text().strip()
    except OSError:
        return Finding("frequency governor", OK, "unknown")
    state = OK if governor == "performance" else LIMITED
    return Finding("frequency governor", state, governor)


def _peers() -> list[Finding]:
    names = dict.fromkeys(name for found in EXPERIMENTS.values() for name in found.peers)
    programs = {name: peer_program(name) for name in names}
    programs |= {client.name: paths.peer(client.name) for client in CLIENTS}
    return [
        Finding(name, OK, str(program))
        if program
        else Finding(name, MISSING, "to install: make peers")
        for name, program in programs.items()
    ]


def _programs() -> list[Finding]:
    found = {
        program.file: program
        for known in EXPERIMENTS.values()
        for program in (*known.programs, *known.toys)
    }
    missing = [program for file, program in found.items() if not (paths.programs() / file).exists()]
    if not missing:
        return [Finding("programs", OK, f"all in {paths.programs()}")]
    return [
        Finding(program.file, MISSING, f"not built: needs {program.needs or 'make build'}")
        for program in missing
    ]


def _ours() -> Finding:
    program = paths.program()
    if program.is_file():
        return Finding("gossamer", OK, str(program))
    return Finding(
        "gossamer", MISSING, f"no program at {program}: build it, or set GOSSAMER_PROGRAM"
    )


def run_checks() -> list[Finding]:
    """Run all checks; takes two seconds."""
    machine = [_noise(), _cores(), _descriptors(), _accept_queue(), _memory()]
    machine += [_governor(), _realtime(), _counters(), _cpu_limit(), _wan_hosts()]
    return [*machine, _ours(), *_programs(), *_peers()]


def show(findings: list[Finding], console: Console) -> None:
    """Print the findings."""
    styles = {OK: "green", LIMITED: "yellow", MISSING: "red"}
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in findings:
        table.add_row(finding.name, f"[{styles[finding.state]}]{finding.state}", finding.detail)
    console.print(table)
