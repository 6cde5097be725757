"""What is contained, and reported when it can't be; no architecture differs in that."""

import os
import pwd
import stat
from pathlib import Path

import pytest
from conftest import Serve
from server import is_built_with, run_serve, statuses
from wire import get

from tls import HAS_TLS, certificate_files, listen_arguments

IS_SANITIZED = is_built_with("address") or is_built_with("thread")
contained = pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer needs more than the sandbox has")
PLAIN = ("--listen", "127.0.0.1:0")


def open_up(root: Path) -> None:
    """Allow other users to read the folders that pytest created for us alone."""
    for folder in (root, *root.parents):
        if folder == Path("/tmp"):
            break
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH | stat.S_IROTH | stat.S_IXGRP)


def test_links_out_of_the_root_are_followed_with_the_option(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/page").write_bytes(b"elsewhere")
    (root / "link").symlink_to(tmp_path / "elsewhere")
    mode = "auto" if IS_SANITIZED else "on"
    server = serve(root, "--sandbox", mode, "--follow-symlinks")
    assert get(server.address, "/link/page").body == b"elsewhere"


def test_without_the_sandbox_nothing_is_filtered(serve: Serve, root: Path) -> None:
    server = serve(root, "--sandbox", "off", "--log-level", "info")
    server.allow("--poller auto")
    assert statuses(server, "Seccomp") == {"0"}


@contained
def test_a_preloaded_library_turns_it_off_unless_it_is_demanded(serve: Serve, root: Path) -> None:
    preload = ("env", "LD_PRELOAD=libm.so.6")
    server = serve(root, "--log-level", "info", prefix=preload)
    server.allow("--poller auto")
    server.expect("there is no sandbox: LD_PRELOAD is set")
    assert statuses(server, "Seccomp") == {"0"}
    assert statuses(serve(root, "--sandbox", "on", prefix=preload), "Seccomp") == {"2"}


@contained
@pytest.mark.skipif(os.geteuid() != 0 or not HAS_TLS, reason="needs root, and TLS")
def test_the_memory_of_a_server_with_a_key_is_shown_to_nobody(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    open_up(root)
    nobody = pwd.getpwnam("nobody")
    for file in certificate_files():
        (tmp_path / file.name).write_bytes(file.read_bytes())
        os.chown(tmp_path / file.name, nobody.pw_uid, nobody.pw_gid)
    files = tuple(tmp_path / file.name for file in certificate_files())
    prefix = ("setpriv", "--reuid=nobody", f"--regid={nobody.pw_gid}", "--clear-groups")
    with_key = serve(root, *listen_arguments((files[0], files[1])), prefix=prefix)
    with_key.allow("every user can read the key")
    without = serve(root, prefix=prefix)
    owners = [Path(f"/proc/{server.pid}/environ").stat().st_uid for server in (with_key, without)]
    assert owners == [0, nobody.pw_uid]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its group")
def test_it_runs_in_a_group_with_and_without_a_user(serve: Serve, root: Path) -> None:
    open_up(root)
    daemon = "1"
    assert statuses(serve(root, "--group", "daemon"), "Gid") == {daemon}
    server = serve(root, "--user", "nobody", "--group", "daemon")
    assert statuses(server, "Gid") == {daemon}
    assert statuses(server, "Uid") == {str(pwd.getpwnam("nobody").pw_uid)}
    assert statuses(server, "CapEff") == {"0" * 16}


def test_wrong_words_are_refused(root: Path) -> None:
    done = run_serve("--sandbox", "maybe", str(root))
    assert done.returncode == 2
    assert done.stderr == "gossamer serve: --sandbox maybe: it is auto, on or off\n"
    done = run_serve("--group", "no-such-group", *PLAIN, str(root))
    assert done.returncode == 2
    assert done.stderr == "gossamer serve: --group no-such-group: there is no such group\n"
