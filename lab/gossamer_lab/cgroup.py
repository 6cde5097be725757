"""A control group for a server: the kernel counts its CPU time to the microsecond.

Whatever a process of the group starts is counted too, also after its end, whether or not anybody
waited for it. No controller is enabled, so that cores are shared as they were before.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab.accounting import CpuTime

NAME = "gossamer-lab-"
_MEMBERS = "cgroup.procs"
_numbers = itertools.count(1)


def _own_folder() -> Path | None:
    """Return the folder of this process's group in the hierarchy of version 2, if it has one."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    mounted = next((fields[1] for fields in mounts if fields[2] == "cgroup2"), None)
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    ours = next((line[3:] for line in lines if line.startswith("0::")), None)
    return Path(mounted, ours.lstrip("/")) if mounted and ours else None


def _remove_leftovers(parent: Path) -> None:
    """Remove groups of labs that were killed: those that are empty and whose lab is gone."""
    for folder in parent.glob(f"{NAME}*"):
        if not Path("/proc", folder.name.removeprefix(NAME).partition("-")[0]).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


@dataclass(frozen=True)
class Group:
    """A group that processes can be put into."""

    folder: Path

    def take(self, pids: Iterable[int]) -> None:
        """Put processes into it; those that they start from now on are in it too."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (self.folder / _MEMBERS).write_text(str(pid))

    def cpu(self) -> CpuTime:
        """Return the CPU time that was used in the group so far."""
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        used = {name: int(value) / 1e6 for name, value in (line.split() for line in lines)}
        return CpuTime(used["user_usec"], used["system_usec"])


@contextlib.contextmanager
def fresh() -> Iterator[Group | None]:
    """Make a group for the length of a ``with`` block; None where that is not permitted.

    Its processes have to be ended within the block.
    """
    parent = _own_folder()
    if parent is None or not all(os.access(parent / name, os.W_OK) for name in (".", _MEMBERS)):
        yield None
        return
    _remove_leftovers(parent)
    folder = parent / f"{NAME}{os.getpid()}-{next(_numbers)}"
    folder.mkdir()
    try:
        yield Group(folder)
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


def are_permitted() -> bool:
    """Tell whether groups can be made here and processes put into them."""
    with fresh() as group:
        return group is not None
