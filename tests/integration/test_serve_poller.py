"""The choice of the event loops' poller."""

import os
import re
from pathlib import Path

import pytest
from conftest import Serve
from server import has_io_uring, run_serve
from wire import Wire

POLLERS = ("epoll", "poll", "select", "io_uring")


def ask(address: tuple[str, int], *targets: str) -> list[bytes]:
    """Send pipelined requests over one connection; return the bodies."""
    with Wire(address) as wire:
        wire.send(b"".join(f"GET {t} HTTP/1.1\r\nHost: x\r\n\r\n".encode() for t in targets))
        return [wire.response().body for _ in targets]


@pytest.mark.parametrize("poller", POLLERS)
def test_pages_and_files_are_complete_with_every_poller(
    serve: Serve, root: Path, poller: str
) -> None:
    if poller == "io_uring" and not has_io_uring():
        pytest.skip("io_uring is not available")
    server = serve(root, "--poller", poller, "--workers", "1")
    large = (root / "large.bin").read_bytes()
    assert ask(server.address, "/a.txt", "/large.bin", "/digits.txt", "/large.bin") == [
        b"hello\n",
        large,
        b"0123456789" * 10,
        large,
    ]


def test_more_requests_at_once_than_a_buffer_holds_are_all_answered(
    serve: Serve, root: Path
) -> None:
    server = serve(root)
    assert ask(server.address, *["/a.txt"] * 2000) == [b"hello\n"] * 2000


def test_without_io_uring_the_server_warns_and_serves(
    serve: Serve, root: Path, configuration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_NO_IO_URING", "1")
    if configuration != "event":
        pytest.skip("the configuration has no choice of poller")
    server = serve(root, "--poller", "io_uring")
    server.expect("no io_uring")
    assert ask(server.address, "/a.txt") == [b"hello\n"]


def test_the_poller_is_chosen_by_what_was_measured_and_shown(serve: Serve, root: Path) -> None:
    server = serve(root, "--poller", "auto", "--metrics", "/metrics", "--log-level", "info")
    page = ask(server.address, "/metrics")[0].decode()
    chosen = re.search(r'gossamer_poller_info{arch="(\w+)",poller="(\w+)"} 1', page)
    listed = dict(
        re.findall(
            r"^(\w+) .*--poller auto: (\w+), ", run_serve("--arch", "list").stdout, re.MULTILINE
        )
    )
    if chosen is None:
        assert server.arch not in listed
        return
    assert listed[chosen[1]] == chosen[2]
    server.expect(f"--poller auto: {chosen[2]}, ")


def test_a_choice_without_io_uring_is_epoll_without_a_warning(
    serve: Serve, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_NO_IO_URING", "1")
    server = serve(root, "--poller", "auto")
    assert ask(server.address, "/a.txt") == [b"hello\n"]


def test_poller_that_does_not_exist_is_refused() -> None:
    done = run_serve("--poller", "kqueue", os.curdir)
    assert done.returncode == 2
    assert "kqueue" in done.stderr
