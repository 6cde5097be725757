"""The sandbox: what is served stays the same with each architecture.

What the server can no longer do is tried by tests/serve/test_sandbox.c.
"""

import signal
from pathlib import Path

import pytest
from conftest import Serve, at_once
from metrics import PATH, read, value
from server import PROCESSES, attempts, is_built_with, statuses
from wire import get, name_of

from tls import HAS_TLS, listen_arguments, make_certificate, replace

IS_SANITIZED = is_built_with("address") or is_built_with("thread")
pytestmark = pytest.mark.skipif(IS_SANITIZED, reason="a sanitizer needs more than the sandbox has")


@at_once
def test_all_that_a_server_does_later_goes_on_in_the_strict_sandbox(
    serve: Serve, root: Path, tmp_path: Path, arch: str
) -> None:
    log = tmp_path / "logs/log"
    log.parent.mkdir()
    secure: list[str] = []
    if HAS_TLS:
        files = make_certificate(tmp_path / "tls", "first")
        other = make_certificate(tmp_path / "other", "second")
        secure = listen_arguments(files)
    server = serve(
        root,
        *("--sandbox", "on", "--listen", "127.0.0.1:0", *secure, "--workers", "2"),
        *("--metrics", PATH, "--access-log", str(log)),
    )
    assert statuses(server, "Seccomp") == {"2"}
    assert get(server.address, "/large.bin").body == (root / "large.bin").read_bytes()
    (root / "new.txt").write_bytes(b"new")
    assert any(get(server.address, "/new.txt").status == 200 for _ in attempts())
    old = log.rename(log.with_name("old"))
    if HAS_TLS:
        replace(files, other)
    server.send_signal(signal.SIGHUP)
    assert any(log.exists() and get(server.address, "/a.txt").status == 200 for _ in attempts())
    assert any(log.read_text() for _ in attempts())
    assert old.read_text()
    if HAS_TLS:
        assert any(name_of(server.addresses[1]) == "second" for _ in attempts())
        assert value(read(server), "tls_failed_loads_total") == 0
    assert value(read(server), "processes") >= (3 if arch in PROCESSES else 1)


@at_once
def test_the_strict_sandbox_keeps_the_directory_that_it_began_with(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    other, link, fresh = (tmp_path / name for name in ("other", "link", "fresh"))
    other.mkdir()
    (other / "a.txt").write_bytes(b"other")
    link.symlink_to(root)
    server = serve(link, "--sandbox", "on")
    server.expect(r"link names another directory now, which --sandbox on does not allow")
    assert get(server.address, "/a.txt").body == b"hello\n"
    fresh.symlink_to(other)
    fresh.rename(link)
    for _ in attempts():
        assert get(server.address, "/a.txt").body == b"hello\n"
        if any("names another" in line for line in server.stderr_lines()):
            break
