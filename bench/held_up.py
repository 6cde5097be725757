"""Clients that are silent, stop half-way or read slowly: how long others wait for a page meanwhile.

Every architecture, with fewer and with more of such clients than a pool has places by default. The
page is asked for twenty times, by one after the other; the median is told.
"""

import contextlib
import math
import resource
import selectors
import socket
import statistics
import struct
import sys
import time
import urllib.parse
from itertools import product

from figures import Figures, options
from points import architectures, places_of

from gossamer_lab import paths
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.servers.server import Server, ServerFailedError, serving
from gossamer_lab.workshop import Workshop, workshop

POINT = Point("305", 305, 1, 0)
LARGE = ("large.bin", 100 << 20)
COUNTS = (100, 400)
KINDS = ("silent", "idle", "half", "slow")
"""After connecting; between requests; within a request; within the answer of the large file."""
FREE, ALLOWED, ALLOWED_MS = "longest where places are free", "allowed", 1000.0
PROBES, PATIENCE_S, SETTLE_S = 20, 3.0, 1.0
NOW = struct.pack("ii", 1, 0)
"""To linger for no time: a close that is a reset."""

Address = tuple[str, int]


def request(path: str) -> bytes:
    """Return a request whose connection stays open."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


class Crowd:
    """Clients of one kind."""

    def __init__(self, kind: str, count: int, address: Address) -> None:
        """Have them all connect, and do what they do."""
        self.kind = kind
        self.selector = selectors.DefaultSelector()
        self.sockets = [self.client(address) for _ in range(count)]
        time.sleep(SETTLE_S)
        self.read()

    def client(self, address: Address) -> socket.socket:
        """Return one of them."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
        client.connect(address)
        client.setblocking(False)
        words = {
            "silent": b"",
            "idle": request(POINT.path),
            "half": request(POINT.path)[:-10],
            "slow": request(f"/{LARGE[0]}"),
        }
        client.send(words[self.kind])
        self.selector.register(client, selectors.EVENT_READ)
        return client

    def read(self) -> None:
        """Take a little of what has come for each."""
        for key, _ in self.selector.select(0):
            assert isinstance(key.fileobj, socket.socket)
            with contextlib.suppress(ConnectionError):
                if key.fileobj.recv(1024):
                    continue
            self.selector.unregister(key.fileobj)

    def leave(self) -> None:
        """All go."""
        self.selector.close()
        for client in self.sockets:
            client.close()


def probe(address: Address) -> float | None:
    """Return how long somebody else waits for the page, in ms; None: for longer than he would."""
    began = time.monotonic()
    try:
        with socket.create_connection(address, PATIENCE_S) as client:
            client.sendall(request(POINT.path))
            answer = client.recv(4096)
    except TimeoutError:
        return None
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise ServerFailedError(f"it answered {answer[:40]!r}")
    return (time.monotonic() - began) * 1000


def usual(address: Address, crowd: Crowd | None) -> float | None:
    """Return the median of what others wait, one after the other; None: one got no answer."""
    waits = []
    for _ in range(PROBES):
        took = probe(address)
        if took is None:
            return None
        waits.append(took)
        if crowd:
            crowd.read()
    return statistics.median(waits)


def with_crowd(address: Address, kind: str, count: int) -> float | None:
    """Return how long others wait while a crowd is there; None: for longer than they would."""
    crowd = Crowd(kind, count, address)
    try:
        return usual(address, crowd)
    finally:
        crowd.leave()


def measure(figures: Figures, shop: Workshop, server: Server, kinds: list[str]) -> None:
    """Measure one server alone, and with each crowd in turn."""
    others: list[float | None] = []
    with serving(server, shop.site, shop.server_core, (POINT.path, POINT.size)) as running:
        at = urllib.parse.urlsplit(running.url)
        address = (str(at.hostname), int(at.port or 80))
        figures.add("alone", server.name, usual(address, None) or math.inf, "ms")
        for kind, count in product(kinds, COUNTS):
            name = f"{kind}, {count}"
            took = with_crowd(address, kind, count)
            if took is None:
                figures.miss(name, server.name, f"held up: no answer within {PATIENCE_S:g} s")
            else:
                figures.add(name, server.name, took, "ms")
            if count < places_of(shop, server):
                others.append(took)
            while probe(address) is None:
                continue
    known = [took for took in others if took is not None]
    if known and len(known) == len(others):
        figures.add(FREE, server.name, max(known), "ms")
    if others:
        figures.limit(FREE, server.name, (ALLOWED,), 1.0)


def main() -> int:
    """Measure all; 1 if somebody is held up who should not be."""
    chosen = options(__doc__ or "").parse_args()
    figures = Figures()
    figures.add(FREE, ALLOWED, ALLOWED_MS, "ms")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = [kind for kind in KINDS if chosen.only in kind] or list(KINDS)
    with workshop(Experiment("held-up", "", (POINT,), (), ()), paths.program()) as shop:
        with (shop.site.root / LARGE[0]).open("wb") as large:
            large.truncate(LARGE[1])
        for server in architectures(shop.program, "--no-defer-accept"):
            print(f"  {server.name}", file=sys.stderr)
            measure(figures, shop, server, kinds)
    return figures.finish(chosen.json)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerFailedError as failure:
        sys.exit(f"held_up: {failure}")
