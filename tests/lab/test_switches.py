"""Context switches that are counted, against a program that knows how often it slept."""

import subprocess
import sys

import pytest

from gossamer_lab import cgroup, switches

_SLEEPS, _CHILDREN = 20, 5
_FAMILY = f"""
import os, sys, time
sys.stdin.readline()
for _ in range({_CHILDREN}):
    if os.fork() == 0:
        for _ in range({_SLEEPS}):
            time.sleep(0.001)
        os._exit(0)
    os.wait()
sys.stdout.write("done" + chr(10))
sys.stdout.flush()
sys.stdin.readline()
"""


def switched(group: cgroup.Group | None) -> int:
    """Return how many switches are counted for a family whose children have ended."""
    command = (sys.executable, "-c", _FAMILY)
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
        switches.counted(group, child.pid) as counter,
    ):
        assert child.stdin
        assert child.stdout
        try:
            if group:
                group.take([child.pid])
            before = counter.so_far()
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            return counter.so_far() - before
        finally:
            child.kill()


def test_those_of_children_that_have_ended_are_counted_in_a_group() -> None:
    if not switches.are_permitted():
        pytest.skip("control groups or their counters are not permitted here")
    with cgroup.fresh() as group:
        assert switched(group) >= _SLEEPS * _CHILDREN


def test_those_of_the_living_are_counted_without_a_group() -> None:
    assert switched(None) >= _CHILDREN
