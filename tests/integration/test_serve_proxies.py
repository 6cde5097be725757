"""Clients behind proxies, which name them in front of a connection or in a field of a request."""

import socket
import struct
from pathlib import Path

import pytest
from conftest import Serve
from wire import Wire, request

from tls import TlsSocket, listen_arguments

LINE = b"PROXY TCP4 198.51.100.7 127.0.0.1 1234 80\r\n"
PAGE = request("GET", "/a.txt")


def binary(command: int, client: bytes, fields: bytes = b"") -> bytes:
    """Return a header of version 2 for a client's address of IPv6."""
    addresses = client + bytes(16) + struct.pack("!HH", 1, 2)
    start = b"\r\n\r\n\0\r\nQUIT\n" + bytes([command, 0x21])
    return start + struct.pack("!H", len(addresses + fields)) + addresses + fields


def clients(log: Path) -> list[str]:
    """Return the clients of all lines."""
    return [line.split()[0] for line in log.read_text().splitlines()]


def ask(wire: Wire) -> int:
    """Ask for a page on an open connection; return the status."""
    wire.send(PAGE)
    return wire.response().status


def test_a_proxy_names_the_client_of_a_connection(serve: Serve, root: Path) -> None:
    log = root.parent / "log"
    six = binary(0x21, socket.inet_pton(socket.AF_INET6, "2001:db8::7"), b"\x04\0\x03abc")
    options = ("--proxy-protocol", "127.0.0.1", "--access-log", str(log))
    server = serve(root, "--listen", "127.0.0.1:0", *listen_arguments(), *options)
    plain, tls = server.addresses
    for header in (LINE, six, binary(0x20, bytes(16)), b"PROXY UNKNOWN\r\n"):
        with Wire(plain) as wire:
            wire.send(header + PAGE)
            assert wire.response().status == 200
            assert ask(wire) == 200
    with Wire(plain) as wire:
        wire.send_bytewise(six + PAGE)
        assert wire.response().status == 200
    with Wire(tuple(tls)) as wire:  # type: ignore[arg-type]
        wire.send(LINE)
        wire.socket = TlsSocket(wire.socket)
        assert ask(wire) == 200
    with Wire(plain, source="127.0.0.2") as wire:  # not from the proxy
        assert ask(wire) == 200
    server.stop()
    named = ["198.51.100.7", "2001:db8::7", "127.0.0.1", "127.0.0.1"]
    expected = [*(name for name in named for _ in range(2)), "2001:db8::7", named[0], "127.0.0.2"]
    assert sorted(clients(log)) == sorted(expected)


def test_what_begins_without_a_header_is_closed(serve: Serve, root: Path) -> None:
    server = serve(root, "--proxy-protocol", "127.0.0.0/8", "--header-timeout", "1s")
    server.expect("a proxy has opened a connection without a header")
    for nonsense in (PAGE, b"PROXY TCP4 1\r\n" + PAGE, binary(0x23, bytes(16)), b"P"):
        with Wire(server.address) as wire:
            wire.send(nonsense)
            if len(nonsense) == 1:
                wire.end()
            assert wire.rest() == b""
    with Wire(server.address) as wire:  # an incomplete one ends with the time limit
        wire.send(LINE[:10])
        wire.rest()
    with Wire(server.address) as wire:
        wire.send(LINE + PAGE)
        assert wire.response().status == 200


@pytest.mark.parametrize("field", ["X-Forwarded-For", "Forwarded"])
def test_a_trusted_proxy_names_the_client_of_a_request(
    serve: Serve, root: Path, field: str
) -> None:
    log = root.parent / "log"
    trust = ("--trusted-proxy", "127.0.0.1", "--trusted-proxy", "198.51.100.0/24")
    options = (*trust, "--forwarded-field", field.lower(), "--access-log", str(log))
    server = serve(root, *options)
    prefix = "for=" if field == "Forwarded" else ""
    values = ["192.0.2.1", "203.0.113.9, 192.0.2.2", "192.0.2.3,198.51.100.8", "unknown", None]
    with Wire(server.address) as wire:
        for value in values:
            names = [prefix + name.strip() for name in (value or "").split(",") if name]
            lines = "".join(f"{field}: {name}\r\n" for name in names)
            wire.send(f"GET /a.txt HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
            assert wire.response().status == 200
    with Wire(server.address, source="127.0.0.2") as wire:
        wire.send(f"GET / HTTP/1.1\r\nHost: a\r\n{field}: {prefix}192.0.2.9\r\n\r\n".encode())
        assert wire.response().status == 200
    server.stop()
    expected = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "127.0.0.1", "127.0.0.1", "127.0.0.2"]
    assert sorted(clients(log)) == sorted(expected)
