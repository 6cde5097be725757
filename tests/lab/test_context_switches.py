"""Counts of context switches, against a program that knows how often it slept."""

import subprocess
import sys

import pytest

from gossamer_lab.measuring import cgroup, context_switches

_SLEEPS, _CHILDREN = 20, 5
_PROCESS_TREE = f"""
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


def count_switches(group: cgroup.Group | None) -> int:
    """Return how many context switches are counted for a process whose children have exited."""
    command = (sys.executable, "-c", _PROCESS_TREE)
    with (
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
        context_switches.context_switch_counter(group, child.pid) as counter,
    ):
        assert child.stdin
        assert child.stdout
        try:
            if group:
                group.add([child.pid])
            before = counter.total()
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            return counter.total() - before
        finally:
            child.kill()


def test_in_a_group_those_of_exited_children_are_counted() -> None:
    if not context_switches.are_permitted():
        pytest.skip("control groups or their counters are not permitted here")
    with cgroup.new_group() as group:
        assert count_switches(group) >= _SLEEPS * _CHILDREN


def test_without_a_group_those_of_living_processes_are_counted() -> None:
    assert count_switches(None) >= _CHILDREN
