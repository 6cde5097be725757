"""What a client host does, as a worker of dask.distributed: its share of a load, when it is time.

The load is started ahead of time, and held back until the moment that all hosts begin at. It ends
with the worker, however that ends. Nothing else of the lab runs on a host.
"""

import asyncio
import contextlib
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer_lab import paths, process

_HELD_BACK = ("setpriv", "--pdeathsig", "TERM", "sh", "-c", 'read -r _ && exec "$0" "$@"')
_under_way: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Part:
    """The share of one host."""

    host: str
    words: tuple[str, ...]
    """The command, after the program."""
    program: str = ""
    """Empty: the host's own."""
    space: str = ""
    """Path of the network namespace that the host is in; empty: that of the worker."""
    core: int | None = None
    """That the host is kept to."""
    folder: str = ""
    """For the host's files, for as long as the load lasts; empty: where the host has such."""

    def command(self, folder: Path) -> tuple[str, ...]:
        """Return the command line that makes the load once it is told to; its report goes there."""
        enter = ("nsenter", f"--net={self.space}") if self.space else ()
        program = self.program or str(paths.program())
        out = ("--json", str(folder / "load.json"), "--hdr-log", str(folder / "load.hlog"))
        return (*enter, *_HELD_BACK, program, *self.words, *out)


def keep_to(core: int) -> None:
    """Keep this process to a core, and what it will start."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {core})


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def perform(part: Part, start_s: float) -> dict[str, Any]:
    """Make a host's share of a load from that moment of the host's clock on; return what came.

    An error of the host's system is told in words: OSError is what a host leaves that has died.
    """
    if part.core is not None:
        keep_to(part.core)
    try:
        return await _performed(part, start_s)
    except OSError as error:
        said = {"host": part.host, "began_s": start_s, "status": None}
        return said | {"report": "", "log": "", "words": str(error)}


async def _performed(part: Part, start_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="gossamer-host-", dir=part.folder or None) as name:
        folder = Path(name)
        errors = folder / "err"
        with errors.open("wb") as err:
            child = subprocess.Popen(
                part.command(folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )
        _under_way.add(child)
        try:
            while (left_s := start_s - time.time()) > 0:
                await asyncio.sleep(left_s)
            began_s = time.time()
            await asyncio.to_thread(child.communicate, b"go\n")
        finally:
            child.kill()
            child.wait()
            _under_way.discard(child)
        return {
            "host": part.host,
            "began_s": began_s,
            "status": child.returncode,
            "report": _text(folder / "load.json"),
            "log": _text(folder / "load.hlog"),
            "words": process.last_words(errors),
        }


async def give_up() -> None:
    """End what the host has under way."""
    for child in _under_way:
        child.kill()


async def clock() -> float:
    """Return the time by the host's clock."""
    return time.time()
