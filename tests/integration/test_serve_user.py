"""Giving up root: what the server may do afterwards is what that user may do."""

import os
import pwd
from pathlib import Path

import pytest
from conftest import Serve
from wire import Wire

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def open_up(root: Path) -> None:
    """Let others enter the folders that pytest made for us alone."""
    for folder in root.parents:
        if folder == Path("/tmp"):
            break
        folder.chmod(folder.stat().st_mode | 0o011)


def test_it_becomes_the_user_for_good(serve: Serve, root: Path) -> None:
    open_up(root)
    server = serve(root, "--user", "nobody", "--workers", "2")
    user = pwd.getpwnam("nobody")
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        status = dict(
            line.split(":\t", 1)
            for line in (task / "status").read_text().splitlines()
            if "\t" in line
        )
        assert status["Uid"].split() == [str(user.pw_uid)] * 4
        assert status["Gid"].split() == [str(user.pw_gid)] * 4
        assert set(status["Groups"].split()) <= {str(user.pw_gid)}
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0
        assert status["NoNewPrivs"] == "1"


def test_it_serves_what_the_user_may_read_and_nothing_else(serve: Serve, root: Path) -> None:
    open_up(root)
    (root / "a.txt").chmod(0o644)
    (root / "digits.txt").chmod(0o600)
    (root / "sub").chmod(0o700)
    server = serve(root, "--user", "nobody")
    with Wire(server.address) as wire:
        assert wire.get("/a.txt").body == b"hello\n"
        assert wire.get("/digits.txt").status == 403
        assert wire.get("/sub/index.html").status == 403
        assert wire.get("/sub/").status == 403


def test_its_log_and_low_port_are_opened_before(serve: Serve, root: Path) -> None:
    open_up(root)
    log = root.parent / "log"
    server = serve(root, "--user", "nobody", "--access-log", str(log))
    with Wire(server.address) as wire:
        assert wire.get("/a.txt").status == 200
    server.stop()
    assert len(log.read_text().splitlines()) == 1
    assert log.stat().st_uid == 0
