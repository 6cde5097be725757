"""Descriptors: each download needs one for its file, and no client may get 503 for lack of one."""

import struct
from pathlib import Path

import pytest
from conftest import Serve, sparse
from http2_wire import PREFACE, SETTINGS, WINDOW, Http2Wire, frame
from server import ONE_AT_A_TIME, Server, has_http2
from test_serve_eviction import REPORT
from wire import Wire, request

SIZE = 1 << 20
LIMIT = 256
READERS = 120
STREAMS = 40


@pytest.fixture
def limited(serve: Serve, root: Path) -> Server:
    """Return a server that may have few descriptors."""
    for i in range(READERS):
        sparse(root / f"{i}.bin", SIZE)
    few = ("prlimit", f"--nofile={LIMIT}")
    server = serve(root, "--rate", "0", clients=READERS + 8, prefix=few)
    server.allow(REPORT)
    return server


def start_reading(server: Server, target: str) -> Wire:
    """Ask for a large file, and read little of it."""
    wire = Wire(server.address, receive_buffer=4096)
    wire.send(request("GET", target))
    return wire


def test_slow_readers_of_one_file(limited: Server, arch: str) -> None:
    if arch in ONE_AT_A_TIME:
        pytest.skip("a worker that serves one client at a time keeps others waiting")
    readers = [start_reading(limited, "/0.bin") for _ in range(READERS)]
    assert {wire.head().status for wire in readers} == {200}
    for _ in range(20):
        with Wire(limited.address) as other:
            assert other.get("/a.txt").status == 200
    for wire in readers:
        wire.close()


def test_readers_of_many_files(limited: Server) -> None:
    readers = [start_reading(limited, f"/{i}.bin") for i in range(READERS)]
    for wire in readers:
        response = wire.response()
        assert response.status == 200
        assert len(response.body) == SIZE
        wire.close()


class ClosedWire(Http2Wire):
    """A client of HTTP/2 whose windows are closed until it opens them."""

    def send_frames(self, data: bytes) -> None:
        """Replace the opening, which would open the windows."""
        if data.startswith(PREFACE):
            data = PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
        super().send_frames(data)

    def open_windows(self) -> None:
        """Let the server send all that it has."""
        self.send_frames(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, WINDOW)))
        self.send_frames(frame(8, 0, 0, struct.pack(">I", WINDOW)))


@pytest.mark.skipif(not has_http2(), reason="built without libnghttp2")
def test_closed_windows_leave_files_to_others(limited: Server, arch: str) -> None:
    if arch in ONE_AT_A_TIME:
        pytest.skip("a worker that serves one client at a time keeps others waiting")
    closed = [ClosedWire(limited.address) for _ in range(6)]
    for wire in closed:
        for i in range(STREAMS):
            wire.send(request("GET", f"/{i}.bin"))
        while not any(stream.responses for stream in wire.streams.values()):
            wire.receive_frame()
    others = [start_reading(limited, f"/{i}.bin") for i in range(STREAMS, STREAMS + 20)]
    assert {wire.head().status for wire in others} == {200}
    for wire in closed:
        wire.open_windows()
        assert [len(wire.response().body) for _ in range(STREAMS)] == [SIZE] * STREAMS
        wire.close()
    for wire in others:
        assert len(wire.body(SIZE)) == SIZE
        wire.close()


def test_idle_clients_give_descriptors_to_others(limited: Server, arch: str) -> None:
    if arch in ONE_AT_A_TIME:
        pytest.skip("a worker that serves one client at a time keeps others waiting")
    idle = [Wire(limited.address) for _ in range(150)]
    for wire in idle:
        wire.send(request("GET", "/a.txt"))
    readers = [start_reading(limited, f"/{i}.bin") for i in range(40)]
    assert {wire.head().status for wire in readers} == {200}
    for wire in idle + readers:
        wire.close()
