"""The kernel buffers little data for a slow client, and drops it when the server does."""

import re
import time
from pathlib import Path

from conftest import Serve, at_once, sparse
from server import attempts
from wire import Wire, request

# Without a limit, a socket buffers megabytes.
QUEUED_MAX = 512 << 10


def queued_to(wires: list[Wire]) -> list[int]:
    """Return the number of bytes that the kernel buffers for each client, also after the close."""
    server = wires[0].socket.getpeername()[1]
    # Its address, that of the client, the state, and what is to be sent.
    line = re.compile(rf":{server:04X} \w+:(\w+) \w+ (\w+):")
    queued = dict(line.findall(Path("/proc/net/tcp").read_text()))
    clients = [f"{wire.socket.getsockname()[1]:04X}" for wire in wires]
    return [int(queued.get(client, "0"), 16) for client in clients]


@at_once
def test_a_client_that_does_not_read_costs_little_kernel_memory(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", 64 << 20)
    server = serve(root, "--workers", "1", "--rate", "0")
    wires = [Wire(server.address, receive_buffer=4096) for _ in range(5)]
    for wire in wires:
        wire.send(request("GET", "/huge.bin"))
        assert wire.head().status == 200
    for _ in range(3):
        # Once the client has made room, the server needs some time to send more.
        assert any(all(queued_to(wires)) for _ in attempts(pause_s=0.05))
        assert max(queued_to(wires)) < QUEUED_MAX
        time.sleep(0.02)
    for wire in wires:
        wire.reset()


@at_once
def test_an_answer_that_was_only_waited_for_is_not_cut_off(serve: Serve, root: Path) -> None:
    (root / "page.bin").write_bytes(bytes(20_000))
    server = serve(root, "--requests-per-connection", "1", "--workers", "1", "--rate", "0")
    with Wire(server.address, receive_buffer=4096) as wire:
        wire.send(request("GET", "/page.bin"))
        assert wire.head().status == 200
        assert server.has_at_most_sockets(1)
        assert queued_to([wire])[0] > 0
        assert wire.body(20_000) == bytes(20_000)
        assert wire.rest() == b""


@at_once
def test_empty_lines_in_parts_do_not_hold_a_connection(serve: Serve, root: Path) -> None:
    server = serve(root, "--header-timeout", "300ms", "--no-defer-accept")
    with Wire(server.address) as wire:
        for turn in attempts(pause_s=0.05):
            if wire.is_readable():
                break
            wire.send(b"\n" if turn % 2 else b"\r")
        assert wire.response().status == 408
