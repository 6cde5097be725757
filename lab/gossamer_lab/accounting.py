"""CPU time and memory of a server with all its processes, from /proc."""

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

_ENDED = "Z"
_STOLEN = 7
"""Which of the fields of a core in /proc/stat is the host's share."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CORES = Path("/proc/stat")


@dataclass(frozen=True)
class CpuTime:
    """Seconds of CPU time in the program and in the kernel."""

    user_s: float
    system_s: float

    @property
    def total_s(self) -> float:
        """User and system time together."""
        return self.user_s + self.system_s

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        """Return what was used since an earlier reading."""
        return CpuTime(self.user_s - earlier.user_s, self.system_s - earlier.system_s)


@dataclass(frozen=True)
class _Stat:
    """The fields used here of one /proc/PID/stat; times in clock ticks, and only whole ones.

    What is known more exactly, of a process that has one thread, is added to its system time: of a
    thousand processes that have each run for less than a tick, it is all that there is.
    """

    pid: int
    state: str
    parent: int
    session: int
    user: float
    system: float


def _read_stat(pid: int) -> _Stat | None:
    """Read one process; None if it is gone. Times include children that it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may itself contain any character.
    field = text[text.rindex(")") + 2 :].split()
    own = int(field[11]) + int(field[12])
    return _Stat(
        pid=pid,
        state=field[0],
        parent=int(field[1]),
        session=int(field[3]),
        user=int(field[11]) + int(field[13]),
        system=int(field[12]) + int(field[14]) + (_rest(pid, own) if field[17] == "1" else 0),
    )


def _rest(pid: int, known: int) -> float:
    """Return what a process has used beyond the known ticks."""
    try:
        exact_ns = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    except (OSError, IndexError):
        return 0
    return max(exact_ns / 1e9 * _TICKS_PER_S - known, 0)


def _family(leader: int) -> list[_Stat]:
    """Return the processes of the leader's session, and its descendants in other sessions."""
    pids = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    everyone = [stat for pid in pids if (stat := _read_stat(pid))]
    members = {stat.pid for stat in everyone if leader in (stat.pid, stat.session)}
    grown = True
    while grown:
        more = {stat.pid for stat in everyone if stat.parent in members} - members
        members |= more
        grown = bool(more)
    return [stat for stat in everyone if stat.pid in members]


def family_pids(leader: int) -> list[int]:
    """Return the ids of all living processes of the server that this process leads."""
    return [stat.pid for stat in _family(leader) if stat.state != _ENDED]


def family_cpu(leader: int) -> CpuTime:
    """Return the CPU time used so far by all threads and processes of a server.

    Processes that have ended count through the parent that waited for them. Those that the kernel
    reaps by itself, because their parent ignores SIGCHLD, are lost.
    """
    family = _family(leader)
    return CpuTime(
        sum(stat.user for stat in family) / _TICKS_PER_S,
        sum(stat.system for stat in family) / _TICKS_PER_S,
    )


def _field_of(file: Path, name: str) -> int:
    """Return a number of a file of named numbers; 0 if its process is gone or not ours."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(name + ":")), 0)


def family_switches(leader: int) -> int:
    """Return how often the kernel has switched away from the living threads of a server."""
    return sum(
        _field_of(task / "status", name)
        for pid in family_pids(leader)
        for task in Path(f"/proc/{pid}/task").glob("*")
        for name in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches")
    )


def family_memory_kb(leader: int) -> int:
    """Return the memory that the living processes of a server have now, without pages of files.

    Of a page that processes share each has a part.
    """
    return sum(
        _field_of(Path(f"/proc/{pid}/smaps_rollup"), name)
        for pid in family_pids(leader)
        for name in ("Pss_Anon", "Pss_Shmem")
    )


def accept_queue_overflows() -> int:
    """Return how often an accept queue was full, of all listening sockets of this machine."""
    lines = Path("/proc/net/netstat").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        counts = dict(zip(names.split()[1:], values.split()[1:], strict=False))
        if "ListenOverflows" in counts:
            return int(counts["ListenOverflows"])
    return 0


def _ticks_of(core: int) -> list[int]:
    """Return what a core has done since the machine's start: user, nice, system, idle and so on."""
    for line in _CORES.read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            return [int(field) for field in fields[:8]]
    raise OSError(f"/proc/stat knows no core {core}")


def core_busy_s(core: int) -> float:
    """Return for how long a core has not been idle: all processes, interrupts, the host's share."""
    user, nice, system, _idle, _waiting, *rest = _ticks_of(core)
    return (user + nice + system + sum(rest)) / _TICKS_PER_S


def stolen_s(cores: Collection[int]) -> float:
    """Return for how long the host of a virtual machine has kept cores from it, all added up."""
    return sum(_ticks_of(core)[_STOLEN] for core in cores) / _TICKS_PER_S
