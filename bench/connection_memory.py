"""The memory that a server needs for each idle connection, after one request on each."""

import subprocess
import time
import urllib.parse
from pathlib import Path

from points import max_concurrent_clients
from results import Results

from gossamer_lab.measuring.accounting import tree_memory_kb
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.server import Server, ServerFailedError, serving

PAGE = ("/page-305.html", 305)


def measure(
    results: Results, workspace: Workspace, server: Server, connections: int, name: str
) -> None:
    """Add the memory per idle connection to the results."""
    try:
        size = memory_per_connection(workspace, server, connections)
    except ServerFailedError as failure:
        results.skip(name, server.name, str(failure))
    else:
        results.add(name, server.name, size, "bytes each")


def memory_per_connection(workspace: Workspace, server: Server, connections: int) -> float:
    """Return the server's growth per connection in bytes; raise ServerFailedError if one failed."""
    load = (str(workspace.program), "load", "-c", str(connections), "-d", "300", "--timeout", "120")
    with serving(server, workspace.site, workspace.server_core, PAGE) as running:
        time.sleep(0.2)
        if connections > max_concurrent_clients(workspace, server):
            raise ServerFailedError(
                "it serves fewer clients at a time: the others wait in the accept queue"
            )
        before_kb = tree_memory_kb(running.pid)
        client = subprocess.Popen(
            (*load, "--think", "60000", running.url + PAGE[0]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            open_count = wait_for_connections(running.url, connections)
            after_kb = tree_memory_kb(running.pid)
        finally:
            client.terminate()
            client.wait()
    if open_count < connections:
        raise ServerFailedError(f"only {open_count} connections were open")
    return (after_kb - before_kb) * 1024 / connections


def wait_for_connections(url: str, wanted: int) -> int:
    """Wait until the server has all connections, or their number stops growing; return it."""
    open_count, before = 0, -1
    while before < open_count < wanted:
        time.sleep(3)
        open_count, before = established(url), open_count
    time.sleep(0.5)
    return open_count


def established(url: str) -> int:
    """Return the number of established connections to the server with this URL."""
    port = f"{urllib.parse.urlsplit(url).port:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(
        1 for line in lines if line.split()[1].endswith(f":{port}") and line.split()[3] == "01"
    )
