"""How long clients wait while others are silent, send half a request or read slowly.

All architectures are measured, with fewer and with more such clients than the default number of a
pool's workers. The result is the median of twenty sequential requests for a page.
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

from points import architectures, max_concurrent_clients
from results import Results, options

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.server import Server, ServerFailedError, serving

POINT = Point("305", 305, 1, 0)
LARGE = ("large.bin", 100 << 20)
COUNTS = (100, 400)
KINDS = ("silent", "idle", "half", "slow")
"""After connecting; between requests; within a request; within the response with the large file."""
FREE, ALLOWED, ALLOWED_MS = "longest with free workers", "allowed", 1000.0
PROBES, TIMEOUT_S, SETTLE_S = 20, 3.0, 1.0
NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER with a timeout of 0: close sends a reset."""

Address = tuple[str, int]


def request(path: str) -> bytes:
    """Return a request that keeps the connection open."""
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()


class BlockingClients:
    """Clients of one kind."""

    def __init__(self, kind: str, count: int, address: Address) -> None:
        """Connect all clients, and let each send its bytes."""
        self.kind = kind
        self.selector = selectors.DefaultSelector()
        self.sockets = [self.client(address) for _ in range(count)]
        time.sleep(SETTLE_S)
        self.read()

    def client(self, address: Address) -> socket.socket:
        """Connect a client."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        client.connect(address)
        client.setblocking(False)
        messages = {
            "silent": b"",
            "idle": request(POINT.path),
            "half": request(POINT.path)[:-10],
            "slow": request(f"/{LARGE[0]}"),
        }
        client.send(messages[self.kind])
        self.selector.register(client, selectors.EVENT_READ)
        return client

    def read(self) -> None:
        """Receive up to 1 KiB on each connection with data."""
        for key, _ in self.selector.select(0):
            assert isinstance(key.fileobj, socket.socket)
            with contextlib.suppress(ConnectionError):
                if key.fileobj.recv(1024):
                    continue
            self.selector.unregister(key.fileobj)

    def close(self) -> None:
        """Close all connections."""
        self.selector.close()
        for client in self.sockets:
            client.close()


def probe(address: Address) -> float | None:
    """Return how long another client waits for the page, in ms, or None if it times out."""
    began = time.monotonic()
    try:
        with socket.create_connection(address, TIMEOUT_S) as client:
            client.sendall(request(POINT.path))
            response = client.recv(4096)
    except TimeoutError:
        return None
    if not response.startswith(b"HTTP/1.1 200 "):
        raise ServerFailedError(f"unexpected response {response[:40]!r}")
    return (time.monotonic() - began) * 1000


def median_wait(address: Address, clients: BlockingClients | None) -> float | None:
    """Return the median of sequential waits of other clients, or None if one times out."""
    waits = []
    for _ in range(PROBES):
        took = probe(address)
        if took is None:
            return None
        waits.append(took)
        if clients:
            clients.read()
    return statistics.median(waits)


def wait_beside(address: Address, kind: str, count: int) -> float | None:
    """Return how long other clients wait beside blocking ones, or None if they time out."""
    clients = BlockingClients(kind, count, address)
    try:
        return median_wait(address, clients)
    finally:
        clients.close()


def measure(results: Results, workspace: Workspace, server: Server, kinds: list[str]) -> None:
    """Measure one server alone, and beside each kind and number of clients."""
    others: list[float | None] = []
    with serving(
        server, workspace.site, workspace.server_core, (POINT.path, POINT.size)
    ) as running:
        at = urllib.parse.urlsplit(running.url)
        address = (str(at.hostname), int(at.port or 80))
        results.add("alone", server.name, median_wait(address, None) or math.inf, "ms")
        for kind, count in product(kinds, COUNTS):
            name = f"{kind}, {count}"
            took = wait_beside(address, kind, count)
            if took is None:
                results.skip(name, server.name, f"blocked: no response within {TIMEOUT_S:g} s")
            else:
                results.add(name, server.name, took, "ms")
            if count < max_concurrent_clients(workspace, server):
                others.append(took)
            while probe(address) is None:
                continue
    known = [took for took in others if took is not None]
    if known and len(known) == len(others):
        results.add(FREE, server.name, max(known), "ms")
    if others:
        results.limit(FREE, server.name, (ALLOWED,), 1.0)


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    chosen = options(__doc__ or "").parse_args()
    results = Results()
    results.add(FREE, ALLOWED, ALLOWED_MS, "ms")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = [kind for kind in KINDS if chosen.only in kind] or list(KINDS)
    with open_workspace(
        Experiment("blocked-clients", "", (POINT,), (), ()), paths.program()
    ) as workspace:
        with (workspace.site.root / LARGE[0]).open("wb") as large:
            large.truncate(LARGE[1])
        for server in architectures(workspace.program, "--no-defer-accept"):
            print(f"  {server.name}", file=sys.stderr)
            measure(results, workspace, server, kinds)
    return results.finish(chosen.json)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerFailedError as failure:
        sys.exit(f"blocked_clients: {failure}")
