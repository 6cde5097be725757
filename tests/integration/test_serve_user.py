"""Dropping privileges: afterwards the server has the permissions of the given user."""

import os
import pwd
from pathlib import Path

import pytest
from conftest import Serve, at_once
from server import ROOT_WARNING, attempts
from wire import Wire, get

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def open_up(root: Path) -> None:
    """Allow other users to enter the folders that pytest created for us alone."""
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


@at_once
def test_a_root_that_the_user_may_not_enter_does_not_replace_the_present_one(
    serve: Serve, root: Path
) -> None:
    open_up(root)
    forbidden, link, fresh = (root.parent / name for name in ("forbidden", "link", "fresh"))
    forbidden.mkdir(mode=0o700)
    link.symlink_to(root)
    server = serve(link, "--user", "nobody")
    fresh.symlink_to(forbidden)
    fresh.rename(link)
    for _ in attempts(1):
        assert get(server.address, "/a.txt").status == 200


def test_its_log_and_low_port_are_opened_before(serve: Serve, root: Path) -> None:
    open_up(root)
    log = root.parent / "log"
    server = serve(root, "--user", "nobody", "--access-log", str(log))
    with Wire(server.address) as wire:
        assert wire.get("/a.txt").status == 200
    server.stop()
    assert len(log.read_text().splitlines()) == 1
    assert log.stat().st_uid == 0


def test_root_without_a_user_is_warned(serve: Serve, root: Path) -> None:
    open_up(root)
    (root / "a.txt").chmod(0)
    server = serve(root, "--workers", "2")
    assert server.all_stderr_lines() == [ROOT_WARNING]
    assert get(server.address, "/a.txt").status == 200
    server = serve(root, "--user", "nobody")
    assert server.all_stderr_lines() == []
    assert get(server.address, "/a.txt").status == 403
    quiet = serve(root, "--log-level", "error")
    assert quiet.all_stderr_lines() == []
    quiet.process.terminate()
    assert quiet.exit_status() == 0
