"""CPU time accounted by a control group, against programs that measure their own."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from gossamer_lab.measuring import cgroup

_PROCESS_TREE = """
import os, signal, sys, time
def burn(seconds):
    while time.process_time() < seconds:
        sum(range(1000))
sys.stdin.readline()
signal.signal(signal.SIGCHLD, {on_child})
for _ in range(20):
    if os.fork() == 0:
        burn(0.004)
        os._exit(0)
try:
    while True:
        os.wait()
except ChildProcessError:
    print("done")
"""
_USED_S = 20 * 0.004


@pytest.fixture
def group() -> Iterator[cgroup.Group]:
    if not cgroup.are_permitted():
        pytest.skip("control groups are not permitted here")
    with cgroup.new_group() as made:
        assert made
        yield made


@pytest.mark.parametrize("on_child", ["signal.SIG_DFL", "signal.SIG_IGN"])
def test_exited_children_are_counted_whether_or_not_they_were_waited_for(
    group: cgroup.Group, on_child: str
) -> None:
    child = subprocess.Popen(
        (sys.executable, "-c", _PROCESS_TREE.format(on_child=on_child)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        group.add([child.pid])
        before = group.cpu()
        assert child.communicate("\n")[0] == "done\n"
        used = group.cpu() - before
    assert used.total_s >= _USED_S


def test_a_group_without_work_counts_nothing(group: cgroup.Group) -> None:
    assert group.cpu().total_s == 0


def test_adding_an_exited_process_does_nothing(group: cgroup.Group) -> None:
    with subprocess.Popen(("true",)) as child:
        child.wait()
        group.add([child.pid])


def test_groups_of_a_lab_that_was_killed_are_removed(group: cgroup.Group) -> None:
    with subprocess.Popen(("true",)) as child:
        pass
    leftover = group.folder.with_name(f"gossamer-lab-{child.pid}-1")
    leftover.mkdir()
    with cgroup.new_group() as other:
        assert other
        assert not leftover.exists()
        assert group.folder.exists()
    assert not other.folder.exists()
