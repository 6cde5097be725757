"""Limits the number of threads and processes of a server, as a limit per user did.

A control group of the controller `pids` counts both, of any user: root has no other limit.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_MAX, _PROCS = "pids.max", "cgroup.procs"


def _parents() -> Iterator[Path]:
    """Yield the folders of this process's groups that may have a child with the controller."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        is_first = kind == "cgroup" and "pids" in options.split(",")
        if not is_first and kind != "cgroup2":
            continue
        for number, controllers, path in own:
            if "pids" in controllers.split(",") if is_first else number == "0":
                yield Path(folder, path.lstrip("/"))
                yield Path(folder)


@contextlib.contextmanager
def _new_group() -> Iterator[Path | None]:
    """Create a group with a limit for the duration of a ``with`` block; None if not permitted."""
    for parent in _parents():
        folder = parent / f"gossamer-lab-tasks-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if os.access(folder / _MAX, os.W_OK):
                yield folder
                return
        finally:
            with contextlib.suppress(OSError):
                folder.rmdir()
    yield None


def is_permitted() -> bool:
    """Return whether servers can be limited here."""
    with _new_group() as folder:
        return folder is not None


@contextlib.contextmanager
def applied(pids: Iterable[int], max_tasks: int) -> Iterator[None]:
    """Limit processes with all their threads and children; 0: no limit. They must exit within.

    OSError if that is not permitted.
    """
    if not max_tasks:
        yield
        return
    with _new_group() as folder:
        if folder is None:
            raise OSError("the number of threads cannot be limited: no control group with pids")
        (folder / _MAX).write_text(str(max_tasks))
        for pid in pids:
            (folder / _PROCS).write_text(str(pid))
        yield
