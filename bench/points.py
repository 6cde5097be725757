"""Measuring a server at a point, as the lab does it."""

import math
from collections.abc import Callable
from pathlib import Path

from gossamer_lab import measure
from gossamer_lab.experiment import Scale, Variant
from gossamer_lab.load import Generator
from gossamer_lab.program import Runner
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Server
from gossamer_lab.workshop import Workshop, paths_of

WARM_UP_S = 0.3
ONE_AT_A_TIME = ("prefork", "pool", "queue")
"""Where a worker serves one connection, or waits for it, and no other meanwhile."""


def nothing() -> None:
    """What is to be called meanwhile."""


def architectures(program: Path, *words: str) -> list[Server]:
    """Return a server for each architecture, with further words, and for the queue's other way."""
    usual = [Variant(server.name, server.name, words) for server in our_servers(program)]
    free = Variant("nonblocking", "queue", ("--nonblocking", *words))
    return our_servers(program, (*usual, free))


def places_of(shop: Workshop, server: Server) -> float:
    """Return how many clients a running server serves at a time; any number, or one a worker."""
    if server.name not in ONE_AT_A_TIME:
        return math.inf
    said = (shop.site.folder / f"{server.name}.out").read_text()
    return float(said.rpartition(", ")[2].split()[0])


def generator(shop: Workshop, tick: Callable[[], None] = nothing) -> Generator:
    """Return the load generator, on the load's core; tick is called a few times a second."""
    return Generator(shop.program, shop.client_core, shop.site.folder, tick, paths_of)


def bench(shop: Workshop, seconds: float) -> measure.Bench:
    """Return what measurements of so many seconds need, after a short warm-up."""
    folder, core = shop.site.folder, shop.client_core
    return measure.Bench(
        site=shop.site,
        generator=generator(shop),
        server_core=shop.server_core,
        seconds=seconds,
        scale=Scale("bench", budget_s=0.0, warmup_s=WARM_UP_S, longest_s=seconds, rounds=1),
        soundness=None,
        server_share=None,
        runner=Runner(shop.programs, core, folder, is_realtime=False, tick=nothing),
    )
