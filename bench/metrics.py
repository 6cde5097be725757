"""What --metrics costs: processor time a request with the page, which somebody reads, and without.

The page is read four times a second, which is far more often than anybody would.
"""

import random
import sys
import urllib.request
from collections.abc import Callable
from functools import partial

from figures import Figures, arguments
from points import WARM_UP_S, generator, nothing

from gossamer_lab import paths
from gossamer_lab.accounting import family_cpu
from gossamer_lab.experiment import Experiment, Point, Variant
from gossamer_lab.load import Load
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Server, serving
from gossamer_lab.workshop import Workshop, workshop

PAGE = "/metrics"
POINT = Point("128 connections", 305, 128, 0)
ARCHS = ("event", "user")
WITH = "with metrics"
MOST = 1.05


def variants(arch: str) -> tuple[Variant, Variant]:
    """Return a server of the architecture, and one with the page."""
    return (Variant(arch, arch), Variant(f"{arch} {WITH}", arch, ("--metrics", PAGE)))


def read(url: str) -> None:
    """Read the page once."""
    with urllib.request.urlopen(url + PAGE, timeout=10) as answer:
        answer.read()


def cost(shop: Workshop, server: Server, seconds: float) -> float:
    """Return its processor time in us a request, with the page read meanwhile if it has it."""
    with serving(server, shop.site, shop.server_core, (POINT.path, POINT.size)) as running:
        tick: Callable[[], None] = nothing
        if server.name.endswith(WITH):
            tick = partial(read, running.url)
        load = generator(shop, tick)
        load.run(Load(running.url, POINT, WARM_UP_S))
        before = family_cpu(running.pid)
        report = load.run(Load(running.url, POINT, seconds))
        used = family_cpu(running.pid) - before
    return used.total_s / float(report["requests"]) * 1e6


def main() -> int:
    """Measure all; 1 if the page costs more than it may."""
    settings = arguments(__doc__ or "")
    figures = Figures()
    archs = [arch for arch in ARCHS if settings.only in arch]
    program = paths.program()
    with workshop(Experiment("metrics", "", (POINT,), (), ()), program) as shop:
        servers = our_servers(program, tuple(v for arch in archs for v in variants(arch)))
        for _ in range(settings.rounds):
            for server in random.sample(servers, len(servers)):
                us = cost(shop, server, settings.seconds)
                figures.add_cost(f"{POINT.key}: CPU", server.name, us, "us a request")
    for arch in archs:
        figures.limit(f"{POINT.key}: CPU", f"{arch} {WITH}", (arch,), MOST)
    return figures.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
