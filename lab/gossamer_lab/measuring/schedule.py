"""The order of the measurements, and the time for each."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gossamer_lab.experiments.manifest import Case, Point, Scale

STEP_OVERHEAD_S = 0.3
"""Time of a measurement besides warm-up and load: starting and stopping the processes."""
MIN_LOAD_S = 0.3


@dataclass(frozen=True)
class Step:
    """One measurement of one server at one point."""

    order: int
    round: int
    point: Point | Case
    server: str
    """Name of the measured server or program."""


def _always(_point: Point | Case, _server: str) -> bool:
    return True


def interleaved(
    points: Sequence[Point | Case],
    servers: Sequence[str],
    rounds: int,
    seed: int,
    is_measured: Callable[[Point | Case, str], bool] = _always,
) -> list[Step]:
    """Return the steps of a run, ordered so that drift of the machine affects all servers equally.

    The servers of a point are measured one directly after another, in random order. Every second
    round mirrors the previous one (A B, then B A), so that a linear drift cancels out in each
    server's mean.
    """
    rng = random.Random(seed)
    steps: list[Step] = []
    pairs: list[tuple[Point | Case, str]] = []
    for number in range(1, rounds + 1):
        if number % 2 == 1:
            pairs = [
                (point, server)
                for point in rng.sample(points, len(points))
                for server in rng.sample(servers, len(servers))
                if is_measured(point, server)
            ]
        else:
            pairs = pairs[::-1]
        steps += [
            Step(len(steps) + i, number, point, server) for i, (point, server) in enumerate(pairs)
        ]
    return steps


def seconds_per_load(scale: Scale, minimums: Sequence[float]) -> float:
    """Return the duration of a load that fits the scale's budget, unless a load needs more.

    `minimums` holds the minimum duration of each measurement's load.
    """
    if scale.load_s:
        return scale.load_s
    left_s = scale.budget_s - len(minimums) * (scale.warmup_s + STEP_OVERHEAD_S)
    lengths = sorted(minimums, reverse=True)
    share = left_s / max(len(minimums), 1)
    for others, needed in zip(range(len(minimums) - 1, 0, -1), lengths, strict=False):
        if needed <= share:
            break
        left_s -= needed
        share = left_s / others
    return round(min(max(share, MIN_LOAD_S), scale.max_load_s), 2)
