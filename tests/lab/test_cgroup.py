"""CPU time that a control group counts, against programs that measure their own."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from gossamer_lab import cgroup

_FAMILY = """
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
    with cgroup.fresh() as made:
        assert made
        yield made


@pytest.mark.parametrize("on_child", ["signal.SIG_DFL", "signal.SIG_IGN"])
def test_children_that_have_ended_are_counted_whether_or_not_anybody_waited(
    group: cgroup.Group, on_child: str
) -> None:
    child = subprocess.Popen(
        (sys.executable, "-c", _FAMILY.format(on_child=on_child)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        group.take([child.pid])
        before = group.cpu()
        assert child.communicate("\n")[0] == "done\n"
        used = group.cpu() - before
    assert used.total_s >= _USED_S


def test_a_group_without_work_counts_nothing(group: cgroup.Group) -> None:
    assert group.cpu().total_s == 0


def test_a_process_that_is_gone_is_not_missed(group: cgroup.Group) -> None:
    with subprocess.Popen(("true",)) as child:
        child.wait()
        group.take([child.pid])


def test_groups_of_a_lab_that_was_killed_are_removed(group: cgroup.Group) -> None:
    with subprocess.Popen(("true",)) as child:
        pass
    left = group.folder.with_name(f"gossamer-lab-{child.pid}-1")
    left.mkdir()
    with cgroup.fresh() as other:
        assert other
        assert not left.exists()
        assert group.folder.exists()
    assert not other.folder.exists()
