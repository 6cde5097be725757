"""The interface of a server: how to configure, start and stop it."""

import contextlib
import http.client
import os
import re
import ssl
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab.measuring import interruption, process

_READY_S = 60.0
"""Timeout of the first response, also on a busy machine."""
_ANNOUNCEMENT = re.compile(r"^listening on (https?://\S+)", re.MULTILINE)


class ServerFailedError(Exception):
    """A server did not start, gave a wrong response, or exited; the message says why."""


@dataclass(frozen=True)
class Site:
    """The pages to serve, and a folder for a server's own files."""

    root: Path
    folder: Path
    open_files: int
    """Limit on open files of a process."""
    address: str = "127.0.0.1"
    """Address that servers listen on."""
    certificate: Path | None = None
    """PEM file with a certificate and its key, for TLS; None: servers speak plain HTTP."""

    @property
    def scheme(self) -> str:
        """The scheme of the servers' URLs."""
        return "https" if self.certificate else "http"


@dataclass(frozen=True)
class Launch:
    """A server's command line and configuration for one start."""

    argv: tuple[str, ...]
    config: str = ""
    url: str | None = None
    """None for a server that binds a free port and prints its URL on standard output."""
    beside: tuple[tuple[str, ...], ...] = ()
    """Command lines of programs that the server needs, such as the server behind a proxy.

    They run on another core, and are not measured.
    """


@dataclass(frozen=True)
class Server:
    """A server that can be measured."""

    name: str
    ours: bool
    summary: str
    version: str
    configure: Callable[[Site], Launch]
    """Chooses a free port and writes the configuration."""
    max_tasks: int = 0
    """Limit on its threads and processes together; 0: the system's."""


@dataclass(frozen=True)
class Running:
    """A server that has given a correct response."""

    pid: int
    url: str
    launch: Launch


def _announced_url(output: Path) -> str | None:
    """Return the URL that the server has printed, if it has."""
    found = _ANNOUNCEMENT.search(output.read_text(errors="replace"))
    return found.group(1) if found else None


def connect(url: str) -> http.client.HTTPConnection:
    """Return a connection to the server of a URL; its certificate is not verified."""
    address = urllib.parse.urlsplit(url)
    host, port = str(address.hostname), address.port
    if address.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_READY_S)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(host, port, timeout=_READY_S, context=trusting)


def _answers(url: str, path: str, size: int) -> bool:
    """Request the page; False if the connection fails, ServerFailedError for a wrong response."""
    connection = connect(url)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        length = len(response.read())
    except ConnectionError:
        # Refused, or reset by a server that is still starting.
        return False
    except (OSError, http.client.HTTPException) as error:
        raise ServerFailedError(f"no response to GET {path}: {error!r}") from error
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
    """Wait until the server responds with the page; return its URL."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        interruption.check()
        if (status := running.poll()) is not None:
            raise ServerFailedError(f"exited with status {status} before its first response")
        address = url()
        if address and _answers(address, *page):
            return address
        time.sleep(0.01)
    raise ServerFailedError(f"no response within {_READY_S:.0f} s")


@contextlib.contextmanager
def _beside(launch: Launch, site: Site, core: int) -> Iterator[None]:
    """Run what a server needs for the duration of a ``with`` block, on another core if possible."""
    others = os.sched_getaffinity(0) - {core}
    with contextlib.ExitStack() as stack:
        for number, argv in enumerate(launch.beside):
            outputs = (site.folder / f"beside-{number}.{kind}" for kind in ("out", "err"))
            stack.enter_context(process.started(argv, min(others, default=core), *outputs))
        yield


@contextlib.contextmanager
def serving(server: Server, site: Site, core: int, page: tuple[str, int]) -> Iterator[Running]:
    """Run a server for the duration of a ``with`` block, from its first correct response on.

    `page` is a path with the size of its response. ServerFailedError says why there was no such
    response, with the end of the server's standard error.
    """
    output, errors = site.folder / f"{server.name}.out", site.folder / f"{server.name}.err"
    launch = server.configure(site)
    try:
        with (
            _beside(launch, site, core),
            process.started(launch.argv, core, output, errors) as child,
        ):
            url = _await_ready(child, lambda: launch.url or _announced_url(output), page)
            yield Running(child.pid, url, launch)
            if (status := child.poll()) is not None:
                raise ServerFailedError(f"exited with status {status} under load")
    except OSError as error:
        raise ServerFailedError(f"cannot be started: {error}") from error
    except ServerFailedError as error:
        words = process.stderr_tail(errors)
        raise ServerFailedError(f"{error}\n{words}" if words else str(error)) from error
