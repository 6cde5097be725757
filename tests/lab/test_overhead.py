"""Injected overhead, accounted by the control group of its server."""

import os
import sys
import time
from pathlib import Path

import pytest

from gossamer_lab.measuring import cgroup, process
from gossamer_lab.measuring.accounting import tree_pids
from gossamer_lab.measuring.overhead import OverheadError, parse, with_overhead, with_overheads
from gossamer_lab.servers.server import Launch, Server, Site

_SERVER = """
import os, sys, time
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
began = time.process_time()
while time.process_time() < began + 0.5:
    pass
print(time.process_time() - began, flush=True)
time.sleep(600)
"""
_DEADLINE_S = 60


def server(folder: Path) -> Server:
    """Return a server that starts to compute when there is a file named "go"."""
    argv = (sys.executable, "-c", _SERVER, str(folder / "go"))
    return Server("slow", True, "", "", lambda _: Launch(argv))


def await_lines(output: Path, count: int) -> list[str]:
    """Wait until a process has written this many lines."""
    deadline = time.monotonic() + _DEADLINE_S
    while len(lines := output.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return lines


def test_overhead_is_a_share_of_the_servers_cpu_time_and_ends_with_it(tmp_path: Path) -> None:
    if not cgroup.are_permitted():
        pytest.skip("control groups are not permitted here")
    launch = with_overhead(server(tmp_path), 0.5).configure(Site(tmp_path, tmp_path, 100))
    core, output = min(os.sched_getaffinity(0)), tmp_path / "out"
    with (
        cgroup.new_group() as group,
        process.started(launch.argv, core, output, tmp_path / "err") as child,
    ):
        assert group
        await_lines(output, 1)
        members = tree_pids(child.pid)
        assert len(members) == 2
        group.add(members)
        (tmp_path / "go").touch()
        worked = float(await_lines(output, 2)[1])
        deadline = time.monotonic() + _DEADLINE_S
        while group.cpu().total_s < 1.49 * worked:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert tree_pids(child.pid) == []


def test_overhead_is_a_name_and_a_percentage() -> None:
    assert parse("user, accept=12.5%") == ("user, accept", 0.125)
    for text in ("event", "event=10", "=10%", "event=-1%"):
        with pytest.raises(OverheadError, match="NAME=PERCENT%"):
            parse(text)


def test_servers_without_overhead_are_unchanged(tmp_path: Path) -> None:
    known = server(tmp_path)
    assert with_overheads([known], {}) == [known]
