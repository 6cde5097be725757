"""Limits the number of threads and processes of a server, as a limit per user did.

The controller `pids` of control groups counts both, of any user: root has no other limit.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gossamer_lab.measuring import cgroup

Add = Callable[[Iterable[int]], None]
"""Limits processes, with the threads and children that they have from then on."""

_MAX = "pids.max"


def _parent() -> Path | None:
    """Return the folder of this process's group in the hierarchy of `pids`, if that is separate."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    path = next((path for _, names, path in own if "pids" in names.split(",")), None)
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    mounted = next((m[1] for m in mounts if m[2] == "cgroup" and "pids" in m[3].split(",")), None)
    return Path(mounted, path.lstrip("/")) if mounted and path else None


@contextlib.contextmanager
def prepared(group: cgroup.Group | None, max_tasks: int) -> Iterator[Add]:
    """Prepare a limit for a server that starts and exits within a ``with`` block; 0: no limit.

    In the unified hierarchy the limit is one of the server's group, which the caller moves it into.
    OSError if no limit is permitted.
    """
    if not max_tasks:
        yield lambda _: None
        return
    if group and os.access(group.folder / _MAX, os.W_OK):
        (group.folder / _MAX).write_text(str(max_tasks))
        yield lambda _: None
        return
    parent = _parent()
    if parent is None or not os.access(parent, os.W_OK):
        raise OSError("the number of threads cannot be limited: no control group with pids")
    with cgroup.new_folder(parent) as folder:
        (folder / _MAX).write_text(str(max_tasks))
        yield cgroup.Group(folder).add


def is_permitted() -> bool:
    """Return whether servers can be limited here."""
    try:
        with cgroup.new_group() as group, prepared(group, 1):
            return True
    except OSError:
        return False
