"""HTTP over a raw socket: tests determine what is sent; what is received is parsed strictly."""

import contextlib
import re
import select
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from server import TIMEOUT_S, TlsAddress, attempts

from tls import TlsSocket

STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]+")
FIELD = re.compile(rb"([!-9;-~]+): ([ -~]*)")
CHUNK = 1 << 20


class EndedError(Exception):
    """The connection ended before the response was complete."""

    def __init__(self, received: bytes) -> None:
        """Store what had been received of it."""
        super().__init__(received[:200])
        self.received = received


@dataclass
class Response:
    """One response."""

    status: int
    fields: dict[str, str]
    body: bytes = b""

    @property
    def closes(self) -> bool:
        """Return whether the server announced that it closes the connection."""
        return self.fields.get("connection") == "close"


class Wire:
    """A client's connection, with control over each byte."""

    def __init__(
        self, address: tuple[str, int], receive_buffer: int = 0, source: str | None = None
    ) -> None:
        """Connect; receive_buffer limits what the kernel receives before the test does.

        source is the client's address.
        """
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket: Any = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(TIMEOUT_S)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(tuple(address))
        if isinstance(address, TlsAddress):
            self.socket = TlsSocket(self.socket)
        self.buffer = b""

    def __enter__(self) -> Self:
        """Return the connection for a with statement."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def reset(self) -> None:
        """Close the socket so that the peer gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all of the data."""
        self.socket.sendall(data)

    def send_bytewise(self, data: bytes) -> None:
        """Send each byte separately, until the server closes the connection."""
        for i in range(len(data)):
            try:
                self.socket.sendall(data[i : i + 1])
            except (BrokenPipeError, ConnectionResetError):
                return

    def abandon(self) -> None:
        """Shut both sides down, which also ends a call of another thread."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Shut down our sending side."""
        self.socket.shutdown(socket.SHUT_WR)

    def receive(self, max_bytes: int = CHUNK) -> bytes:
        """Receive some bytes; none at the end of the stream."""
        if self.buffer:
            data, self.buffer = self.buffer[:max_bytes], self.buffer[max_bytes:]
            return data
        return self.socket.recv(max_bytes)

    def is_readable(self, timeout_s: float = 0.0) -> bool:
        """Return whether data or the end of the stream has arrived."""
        if isinstance(self.socket, TlsSocket):
            self.receive_more(timeout_s)
        return bool(self.buffer or select.select([self.socket], [], [], timeout_s)[0])

    def receive_more(self, timeout_s: float) -> None:
        """Receive what has arrived, or arrives by then."""
        self.socket.settimeout(timeout_s or 0.001)
        with contextlib.suppress(TimeoutError):
            self.buffer += self.socket.recv(CHUNK)
        self.socket.settimeout(TIMEOUT_S)

    def rest(self) -> bytes:
        """Receive everything until the connection ends, also by a reset."""
        parts = [self.buffer]
        self.buffer = b""
        try:
            while data := self.socket.recv(CHUNK):
                parts.append(data)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def head(self) -> Response:
        """Receive a status line and its header fields."""
        while b"\r\n\r\n" not in self.buffer:
            data = self.socket.recv(65536)
            if not data:
                raise EndedError(self.buffer)
            self.buffer += data
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        line, *rows = head.split(b"\r\n")
        status = STATUS_LINE.fullmatch(line)
        assert status, line
        fields = {}
        for row in rows:
            match = FIELD.fullmatch(row)
            assert match, row
            name = match[1].decode().lower()
            assert name not in fields, f"{name} twice"
            fields[name] = match[2].decode()
        return Response(int(status[1]), fields)

    def body(self, n: int) -> bytes:
        """Receive n bytes."""
        parts, left = [self.buffer[:n]], n - len(self.buffer)
        self.buffer = self.buffer[n:]
        while left > 0:
            parts.append(self.socket.recv(min(CHUNK, left)))
            left -= len(parts[-1])
            if not parts[-1]:
                raise EndedError(b"".join(parts))
        return b"".join(parts)

    def response(self, method: str = "GET") -> Response:
        """Receive a complete response."""
        response = self.head()
        informational = response.status < 200
        assert informational or "date" in response.fields
        if informational or response.status in (204, 304) or method == "HEAD":
            return response
        response.body = self.body(int(response.fields["content-length"]))
        return response

    def get(self, target: str = "/", **fields: str) -> Response:
        """Send a GET request and receive its response."""
        return self.request("GET", target, **fields)

    def request(self, method: str, target: str, **fields: str) -> Response:
        """Send a request without a body and receive its response."""
        self.send(request(method, target, **fields))
        return self.response(method)


def request(method: str, target: str, **fields: str) -> bytes:
    """Return a request's bytes; an underscore in a field's name represents a hyphen."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def get_in_turn(wires: list[Wire], target: str = "/") -> list[Response]:
    """Send a request over each connection, then receive the responses."""
    for wire in wires:
        wire.send(request("GET", target))
    return [wire.response() for wire in wires]


def get(address: tuple[str, int], target: str = "/", **fields: str) -> Response:
    """Request a page over a new connection."""
    with Wire(address) as wire:
        return wire.get(target, **fields)


def connect(address: tuple[str, int], **options: object) -> Wire:
    """Return a connection with TLS; the options are those of TlsSocket."""
    wire = Wire(tuple(address))  # type: ignore[arg-type]
    wire.socket = TlsSocket(wire.socket, **options)  # type: ignore[arg-type]
    return wire


def name_of(address: tuple[str, int], name: str = "localhost") -> str:
    """Return the name in the certificate that a client of this name gets."""
    with connect(address, name=name) as wire:
        der = wire.socket.tls.getpeercert(binary_form=True)
    names = [one for one in (b"first", b"second", b"localhost") if one in der]
    return names[0].decode()


def waiting_bytes(wire: Wire) -> int:
    """Return the number of bytes that this client sent and the server has not received."""
    ends = [f":{wire.socket.getpeername()[1]:04X}", f":{wire.socket.getsockname()[1]:04X}"]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if [local[-5:], remote[-5:]] == ends:
            return int(queues.split(":")[1], 16)
    raise AssertionError("the server has no such connection")


def wait_until_received(wire: Wire) -> None:
    """Wait until the server has received everything that the client sent."""
    for _ in attempts():
        if not waiting_bytes(wire):
            return
    raise AssertionError("the server does not receive the data")
