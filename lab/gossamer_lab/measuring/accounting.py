"""CPU time and memory of a server with all its processes, from /proc."""

import contextlib
import os
import resource
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_ZOMBIE = "Z"
_STEAL = 7
"""Index of the steal time in the fields of a core in /proc/stat."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CORES = Path("/proc/stat")


@dataclass(frozen=True)
class CpuTime:
    """User and system time in seconds."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        """Return the CPU time used since an earlier reading."""
        return CpuTime(self.user_s - earlier.user_s, self.system_s - earlier.system_s)


@dataclass(frozen=True)
class _Stat:
    """The fields used here of one /proc/PID/stat; times in whole clock ticks."""

    pid: int
    state: str
    parent: int
    session: int
    user: int
    system: int
    own: int
    """User and system time without children."""
    threads: int


def _read_stat(pid: int) -> _Stat | None:
    """Read one process; None if it has exited. Times include children that it has waited for."""
    try:
        with Path(f"/proc/{pid}/stat").open("rb", buffering=0) as file:
            text = file.read().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name is in parentheses and may itself contain any character.
    field = text[text.rindex(")") + 2 :].split()
    return _Stat(
        pid=pid,
        state=field[0],
        parent=int(field[1]),
        session=int(field[3]),
        user=int(field[11]) + int(field[13]),
        system=int(field[12]) + int(field[14]),
        own=int(field[11]) + int(field[12]),
        threads=int(field[17]),
    )


def _time_below_tick(stat: _Stat) -> float:
    """Return the CPU time of a process with one thread beyond the whole ticks, in ticks.

    Of a thousand processes that have each run for less than a tick, it is all there is.
    """
    if stat.threads > 1:
        return 0
    try:
        exact_ns = int(Path(f"/proc/{stat.pid}/schedstat").read_text().split()[0])
    except (OSError, IndexError):
        return 0
    return max(exact_ns / 1e9 * _TICKS_PER_S - stat.own, 0)


def _process_tree(leader: int) -> list[_Stat]:
    """Return the processes of the leader's session, and its descendants in other sessions."""
    pids = sorted(int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())
    running = [stat for pid in pids if (stat := _read_stat(pid))]
    members = {stat.pid for stat in running if leader in (stat.pid, stat.session)}
    grown = True
    while grown:
        more = {stat.pid for stat in running if stat.parent in members} - members
        members |= more
        grown = bool(more)
    return [stat for stat in running if stat.pid in members]


def tree_pids(leader: int) -> list[int]:
    """Return the ids of all living processes of the server that this process leads."""
    return [stat.pid for stat in _process_tree(leader) if stat.state != _ZOMBIE]


def tree_cpu(leader: int) -> CpuTime:
    """Return the CPU time used so far by all threads and processes of a server.

    Exited processes count through the parent that waited for them. Those that the kernel reaps
    itself, because their parent ignores SIGCHLD, are lost.
    """
    processes = _process_tree(leader)
    return CpuTime(
        sum(stat.user for stat in processes) / _TICKS_PER_S,
        sum(stat.system + _time_below_tick(stat) for stat in processes) / _TICKS_PER_S,
    )


def exited_children_cpu_s() -> float:
    """Return the CPU time of all child processes that the lab has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _field_of(file: Path, name: str) -> int:
    """Return a number of a file of named numbers; 0 if its process has exited or is not ours."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


@dataclass(frozen=True)
class TreeSwitches:
    """Context switches of the living threads of a server so far."""

    voluntary: int
    """Because a thread waited."""
    forced: int
    """Because another thread was to run, such as that of the CPU limit."""


def tree_switches(leader: int) -> TreeSwitches:
    """Return the number of context switches of the living threads of a server."""
    tasks = [
        task / "status" for pid in tree_pids(leader) for task in Path(f"/proc/{pid}/task").glob("*")
    ]
    return TreeSwitches(
        sum(_field_of(task, "voluntary_ctxt_switches") for task in tasks),
        sum(_field_of(task, "nonvoluntary_ctxt_switches") for task in tasks),
    )


def tree_descriptors(leader: int) -> int:
    """Return the number of open descriptors of the living processes of a server."""
    count = 0
    for pid in tree_pids(leader):
        with contextlib.suppress(OSError):
            count += sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return count


def tree_memory_kb(leader: int) -> int:
    """Return the anonymous and shared memory of the living processes of a server.

    A page that several processes share is divided among them (PSS).
    """
    return sum(
        _field_of(Path(f"/proc/{pid}/smaps_rollup"), name)
        for pid in tree_pids(leader)
        for name in ("Pss_Anon", "Pss_Shmem")
    )


KERNEL_STACK_KB = 16
"""The stack that the kernel has for each kernel thread, on x86-64 and on aarch64."""


@dataclass(frozen=True)
class Threads:
    """The kernel threads of a server, and all memory that it has with them."""

    number: int
    memory_kb: int
    """All pages, those shared divided among the processes (PSS), page tables, kernel stacks."""


def tree_threads(leader: int) -> Threads:
    """Return the number of kernel threads of a server, and its memory with that of the kernel."""
    number = memory_kb = 0
    for pid in tree_pids(leader):
        folder = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):
            number += sum(1 for _ in (folder / "task").iterdir())
        memory_kb += _field_of(folder / "smaps_rollup", "Pss")
        memory_kb += _field_of(folder / "status", "VmPTE")
    return Threads(number, memory_kb + number * KERNEL_STACK_KB)


def accept_queue_overflows() -> int:
    """Return the number of accept queue overflows of all listening sockets of this machine."""
    lines = Path("/proc/net/netstat").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        counts = dict(zip(names.split()[1:], values.split()[1:], strict=False))
        if "ListenOverflows" in counts:
            return int(counts["ListenOverflows"])
    return 0


def _ticks_of(core: int) -> list[int]:
    """Return a core's times since boot: user, nice, system, idle and so on."""
    for line in _CORES.read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            return [int(field) for field in fields[:8]]
    raise OSError(f"/proc/stat has no core {core}")


def core_busy_s(core: int) -> float:
    """Return how long a core has not been idle: processes, interrupts and steal time."""
    user, nice, system, _idle, _waiting, *rest = _ticks_of(core)
    return (user + nice + system + sum(rest)) / _TICKS_PER_S


def steal_s(cores: Collection[int]) -> float:
    """Return the steal time of cores: how long the hypervisor ran other guests on them."""
    return sum(_ticks_of(core)[_STEAL] for core in cores) / _TICKS_PER_S
