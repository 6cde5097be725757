"""Requests that need much CPU time: which clients wait, are refused, or get no connection."""

import ctypes
import fcntl
import os
import selectors
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import Serve, at_once
from metrics import PATH, read, value
from server import TIMEOUT_S, Server, attempts
from wire import Wire, get, request

SIZE = 8192
CLIENTS = 16

# In these architectures, a connection's computation blocks the others of its worker.
BLOCKED = ("user", "event", "eager", "quad")

BACKLOG = 8
BATCHES = 8


def test_the_bottleneck_takes_its_time_and_has_its_size(serve: Serve, root: Path) -> None:
    server = serve(root, "--bottleneck", "/slow=40", "--workers", "1")
    bodies = set()
    with Wire(server.address) as wire:
        for _ in range(3):
            response = wire.get("/slow")
            assert response.status == 200
            bodies.add(response.body)
    assert [len(body) for body in bodies] == [SIZE] * len(bodies)


def test_a_computation_blocks_other_clients_only_in_some_architectures(
    serve: Serve, root: Path, configuration: str
) -> None:
    server = serve(root, "--bottleneck", "/slow=120", "--workers", "1")
    # The runtime of user-level threads reports what blocks its worker.
    server.allow('^stuck: thread ".*" has been ')
    with Wire(server.address) as quick, Wire(server.address) as slow:
        assert quick.get("/a.txt").status == 200
        busy_s = server.cpu_s() + 0.04
        slow.send(request("GET", "/slow"))
        while server.cpu_s() < busy_s and not slow.is_readable(0.01):
            continue
        quick.send(request("GET", "/a.txt"))
        assert quick.response().status == 200
        if configuration.split(maxsplit=1)[0] in BLOCKED:
            assert slow.is_readable()
        assert slow.response().status == 200


class RepeatingClients:
    """Clients that each request the slow page repeatedly."""

    def __init__(self, server: Server) -> None:
        """Start the clients."""
        self.server = server
        self.served = self.refused = 0
        self.others: list[int] = []
        self.lock = threading.Lock()
        self.enough = threading.Event()
        self.threads = [threading.Thread(target=self.ask) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self) -> None:
        """Run one client."""
        with Wire(self.server.address) as wire:
            while not self.enough.wait(0.01):
                self.count(wire.get("/slow").status)

    def count(self, status: int) -> None:
        """Count a response by its status."""
        with self.lock:
            self.served += status == 200
            self.refused += status == 503
            if status not in (200, 503):
                self.others.append(status)

    def wait_for(self, served: int, refused: int) -> None:
        """Wait until this many responses of either kind have arrived."""
        for _ in range(int(TIMEOUT_S / 0.05)):
            if self.served >= served and self.refused >= refused:
                break
            self.enough.wait(0.05)
        self.enough.set()
        for thread in self.threads:
            thread.join()


def has_handled(server: Server, count: int) -> bool:
    """Wait until the stage has handled this many events, which are counted after their handler."""
    return any(value(read(server), "stage_events_total", stage="make") == count for _ in attempts())


def test_admission_refuses_some_and_serves_the_others(serve: Serve, root: Path, arch: str) -> None:
    if arch != "stage":
        pytest.skip("it has no stages")
    arguments = ("--bottleneck", "/slow=20", "--admission", "10s", "--metrics", PATH)
    server = serve(root, *arguments, "--workers", "2")
    clients = RepeatingClients(server)
    assert get(server.address, "/a.txt").status == 200
    clients.wait_for(served=25, refused=25)
    assert (clients.served >= 25, clients.refused >= 25, clients.others) == (True, True, [])
    samples = read(server)
    full = value(samples, "stage_refused_total", stage="make", reason="full")
    refused = value(samples, "stage_refused_total", stage="make", reason="admission")
    assert full + refused == clients.refused
    assert refused > 0
    assert has_handled(server, clients.served)
    assert value(samples, "errors_total", **{"class": "5xx"}) == clients.refused
    assert value(samples, "stage_p90_seconds", stage="make") > 0
    assert get(server.address, "/slow").status in (200, 503)


def test_without_admission_control_every_client_waits(serve: Serve, root: Path, arch: str) -> None:
    if arch != "stage":
        pytest.skip("it has no stages")
    arguments = ("--bottleneck", "/slow=5", "--controllers", "none", "--metrics", PATH)
    server = serve(root, *arguments, "--workers", "1")
    clients = RepeatingClients(server)
    clients.wait_for(served=100, refused=0)
    assert (clients.served >= 100, clients.refused, clients.others) == (True, 0, [])
    assert has_handled(server, clients.served)


# ---- The kernel's accept queue ----


@contextmanager
def separate_network() -> Iterator[None]:
    """Enter a new network namespace, so that no other process's overflows are counted."""
    clone_newnet, set_flags, flags_up = 0x40000000, 0x8914, 0x41
    libc = ctypes.CDLL(None)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    if libc.unshare(clone_newnet):
        os.close(before)
        pytest.skip("only root can create a network namespace")
    try:
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags_up))
        yield
    finally:
        assert libc.setns(before, clone_newnet) == 0
        os.close(before)


def overflows() -> int:
    """Return how many connections the kernel has dropped because an accept queue was full."""
    rows = Path("/proc/thread-self/net/netstat").read_text().splitlines()
    names, numbers = (row.split() for row in rows if row.startswith("TcpExt:"))
    return int(numbers[names.index("ListenOverflows")])


class Arrivals:
    """Clients that connect in batches and send one request each."""

    def __init__(self, server: Server) -> None:
        """Start without clients."""
        self.server = server
        self.selector = selectors.DefaultSelector()
        self.open = self.answers = self.lost = 0
        self.received: dict[socket.socket, bytes] = {}

    def connect(self, count: int) -> None:
        """Start to connect without waiting for the result."""
        for _ in range(count):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(self.server.address)
            self.received[client] = b""
            self.selector.register(client, selectors.EVENT_WRITE)
        self.open += count
        self.step(0)

    def step(self, timeout_s: float) -> int:
        """Send and receive without blocking; return the number of ready sockets."""
        ready = self.selector.select(timeout_s)
        for key, events in ready:
            client = key.fileobj
            assert isinstance(client, socket.socket)
            try:
                if events & selectors.EVENT_WRITE:
                    client.send(request("GET", "/slow", Connection="close"))
                    self.selector.modify(client, selectors.EVENT_READ)
                    continue
                data = client.recv(1 << 16)
            except (ConnectionError, TimeoutError):
                self.lost += 1
                self.remove(client)
                continue
            self.received[client] += data
            if not data:
                assert b" 200 OK" in self.received[client]
                self.answers += 1
                self.remove(client)
        return len(ready)

    def remove(self, client: socket.socket) -> None:
        """Close a client's connection."""
        del self.received[client]
        self.selector.unregister(client)
        client.close()
        self.open -= 1

    def wait_until_accepted(self, answers: int) -> None:
        """Wait until all connections are accepted, or this many more have been answered."""
        end = self.answers + answers
        while self.answers < end:
            open_now, listening = self.open, 1
            if self.server.descriptors("socket:") - listening >= open_now:
                return
            self.step(0.002)

    def wait_until_answered(self) -> None:
        """Wait until all clients have their responses."""
        while self.open:
            assert self.step(TIMEOUT_S), f"{self.open} hear nothing"


@at_once
def test_the_accept_queue_of_eager_never_overflows(
    serve: Serve, root: Path, configuration: str
) -> None:
    if configuration not in ("event", "eager"):
        pytest.skip("only for event and eager")
    arguments = ("--backlog", str(BACKLOG), "--bottleneck", "/slow=20")
    with separate_network():
        server = serve(root, *arguments, "--workers", "1")
        arrivals = Arrivals(server)
        for _ in range(BATCHES):
            arrivals.connect(BACKLOG)
            arrivals.wait_until_accepted(answers=3)
        arrivals.wait_until_answered()
        assert arrivals.answers + arrivals.lost == BATCHES * BACKLOG
        assert arrivals.lost == 0 or configuration == "event"
        assert (overflows() > 0) == (configuration == "event")
