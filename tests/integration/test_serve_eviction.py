"""Eviction: when all slots are taken, connections without a request under way give way."""

import re
from pathlib import Path

import pytest
from conftest import Serve, at_once, sparse
from server import Server, attempts
from wire import Wire, get_in_turn, request

SIZE = 32 << 20
REPORT = "no more connections may be open, idle ones are closed for others"


def places(arch: str, count: int, workers: int) -> tuple[str, ...]:
    """Return the arguments with which so many connections can be open at a time."""
    if arch in {"pool", "prefork"}:
        return ("--workers", str(count))
    if arch == "queue":  # half of them accept; one that serves waits for its connection
        workers = 2 * count + 2
    return ("--max-connections", str(count), "--workers", str(workers))


@pytest.fixture
def full(serve: Serve, root: Path, arch: str) -> Server:
    """Return a server with four places."""
    sparse(root / "huge.bin", SIZE)
    server = serve(root, *places(arch, 4, 2), "--metrics", "/metrics", exact=True)
    server.expect(REPORT)
    return server


def first_readable(wires: list[Wire]) -> Wire:
    """Return the first connection that the server closes."""
    return next(wire for _ in attempts() for wire in wires if wire.is_readable())


def pause() -> None:
    """Let the server note when what was done before has ended."""
    for _ in attempts(0.05):
        pass


def evicted(wires: list[Wire]) -> bool:
    """Whether the server closes all of them."""
    return any(all(wire.is_readable() for wire in wires) for _ in attempts(5))


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


@at_once
def test_without_eviction_a_client_waits_until_another_leaves(
    serve: Serve, root: Path, arch: str
) -> None:
    server = serve(root, *places(arch, 4, 2), "--no-eviction", exact=True)
    idle = [Wire(server.address) for _ in range(4)]
    for wire in idle:
        assert wire.get("/a.txt").status == 200
    with Wire(server.address) as other:
        other.send(request("GET", "/a.txt"))
        assert not other.is_readable(1.5)  # waits of a second would have been ended
        assert not any(wire.is_readable() for wire in idle)
        idle.pop().close()
        assert other.response().status == 200
    for wire in idle:
        wire.close()


def test_a_client_does_not_cost_each_worker_a_connection(
    serve: Serve, root: Path, arch: str
) -> None:
    for _ in range(4):
        server = serve(root, *places(arch, 4, 16), exact=True)
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
    server = serve(root, *places(arch, 4, 1), exact=True)
    server.expect(REPORT)
    idle = [Wire(server.address) for _ in range(4)]
    for i in (2, 0, 3, 1):
        assert idle[i].get("/a.txt").status == 200
        pause()
    with Wire(server.address) as other:
        assert other.get("/a.txt").status == 200
        assert idle[2].rest() == b""
        assert not any(idle[i].is_readable() for i in (0, 1, 3))
    for wire in idle:
        wire.close()


def test_the_address_with_most_connections_gives_way(serve: Serve, root: Path, arch: str) -> None:
    server = serve(root, *places(arch, 8, 1), exact=True)
    server.expect(REPORT)
    few = [Wire(server.address, source="127.0.0.2") for _ in range(2)]
    for wire in few:
        assert wire.get("/a.txt").status == 200
    pause()  # so that age alone would choose these
    many = [Wire(server.address, source="127.0.0.3") for _ in range(6)]
    for wire in many[:3]:
        assert wire.get("/a.txt").status == 200
    for wire in many[3:]:
        wire.send(b"GET /a.txt HTTP/1.1\r\n")
    pause()
    others = [Wire(server.address, source=f"127.0.0.{i}") for i in (4, 5, 6)]
    for wire in others:
        assert wire.get("/a.txt").status == 200
    for wire in few:
        assert wire.get("/a.txt").status == 200
    assert evicted(many[:3])
    for wire in few + many + others:
        wire.close()


def test_a_newcomer_does_not_give_way_to_the_next(serve: Serve, root: Path, arch: str) -> None:
    server = serve(root, *places(arch, 4, 1), exact=True)
    server.expect(REPORT)
    slow = [Wire(server.address) for _ in range(4)]
    for wire in slow:
        wire.send(b"GET /a.txt HTTP/1.1\r\nHost:")
    pause()
    with Wire(server.address) as first, Wire(server.address) as second:
        assert any(sum(wire.is_readable() for wire in slow) >= 2 for _ in attempts(5))
        assert first.get("/a.txt").status == 200
        assert second.get("/a.txt").status == 200
    for wire in slow:
        wire.close()
