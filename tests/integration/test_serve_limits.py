"""Limits of connections, descriptors and time; exceeding one affects no other client."""

import resource
import signal
import threading
import time
from pathlib import Path

import pytest
from conftest import Serve, at_once, sparse
from server import PROCESSES, Server, attempts, is_built_with
from wire import Wire, get, request

# CPU time in a second that a spinning server exceeds, and a waiting one does not approach.
BUSY_S = 0.5

# Clients that send a byte occasionally.
SLOW = 60


def idle_cpu_s(server: Server) -> float:
    """Return the CPU time that the idle server uses in a second."""
    before = server.cpu_s()
    time.sleep(1)
    return server.cpu_s() - before


def first_readable(wires: list[Wire]) -> Wire:
    """Return the first connection on which data arrives."""
    for _ in attempts():
        for wire in wires:
            if wire.is_readable():
                return wire
    raise AssertionError("no data arrives on any connection")


def busy(server: Server, root: Path, count: int) -> list[Wire]:
    """Return connections on which an answer is in progress, each address in turn."""
    sparse(root / "huge.bin", 32 << 20)
    wires = []
    for i in range(count):
        wires.append(Wire(server.addresses[i % len(server.addresses)], receive_buffer=65536))
        wires[-1].send(request("GET", "/huge.bin"))
        wires[-1].head()
    return wires


def test_connections_beyond_the_limit_wait_for_their_turn(serve: Serve, root: Path) -> None:
    server = serve(root, "--max-connections", "4", "--workers", "1")
    server.allow("idle ones are closed for others")
    inside = busy(server, root, 4)
    outside = [Wire(server.address) for _ in range(8)]
    for wire in outside:
        wire.send(request("GET", "/digits.txt"))
    assert not any(wire.is_readable(0.02) for wire in outside)
    for wire in inside + outside[:4]:
        wire.close()
    for wire in outside[4:]:
        assert wire.response().body == b"0123456789" * 10
        wire.close()


def test_the_limit_holds_for_all_workers_together(serve: Serve, root: Path) -> None:
    server = serve(root, "--max-connections", "5", "--workers", "2")
    server.allow("idle ones are closed for others")
    inside = busy(server, root, 5)
    outside = [Wire(server.address, receive_buffer=65536) for _ in range(8)]
    for wire in outside:
        wire.send(request("GET", "/huge.bin"))
    assert not any(wire.is_readable(0.02) for wire in outside)
    waiting = list(outside)
    while waiting:
        inside.pop(0).close()
        ready = first_readable(waiting)
        assert ready.head().status == 200
        waiting.remove(ready)
        inside.append(ready)
        assert not any(wire.is_readable() for wire in waiting)
    for wire in inside:
        wire.close()


def test_the_limit_holds_for_each_address(serve: Serve, root: Path) -> None:
    arguments = ["--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0"]
    server = serve(root, *arguments, "--max-connections", "2", "--workers", "1")
    server.allow("idle ones are closed for others")
    inside = busy(server, root, 2)
    outside = [Wire(address) for address in server.addresses * 2]
    for wire in outside:
        wire.send(request("GET", "/a.txt", Connection="close"))
    assert not any(wire.is_readable(0.02) for wire in outside)
    inside[0].close()
    for wire in outside:
        assert wire.response().status == 200
        assert wire.rest() == b""
        wire.close()
    inside[1].close()


def test_waiting_connections_are_served_when_the_server_ends(serve: Serve, root: Path) -> None:
    server = serve(root, "--max-connections", "1", "--workers", "1")
    server.allow("idle ones are closed for others")
    with Wire(server.address) as inside, Wire(server.address) as outside:
        assert inside.get("/a.txt").status == 200
        outside.send(request("GET", "/a.txt"))
        server.send_signal(signal.SIGTERM)
        assert inside.rest() == b""
        outside.rest()
    server.wait()


def size_bytes(server: Server) -> int:
    """Return the size of the server's memory, with what is only reserved."""
    return int(Path(f"/proc/{server.pid}/statm").read_text().split()[0]) * resource.getpagesize()


def test_threads_that_cannot_be_created_are_reported_once(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch != "thread":
        pytest.skip("it does not create a thread for each connection")
    if is_built_with("address") or is_built_with("thread"):
        pytest.skip("a sanitizer needs memory itself")
    server = serve(root, "--workers", "1")
    server.expect("can't create a thread, new connections wait: ")
    wires = [Wire(server.address)]
    assert wires[0].get("/a.txt").status == 200
    start = time.monotonic()
    for i in range(6):
        resource.prlimit(server.pid, resource.RLIMIT_AS, (size_bytes(server), -1))
        wires.append(Wire(server.address))
        wires[-1].send(request("GET", "/a.txt"))
        for _ in attempts():
            if server.stderr_lines():
                break
        assert not wires[-1].is_readable(0.1 if i else 0.0)
        assert wires[0].get("/a.txt").status == 200
        resource.prlimit(server.pid, resource.RLIMIT_AS, (-1, -1))
        assert wires[-1].response().status == 200
    assert len(server.stderr_lines()) <= 1 + (time.monotonic() - start) // 10


@at_once
def test_a_lack_of_descriptors_is_waited_out_without_spinning(
    serve: Serve, root: Path, arch: str
) -> None:
    if arch in PROCESSES:
        pytest.skip("each process has its own descriptors")
    # With few slots: with many, the kernel accepts by itself (io_uring), up to the limit at its
    # start.
    server = serve(root, "--workers", "1", "--max-connections", "1000")
    server.expect("can't accept, new connections wait: Too many open files")
    inside = [Wire(server.address) for _ in range(8)]
    for wire in inside:
        assert wire.get("/a.txt").status == 200
    before, sockets = server.descriptors(), server.descriptors("socket:")
    start = time.monotonic()
    hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (before, hard))
    outside = [Wire(server.address) for _ in range(8)]
    for wire in outside:
        wire.send(request("GET", "/a.txt"))
    for _ in attempts():
        if server.stderr_lines():
            break
    assert idle_cpu_s(server) < BUSY_S
    assert not any(wire.is_readable() for wire in outside)
    for wire in inside:
        assert wire.get("/a.txt").status in (200, 503)
        wire.close()
    for wire in outside[:7]:
        assert wire.response().status in (200, 503)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert outside[7].response().status in (200, 503)
    for wire in outside:
        assert wire.get("/a.txt").status == 200
        wire.close()
    assert server.has_at_most_sockets(sockets - 8)
    most_warnings = 1 + (time.monotonic() - start) // 10
    server.stop()
    assert 2 <= len(server.stderr_lines()) <= 1 + most_warnings


@at_once
def test_an_idle_server_takes_no_processor_time(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2")
    wires = [Wire(server.address) for _ in range(10)]
    for wire in wires:
        assert wire.get("/a.txt").status == 200
    assert idle_cpu_s(server) < BUSY_S
    for wire in wires:
        wire.end()
        assert wire.rest() == b""
        wire.close()


@at_once
def test_an_incomplete_header_is_refused_in_time(serve: Serve, root: Path) -> None:
    server = serve(root, "--header-timeout", "200ms", "--no-defer-accept")
    with Wire(server.address) as wire:
        wire.send(b"GET /a.txt HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert wire.response().status == 408
        assert wire.rest() == b""
    assert server.stop()["slow"] == 1


@at_once
def test_a_drop_now_and_then_does_not_extend_the_time_for_a_header(
    serve: Serve, root: Path
) -> None:
    server = serve(root, "--header-timeout", "300ms", "--no-defer-accept")
    with Wire(server.address) as wire:
        wire.send(b"GET /a.txt HTTP/1.1\r\nX-Slow: ")
        for _ in attempts(pause_s=0.05):
            if wire.is_readable():
                break
            wire.send(b"x")
        assert wire.response().status == 408


@at_once
def test_the_second_header_of_a_connection_has_its_own_time(serve: Serve, root: Path) -> None:
    server = serve(root, "--header-timeout", "300ms")
    with Wire(server.address) as wire:
        assert wire.get("/a.txt").status == 200
        time.sleep(0.4)
        assert wire.get("/a.txt").status == 200
        wire.send(b"GET /a.txt HTTP/1.1\r\n")
        assert wire.response().status == 408
        assert wire.rest() == b""


@pytest.mark.parametrize("arguments", [["--no-defer-accept"], []])
@at_once
def test_a_silent_connection_is_closed(serve: Serve, root: Path, arguments: list[str]) -> None:
    server = serve(root, "--header-timeout", "100ms", "--workers", "1", *arguments)
    with Wire(server.address) as wire:
        assert wire.rest() == b""


@at_once
def test_an_idle_connection_is_closed(serve: Serve, root: Path) -> None:
    server = serve(root, "--idle-timeout", "500ms")
    with Wire(server.address) as wire:
        for _ in range(5):
            assert wire.get("/a.txt").status == 200
            time.sleep(0.11)
        assert wire.rest() == b""
    assert server.stop()["slow"] == 0


@at_once
def test_a_client_that_does_not_read_is_closed_while_others_are_served(
    serve: Serve, root: Path
) -> None:
    sparse(root / "huge.bin", 64 << 20)
    server = serve(root, "--rate", "100k", "--rate-grace", "200ms", "--workers", "1")
    slow = [Wire(server.address, receive_buffer=4096) for _ in range(10)]
    for wire in slow:
        wire.send(request("GET", "/huge.bin"))
        assert wire.head().status == 200
    with Wire(server.address) as good:
        for _ in attempts(pause_s=0.001):
            assert good.get("/digits.txt").body == b"0123456789" * 10
            if server.descriptors("socket:") == 2:
                break
    for wire in slow:
        with pytest.raises(ConnectionResetError):
            wire.body(64 << 20)
        wire.close()
    assert server.stop()["slow"] == 10


@at_once
def test_a_client_that_reads_slowly_but_steadily_gets_everything(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", 8 << 20)
    server = serve(root, "--rate", "10k", "--rate-grace", "700ms", "--workers", "1")
    with Wire(server.address, receive_buffer=65536) as wire:
        wire.send(request("GET", "/huge.bin", Connection="close"))
        wire.head()
        received = 0
        while data := wire.receive(128 << 10):
            received += len(data)
            time.sleep(0.01)
    assert received == 8 << 20
    assert server.stop()["slow"] == 0


@at_once
def test_a_body_that_arrives_too_slowly_is_refused(serve: Serve, root: Path) -> None:
    server = serve(root, "--rate", "10k", "--rate-grace", "200ms", "--workers", "1")
    with Wire(server.address) as wire:
        wire.send(request("GET", "/a.txt", Content_Length="1000"))
        for _ in attempts(pause_s=0.02):
            if wire.is_readable():
                break
            wire.send(b"x")
        response = wire.response()
        assert response.status == 408
        assert response.closes
        assert wire.rest() == b""
    assert server.stop()["slow"] == 1


@at_once
def test_many_slow_clients_do_not_keep_others_from_being_served(serve: Serve, root: Path) -> None:
    arguments = ("--header-timeout", "600ms", "--workers", "1", "--no-defer-accept")
    server = serve(root, *arguments, clients=SLOW + 2)
    slow = [Wire(server.address) for _ in range(SLOW)]
    stop = threading.Event()

    def drip() -> None:
        while not stop.is_set():
            for wire in slow:
                try:
                    wire.send(b"G")
                except (BrokenPipeError, ConnectionResetError):
                    continue
            stop.wait(0.1)

    dripping = threading.Thread(target=drip)
    dripping.start()
    served = 0
    for _ in attempts(pause_s=0.02):
        assert get(server.address, "/a.txt", Connection="close").status == 200
        served += 1
        if server.descriptors("socket:") == 1:
            break
    stop.set()
    dripping.join()
    assert served > 3
    for wire in slow:
        assert b" 408 " in wire.rest()
        wire.close()
    assert server.stop()["slow"] == SLOW
