"""Measuring a server at a point, as the lab does it."""

from collections.abc import Callable

from gossamer_lab import measure
from gossamer_lab.experiment import Scale
from gossamer_lab.load import Generator
from gossamer_lab.program import Runner
from gossamer_lab.workshop import Workshop, paths_of

WARM_UP_S = 0.3


def nothing() -> None:
    """What is to be called meanwhile."""


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
