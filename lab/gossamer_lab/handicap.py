"""A handicap: has a server need more CPU time than it does, to try whether the lab sees it.

A process that spins is started in the server's session and control group, and uses a share of what
the server uses. So it is counted with the server, and shares the server's part of its core.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gossamer_lab.cgroup import NAME, are_permitted
from gossamer_lab.servers.server import Launch, Server, Site

_WORDS = re.compile(r"(.+)=(\d+(?:\.\d+)?)%")
_SPINNER = Path(__file__).with_name("spinner.py")


class HandicapError(Exception):
    """A handicap cannot be given; says why."""


def parse(text: str) -> tuple[str, float]:
    """Return the server and the share of ``NAME=10%``; HandicapError if it is not of that form."""
    found = _WORDS.fullmatch(text)
    if not found:
        raise HandicapError(f"--handicap takes NAME=PERCENT%, not {text!r}")
    return found[1], float(found[2]) / 100


def given(server: Server, share: float) -> Server:
    """Return a server that needs so much more CPU time."""

    def configure(site: Site) -> Launch:
        launch = server.configure(site)
        spinning = (sys.executable, "-S", str(_SPINNER), f"{share:g}", NAME)
        return replace(launch, argv=(*spinning, *launch.argv))

    return replace(server, configure=configure)


def all_given(servers: list[Server], handicaps: Mapping[str, float]) -> list[Server]:
    """Return the servers with their handicaps; HandicapError if that is not possible."""
    if handicaps and not are_permitted():
        raise HandicapError("a handicap needs a control group, which is not permitted here")
    names = [server.name for server in servers]
    for name in handicaps:
        if name not in names:
            raise HandicapError(f"no server {name!r} takes part here: {', '.join(names)}")
    return [
        given(server, handicaps[server.name]) if server.name in handicaps else server
        for server in servers
    ]
