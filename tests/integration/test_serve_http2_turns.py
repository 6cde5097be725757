"""Sessions of HTTP/2 that ask for much at once do not hold up connections beside them."""

import contextlib
import signal
import socket
import struct
from pathlib import Path

import pytest
from conftest import Serve
from http2_wire import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame
from server import Server, attempts, has_http2
from wire import Wire, request

pytestmark = pytest.mark.skipif(not has_http2(), reason="built without libnghttp2")

SESSIONS = 50
REQUESTS = 100  # of each
AHEAD_MAX = SESSIONS * REQUESTS // 2
GET = b"\x82\x84\x86\1\1x"  # the header block of a request
WINDOW = 1 << 20


def frames() -> bytes:
    """Return what a session sends at once."""
    settings = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, WINDOW))
    ids = range(1, 2 * REQUESTS, 2)
    return (
        PREFACE
        + settings
        + b"".join(frame(HEADERS, END_STREAM | END_HEADERS, one, GET) for one in ids)
    )


def stop(server: Server) -> None:
    """Stop all threads of the server, until SIGCONT."""
    server.send_signal(signal.SIGSTOP)
    for _ in attempts():
        threads = Path(f"/proc/{server.pid}/task").glob("*/stat")
        if all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in threads):
            return
    raise AssertionError(server.pid)


def lines_before(log: Path, text: str) -> int:
    """Wait until the log has a line with this text; return how many precede it."""
    for _ in attempts():
        lines = log.read_text().splitlines() if log.exists() else []
        for number, line in enumerate(lines):
            if text in line:
                return number
    raise AssertionError(text)


def test_a_request_does_not_wait_for_all_sessions_that_came_before(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "event":
        pytest.skip("only its loops count what sessions have received")
    log = root.parent / "log"
    server = serve(root, "--access-log", str(log), "--workers", "1")
    with Wire(server.address) as wire, contextlib.ExitStack() as sessions:
        assert wire.get("/").status == 200
        stop(server)
        for _ in range(SESSIONS):
            address = server.address[:2]
            session = sessions.enter_context(socket.create_connection(address, timeout=20))
            session.sendall(frames())
        wire.send(request("GET", "/nonesuch"))
        server.send_signal(signal.SIGCONT)
        assert wire.response().status == 404
        assert lines_before(log, "/nonesuch") <= AHEAD_MAX
        for _ in attempts():
            if log.read_text().count("HTTP/2.0") == SESSIONS * REQUESTS:
                break
        assert log.read_text().count("HTTP/2.0") == SESSIONS * REQUESTS
