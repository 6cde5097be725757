"""What every server is to the lab: a way to configure it, to start it, and to end it."""

import contextlib
import http.client
import re
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab import interruption, process

_READY_S = 60.0
"""For the first answer, also on a machine that is busy with much else."""
_ANNOUNCEMENT = re.compile(r"^listening on (http://\S+)", re.MULTILINE)


class ServerFailedError(Exception):
    """A server did not start, did not answer rightly, or ended by itself; says why."""


@dataclass(frozen=True)
class Site:
    """The pages to serve, and a folder where a server may keep its own files."""

    root: Path
    folder: Path
    open_files: int
    """Limit on open files of one process."""
    address: str = "127.0.0.1"
    """Where servers listen."""


@dataclass(frozen=True)
class Launch:
    """How to start a server once: its command line and its configuration."""

    argv: tuple[str, ...]
    config: str = ""
    url: str | None = None
    """None for a server that takes a free port and announces it on its standard output."""


@dataclass(frozen=True)
class Server:
    """A server that can be measured."""

    name: str
    ours: bool
    summary: str
    version: str
    configure: Callable[[Site], Launch]
    """Chooses a free port, writes the configuration."""


@dataclass(frozen=True)
class Running:
    """A server that has answered."""

    pid: int
    url: str
    launch: Launch


def _announced_url(output: Path) -> str | None:
    """Return the address that the server has announced so far, if it has."""
    found = _ANNOUNCEMENT.search(output.read_text(errors="replace"))
    return found.group(1) if found else None


def _answers(url: str, path: str, size: int) -> bool:
    """Ask for the page; False if nobody answers yet, ServerFailedError if the answer is wrong."""
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=_READY_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        length = len(response.read())
    except ConnectionError:
        # Refused, or reset by one that is still at its preparations.
        return False
    except (OSError, http.client.HTTPException) as error:
        raise ServerFailedError(f"no answer to GET {path}: {error!r}") from error
    finally:
        connection.close()
    if (response.status, length) != (200, size):
        raise ServerFailedError(
            f"GET {path} gave {response.status} with {length} bytes instead of 200 with {size}"
        )
    return True


def _await_ready(
    running: subprocess.Popen[bytes], url: Callable[[], str | None], page: tuple[str, int]
) -> str:
    """Wait until the server answers with the page; return its address."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        interruption.check()
        if (status := running.poll()) is not None:
            raise ServerFailedError(f"ended with status {status} before it answered")
        address = url()
        if address and _answers(address, *page):
            return address
        time.sleep(0.01)
    raise ServerFailedError(f"did not answer within {_READY_S:.0f} s")


@contextlib.contextmanager
def serving(server: Server, site: Site, core: int, page: tuple[str, int]) -> Iterator[Running]:
    """Run a server for the length of a ``with`` block, from its first right answer to ``page``.

    A page is its path and its size. ServerFailedError tells why there was no such answer, with
    the last of the server's standard error.
    """
    output, errors = site.folder / f"{server.name}.out", site.folder / f"{server.name}.err"
    launch = server.configure(site)
    try:
        with process.started(launch.argv, core, output, errors) as child:
            url = _await_ready(child, lambda: launch.url or _announced_url(output), page)
            yield Running(child.pid, url, launch)
            if (status := child.poll()) is not None:
                raise ServerFailedError(f"ended with status {status} under load")
    except OSError as error:
        raise ServerFailedError(f"cannot be started: {error}") from error
    except ServerFailedError as error:
        words = process.last_words(errors)
        raise ServerFailedError(f"{error}\n{words}" if words else str(error)) from error
