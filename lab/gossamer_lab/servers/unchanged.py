"""Servers of kernel threads, run by ``gossamer run`` on user-level threads."""

from dataclasses import replace
from pathlib import Path

from gossamer_lab.servers.server import Launch, Server, Site

_SUFFIX = ", run"


def by_run(server: Server, program: Path) -> Server:
    """Return the same server, its threads on user-level threads."""

    def configure(site: Site) -> Launch:
        launch = server.configure(site)
        return replace(launch, argv=(str(program), "run", *launch.argv))

    summary = f"{server.summary}; under gossamer run"
    return replace(
        server, name=server.name + _SUFFIX, ours=True, summary=summary, configure=configure
    )


def with_runs(servers: list[Server], names: tuple[str, ...], program: Path) -> list[Server]:
    """Return the servers, each of those named followed by the same one under ``gossamer run``."""
    return [
        one
        for server in servers
        for one in ((server, by_run(server, program)) if server.name in names else (server,))
    ]
