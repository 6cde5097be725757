"""Strict parsing over a socket: a bad request is refused, and nothing after it is parsed."""

import time
import traceback
from collections.abc import Callable, Iterable

import pytest
from server import Server
from strict_cases import ACCEPTED, ANSWERED, REFUSED, line
from wire import EndedError, Wire, request

SMUGGLED = b"GET /digits.txt HTTP/1.1\r\nHost: smuggled\r\n\r\n"

# Longer requests are sent in pieces of several bytes.
BYTEWISE_MAX = 2000


def whole(wire: Wire, data: bytes) -> None:
    """Send everything at once."""
    wire.send(data)


def in_pieces(wire: Wire, data: bytes) -> None:
    """Send each byte separately, or small pieces of a long request."""
    if len(data) <= BYTEWISE_MAX:
        wire.send_bytewise(data)
        return
    for start in range(0, len(data), 997):
        try:
            wire.send(data[start : start + 997])
        except (BrokenPipeError, ConnectionResetError):
            return


in_both_ways = pytest.mark.parametrize("send", [whole, in_pieces])
Send = Callable[[Wire, bytes], None]


def check_each(server: Server, names: Iterable[str], check: Callable[[Wire, str], None]) -> None:
    """Check each case over a connection of its own; name all that fail."""
    failed = []
    for name in names:
        with Wire(server.address) as wire:
            try:
                check(wire, name)
            except (AssertionError, EndedError, OSError):
                failed.append(f"{name}: {traceback.format_exc()}")
    assert not failed, "\n".join(failed)


@in_both_ways
def test_it_is_refused_and_the_connection_closed(shared: Server, send: Send) -> None:
    def check(wire: Wire, name: str) -> None:
        data, statuses = REFUSED[name]
        send(wire, data if "no end" in name or "endless" in name else data + SMUGGLED)
        response = wire.response()
        assert response.status in statuses
        assert response.closes
        assert wire.rest() == b""

    check_each(shared, REFUSED, check)


@in_both_ways
def test_it_is_served_and_the_connection_kept(shared: Server, send: Send) -> None:
    def check(wire: Wire, name: str) -> None:
        send(wire, ACCEPTED[name] + request("GET", "/digits.txt"))
        response = wire.response()
        assert (response.status, response.body) == (200, b"hello\n")
        assert not response.closes
        assert wire.response().body == b"0123456789" * 10

    check_each(shared, ACCEPTED, check)


@in_both_ways
def test_it_is_answered_and_the_connection_kept(shared: Server, send: Send) -> None:
    def check(wire: Wire, name: str) -> None:
        data, status = ANSWERED[name]
        send(wire, data + request("GET", "/digits.txt"))
        response = wire.response()
        assert response.status == status
        assert not response.closes
        if status != 501:
            assert response.fields["allow"] == "GET, HEAD, OPTIONS"
        assert wire.response().body == b"0123456789" * 10

    check_each(shared, ANSWERED, check)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_first_line_is_never_answered_before_its_header_ends(
    shared: Server, version: bytes
) -> None:
    with Wire(shared.address) as wire:
        wire.send(line(b"GET /a.txt HTTP/" + version)[:-2])
        time.sleep(0.01)
        assert not wire.is_readable()
        wire.send(b"\r\n")
        assert wire.response().body == b"hello\n"


def test_http_1_0_needs_no_host(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(b"GET /a.txt HTTP/1.0\r\n\r\n")
        assert wire.response().body == b"hello\n"
        assert wire.rest() == b""


def test_requests_before_a_bad_one_are_answered(shared: Server) -> None:
    with Wire(shared.address) as wire:
        wire.send(request("GET", "/a.txt") * 3 + b"GET /a.txt\r\n\r\n" + SMUGGLED)
        for _ in range(3):
            assert wire.response().body == b"hello\n"
        assert wire.response().status == 400
        assert wire.rest() == b""
