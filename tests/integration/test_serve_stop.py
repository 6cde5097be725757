"""Stop: requests in flight are finished, idle connections are closed, and the exit status is 0."""

import signal
import threading
from pathlib import Path

import pytest
from conftest import Serve, at_once, sparse
from server import Server, attempts, has_io_uring
from wire import EndedError, Wire, request, wait_until_received

SIZE = 16 << 20

# The exit status of a server whose drain timeout has cut off connections.
CUT_OFF = 3

# On a busy machine, hundreds of processes may not all end in time after a short drain timeout.
FEW_WORKERS = ("--workers", "8")


def start_large(server: Server, *targets: str, **fields: str) -> Wire:
    """Request pages, the first larger than any buffer, and receive only its first bytes."""
    wire = Wire(server.address, receive_buffer=65536)
    wire.send(b"".join(request("GET", target, **fields) for target in targets))
    assert wire.head().fields["content-length"] == str(SIZE)
    wire.body(1000)
    return wire


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_an_idle_server(serve: Serve, root: Path, number: int) -> None:
    server = serve(root, "--workers", "2")
    assert server.stop(number) == dict.fromkeys(
        ["requests", "refused", "failed", "connections", "slow", "bytes"], 0
    )


def test_other_signals_that_a_person_may_send_break_off_no_answer(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", SIZE)
    server = serve(root, "--workers", "2")
    ended_by = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGSTOP}
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
    others = {signal.SIGABRT, signal.SIGSYS, signal.SIGXCPU, signal.SIGRTMAX}
    stopping = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    with start_large(server, "/huge.bin") as wire:
        for number in signal.valid_signals() - ended_by - faults - others - stopping:
            server.send_signal(number)
        wire.body(SIZE - 1000)
    assert server.stop()["requests"] == 1


def test_the_summary_counts_requests_and_connections(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2")
    for _ in range(10):
        with Wire(server.address) as wire:
            for target in ("/a.txt", "/nonesuch"):
                wire.get(target)
    counts = server.stop()
    assert (counts["requests"], counts["refused"], counts["failed"]) == (20, 10, 0)
    assert (counts["connections"], counts["slow"]) == (10, 0)
    assert counts["bytes"] > 20 * 100


def test_idle_connections_are_closed(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2")
    wires = [Wire(server.address) for _ in range(20)]
    for wire in wires:
        assert wire.get("/a.txt").status == 200
    server.send_signal(signal.SIGTERM)
    for wire in wires:
        assert wire.rest() == b""
        wire.close()
    assert server.wait()["requests"] == 20


@pytest.mark.parametrize("connection", ["keep-alive", "close"])
def test_a_slow_reader_gets_all_of_a_large_file(serve: Serve, root: Path, connection: str) -> None:
    page = sparse(root / "huge.bin", SIZE).read_bytes()
    server = serve(root)
    with start_large(server, "/huge.bin", Connection=connection) as wire:
        server.send_signal(signal.SIGTERM)
        assert server.refuses_connections()
        rest = wire.rest()
    assert len(rest) == SIZE - 1000
    assert rest == page[1000:]
    assert server.wait()["requests"] == 1


def test_no_worker_leaves_its_listener_in_a_ring(
    serve: Serve, root: Path, configuration: str
) -> None:
    if configuration not in ("user", "event", "eager", "quad", "stage") or not has_io_uring():
        pytest.skip("it waits without a ring")
    sparse(root / "huge.bin", SIZE)
    server = serve(root, "--poller", "io_uring", "--workers", "2")
    with start_large(server, "/huge.bin") as wire:
        server.send_signal(signal.SIGTERM)
        assert server.refuses_connections()
        assert len(wire.rest()) == SIZE - 1000


def test_a_pipelined_request_that_was_received_is_answered(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", SIZE)
    server = serve(root)
    with start_large(server, "/huge.bin", "/a.txt", "/digits.txt") as wire:
        server.send_signal(signal.SIGTERM)
        assert server.refuses_connections()
        wire.body(SIZE - 1000)
        second = wire.response()
        assert second.body == b"hello\n"
        assert second.closes
        assert wire.rest() == b""
    assert server.wait()["requests"] == 2


def test_a_request_that_waits_in_the_socket_is_answered(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "1")
    wires = [Wire(server.address) for _ in range(30)]
    for wire in wires:
        assert wire.get("/a.txt").status == 200
    server.send_signal(signal.SIGSTOP)
    for wire in wires:
        wire.send(request("GET", "/digits.txt"))
    server.send_signal(signal.SIGTERM)
    server.send_signal(signal.SIGCONT)
    for wire in wires:
        assert wire.response().body == b"0123456789" * 10
        assert wire.rest() == b""
        wire.close()
    assert server.wait()["requests"] == 60


def test_pending_connections_are_served(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", SIZE)
    server = serve(root, "--workers", "1")
    server.send_signal(signal.SIGSTOP)
    wires = [Wire(server.address, receive_buffer=65536) for _ in range(150)]
    for i, wire in enumerate(wires):
        target = "/huge.bin" if i == 149 else "/a.txt"
        wire.send(request("GET", target, Connection="close"))
    server.send_signal(signal.SIGTERM)
    server.send_signal(signal.SIGCONT)
    for i, wire in enumerate(wires):
        assert len(wire.response().body) == (SIZE if i == 149 else 6)
        wire.close()
    assert server.wait()["requests"] == 150


def test_clients_that_wait_for_a_slot_are_served(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", SIZE)
    server = serve(root, "--max-connections", "2", "--workers", "2")
    server.allow("no more connections may be open, idle ones are closed for others")
    busy = [start_large(server, "/huge.bin") for _ in range(2)]
    waiting = [Wire(server.address) for _ in range(40)]
    for wire in waiting:
        wire.send(request("GET", "/a.txt"))
    server.send_signal(signal.SIGTERM)
    for wire in busy:
        assert len(wire.body(SIZE - 1000)) == SIZE - 1000
        wire.close()
    for _ in attempts():
        for wire in [wire for wire in waiting if wire.is_readable()]:
            assert wire.response().body == b"hello\n"
            wire.close()
            waiting.remove(wire)
        if not waiting:
            break
    assert server.wait()["requests"] == 42


def test_a_request_half_received_may_be_completed(serve: Serve, root: Path) -> None:
    server = serve(root, "--no-defer-accept", "--header-timeout", "60s")
    with Wire(server.address) as wire:
        wire.get("/a.txt")
        data = request("GET", "/digits.txt")
        wire.send(data[:20])
        wait_until_received(wire)
        server.send_signal(signal.SIGTERM)
        assert server.refuses_connections()
        wire.send(data[20:])
        response = wire.response()
        assert response.status == 200
        assert response.closes
        assert wire.rest() == b""
    assert server.wait()["requests"] == 2


@at_once
def test_the_drain_timeout_closes_slow_connections(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", SIZE)
    server = serve(root, "--drain-timeout", "200ms", *FEW_WORKERS, exact=True)
    server.expect("the drain timeout has passed: 1 connections were cut off")
    with start_large(server, "/huge.bin") as wire, Wire(server.address) as idle:
        idle.get("/a.txt")
        server.send_signal(signal.SIGTERM)
        server.wait(CUT_OFF)
        with pytest.raises((EndedError, ConnectionResetError)):
            wire.body(SIZE - 1000)


@at_once
def test_a_worker_that_is_stuck_does_not_keep_the_server(serve: Serve, root: Path) -> None:
    arguments = ("--drain-timeout", "200ms", "--bottleneck", "/slow=60000")
    server = serve(root, *arguments, *FEW_WORKERS, exact=True)
    with Wire(server.address) as wire:
        wire.send(request("GET", "/slow"))
        wait_until_received(wire)
        server.send_signal(signal.SIGTERM)
        assert server.exit_status() == CUT_OFF
    assert any("1 connections were cut off" in line for line in server.stderr_lines())


def test_a_second_sigterm_and_a_late_sigusr1_change_nothing(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", SIZE)
    server = serve(root)
    with start_large(server, "/huge.bin", "/a.txt") as wire:
        server.send_signal(signal.SIGTERM)
        assert server.refuses_connections()
        server.send_signal(signal.SIGTERM)
        server.send_signal(signal.SIGUSR1)
        wire.body(SIZE - 1000)
        assert wire.response().body == b"hello\n"
    server.wait()


def test_a_second_interrupt_ends_it_at_once(root: Path, serve: Serve) -> None:
    sparse(root / "huge.bin", SIZE)
    server = serve(root)
    with start_large(server, "/huge.bin"):
        server.send_signal(signal.SIGINT)
        assert server.refuses_connections()
        server.was_checked = True
        for _ in attempts():
            if server.process.poll() is not None:
                break
            server.send_signal(signal.SIGINT)
        assert server.process.returncode == -signal.SIGINT


def test_ending_under_load_answers_each_request_or_none_of_it(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "2")
    answered, partial = [0] * 4, [b"?"] * 4

    def ask(i: int) -> None:
        with Wire(server.address) as wire:
            while True:
                try:
                    response = wire.get("/digits.txt")
                except EndedError as error:
                    partial[i] = error.received
                    return
                except (ConnectionResetError, BrokenPipeError):
                    partial[i] = b""
                    return
                assert response.body == b"0123456789" * 10
                answered[i] += 1

    clients = [threading.Thread(target=ask, args=(i,)) for i in range(len(answered))]
    for client in clients:
        client.start()
    for _ in attempts():
        if min(answered) > 20:
            break
    counts = server.stop()
    for client in clients:
        client.join()
    assert counts["requests"] >= sum(answered)
    assert partial == [b""] * 4
