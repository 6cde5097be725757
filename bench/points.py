"""Servers, load generators and settings for measurements like those of the lab."""

import math
from collections.abc import Callable
from pathlib import Path

from gossamer_lab.experiments.manifest import Scale, Variant
from gossamer_lab.measuring import measure
from gossamer_lab.measuring.load import Generator
from gossamer_lab.measuring.program import Runner
from gossamer_lab.measuring.workspace import Workspace, paths_of
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Server

WARM_UP_S = 0.3
ONE_AT_A_TIME = ("prefork", "pool", "queue")
"""Architectures in which a worker serves one connection at a time."""

BEHIND = ("chrt", "--idle", "0")
"""Runs a command that shares a core with another load and disturbs it little: at a low niceness,
the kernel would have the other process wait until this one's slice of some 3 ms has ended."""


def do_nothing() -> None:
    """Do nothing; the default of ``tick``."""


def architectures(program: Path, *options: str) -> list[Server]:
    """Return a server for each architecture with these options, and for queue --nonblocking."""
    variants = [Variant(server.name, server.name, options) for server in our_servers(program)]
    nonblocking = Variant("nonblocking", "queue", ("--nonblocking", *options))
    return our_servers(program, (*variants, nonblocking))


def max_concurrent_clients(workspace: Workspace, server: Server) -> float:
    """Return how many clients a running server serves at a time: one per worker, or infinity."""
    if server.name not in ONE_AT_A_TIME:
        return math.inf
    output = (workspace.site.folder / f"{server.name}.out").read_text()
    return float(output.rpartition(", ")[2].split()[0])


def generator(workspace: Workspace, tick: Callable[[], None] = do_nothing) -> Generator:
    """Return the load generator, on the client's core; it calls tick several times per second."""
    return Generator(
        workspace.program, workspace.client_core, workspace.site.folder, tick, paths_of
    )


def bench(workspace: Workspace, seconds: float) -> measure.MeasurementSetup:
    """Return the settings of measurements of this length, after a short warm-up."""
    folder, core = workspace.site.folder, workspace.client_core
    return measure.MeasurementSetup(
        site=workspace.site,
        generator=generator(workspace),
        server_core=workspace.server_core,
        seconds=seconds,
        scale=Scale("bench", budget_s=0.0, warmup_s=WARM_UP_S, max_load_s=seconds, rounds=1),
        validity_rules=None,
        server_share=None,
        runner=Runner(workspace.programs, core, folder, is_realtime=False, tick=do_nothing),
    )
