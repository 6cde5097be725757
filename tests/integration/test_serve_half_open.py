"""Handshakes that clients start and do not complete: what they cost others, and how they end."""

import os
import resource
import socket
from pathlib import Path

from conftest import Serve, at_once
from server import Server, attempts
from test_serve_eviction import REPORT, places
from wire import Wire

from tls import client_hello, listen_arguments

COUNT = int(os.environ.get("GOSSAMER_HALF_OPEN", "24"))
"""How many there are; with many, their memory is measured, too."""
MANY = 1000
MOST_BYTES = 64 << 10
"""Of memory of one, when there are many; most of it is OpenSSL's."""


def half_open(server: Server, count: int) -> list[socket.socket]:
    """Return connections that send nothing, half a message, or a whole one; each has an address."""
    hello = client_hello()
    found = []
    for i in range(count):
        one = socket.socket()
        one.bind((f"127.0.{1 + i // 200}.{1 + i % 200}", 0))
        one.connect(tuple(server.address))
        one.sendall((b"", hello[: len(hello) // 2], hello)[i % 3])
        found.append(one)
    return found


def memory(server: Server) -> int:
    """Return the memory of the server's processes."""
    texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in server.process_ids()]
    return 1024 * sum(int(text.partition("\nPss:")[2].split()[0]) for text in texts)


def end_of(one: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    found = b""
    one.settimeout(30)
    while data := one.recv(65536):
        found += data
    return found


@at_once
def test_kept_connections_are_served_beside_many_which_end_in_time(
    serve: Serve, root: Path
) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    # A connection without an answer counts as two descriptors.
    count = min(COUNT, limit // 2 - 500)
    timeout = ("--header-timeout", "30s" if count >= MANY else "1s", "--no-defer-accept")
    server = serve(root, *listen_arguments(), *timeout, clients=count + 8)
    with Wire(server.address) as kept:
        assert kept.get("/a.txt").status == 200
        before = memory(server)
        half = half_open(server, count)
        answered = [one for i, one in enumerate(half) if i % 3 == 2]
        for one in answered:
            one.settimeout(30)
            assert one.recv(1, socket.MSG_PEEK)
        assert kept.get("/a.txt").status == 200
        if count >= MANY:
            assert (memory(server) - before) / count < MOST_BYTES
        ends = [end_of(one) for one in half]
        assert all(ends[2::3])
        assert not any(ends[0::3])
        assert kept.get("/a.txt").status == 200
    for one in half:
        one.close()


@at_once
def test_they_give_way_before_idle_connections(serve: Serve, root: Path, arch: str) -> None:
    server = serve(root, *listen_arguments(), "--no-defer-accept", *places(arch, 4, 1), exact=True)
    server.expect(REPORT)
    with Wire(server.address, source="127.0.0.9") as kept:
        assert kept.get("/a.txt").status == 200
        half = half_open(server, 3)
        for _ in attempts(1.1):
            pass
        others = [Wire(server.address, source=f"127.0.0.{i}") for i in (10, 11, 12)]
        for wire in others:
            assert wire.get("/a.txt").status == 200
        assert not kept.is_readable()
        assert kept.get("/a.txt").status == 200
    for one in (*half, *others):
        one.close()
