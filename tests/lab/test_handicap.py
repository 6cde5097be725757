"""A handicap, counted by the control group of the server that has it."""

import os
import sys
import time
from pathlib import Path

import pytest

from gossamer_lab import cgroup, process
from gossamer_lab.accounting import family_pids
from gossamer_lab.handicap import HandicapError, all_given, given, parse
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
    """Return a server that works for a while as soon as there is a file named "go"."""
    argv = (sys.executable, "-c", _SERVER, str(folder / "go"))
    return Server("slow", True, "", "", lambda _: Launch(argv))


def await_words(output: Path, count: int) -> list[str]:
    """Wait until a process has written so many lines."""
    deadline = time.monotonic() + _DEADLINE_S
    while len(lines := output.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return lines


def test_a_handicap_is_a_share_of_what_the_server_uses_and_ends_with_it(tmp_path: Path) -> None:
    if not cgroup.are_permitted():
        pytest.skip("control groups are not permitted here")
    launch = given(server(tmp_path), 0.5).configure(Site(tmp_path, tmp_path, 100))
    core, output = min(os.sched_getaffinity(0)), tmp_path / "out"
    with (
        cgroup.fresh() as group,
        process.started(launch.argv, core, output, tmp_path / "err") as child,
    ):
        assert group
        await_words(output, 1)
        members = family_pids(child.pid)
        assert len(members) == 2
        group.take(members)
        (tmp_path / "go").touch()
        worked = float(await_words(output, 2)[1])
        deadline = time.monotonic() + _DEADLINE_S
        while group.cpu().total_s < 1.49 * worked:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert family_pids(child.pid) == []


def test_a_handicap_is_a_name_and_a_percentage() -> None:
    assert parse("user, accept=12.5%") == ("user, accept", 0.125)
    for text in ("event", "event=10", "=10%", "event=-1%"):
        with pytest.raises(HandicapError, match="NAME=PERCENT%"):
            parse(text)


def test_servers_without_a_handicap_stay_as_they_are(tmp_path: Path) -> None:
    known = server(tmp_path)
    assert all_given([known], {}) == [known]
