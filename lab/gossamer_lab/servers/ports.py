"""Free ports for servers that cannot choose one themselves."""

import random
import socket
from pathlib import Path

_LOWEST = 10_240
_TRIES = 100


def free_port(address: str) -> int:
    """Return an unused port of an address, below the ephemeral ports.

    A client's connection can therefore not take it between this call and the server's start.
    """
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    end = max(int(text.split()[0]), _LOWEST + 1000)
    for port in random.sample(range(_LOWEST, end), _TRIES):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port on {address}")


def free_ports(address: str, count: int) -> tuple[int, ...]:
    """Return different unused ports of an address, as `free_port`."""
    found: set[int] = set()
    while len(found) < count:
        found.add(free_port(address))
    return tuple(found)
