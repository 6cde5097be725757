"""Connections that are answered once and then held, and the memory that a server needs for each."""

import subprocess
import time
import urllib.parse
from pathlib import Path

from figures import Figures
from points import places_of

from gossamer_lab.accounting import family_memory_kb
from gossamer_lab.servers.server import Server, ServerFailedError, serving
from gossamer_lab.workshop import Workshop

PAGE = ("/page-305.html", 305)


def measure(figures: Figures, shop: Workshop, server: Server, connections: int, name: str) -> None:
    """Add what each of so many held connections costs the server."""
    try:
        each = memory_of_each(shop, server, connections)
    except ServerFailedError as failure:
        figures.miss(name, server.name, str(failure))
    else:
        figures.add(name, server.name, each, "bytes each")


def memory_of_each(shop: Workshop, server: Server, connections: int) -> float:
    """Return by how many bytes the server grows for each; ServerFailedError if it has fewer."""
    load = (str(shop.program), "load", "-c", str(connections), "-d", "300", "--timeout", "120")
    with serving(server, shop.site, shop.server_core, PAGE) as running:
        time.sleep(0.2)
        if connections > places_of(shop, server):
            raise ServerFailedError("it serves fewer at a time: the others wait in the kernel")
        before_kb = family_memory_kb(running.pid)
        client = subprocess.Popen(
            (*load, "--think", "60000", running.url + PAGE[0]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            held = await_connections(running.url, connections)
            after_kb = family_memory_kb(running.pid)
        finally:
            client.terminate()
            client.wait()
    if held < connections:
        raise ServerFailedError(f"only {held} connections were open")
    return (after_kb - before_kb) * 1024 / connections


def await_connections(url: str, wanted: int) -> int:
    """Wait until the server has all connections, or gets no more; return how many it has."""
    held, before = 0, -1
    while before < held < wanted:
        time.sleep(3)
        held, before = established(url), held
    time.sleep(0.5)
    return held


def established(url: str) -> int:
    """Return how many connections the server of this address has."""
    port = f"{urllib.parse.urlsplit(url).port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(
        1 for line in lines if line.split()[1].endswith(f":{port}") and line.split()[3] == "01"
    )
