"""Clients that misbehave: they pipeline, abort transfers, and meanwhile replace files."""

import os
import random
import socket
import struct
import threading
import urllib.parse
from collections.abc import Callable
from pathlib import Path

PIPELINED = 32
_PAUSE_S = 0.02
_REWRITE_S = 0.2
_TIMEOUT_S = 20.0
_FAILURES_MAX = 20


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


class AbusiveClients:
    """Runs a thread for each kind until ``end``; records unexpected behaviour of the server."""

    def __init__(self, url: str, small: str, huge: str) -> None:
        """small: path of a small page; huge: path of a file larger than any socket buffer."""
        address = urllib.parse.urlsplit(url)
        self.address = (str(address.hostname), int(address.port or 80))
        self.small = small
        self.huge = huge
        self.ended = threading.Event()
        self.threads: list[threading.Thread] = []
        self.failures: list[str] = []
        self.counts = {"pipelined": 0, "aborted": 0, "rewritten": 0}

    def start(self, files: tuple[Path, ...]) -> None:
        """Start the threads; the files are replaced repeatedly by others of the same length."""
        for name, pause_s, action in (
            ("pipelined", _PAUSE_S, self._pipeline),
            ("aborted", _PAUSE_S, self._abort),
            ("rewritten", _REWRITE_S, lambda: self._rewrite(files)),
        ):
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
        return socket.create_connection(self.address, timeout=_TIMEOUT_S)

    def _pipeline(self) -> None:
        """Send many requests at once; check that all responses have the same length."""
        received = b""
        with self._connect() as connection:
            connection.sendall(_request(self.small) * PIPELINED)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                received += data
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
            if random.random() < 0.5:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _rewrite(self, files: tuple[Path, ...]) -> None:
        """Replace each file atomically."""
        for file in files:
            new = file.with_name(f".{file.name}.new")
            new.write_bytes(os.urandom(1) * file.stat().st_size)
            new.replace(file)
