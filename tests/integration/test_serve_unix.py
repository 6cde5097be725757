"""Unix sockets: their files, and requests over them."""

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from conftest import Serve
from server import TIMEOUT_S, Server, attempts, run_serve

REQUEST = b"GET /a.txt HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"


def at(path: Path) -> str:
    """Return the option; in one word, as the fixture adds an address of TCP to announce itself."""
    return f"--listen=unix:{path}"


def ask(path: Path) -> bytes:
    """Send a request to a socket; return all that comes back."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT_S)
        client.connect(str(path))
        client.sendall(REQUEST)
        return b"".join(iter(lambda: client.recv(65536), b""))


def lines_about(server: Server, path: Path) -> list[str]:
    """Wait until the server has announced all addresses; return those of the path."""
    for _ in attempts():
        if len(server.stdout_lines()) == 2:
            break
    return [
        line for line in server.stdout_lines() if line.startswith(f"listening on unix:{path} (")
    ]


def test_requests_over_a_unix_socket_are_answered(
    serve: Serve, root: Path, tmp_path: Path, arch: str
) -> None:
    path, log = tmp_path / "socket", tmp_path / "log"
    server = serve(root, at(path), "--workers", "4", "--access-log", str(log))
    (line,) = lines_about(server, path)
    assert line.endswith(f"({arch}, {server.workers} workers)")
    for _ in range(20):
        answer = ask(path)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nhello\n")
    large = subprocess.run(
        ["curl", "--silent", "--fail", "--unix-socket", str(path), "http://here/large.bin"],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert large.stdout == (root / "large.bin").read_bytes()
    assert server.stop()["requests"] == 21
    logged = log.read_text().splitlines()
    assert len(logged) == 21
    assert all(line.startswith("unix: - - [") for line in logged)


def test_the_file_is_removed_at_the_end(serve: Serve, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    server = serve(root, at(path))
    assert stat.S_ISSOCK(path.stat().st_mode)
    server.stop()
    assert not path.exists()


def test_the_umask_determines_who_may_connect(serve: Serve, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    before = os.umask(0o117)
    try:
        serve(root, at(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_the_file_of_a_killed_server_is_replaced(serve: Serve, root: Path, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
        killed.bind(str(path))
        killed.listen()
    with pytest.raises(ConnectionRefusedError):
        ask(path)
    server = serve(root, at(path))
    assert ask(path).startswith(b"HTTP/1.1 200 OK\r\n")
    server.stop()
    assert not path.exists()


def test_the_socket_of_a_running_server_is_refused(
    serve: Serve, root: Path, tmp_path: Path, arch: str
) -> None:
    path = tmp_path / "socket"
    serve(root, at(path))
    done = run_serve("--arch", arch, at(path), str(root))
    assert done.returncode == 2
    assert done.stderr == (f"gossamer serve: can't listen at unix:{path}: Address already in use\n")
    assert ask(path).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_file_that_is_no_socket_is_kept(root: Path, tmp_path: Path, arch: str) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    done = run_serve("--arch", arch, at(path), str(root))
    assert done.returncode == 2
    assert "Address already in use" in done.stderr
    assert path.read_text() == "precious"
