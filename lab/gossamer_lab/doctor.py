"""What this machine allows, what it limits, and what is missing."""

import os
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gossamer_lab import brake, cgroup, paths
from gossamer_lab.accounting import core_busy_s
from gossamer_lab.crosscheck import CLIENTS
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.hosts.network import RELAY, refusal
from gossamer_lab.program import available_memory, may_be_realtime
from gossamer_lab.servers.peers import peer_program
from gossamer_lab.workshop import two_cores

GOOD, LIMITED, MISSING = "good", "limited", "missing"
_DESCRIPTORS_WANTED = 200_000
_QUEUE_WANTED = 1024
_MEMORY_WANTED = 2 << 30
_SHARE = 0.25
_LISTEN_S = 1.0
_QUIET = 0.05


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    name: str
    state: str
    says: str


def _descriptors() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    state = GOOD if limit >= _DESCRIPTORS_WANTED else LIMITED
    words = "" if state == GOOD else f"; 100,000 socket pairs need {_DESCRIPTORS_WANTED:,}"
    return Finding("open files", state, f"{limit:,} a process{words}")


def _cores() -> Finding:
    allowed = len(os.sched_getaffinity(0))
    if allowed < 2:
        return Finding("cores", LIMITED, "one: server and load share it")
    return Finding("cores", GOOD, f"{allowed}: one for the server, one for the load")


def _accept_queue() -> Finding:
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    state = GOOD if most >= _QUEUE_WANTED else LIMITED
    return Finding("accept queue", state, f"net.core.somaxconn is {most}")


def _memory() -> Finding:
    free = available_memory()
    state = GOOD if free >= _MEMORY_WANTED else LIMITED
    return Finding("memory", state, f"{free / 2**30:.1f} GiB available")


def _realtime() -> Finding:
    if may_be_realtime():
        return Finding("real-time priority", GOOD, "programs get it")
    return Finding("real-time priority", LIMITED, "not permitted: timings of programs vary more")


def _brake() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        found = brake.trial(_SHARE, two_cores()[0], Path(folder))
    if found is not None and abs(found - _SHARE) < _SHARE / 2:
        return Finding("brake", GOOD, f"a server can be left {found:.0%} of its core")
    words = "this kernel does not share a core between sessions: the load may be the limit"
    return Finding("brake", LIMITED, words)


def _counters() -> Finding:
    if cgroup.are_permitted():
        return Finding("CPU time", GOOD, "counted to the microsecond, by control groups")
    words = "control groups are not permitted: counted in steps of 10 ms, and no handicaps"
    return Finding("CPU time", LIMITED, words)


def _far_hosts() -> Finding:
    relay, core = paths.programs() / RELAY, two_cores()[1]
    with tempfile.TemporaryDirectory() as folder:
        refused = refusal(relay, core, Path(folder))
    if refused:
        return Finding("hosts far away", LIMITED, refused)
    return Finding("hosts far away", GOOD, "network namespaces, and a relay between them")


def _noise() -> Finding:
    """Listen for what others do on the two cores while the lab does nothing."""
    cores = sorted(set(two_cores()))
    began = time.monotonic()
    before = sum(map(core_busy_s, cores))
    time.sleep(_LISTEN_S)
    after = sum(map(core_busy_s, cores))
    share = (after - before) / (time.monotonic() - began) / len(cores)
    state = GOOD if share < _QUIET else LIMITED
    words = "" if state == GOOD else ": measure when it is quiet"
    return Finding("noise", state, f"other work takes {share:.0%} of the cores{words}")


def _governor() -> Finding:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    try:
        governor = path.read_text().strip()
    except OSError:
        return Finding("frequency governor", GOOD, "not shown")
    state = GOOD if governor == "performance" else LIMITED
    return Finding("frequency governor", state, governor)


def _peers() -> list[Finding]:
    names = dict.fromkeys(name for found in EXPERIMENTS.values() for name in found.peers)
    programs = {name: peer_program(name) for name in names}
    programs |= {client.name: paths.peer(client.name) for client in CLIENTS}
    return [
        Finding(name, GOOD, str(program))
        if program
        else Finding(name, MISSING, "to add it: make peers")
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
        return [Finding("programs", GOOD, f"all in {paths.programs()}")]
    return [
        Finding(program.file, MISSING, f"not built: needs {program.package or 'make build'}")
        for program in missing
    ]


def _ours() -> Finding:
    program = paths.program()
    if program.is_file():
        return Finding("gossamer", GOOD, str(program))
    return Finding(
        "gossamer", MISSING, f"no program at {program}: build it, or set GOSSAMER_PROGRAM"
    )


def examine() -> list[Finding]:
    """Look at everything; takes two seconds."""
    machine = [_noise(), _cores(), _descriptors(), _accept_queue(), _memory()]
    machine += [_governor(), _realtime(), _counters(), _brake(), _far_hosts()]
    return [*machine, _ours(), *_programs(), *_peers()]


def show(findings: list[Finding], console: Console) -> None:
    """Print the findings."""
    styles = {GOOD: "green", LIMITED: "yellow", MISSING: "red"}
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for finding in findings:
        table.add_row(finding.name, f"[{styles[finding.state]}]{finding.state}", finding.says)
    console.print(table)
