"""Slow clients over TLS or HTTP/2: each sends a byte a second, or reads nothing.

    slow_tls_clients.py tls|h2 MODE PORT PATH COUNT SECONDS

handshake  sends the first message of a handshake
header     sends a header that does not end
body       sends the body of a request
read       requests PATH and reads nothing
window     (h2) requests PATH, reads all, and opens no window

Closed clients connect again. At SIGTERM, or after SECONDS, it prints a line of JSON like that of
slow_clients.c.
"""

import contextlib
import json
import select
import signal
import socket
import ssl
import struct
import sys
import threading
import time
from dataclasses import dataclass, field

from transport import (
    DATA,
    END_HEADERS,
    HEADERS,
    Over,
    block,
    frame,
    opening,
    request_frame,
    settings,
    trusting,
)

TURN_S = 1.0
"""Each client has one turn in this time."""
CONNECT_S = 30.0
RECEIVE_BUFFER = 4096
LONG = struct.pack(">I", 16384)[1:]
"""Length that the frame of a slow client announces."""
_POST = b"\x83"
_LONG_FIELD = b"\0\x06x-slow\x7f\x81\x7c"
"""Of 16,000 bytes, which follow."""


def bytes_of(over: Over, mode: str, path: str) -> tuple[bytes, bytes]:
    """Return what a client sends at once, and what it then sends slowly, again and again."""
    if mode == "handshake":
        return b"", opening(over)
    if over is Over.H2:
        body = frame(HEADERS, END_HEADERS, 1, block(path, _POST))
        head, data = (LONG + frame(kind, 0, 1)[3:] for kind in (HEADERS, DATA))
        return {
            "header": (settings() + head + block(path) + _LONG_FIELD, b"x"),
            "body": (settings() + body + data, b"x"),
            "read": (settings() + request_frame(1, path), b""),
            "window": (settings(0) + request_frame(1, path), b""),
        }[mode]
    head = f"GET {path} HTTP/1.1\r\nHost: slow\r\n".encode()
    return {
        "header": (head + b"X-Slow: ", b"x"),
        "body": (head + b"Content-Length: 1000000\r\n\r\n", b"x"),
        "read": (head + b"\r\n", b""),
    }[mode]


@dataclass
class Client:
    """One connection."""

    connection: socket.socket
    opened: float
    sent: int = 0


@dataclass
class Slow:
    """All clients of one kind."""

    over: Over
    mode: str
    port: int
    at_once: bytes
    slowly: bytes
    counts: dict[str, int] = field(default_factory=lambda: {"opened": 0, "closed": 0, "failed": 0})
    ages: list[float] = field(default_factory=list)
    max_age_s: float = 0.0
    stopped: threading.Event = field(default_factory=threading.Event)

    def connect(self) -> Client | None:
        """Connect, and send what is sent at once; None if that fails."""
        context = None if self.mode == "handshake" else trusting(self.over)
        plain = socket.socket()
        plain.settimeout(CONNECT_S)
        if self.mode == "read":
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        try:
            plain.connect(("127.0.0.1", self.port))
            connection = context.wrap_socket(plain) if context else plain
            connection.sendall(self.at_once)
        except OSError:
            plain.close()
            self.counts["failed"] += 1
            return None
        connection.setblocking(False)
        self.counts["opened"] += 1
        return Client(connection, time.monotonic())

    def take_turn(self, client: Client) -> bool:
        """Send a byte; tell whether the connection is still open."""
        poll = select.poll()
        poll.register(client.connection, select.POLLRDHUP)
        if poll.poll(0):
            return False
        try:
            if self.slowly:
                at = client.sent % len(self.slowly)
                client.connection.send(self.slowly[at : at + 1])
        except (BlockingIOError, ssl.SSLWantWriteError):
            return True
        except OSError:
            return False
        client.sent += 1
        if self.mode == "window":
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                return bool(client.connection.recv(1 << 16))
        return True

    def close(self, client: Client) -> None:
        """Record that the server has closed the connection."""
        age = time.monotonic() - client.opened
        self.ages.append(age)
        self.max_age_s = max(self.max_age_s, age)
        self.counts["closed"] += 1
        client.connection.close()


def run_client(slow: Slow, offset_s: float, end: float) -> None:
    """Connect, and take turns, until the end; again after each close."""
    client: Client | None = None
    if slow.stopped.wait(offset_s):
        return
    while time.monotonic() < end and not slow.stopped.is_set():
        if client is None:
            client = slow.connect()
        elif not slow.take_turn(client):
            slow.close(client)
            client = None
            continue
        slow.stopped.wait(TURN_S)
    if client:
        slow.max_age_s = max(slow.max_age_s, time.monotonic() - client.opened)
        client.connection.close()


def run(slow: Slow, count: int, seconds: float) -> None:
    """Run the clients, each in a thread: handshakes take long beside a full load."""
    end = time.monotonic() + seconds
    threads = [
        threading.Thread(target=run_client, args=(slow, i * TURN_S / count, end))
        for i in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    """Run the clients."""
    over, mode, port, path, count, seconds = sys.argv[1:]
    slow = Slow(Over(over), mode, int(port), *bytes_of(Over(over), mode, path))
    signal.signal(signal.SIGTERM, lambda *_: slow.stopped.set())
    run(slow, int(count), float(seconds))
    ages = {"min_age_s": min(slow.ages, default=0), "max_age_s": slow.max_age_s}
    print(json.dumps(slow.counts | ages))
    return 0


if __name__ == "__main__":
    sys.exit(main())
