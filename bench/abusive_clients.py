"""Clients that misbehave: they pipeline, abort transfers, and meanwhile replace files."""

import os
import random
import select
import socket
import struct
import threading
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from transport import (
    END_STREAM,
    RST_STREAM,
    Frames,
    Over,
    frame,
    opening,
    request_frame,
    trusting,
)

PIPELINED = 32
_PAUSE_S = 0.02
_REWRITE_S = 0.2
_TIMEOUT_S = 20.0
_FAILURES_MAX = 20
_CANCEL = b"\0\0\0\x08"


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


def _length_of(response: bytes) -> int:
    """Return the length of a response whose head is complete; 0 if it is not."""
    head, end, _ = response.partition(b"\r\n\r\n")
    _, field, rest = head.lower().partition(b"\r\ncontent-length:")
    return len(head) + len(end) + int(rest.split(b"\r\n")[0]) if end and field else 0


class AbusiveClients:
    """Runs a thread for each kind until ``end``; records unexpected behaviour of the server."""

    def __init__(self, url: str, small: str, huge: str, over: Over = Over.PLAIN) -> None:
        """small: path of a small page; huge: path of a file larger than any socket buffer."""
        address = urllib.parse.urlsplit(url)
        self.address = (str(address.hostname), int(address.port or 80))
        self.small = small
        self.huge = huge
        self.over = over
        self.context = trusting(over)
        self.ended = threading.Event()
        self.threads: list[threading.Thread] = []
        self.failures: list[str] = []
        self.counts = {"pipelined": 0, "aborted": 0, "rewritten": 0}

    def _kinds(self, files: tuple[Path, ...]) -> dict[str, tuple[float, Callable[[], None]]]:
        """Return the pause and the action of each kind."""
        kinds = {
            "pipelined": (_PAUSE_S, self._pipeline),
            "aborted": (_PAUSE_S, self._abort),
            "rewritten": (_REWRITE_S, lambda: self._rewrite(files)),
        }
        if self.over is not Over.PLAIN:
            kinds["left in the handshake"] = (_PAUSE_S, self._leave_handshake)
        if self.over is Over.H2:
            kinds["pipelined"] = (_PAUSE_S, self._open_streams)
            kinds["aborted"] = (_PAUSE_S, self._abort_stream)
            kinds["streams reset"] = (_PAUSE_S, self._reset_streams)
        return kinds

    def start(self, files: tuple[Path, ...]) -> None:
        """Start the threads; the files are replaced repeatedly by others of the same length."""
        for name, (pause_s, action) in self._kinds(files).items():
            self.counts[name] = 0
            thread = threading.Thread(
                target=self._repeat, args=(name, pause_s, action), daemon=True
            )
            self.threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Stop all threads, and join them."""
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def _repeat(self, name: str, pause_s: float, action: Callable[[], None]) -> None:
        while not self.ended.wait(pause_s):
            try:
                action()
                self.counts[name] += 1
            except (OSError, ValueError) as error:
                if len(self.failures) < _FAILURES_MAX:
                    self.failures.append(f"{name}: {error!r}")

    def _connect(self) -> socket.socket:
        plain = socket.create_connection(self.address, timeout=_TIMEOUT_S)
        return self.context.wrap_socket(plain) if self.context else plain

    def _pipeline(self) -> None:
        """Send many requests at once; check that all responses have the same length."""
        received = b""
        with self._connect() as connection:
            connection.sendall(_request(self.small) * PIPELINED)
            if not self.context:
                connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                received += data
                length = _length_of(received)
                if self.context and length and len(received) >= PIPELINED * length:
                    break
        responses = received.count(b"HTTP/1.1 200 OK\r\n")
        if responses != PIPELINED or len(received) % PIPELINED:
            raise ValueError(
                f"{responses} responses to {PIPELINED} requests, {len(received)} bytes"
            )

    def _abort(self) -> None:
        """Close the connection during a transfer, sometimes with a reset."""
        with self._connect() as connection:
            connection.sendall(_request(self.huge))
            left = random.choice((1, 10_000, 1_000_000))
            while left > 0 and (data := connection.recv(min(left, 1 << 16))):
                left -= len(data)
            if left > 0:
                raise ValueError("the server closed the connection first")
            _reset_at_the_end(connection)

    def _leave_handshake(self) -> None:
        """Close the connection when the server has answered the first message."""
        with socket.create_connection(self.address, timeout=_TIMEOUT_S) as connection:
            connection.sendall(opening(self.over))
            if not select.select([connection], [], [], _TIMEOUT_S)[0]:
                raise ValueError("the server did not answer the first message")
            _reset_at_the_end(connection)

    def _open_streams(self) -> None:
        """Open many streams at once; check that all of them have the same response."""
        ids = range(1, 2 * PIPELINED, 2)
        with self._connect() as connection:
            frames = Frames(connection)
            frames.start(b"".join(request_frame(each, self.small) for each in ids))
            lengths = dict.fromkeys(ids, 0)
            open_ids = set(ids)
            while open_ids:
                kind, flags, stream, payload = frames.receive()
                if stream in open_ids and kind <= RST_STREAM:
                    lengths[stream] += len(payload) if kind == 0 else 0
                    open_ids -= {stream} if flags & END_STREAM or kind == RST_STREAM else set()
        if len(set(lengths.values())) != 1 or not lengths[1]:
            raise ValueError(f"bodies of {sorted(set(lengths.values()))} bytes")

    def _abort_stream(self) -> None:
        """Cancel a transfer, then close the connection within another, sometimes by a reset."""
        with self._connect() as connection:
            frames = Frames(connection)
            frames.start(request_frame(1, self.huge))
            frames.await_data(1)
            connection.sendall(frame(RST_STREAM, 0, 1, _CANCEL) + request_frame(3, self.huge))
            frames.await_data(3)
            _reset_at_the_end(connection)

    def _reset_streams(self) -> None:
        """Reset streams at once; fewer than the server allows. It must still answer."""
        ids = range(1, 400, 2)
        pairs = (request_frame(i, self.huge) + frame(RST_STREAM, 0, i, _CANCEL) for i in ids)
        with self._connect() as connection:
            frames = Frames(connection)
            frames.start(b"".join(pairs) + request_frame(401, self.small))
            frames.await_data(401)

    def _rewrite(self, files: tuple[Path, ...]) -> None:
        """Replace each file atomically."""
        for file in files:
            new = file.with_name(f".{file.name}.new")
            new.write_bytes(os.urandom(1) * file.stat().st_size)
            new.replace(file)


def _reset_at_the_end(connection: socket.socket) -> None:
    """Have every second connection end with a reset."""
    if random.random() < 0.5:
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
