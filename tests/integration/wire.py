"""HTTP over a raw socket: what is sent is up to the test; what comes back is read strictly."""

import re
import select
import socket
import struct
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from server import PATIENCE_S

STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]+")
FIELD = re.compile(rb"([!-9;-~]+): ([ -~]*)")
CHUNK = 1 << 20


class EndedError(Exception):
    """The connection ended before the response was complete."""

    def __init__(self, received: bytes) -> None:
        """Keep the beginning of what had been received of it."""
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
        """Tell whether the server announced that it closes the connection."""
        return self.fields.get("connection") == "close"


class Wire:
    """A client's connection, byte by byte if need be."""

    def __init__(self, address: tuple[str, int], receive_buffer: int = 0) -> None:
        """Connect; receive_buffer makes the kernel take few bytes that nobody has asked for."""
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(PATIENCE_S)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(address)
        self.buffer = b""

    def __enter__(self) -> Self:
        """Use it in a with statement."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def reset(self) -> None:
        """Close the socket so that the peer gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all."""
        self.socket.sendall(data)

    def send_bytewise(self, data: bytes) -> None:
        """Send each byte by itself, as long as the server takes them."""
        for i in range(len(data)):
            try:
                self.socket.sendall(data[i : i + 1])
            except (BrokenPipeError, ConnectionResetError):
                return

    def end(self) -> None:
        """End our sending side."""
        self.socket.shutdown(socket.SHUT_WR)

    def receive(self, most: int = CHUNK) -> bytes:
        """Receive something; nothing at the end."""
        if self.buffer:
            data, self.buffer = self.buffer[:most], self.buffer[most:]
            return data
        return self.socket.recv(most)

    def is_readable(self, timeout_s: float = 0.0) -> bool:
        """Tell whether something has come, be it the end."""
        return bool(self.buffer or select.select([self.socket], [], [], timeout_s)[0])

    def rest(self) -> bytes:
        """Receive all up to the end of the connection, which may be a reset."""
        parts = [self.buffer]
        self.buffer = b""
        try:
            while data := self.socket.recv(CHUNK):
                parts.append(data)
        except ConnectionResetError:
            pass
        return b"".join(parts)

    def head(self) -> Response:
        """Receive a status line and its fields."""
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
        """Receive a whole response."""
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
    """Return a request's bytes; an underscore in a field's name stands for a hyphen."""
    lines = [f"{method} {target} HTTP/1.1", "Host: test"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def get(address: tuple[str, int], target: str = "/", **fields: str) -> Response:
    """Get a page through a connection of its own."""
    with Wire(address) as wire:
        return wire.get(target, **fields)
