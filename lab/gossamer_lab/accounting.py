"""CPU time of a server with all its processes, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_ENDED = "Z"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


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
    """The fields used here of one /proc/PID/stat; times in clock ticks."""

    pid: int
    state: str
    parent: int
    session: int
    user: int
    system: int


def _read_stat(pid: int) -> _Stat | None:
    """Read one process; None if it is gone. Times include children that it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may itself contain any character.
    field = text[text.rindex(")") + 2 :].split()
    return _Stat(
        pid=pid,
        state=field[0],
        parent=int(field[1]),
        session=int(field[3]),
        user=int(field[11]) + int(field[13]),
        system=int(field[12]) + int(field[14]),
    )


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


def core_busy_s(core: int) -> float:
    """Return for how long a core has not been idle: all processes, interrupts, the host's share."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name == f"cpu{core}":
            user, nice, system, _idle, _waiting, *rest = (int(field) for field in fields[:8])
            return (user + nice + system + sum(rest)) / _TICKS_PER_S
    raise OSError(f"/proc/stat knows no core {core}")
