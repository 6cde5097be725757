"""The toy servers of ``bench/toys``: one structure each, with just enough HTTP for one page."""

from pathlib import Path

from gossamer_lab.experiments.manifest import Program
from gossamer_lab.servers.server import Launch, Server, Site


def toy_server(toy: Program, programs: Path, version: str) -> Server:
    """Return a server that runs a toy, which binds a free port and prints its URL."""

    def configure(site: Site) -> Launch:
        return Launch((str(programs / toy.file), *toy.arguments, site.address))

    return Server(toy.name, not toy.package, toy.summary, version, configure)
