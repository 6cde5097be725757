"""What holds for every test in Python: it ends, and it leaves no process behind."""

import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest

# Only a test that hangs takes this long, even with a sanitizer on a busy machine.
LIMIT_S = float(os.environ.get("GOSSAMER_TEST_LIMIT_S", "300"))

# Processes that have been killed or interrupted may need this long to end.
GRACE_S = float(os.environ.get("GOSSAMER_TEST_GRACE_S", "10"))

PR_SET_CHILD_SUBREAPER = 36

# The processes that fixtures of a module or of the session have started, and will end.
KEPT: dict[pytest.FixtureDef[object], set[int]] = {}


def pytest_configure() -> None:
    """Become the parent of processes whose parent has ended, so that they can be found."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


# ---- Tests that hang ----


def give_up(_number: int, _frame: FrameType | None) -> None:
    """Break off what the test is waiting for."""
    pytest.fail(f"it hangs: it was still running after {LIMIT_S:g} s")


@contextmanager
def limited() -> Iterator[None]:
    """Break off a part of a test after the limit, and what then hangs in its cleanup."""
    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, max(1.0, LIMIT_S / 10))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Limit the time that the fixtures of a test take."""
    with limited():
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Iterator[None]:
    """Limit the time that a test takes."""
    with limited():
        return (yield)


# ---- Processes that are left behind ----


def state(pid: int) -> str:
    """Return the letter of a process's state; X: there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def children() -> set[int]:
    """Return the children of this process, and of those of its descendants that have ended."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def left_behind() -> list[int]:
    """Return the children that still run and belong to no fixture; reap those that have ended."""
    left = []
    for pid in children().difference(*KEPT.values()):
        if state(pid) not in "ZX":
            left.append(pid)
            continue
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return left


def end_left_behind() -> list[str]:
    """Kill what is still left behind after a moment; return the commands."""
    end_s = time.monotonic() + GRACE_S
    while (left := left_behind()) and time.monotonic() < end_s:
        time.sleep(0.005)
    commands = []
    while left:
        for pid in left:
            with suppress(FileNotFoundError, ProcessLookupError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
                commands.append(f"{pid}: {line.decode(errors='replace')}")
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
        left = left_behind()
    return list(dict.fromkeys(commands))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Iterator[object]:
    """Note which processes a fixture of a module, or of the session, starts."""
    before = children()
    result = yield
    if fixturedef.scope != "function":
        KEPT[fixturedef] = children() - before
    return result


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[object]) -> None:
    """Note that the processes of a fixture must have ended."""
    KEPT.pop(fixturedef, None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail if a process is left behind by a test, or by a fixture that ends with it."""
    try:
        with limited():
            result = yield
    finally:
        commands = end_left_behind()
    if commands:
        pytest.fail("it left processes behind:\n" + "\n".join(commands), pytrace=False)
    return result
