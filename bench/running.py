"""Programs that run on a core while something is measured."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def running(command: list[str], core: int) -> Iterator[subprocess.Popen[str]]:
    """Run a program on a core for the duration of a ``with`` block; Go gets one thread for code."""
    child = subprocess.Popen(
        ["taskset", "--cpu-list", str(core), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "GOMAXPROCS": "1"},
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def cpu_us(pid: int) -> float:
    """Return the CPU time of a process, of all its threads."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e3
