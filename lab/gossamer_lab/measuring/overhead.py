"""Injects CPU overhead into a server, to test whether the lab detects it.

A process that spins is started in the server's session and control group, and uses a share of what
the server uses. It is therefore counted with the server, and shares the server's part of its core.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gossamer_lab.measuring.cgroup import PREFIX, are_permitted
from gossamer_lab.servers.server import Launch, Server, Site

_FORMAT = re.compile(r"(.+)=(\d+(?:\.\d+)?)%")
_SPINNER = Path(__file__).with_name("spinner.py")


class OverheadError(Exception):
    """Overhead cannot be injected; the message says why."""


def parse(text: str) -> tuple[str, float]:
    """Return the server and the share of ``NAME=10%``; OverheadError if it has another form."""
    found = _FORMAT.fullmatch(text)
    if not found:
        raise OverheadError(f"--inject-overhead takes NAME=PERCENT%, not {text!r}")
    return found[1], float(found[2]) / 100


def with_overhead(server: Server, share: float) -> Server:
    """Return a server that needs this much more CPU time."""

    def configure(site: Site) -> Launch:
        launch = server.configure(site)
        spinner = (sys.executable, "-S", str(_SPINNER), f"{share:g}", PREFIX)
        return replace(launch, argv=(*spinner, *launch.argv))

    return replace(server, configure=configure)


def with_overheads(servers: list[Server], overheads: Mapping[str, float]) -> list[Server]:
    """Return the servers with injected overhead; OverheadError if that is not possible."""
    if overheads and not are_permitted():
        raise OverheadError("injected overhead needs a control group, which is not permitted here")
    names = [server.name for server in servers]
    for name in overheads:
        if name not in names:
            raise OverheadError(
                f"--inject-overhead: no server {name!r}; there are: {', '.join(names)}"
            )
    return [
        with_overhead(server, overheads[server.name]) if server.name in overheads else server
        for server in servers
    ]
