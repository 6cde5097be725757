"""Child processes: pinned to a core, and stopped by their id on every exit path."""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gossamer_lab.measuring import interruption
from gossamer_lab.measuring.accounting import tree_pids

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_GRACE_S = 5.0
_TICK_S = 0.25


def _no_setup() -> None:
    """Leave a new process as it is."""


def _set_up_child(core: int | None, parent: int) -> None:
    """Set up a new process: its core, its limit on open files, its end with the lab's."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1) if core is None else {core})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # SIGTERM, not SIGKILL: a server with workers must be able to stop them too.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)


def start(
    argv: Sequence[str],
    core: int | None,
    output: Path,
    errors: Path,
    prepare: Callable[[], None] = _no_setup,
) -> subprocess.Popen[bytes]:
    """Start a process in its own session, on one core; OSError if it cannot be started.

    Without a core it may run on any.

    It gets SIGTERM when the calling thread exits, for whatever reason. `prepare` is called in the
    new process, before exec.
    """
    parent = os.getpid()

    def set_up() -> None:
        _set_up_child(core, parent)
        prepare()

    with output.open("wb") as out, errors.open("wb") as err:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            # Safe: the lab starts processes from its only thread of Python.
            preexec_fn=set_up,  # noqa: PLW1509
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a process and its descendants: SIGTERM, after a grace period SIGKILL, by id."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline:
        if process.poll() is None:
            process.kill()
        left = [pid for pid in tree_pids(process.pid) if pid != process.pid]
        if not left and process.poll() is not None:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


@contextlib.contextmanager
def started(
    argv: Sequence[str],
    core: int | None,
    output: Path,
    errors: Path,
    prepare: Callable[[], None] = _no_setup,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process for the duration of a ``with`` block."""
    process = start(argv, core, output, errors, prepare)
    try:
        yield process
    finally:
        stop(process)


def wait(process: subprocess.Popen[bytes], limit_s: float, tick: Callable[[], None]) -> int | None:
    """Wait until a process exits; return its status, None if it takes longer than the limit.

    `tick` is called a few times a second. KeyboardInterrupt if an interruption has been requested.
    """
    deadline = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TICK_S)
        interruption.check()
        tick()
    return process.poll()


def ending(status: int | None) -> str:
    """Return how a process ended, from what `wait` returned."""
    return "did not exit" if status is None else f"exited with status {status}"


def stderr_tail(errors: Path, limit: int = 600) -> str:
    """Return the end of what a process wrote to its standard error."""
    try:
        text = errors.read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
    return text if len(text) <= limit else "..." + text[-limit:]
