"""Eviction: when all slots are taken, connections without a request under way give way."""

import re
from pathlib import Path

import pytest
from conftest import Serve, sparse
from server import Server, attempts
from wire import Wire, get_in_turn, request

SIZE = 32 << 20
EVICTING = ("user", "event", "eager")
REPORT = "--max-connections are open, idle ones are closed for others"


@pytest.fixture
def full(serve: Serve, root: Path, arch: str) -> Server:
    """Return a server with four slots."""
    if arch not in EVICTING:
        pytest.skip("it does not evict")
    sparse(root / "huge.bin", SIZE)
    server = serve(root, "--max-connections", "4", "--workers", "2", "--metrics", "/metrics")
    server.expect(REPORT)
    return server


def first_readable(wires: list[Wire]) -> Wire:
    """Return the first connection that the server closes."""
    return next(wire for _ in attempts() for wire in wires if wire.is_readable())


def evictions(wire: Wire) -> int:
    """Return how many connections were evicted, as the metrics say."""
    found = re.search(r"evictions_total\{.*\} (\d+)", wire.get("/metrics").body.decode())
    assert found
    return int(found[1])


def test_idle_connections_do_not_lock_others_out(full: Server) -> None:
    idle = [Wire(full.address) for _ in range(4)]
    for wire in idle:
        assert wire.get("/a.txt").status == 200
    with Wire(full.address) as other:
        assert other.get("/a.txt").status == 200
        assert evictions(other) >= 1
    for wire in idle:
        wire.close()
    full.stop()
    assert len([line for line in full.stderr_lines() if REPORT in line]) == 1


def test_a_client_does_not_cost_each_worker_a_connection(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch not in EVICTING:
        pytest.skip("it does not evict")
    for _ in range(4):
        server = serve(root, "--max-connections", "4", "--workers", "16")
        server.expect(REPORT)
        idle = [Wire(server.address) for _ in range(4)]
        for wire in idle:
            assert wire.get("/a.txt").status == 200
        with Wire(server.address) as other:
            assert other.get("/a.txt").status == 200
            first_readable(idle)
            # Another worker may hold a slot for a moment, to see whether a client waits for it.
            assert sum(wire.is_readable(0.05) for wire in idle) <= 2
        for wire in idle:
            wire.close()


def test_half_sent_heads_do_not_lock_others_out(full: Server) -> None:
    slow = [Wire(full.address) for _ in range(4)]
    for wire in slow:
        assert wire.get("/a.txt").status == 200
        wire.send(b"GET /a.txt HTTP/1.1\r\nHost:")
    with Wire(full.address) as other:
        assert other.get("/a.txt").status == 200
    for wire in slow:
        wire.close()


def test_answers_in_progress_are_not_broken_off(full: Server) -> None:
    busy = [Wire(full.address, receive_buffer=65536) for _ in range(3)]
    for wire in busy:
        wire.send(request("GET", "/huge.bin", Connection="close"))
        wire.head()
    with Wire(full.address) as idle:
        assert idle.get("/a.txt").status == 200
        for _ in range(5):
            with Wire(full.address) as other:
                assert other.get("/a.txt").status == 200
        assert idle.rest() == b""
    for wire in busy:
        assert len(wire.rest()) == SIZE
        wire.close()


def test_many_clients_get_their_turn(full: Server) -> None:
    wires = [Wire(full.address) for _ in range(40)]
    # Only those are closed that are idle: others would keep their places until clients close.
    for response in get_in_turn(wires, "/a.txt"):
        assert response.status == 200
        assert not response.closes
    for wire in wires:
        wire.close()


def test_the_oldest_idle_connection_is_closed_first(serve: Serve, root: Path, arch: str) -> None:
    if arch not in EVICTING:
        pytest.skip("it does not evict")
    server = serve(root, "--max-connections", "4", "--workers", "1")
    server.expect(REPORT)
    idle = [Wire(server.address) for _ in range(4)]
    for i in (2, 0, 3, 1):
        assert idle[i].get("/a.txt").status == 200
        for _ in attempts(0.05):
            pass
    with Wire(server.address) as other:
        assert other.get("/a.txt").status == 200
        assert idle[2].rest() == b""
        assert not any(idle[i].is_readable() for i in (0, 1, 3))
    for wire in idle:
        wire.close()
