"""A client host, as a worker of dask.distributed: runs its share of a load at a common time.

The load is started ahead of time, and blocks until the common start. It exits with the worker, for
whatever reason. Nothing else of the lab runs on a host.
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

from gossamer_lab import paths
from gossamer_lab.measuring import process

_WAIT_FOR_START = ("setpriv", "--pdeathsig", "TERM", "sh", "-c", 'read -r _ && exec "$0" "$@"')
_active: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True)
class Job:
    """One host's share of a load."""

    host: str
    arguments: tuple[str, ...]
    """The command, after the program."""
    program: str = ""
    """Empty: the host's own."""
    namespace: str = ""
    """Path of the host's network namespace; empty: that of the worker."""
    core: int | None = None
    """The core that the host is pinned to."""
    folder: str = ""
    """For the host's files during the load; empty: the host's temporary folder."""

    def command(self, folder: Path) -> tuple[str, ...]:
        """Return the command line that waits for the start and then runs the load."""
        enter = ("nsenter", f"--net={self.namespace}") if self.namespace else ()
        program = self.program or str(paths.program())
        out = ("--json", str(folder / "load.json"), "--hdr-log", str(folder / "load.hlog"))
        return (*enter, *_WAIT_FOR_START, program, *self.arguments, *out)


def pin_to_core(core: int) -> None:
    """Pin this process to a core, with its future children."""
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {core})


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def run_job(job: Job, start_s: float) -> dict[str, Any]:
    """Run a host's share of a load from that time of its clock on; return its results.

    OSError is returned as text: an OSError from the worker would mean that the host has died.
    """
    if job.core is not None:
        pin_to_core(job.core)
    try:
        return await _run_job(job, start_s)
    except OSError as error:
        result = {"host": job.host, "began_s": start_s, "status": None}
        return result | {"report": "", "log": "", "words": str(error)}


async def _run_job(job: Job, start_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="gossamer-host-", dir=job.folder or None) as name:
        folder = Path(name)
        errors = folder / "err"
        with errors.open("wb") as err:
            child = subprocess.Popen(
                job.command(folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )
        _active.add(child)
        try:
            while (left_s := start_s - time.time()) > 0:
                await asyncio.sleep(left_s)
            began_s = time.time()
            await asyncio.to_thread(child.communicate, b"go\n")
        finally:
            child.kill()
            child.wait()
            _active.discard(child)
        return {
            "host": job.host,
            "began_s": began_s,
            "status": child.returncode,
            "report": _text(folder / "load.json"),
            "log": _text(folder / "load.hlog"),
            "words": process.stderr_tail(errors),
        }


async def cancel_jobs() -> None:
    """Kill the loads that are running on this host."""
    for child in _active:
        child.kill()


async def read_clock() -> float:
    """Return the time of the host's clock."""
    return time.time()
