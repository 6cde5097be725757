"""Client hosts far away, on this machine: a namespace each, joined to the server by a relay.

The relay (``bench/wan``) holds back each packet for the delay of its host's link, and loses some.
Namespaces and devices are its own, and end with it, however it ends.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab import interruption, process
from gossamer_lab.experiment import Link

RELAY = "wan/relay"
"""Below the folder of built benchmarks."""

_READY_S = 60.0
_TICK_S = 0.01


class NoNetworkError(Exception):
    """Such hosts cannot be made here; says why."""


@dataclass(frozen=True)
class Network:
    """Hosts that are there."""

    pid: int
    """Of the relay."""
    server: str
    """The address that hosts reach the server at."""
    spaces: tuple[str, ...]
    """Paths of the hosts' network namespaces."""


def _arguments(links: Sequence[Link], seed: int) -> tuple[str, ...]:
    each = (f"{round(link.delay_ms * 1000)},{link.loss},{link.loss_back}" for link in links)
    return (str(seed), *each)


def _said(relay: subprocess.Popen[bytes], output: Path, errors: Path) -> str:
    """Return what the relay says when it is ready; NoNetworkError."""
    deadline = time.monotonic() + _READY_S
    while not (said := output.read_text()).endswith("ready\n"):
        interruption.check()
        if relay.poll() is not None or time.monotonic() > deadline:
            words = process.last_words(errors) or "the relay is not ready"
            raise NoNetworkError(words.removeprefix("relay: "))
        time.sleep(_TICK_S)
    return said


@contextlib.contextmanager
def far_hosts(
    relay: Path, links: Sequence[Link], seed: int, core: int, folder: Path
) -> Iterator[Network]:
    """Have a host at the end of each link for the length of a ``with`` block; NoNetworkError."""
    output, errors = folder / "relay.out", folder / "relay.err"
    argv = (str(relay), *_arguments(links, seed))
    try:
        with process.started(argv, core, output, errors) as child:
            said = _said(child, output, errors)
            server = re.findall(r"^server (\S+)$", said, re.MULTILINE)[0]
            spaces = re.findall(r"^host \S+ (\S+)$", said, re.MULTILINE)
            yield Network(child.pid, server, tuple(spaces))
    except OSError as error:
        raise NoNetworkError(f"{relay} cannot be run: {error.strerror}") from error


def refusal(relay: Path, core: int, folder: Path) -> str | None:
    """Return why hosts far away cannot be made here, None if they can."""
    try:
        with far_hosts(relay, (Link(1.0),), 0, core, folder):
            return None
    except NoNetworkError as error:
        return f"refused: {error}"
