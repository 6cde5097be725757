"""A control group for a server: the kernel accounts its CPU time to the microsecond.

Descendants of its processes are accounted too, also after their exit, whether or not a parent has
waited for them. No controller is enabled, so the scheduling of cores does not change.
"""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab.measuring.accounting import CpuTime

PREFIX = "gossamer-lab-"
_PROCS = "cgroup.procs"
_numbers = itertools.count(1)


def _own_folder() -> Path | None:
    """Return the folder of this process's group in the cgroup v2 hierarchy, if it has one."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    mounted = next((fields[1] for fields in mounts if fields[2] == "cgroup2"), None)
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), None)
    return Path(mounted, own.lstrip("/")) if mounted and own else None


def _remove_leftovers(parent: Path) -> None:
    """Remove the groups of labs that were killed: those that are empty and whose lab is gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(PREFIX).partition("-")[0]).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


@dataclass(frozen=True)
class Group:
    """A control group."""

    folder: Path

    def add(self, pids: Iterable[int]) -> None:
        """Move processes into the group; their later children are in it too."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (self.folder / _PROCS).write_text(str(pid))

    def cpu(self) -> CpuTime:
        """Return the CPU time used in the group so far."""
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        used = {name: int(value) / 1e6 for name, value in (line.split() for line in lines)}
        return CpuTime(used["user_usec"], used["system_usec"])


@contextlib.contextmanager
def new_folder(parent: Path) -> Iterator[Path]:
    """Create the folder of a group for the duration of a ``with`` block."""
    _remove_leftovers(parent)
    folder = parent / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def new_group() -> Iterator[Group | None]:
    """Create a group for the duration of a ``with`` block; None if that is not permitted.

    Its processes must exit within the block.
    """
    parent = _own_folder()
    if parent is None or not all(os.access(parent / name, os.W_OK) for name in (".", _PROCS)):
        yield None
        return
    with new_folder(parent) as folder:
        yield Group(folder)


def are_permitted() -> bool:
    """Return whether groups can be created here and processes moved into them."""
    with new_group() as group:
        return group is not None
