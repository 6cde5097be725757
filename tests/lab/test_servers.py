"""The list of architectures, free ports, and the pages to serve."""

import os
import socket
from pathlib import Path

import pytest

from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.measuring import workspace
from gossamer_lab.servers.ours import our_servers, parse_arch_list
from gossamer_lab.servers.ports import free_port
from gossamer_lab.servers.server import ServerFailedError


def test_architectures_are_the_first_column_of_the_list() -> None:
    text = (
        "name      summary                workers\n"
        "event     a loop a worker        loops\n"
        "\n"
        "  user-threads\ta thread a connection\tkernel threads\n"
        "fork\n"
    )
    assert parse_arch_list(text) == {
        "event": "a loop a worker",
        "user-threads": "a thread a connection",
        "fork": "",
    }


def test_a_program_that_cannot_list_its_architectures_is_refused(tmp_path: Path) -> None:
    mute = tmp_path / "gossamer"
    mute.write_text("#!/bin/sh\necho 'no such command' >&2\nexit 2\n")
    mute.chmod(0o755)
    with pytest.raises(ServerFailedError, match="names no architecture: no such command"):
        our_servers(mute)
    with pytest.raises(ServerFailedError, match="cannot be run"):
        our_servers(tmp_path / "absent")


def test_a_free_port_can_be_bound_and_is_not_ephemeral() -> None:
    port = free_port("127.0.0.1")
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert port < max(lowest, 11_240)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))


@pytest.mark.parametrize("size", [305, 8192])
def test_a_page_has_exactly_its_size(size: int) -> None:
    assert len(workspace.page(size)) == size
    assert workspace.page(size).startswith(b"<!doctype html>")


def test_the_workspace_is_removed_and_the_lab_may_use_all_cores_again(tmp_path: Path) -> None:
    before = os.sched_getaffinity(0)
    with workspace.open_workspace(QUICK, tmp_path / "program") as opened:
        assert sorted(path.name for path in opened.site.root.iterdir()) == [
            "page-305.html",
            "page-8192.html",
        ]
        assert os.sched_getaffinity(0) == {opened.client_core}
    assert not opened.site.folder.exists()
    assert os.sched_getaffinity(0) == before


def test_one_core_is_shared_by_server_and_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace.os, "sched_getaffinity", lambda _pid: {3})
    assert workspace.two_cores() == (3, 3)
    monkeypatch.setattr(workspace.os, "sched_getaffinity", lambda _pid: {5, 2, 9})
    assert workspace.two_cores() == (2, 5)
