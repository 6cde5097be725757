"""Our own server, once for each of its architectures."""

import re
import subprocess
from functools import partial
from pathlib import Path

from gossamer_lab.servers.server import Launch, Server, ServerFailedError, Site

_COLUMNS = re.compile(r"\t+|\s{2,}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def parse_arch_list(text: str) -> dict[str, str]:
    """Return name and summary of each architecture in the text of ``serve --arch list``.

    One a line; the name first, then the summary; columns stand apart by a tab or several spaces.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, *rest = _COLUMNS.split(line.strip())
        if _NAME.fullmatch(name) and name != "name":
            found[name] = rest[0] if rest else ""
    return found


def _configure(program: Path, arch: str, site: Site) -> Launch:
    """Serve the site with one worker on a free port, which the server announces."""
    options = ("--arch", arch, "--workers", "1", "--listen", "127.0.0.1:0")
    return Launch((str(program), "serve", *options, str(site.root)))


def our_servers(program: Path) -> list[Server]:
    """Return a server for each architecture; ServerFailedError if the program lists none."""
    try:
        listing = subprocess.run(
            (str(program), "serve", "--arch", "list"),
            check=False,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerFailedError(f"{program} cannot be run: {error}") from error
    architectures = parse_arch_list(listing.stdout)
    if listing.returncode != 0 or not architectures:
        raise ServerFailedError(
            f"{program} serve --arch list names no architecture: {listing.stderr.strip()}"
        )
    return [
        Server(name, True, summary, "this checkout", partial(_configure, program, name))
        for name, summary in architectures.items()
    ]
