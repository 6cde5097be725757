"""Clients that close connections in unusual ways: half-closed, reset, or while they still send."""

import threading
from pathlib import Path

import pytest
from conftest import Serve, at_once, sparse
from server import Server, attempts
from wire import Wire, get, request


@pytest.mark.parametrize("target", ["/a.txt", "/large.bin", "/nonesuch"])
def test_a_half_closed_client_still_gets_the_response(shared: Server, target: str) -> None:
    with Wire(shared.address) as wire:
        wire.send(request("GET", target))
        wire.end()
        response = wire.response()
        assert response.status == (404 if target == "/nonesuch" else 200)
        assert wire.rest() == b""


def test_a_half_closed_client_gets_all_responses_of_a_pipeline(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(request("GET", "/large.bin") * 3 + request("GET", "/a.txt") * 100)
        wire.end()
        for i in range(103):
            assert len(wire.response().body) == (1 << 20 if i < 3 else 6)
        assert wire.rest() == b""


def test_a_client_that_shuts_down_within_a_request_gets_no_response(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(request("GET", "/a.txt") + request("GET", "/a.txt")[:-2])
        wire.end()
        assert wire.response().body == b"hello\n"
        assert b"hello" not in wire.rest()


def test_a_client_that_shuts_down_before_a_request_is_closed(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.end()
        assert wire.rest() == b""


def test_resets_during_transfers_do_not_affect_other_clients(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", 64 << 20)
    server = serve(root, "--workers", "2")
    before = server.descriptors("socket:")
    with Wire(server.address) as good:
        for _ in range(30):
            wires = [Wire(server.address, receive_buffer=4096) for _ in range(4)]
            for wire, target in zip(wires, ["/huge.bin", "/large.bin", "/a.txt", "/"], strict=True):
                wire.send(request("GET", target) * 3)
            wires[0].head()
            for wire in wires:
                wire.reset()
            assert good.get("/a.txt").body == b"hello\n"
    assert server.has_at_most_sockets(before)


def test_a_reset_right_after_connecting_does_not_affect_other_clients(
    serve: Serve, root: Path
) -> None:
    server = serve(root, "--no-defer-accept")
    for _ in range(100):
        Wire(server.address).reset()
    assert get(server.address, "/a.txt").status == 200


REFUSED = {
    "body too large by its length": (request("PUT", "/a.txt", Content_Length="9999999"), 413),
    "body too large in chunks": (request("PUT", "/a.txt", Transfer_Encoding="chunked"), 413),
    "bad chunk": (request("PUT", "/a.txt", Transfer_Encoding="chunked") + b"zz\r\n", 400),
    "no request": (b"\r\r\r\n", 400),
    "header too large": (b"GET / HTTP/1.1\r\nHost: x\r\n", 431),
    "line too long": (b"GET /", 414),
}


@pytest.mark.parametrize("name", REFUSED)
def test_data_in_flight_does_not_destroy_the_refusal(shared: Server, name: str) -> None:
    head, status = REFUSED[name]
    filler = b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n" if "chunks" in name else b"X: y" * 16384
    with Wire(shared.address) as wire:

        def push() -> None:
            try:
                wire.send(head + filler * 64)
            except (BrokenPipeError, ConnectionResetError):
                return

        pusher = threading.Thread(target=push)
        pusher.start()
        for _ in attempts(pause_s=0.005):
            if wire.is_readable():
                break
        response = wire.response()
        assert response.status == status
        assert response.closes
        wire.abandon()
        pusher.join()


@at_once
def test_a_client_that_sends_on_after_a_refusal_is_closed(serve: Serve, root: Path) -> None:
    server = serve(root, "--workers", "1")
    with Wire(server.address) as wire:
        wire.send(request("PUT", "/a.txt", Content_Length="99999999"))
        assert wire.response().status == 413
        assert wire.receive() == b""
        cut = False
        for _ in attempts(pause_s=0.05):
            try:
                wire.send(b"x" * 10)  # less than --rate
            except (BrokenPipeError, ConnectionResetError):
                cut = True
                break
        assert cut
