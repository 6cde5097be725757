"""Clients that are no load but a trial: they pipeline, break off, and change files meanwhile."""

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
_COMPLAINTS_MOST = 20


def _request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: rough\r\n\r\n".encode()


class Rough:
    """One thread for each kind, until they are ended; what should not have happened is noted."""

    def __init__(self, url: str, small: str, huge: str) -> None:
        """Know the server, a small page, and a file that no socket's buffer holds."""
        address = urllib.parse.urlsplit(url)
        self.address = (str(address.hostname), int(address.port or 80))
        self.small = small
        self.huge = huge
        self.ended = threading.Event()
        self.threads: list[threading.Thread] = []
        self.complaints: list[str] = []
        self.done = {"pipelined": 0, "broken off": 0, "rewritten": 0}

    def start(self, files: tuple[Path, ...]) -> None:
        """Begin; the files are replaced again and again by others of the same length."""
        for name, pause_s, turn in (
            ("pipelined", _PAUSE_S, self._pipeline),
            ("broken off", _PAUSE_S, self._break_off),
            ("rewritten", _REWRITE_S, lambda: self._rewrite(files)),
        ):
            thread = threading.Thread(target=self._repeat, args=(name, pause_s, turn), daemon=True)
            self.threads.append(thread)
            thread.start()

    def end(self) -> None:
        """Have all of them end, and wait for it."""
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def _repeat(self, name: str, pause_s: float, turn: Callable[[], None]) -> None:
        while not self.ended.wait(pause_s):
            try:
                turn()
                self.done[name] += 1
            except (OSError, ValueError) as error:
                if len(self.complaints) < _COMPLAINTS_MOST:
                    self.complaints.append(f"{name}: {error!r}")

    def _connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=_TIMEOUT_S)

    def _pipeline(self) -> None:
        """Send many requests at once; all are answered, in as many bytes each."""
        received = b""
        with self._connect() as connection:
            connection.sendall(_request(self.small) * PIPELINED)
            connection.shutdown(socket.SHUT_WR)
            while data := connection.recv(1 << 16):
                received += data
        answers = received.count(b"HTTP/1.1 200 OK\r\n")
        if answers != PIPELINED or len(received) % PIPELINED:
            raise ValueError(f"{answers} answers to {PIPELINED} requests, {len(received)} bytes")

    def _break_off(self) -> None:
        """Go away in the middle of a transfer, with a reset or without."""
        with self._connect() as connection:
            connection.sendall(_request(self.huge))
            left = random.choice((1, 10_000, 1_000_000))
            while left > 0 and (data := connection.recv(min(left, 1 << 16))):
                left -= len(data)
            if left > 0:
                raise ValueError("the server broke off first")
            if random.random() < 0.5:
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _rewrite(self, files: tuple[Path, ...]) -> None:
        """Replace each file by another one, whole at every moment."""
        for file in files:
            new = file.with_name(f".{file.name}.new")
            new.write_bytes(os.urandom(1) * file.stat().st_size)
            new.replace(file)
