"""The toy servers of ``bench/toys``: one structure each, and no more of HTTP than one page."""

from pathlib import Path

from gossamer_lab.experiment import Program
from gossamer_lab.servers.server import Launch, Server, Site


def toy_server(toy: Program, programs: Path, version: str) -> Server:
    """Return a server that runs a toy, which takes a free port and announces it."""

    def configure(site: Site) -> Launch:
        return Launch((str(programs / toy.file), *toy.words, site.address))

    return Server(toy.name, not toy.package, toy.summary, version, configure)
