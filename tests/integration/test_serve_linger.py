"""Closing: a client gets all of its last answer, whatever it sends behind the last request."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Serve, at_once, sparse
from server import Server, attempts
from test_serve_eviction import REPORT, places
from wire import Wire, request

SIZE = 3_000_000
TOO_LARGE = request("POST", "/", Content_Length=str(1 << 40))

# Longer than a window in which a client that lingers must go on sending.
UPLOAD_S = 5.5


@contextlib.contextmanager
def flooding(wire: Wire) -> Iterator[None]:
    """Send without a pause until the server closes the connection."""

    def send() -> None:
        with contextlib.suppress(OSError):
            while True:
                wire.send(bytes(1 << 16))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        wire.abandon()
        thread.join()


def linger(server: Server) -> Wire:
    """Return a connection whose last answer was received, and that the client does not close."""
    wire = Wire(server.address)
    wire.send(TOO_LARGE)
    assert wire.response().status == 413
    assert wire.receive() == b""
    return wire


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@at_once
def test_stray_bytes_cost_no_part_of_an_answer(serve: Serve, root: Path, version: str) -> None:
    page = sparse(root / "huge.bin", SIZE).read_bytes()
    server = serve(root)
    with Wire(server.address, receive_buffer=16384) as wire:
        wire.send(f"GET /huge.bin HTTP/{version}\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        assert wire.head().status == 200
        received = b""
        while data := wire.receive(20000):
            received += data
            with contextlib.suppress(BrokenPipeError):
                wire.send(b"stray")
        assert received == page


def test_stray_bytes_behind_a_whole_long_answer_cause_no_reset(serve: Serve, root: Path) -> None:
    page = sparse(root / "long.bin", 65536).read_bytes()
    server = serve(root)
    with Wire(server.address) as wire:
        wire.send(request("GET", "/long.bin", Connection="close"))
        assert wire.response().body == page
        for _ in range(5):
            wire.send(b"stray")
            time.sleep(0.01)
        assert wire.receive() == b""


@at_once
def test_a_refused_upload_may_go_on_until_the_client_reads(serve: Serve, root: Path) -> None:
    server = serve(root)
    with Wire(server.address) as wire:
        wire.send(TOO_LARGE)
        for _ in attempts(UPLOAD_S, 0.1):
            wire.send(bytes(50_000))
        wire.end()
        assert wire.response().status == 413
        assert wire.receive() == b""


@at_once
def test_a_client_that_never_stops_sending_does_not_keep_a_draining_server(
    serve: Serve, root: Path
) -> None:
    # On a busy machine, hundreds of processes may not all end in time after this timeout.
    server = serve(root, "--drain-timeout", "300ms", "--workers", "8", exact=True)
    with Wire(server.address) as wire:
        wire.send(TOO_LARGE)
        assert wire.response().status == 413
        with flooding(wire):
            server.send_signal(signal.SIGTERM)
            server.wait()


def test_clients_that_do_not_close_give_way(serve: Serve, root: Path, arch: str) -> None:
    server = serve(root, *places(arch, 4, 2), "--drain-timeout", "60s", exact=True)
    server.expect(REPORT)
    wires = [linger(server) for _ in range(4)]
    with Wire(server.address) as other:
        assert other.get("/a.txt").status == 200
    for wire in wires:
        wire.close()
