"""WAN emulation on this machine: a namespace for each host, connected to the server by a relay.

The relay (``bench/wan``) delays each packet by the delay of its host's link, and drops some. It
owns the namespaces and devices; the kernel removes them when it exits, for whatever reason.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab.experiments.manifest import Link
from gossamer_lab.measuring import interruption, process

RELAY = "wan/relay"
"""In the folder of built benchmarks."""

_READY_S = 60.0
_TICK_S = 0.01


class NetworkUnavailableError(Exception):
    """The network cannot be emulated here; the message says why."""


@dataclass(frozen=True)
class Network:
    """An emulated network."""

    pid: int
    """Of the relay."""
    server: str
    """Address of the server, as the hosts see it."""
    namespaces: tuple[str, ...]
    """Paths of the hosts' network namespaces."""


def _arguments(links: Sequence[Link], seed: int) -> tuple[str, ...]:
    each = (f"{round(link.delay_ms * 1000)},{link.loss},{link.return_loss}" for link in links)
    return (str(seed), *each)


def _ready_output(relay: subprocess.Popen[bytes], output: Path, errors: Path) -> str:
    """Return the relay's output once it is ready; NetworkUnavailableError."""
    deadline = time.monotonic() + _READY_S
    while not (text := output.read_text()).endswith("ready\n"):
        interruption.check()
        if relay.poll() is not None or time.monotonic() > deadline:
            words = process.stderr_tail(errors) or "the relay is not ready"
            raise NetworkUnavailableError(words.removeprefix("relay: "))
        time.sleep(_TICK_S)
    return text


@contextlib.contextmanager
def wan_hosts(
    relay: Path, links: Sequence[Link], seed: int, core: int, folder: Path
) -> Iterator[Network]:
    """Emulate a host at the end of each link for the duration of a ``with`` block.

    NetworkUnavailableError if that is not possible.
    """
    output, errors = folder / "relay.out", folder / "relay.err"
    argv = (str(relay), *_arguments(links, seed))
    try:
        with process.started(argv, core, output, errors) as child:
            text = _ready_output(child, output, errors)
            server = re.findall(r"^server (\S+)$", text, re.MULTILINE)[0]
            namespaces = re.findall(r"^host \S+ (\S+)$", text, re.MULTILINE)
            yield Network(child.pid, server, tuple(namespaces))
    except OSError as error:
        raise NetworkUnavailableError(f"{relay} cannot be run: {error.strerror}") from error


def refusal(relay: Path, core: int, folder: Path) -> str | None:
    """Return why the network cannot be emulated here, None if it can."""
    try:
        with wan_hosts(relay, (Link(1.0),), 0, core, folder):
            return None
    except NetworkUnavailableError as error:
        return f"refused: {error}"
