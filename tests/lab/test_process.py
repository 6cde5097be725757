"""Processes end on every way out."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gossamer_lab import process
from gossamer_lab.accounting import family_pids

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
    """Wait until a file holds the text."""
    deadline = time.monotonic() + 10
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"{text!r} never came"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Tell whether a process is gone within a while."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists():
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z" or time.monotonic() > deadline:
            return state == "Z"
        time.sleep(0.01)
    return True


def test_a_process_ends_when_its_block_raises(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        process.started(_SLEEP, 0, tmp_path / "out", tmp_path / "err") as child,
    ):
        raise KeyboardInterrupt
    assert child.returncode == -signal.SIGTERM
    assert family_pids(child.pid) == []


def test_what_ignores_sigterm_is_killed_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_GRACE_S", 0.2)
    with process.started(_STUBBORN, 0, tmp_path / "out", tmp_path / "err") as child:
        await_text(tmp_path / "out", "up\nup")
        assert len(family_pids(child.pid)) == 2
    assert child.returncode == -signal.SIGKILL
    assert family_pids(child.pid) == []


def test_a_process_ends_with_a_lab_that_is_killed(tmp_path: Path) -> None:
    lab = subprocess.Popen(
        (
            sys.executable,
            "-c",
            "import sys, time\nfrom pathlib import Path\nfrom gossamer_lab import process\n"
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


def test_a_process_keeps_to_its_core(tmp_path: Path) -> None:
    core = sorted(os.sched_getaffinity(0))[-1]
    with process.started(_SLEEP, core, tmp_path / "out", tmp_path / "err") as child:
        await_text(tmp_path / "out", "up")
        assert os.sched_getaffinity(child.pid) == {core}
        assert os.getsid(child.pid) == child.pid


def test_a_program_that_does_not_exist_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        process.start(("/nonexistent/program",), 0, tmp_path / "out", tmp_path / "err")


def test_last_words_are_the_end_of_what_was_said(tmp_path: Path) -> None:
    said = tmp_path / "err"
    assert process.last_words(said) == ""
    said.write_text("first\n" + "x" * 50 + "last\n")
    assert process.last_words(said, limit=10) == "...xxxxxxlast"
    assert process.last_words(said).startswith("first")
