"""Our server, once for each of its architectures."""

import re
import subprocess
from functools import partial
from pathlib import Path

from gossamer_lab.experiments.manifest import Variant
from gossamer_lab.servers.server import Launch, Server, ServerFailedError, Site

_COLUMNS = re.compile(r"\t+|\s{2,}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_LISTING_S = 60.0


def parse_arch_list(text: str) -> dict[str, str]:
    """Return name and summary of each architecture in the output of ``serve --arch list``.

    One architecture per line: the name, then the summary; columns are separated by a tab or several
    spaces.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, *rest = _COLUMNS.split(line.strip())
        if _NAME.fullmatch(name) and name != "name":
            found[name] = rest[0] if rest else ""
    return found


_ONE_CONNECTION_PER_WORKER = ("prefork", "pool", "queue")
"""Architectures whose workers serve one connection at a time; they get several workers."""


def _configure(program: Path, variant: Variant, site: Site) -> Launch:
    """Serve the site on a free port, which the server announces; with one worker, or several."""
    workers = () if variant.arch in _ONE_CONNECTION_PER_WORKER else ("--workers", "1")
    # All on the same poller, so that they differ in nothing but the architecture.
    poller = () if "--poller" in variant.options else ("--poller", "epoll")
    address = f"{site.address}:0"
    listen: tuple[str, ...] = ("--listen", address)
    if site.certificate:
        listen = ("--listen", f"https://{address}", "--certificate", str(site.certificate))
    options = ("--arch", variant.arch, *poller, *workers, *listen)
    limit = ("prlimit", f"--nofile={variant.open_files}") if variant.open_files else ()
    max_connections = (variant.open_files or site.open_files) * 9 // 10
    connection_limit = (
        ("--max-connections", str(max_connections)) if variant.raises_max_connections else ()
    )
    command = (*limit, str(program), "serve", *options, *connection_limit, *variant.options)
    return Launch((*command, str(site.root)))


def our_servers(program: Path, wanted: tuple[Variant, ...] | None = None) -> list[Server]:
    """Return a server for each variant whose architecture exists; None: each architecture.

    ServerFailedError if the program lists no architecture at all.
    """
    try:
        listing = subprocess.run(
            (str(program), "serve", "--arch", "list"),
            check=False,
            capture_output=True,
            text=True,
            timeout=_LISTING_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerFailedError(f"{program} cannot be run: {error}") from error
    architectures = parse_arch_list(listing.stdout)
    if listing.returncode != 0 or not architectures:
        raise ServerFailedError(
            f"{program} serve --arch list names no architecture: {listing.stderr.strip()}"
        )
    every = tuple(Variant(name, name) for name in architectures)
    variants = every if wanted is None else wanted
    return [
        Server(
            variant.name,
            True,
            " ".join((architectures[variant.arch], *variant.options)),
            "this checkout",
            partial(_configure, program, variant),
            variant.max_tasks,
        )
        for variant in variants
        if variant.arch in architectures
    ]
