"""The cost of --metrics: CPU time per request with and without the metrics page.

The page is read four times per second, far more often than by a monitoring system.
"""

import random
import sys
import urllib.request
from collections.abc import Callable
from functools import partial

from points import WARM_UP_S, do_nothing, generator
from results import Results, arguments

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point, Variant
from gossamer_lab.measuring.accounting import tree_cpu
from gossamer_lab.measuring.load import Load
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Server, serving

PAGE = "/metrics"
POINT = Point("128 connections", 305, 128, 0)
ARCHS = ("event", "user")
WITH = "with metrics"
MAX_RATIO = 1.05


def variants(arch: str) -> tuple[Variant, Variant]:
    """Return a server of the architecture without and with the page."""
    return (Variant(arch, arch), Variant(f"{arch} {WITH}", arch, ("--metrics", PAGE)))


def read(url: str) -> None:
    """Read the page once."""
    with urllib.request.urlopen(url + PAGE, timeout=10) as response:
        response.read()


def cost(workspace: Workspace, server: Server, seconds: float) -> float:
    """Return the CPU time per request in us; if there is a metrics page, it is read meanwhile."""
    with serving(
        server, workspace.site, workspace.server_core, (POINT.path, POINT.size)
    ) as running:
        tick: Callable[[], None] = do_nothing
        if server.name.endswith(WITH):
            tick = partial(read, running.url)
        load = generator(workspace, tick)
        load.run(Load(running.url, POINT, WARM_UP_S))
        before = tree_cpu(running.pid)
        report = load.run(Load(running.url, POINT, seconds))
        used = tree_cpu(running.pid) - before
    return used.total_s / float(report["requests"]) * 1e6


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    settings = arguments(__doc__ or "")
    results = Results()
    archs = [arch for arch in ARCHS if settings.only in arch]
    program = paths.program()
    with open_workspace(Experiment("metrics", "", (POINT,), (), ()), program) as workspace:
        servers = our_servers(program, tuple(v for arch in archs for v in variants(arch)))
        for _ in range(settings.rounds):
            for server in random.sample(servers, len(servers)):
                us = cost(workspace, server, settings.seconds)
                results.add_cost(f"{POINT.key}: CPU", server.name, us, "us per request")
    for arch in archs:
        results.limit(f"{POINT.key}: CPU", f"{arch} {WITH}", (arch,), MAX_RATIO)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
