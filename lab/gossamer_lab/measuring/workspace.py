"""The environment of a run: its temporary folder with the pages to serve, and its cores."""

import contextlib
import os
import resource
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring import fileset
from gossamer_lab.servers.server import Site


@dataclass(frozen=True)
class Workspace:
    """What the measurements of a run work with."""

    program: Path
    programs: Path
    """Folder of the programs that measure themselves."""
    site: Site
    server_core: int
    client_core: int

    @property
    def is_shared_core(self) -> bool:
        """Whether server and load generator share the only core."""
        return self.server_core == self.client_core


def page(size: int) -> bytes:
    """Return an HTML page of exactly that many bytes."""
    head = f"<!doctype html><title>{size} bytes</title><p>".encode()
    line = b"A page of known size, served again and again.\n"
    return (head + line * (size // len(line) + 1))[:size]


def paths_of(point: Point) -> tuple[str, ...]:
    """Return the paths that a point's clients request, in turn."""
    return fileset.requests(point.directories) if point.directories else (point.path,)


def two_cores() -> tuple[int, int]:
    """Return the cores for the server and for the load generator: equal if there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[min(1, len(allowed) - 1)]


@contextlib.contextmanager
def open_workspace(
    experiment: Experiment, program: Path, address: str = "127.0.0.1"
) -> Iterator[Workspace]:
    """Create the pages that an experiment requests; they are removed at the end.

    Servers listen at the address.

    The lab runs on the load generator's core meanwhile, so it never takes time from the server.
    """
    before = os.sched_getaffinity(0)
    server_core, client_core = two_cores()
    with tempfile.TemporaryDirectory(prefix="gossamer-lab-") as name:
        folder = Path(name)
        root = folder / "site"
        root.mkdir()
        for size in experiment.sizes:
            (root / f"page-{size}.html").write_bytes(page(size))
        if directories := max((point.directories for point in experiment.loads), default=0):
            fileset.make(root, directories)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        os.sched_setaffinity(0, {client_core})
        try:
            site = Site(root, folder, limit, address)
            yield Workspace(program, paths.programs(), site, server_core, client_core)
        finally:
            os.sched_setaffinity(0, before)
