"""Runs a server, and beside it a process that spins for a share of what the server uses.

``spinner.py SHARE GROUP COMMAND...``: the process becomes the command, so that its id and its
session are the server's. Its grandchild spins as soon as it is in a control group whose name
contains GROUP. The grandchild is not a child of the server, so no server waits for it; it exits
when the server does.
"""

import contextlib
import os
import sys
import time
from pathlib import Path

_WAIT_S = 0.01
_PAUSE_S = 0.025


def _counters(group: str, server: Path) -> Path | None:
    """Return the group's CPU counters once this process is in it; None if the server exited."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    mounted = next(fields[1] for fields in mounts if fields[2] == "cgroup2")
    while server.exists():
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        ours = next(line[3:] for line in lines if line.startswith("0::"))
        if group in ours:
            return Path(mounted, ours.lstrip("/"), "cpu.stat")
        time.sleep(_WAIT_S)
    return None


def _used_s(counters: Path) -> float:
    return int(counters.read_text().split()[1]) / 1e6


def _spin(share: float, group: str, server: Path) -> None:
    """Use this share of what all other processes of the group use."""
    counters = _counters(group, server)
    if counters is None:
        return
    began, own = _used_s(counters), time.process_time()
    while server.exists():
        due = own + (_used_s(counters) - began) * share / (1 + share)
        if time.process_time() >= due:
            time.sleep(_PAUSE_S)
        while time.process_time() < due:
            pass


def main() -> None:
    """Start both."""
    share, group, *command = sys.argv[1:]
    server = Path(f"/proc/{os.getpid()}")
    if child := os.fork():
        os.waitpid(child, 0)
        os.execvp(command[0], command)
    if os.fork():
        os._exit(0)
    # Without priority it would hardly be scheduled among a thousand threads of a server.
    with contextlib.suppress(OSError):
        os.nice(-20)
    with contextlib.suppress(FileNotFoundError):
        _spin(float(share), group, server)
    os._exit(0)


if __name__ == "__main__":
    main()
