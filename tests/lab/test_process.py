"""Processes are stopped on every exit path."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossamer_lab.measuring import process
from gossamer_lab.measuring.accounting import tree_pids

_SLEEP = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
_STUBBORN = (
    sys.executable,
    "-c",
    "import os, signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "os.fork()\n"
    "print('up', flush=True)\n"
    "time.sleep(60)",
)


def await_text(path: Path, text: str) -> None:
    """Wait until a file contains the text."""
    deadline = time.monotonic() + 60
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"{text!r} was not written"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def is_gone(pid: int) -> bool:
    """Return whether a process exits within a minute."""
    deadline = time.monotonic() + 60
    while is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_process_ends_when_its_block_raises(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        process.started(_SLEEP, 0, tmp_path / "out", tmp_path / "err") as child,
    ):
        raise KeyboardInterrupt
    assert child.returncode == -signal.SIGTERM
    assert tree_pids(child.pid) == []


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_GRACE_S", 0.2)
    with process.started(_STUBBORN, 0, tmp_path / "out", tmp_path / "err") as child:
        await_text(tmp_path / "out", "up\nup")
        assert len(tree_pids(child.pid)) == 2
    assert child.returncode == -signal.SIGKILL
    assert tree_pids(child.pid) == []


def test_a_process_is_terminated_when_the_lab_is_killed(tmp_path: Path) -> None:
    lab = subprocess.Popen(
        (
            sys.executable,
            "-c",
            "import sys, time\nfrom pathlib import Path\n"
            "from gossamer_lab.measuring import process\n"
            f"folder = Path({str(tmp_path)!r})\n"
            f"child = process.start({_SLEEP!r}, 0, folder / 'out', folder / 'err')\n"
            "(folder / 'pid').write_text(f'{child.pid}.')\n"
            "time.sleep(60)",
        )
    )
    try:
        await_text(tmp_path / "pid", ".")
        await_text(tmp_path / "out", "up")
    finally:
        lab.kill()
        lab.wait()
    assert is_gone(int((tmp_path / "pid").read_text().rstrip(".")))


def test_a_process_is_pinned_to_its_core(tmp_path: Path) -> None:
    core = sorted(os.sched_getaffinity(0))[-1]
    with process.started(_SLEEP, core, tmp_path / "out", tmp_path / "err") as child:
        await_text(tmp_path / "out", "up")
        assert os.sched_getaffinity(child.pid) == {core}
        assert os.getsid(child.pid) == child.pid


def test_a_program_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        process.start(("/nonexistent/program",), 0, tmp_path / "out", tmp_path / "err")


def test_the_tail_of_standard_error_is_limited(tmp_path: Path) -> None:
    log = tmp_path / "err"
    assert process.stderr_tail(log) == ""
    log.write_text("first\n" + "x" * 50 + "last\n")
    assert process.stderr_tail(log, limit=10) == "...xxxxxxlast"
    assert process.stderr_tail(log).startswith("first")
