"""The limit on the number of a server's threads and processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from gossamer_lab.measuring import cgroup, task_limit

_FORKS = """
import os, sys
sys.stdin.readline()
started = 0
try:
    for _ in range(20):
        if os.fork() == 0:
            sys.stdin.readline()
            os._exit(0)
        started += 1
except BlockingIOError:
    pass
print(started, flush=True)
for _ in range(started):
    os.wait()
"""
_MAX_TASKS = 6


def _children_of_a_program(max_tasks: int) -> tuple[int, list[Path]]:
    """Return how many children a program gets that asks for 20, and the folders of its groups."""
    with (
        cgroup.new_group() as group,
        task_limit.prepared(group, max_tasks) as limit_tasks,
        subprocess.Popen(
            (sys.executable, "-c", _FORKS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child,
    ):
        if group:
            group.add([child.pid])
        limit_tasks([child.pid])
        line = Path(f"/proc/{child.pid}/cgroup").read_text()
        assert child.stdin
        assert child.stdout
        child.stdin.write("\n")
        child.stdin.flush()
        started = int(child.stdout.readline())
        child.stdin.close()
    folders = {part.rpartition(":")[2] for part in line.splitlines() if cgroup.PREFIX in part}
    return started, [
        path for folder in folders for path in Path("/sys/fs/cgroup").glob(f"**{folder}")
    ]


@pytest.mark.skipif(not task_limit.is_permitted(), reason="control groups are not permitted here")
def test_a_limited_program_gets_no_further_processes_time_after_time() -> None:
    for _ in range(2):
        started, left = _children_of_a_program(_MAX_TASKS)
        # The program itself is one of them.
        assert started == _MAX_TASKS - 1
        assert left == []


def test_without_a_limit_a_program_gets_all_its_processes() -> None:
    assert _children_of_a_program(0)[0] == 20


def test_a_limit_that_is_not_permitted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_limit, "_parent", lambda: None)
    with (
        pytest.raises(OSError, match="the number of threads cannot be limited"),
        task_limit.prepared(None, _MAX_TASKS),
    ):
        pytest.fail("the block was entered")
