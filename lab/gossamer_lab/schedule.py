"""The order of the measurements, and the time each may take."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gossamer_lab.experiment import Case, Point, Scale

STEP_OVERHEAD_S = 0.3
"""What a measurement costs beside warm-up and load: starts and ends of the processes."""
SHORTEST_S = 0.3


@dataclass(frozen=True)
class Step:
    """One measurement of one server at one point."""

    order: int
    round: int
    point: Point | Case
    server: str
    """The server, or the program, that is measured."""


def _always(_point: Point | Case, _server: str) -> bool:
    return True


def interleaved(
    points: Sequence[Point | Case],
    servers: Sequence[str],
    rounds: int,
    seed: int,
    takes_part: Callable[[Point | Case, str], bool] = _always,
) -> list[Step]:
    """Return the steps of a run, so that slow drift of the machine meets all servers alike.

    A point's servers follow each other directly, in random order. Every second round mirrors the
    one before it (A B, then B A), so that a linear drift cancels out of each server's mean.
    """
    dice = random.Random(seed)
    steps: list[Step] = []
    pairs: list[tuple[Point | Case, str]] = []
    for number in range(1, rounds + 1):
        if number % 2 == 1:
            pairs = [
                (point, server)
                for point in dice.sample(points, len(points))
                for server in dice.sample(servers, len(servers))
                if takes_part(point, server)
            ]
        else:
            pairs = pairs[::-1]
        steps += [
            Step(len(steps) + i, number, point, server) for i, (point, server) in enumerate(pairs)
        ]
    return steps


def seconds_each(scale: Scale, least: Sequence[float]) -> float:
    """Return how long each load may last within the scale's budget, but those that need more.

    There is a load for each measurement; what it lasts at the least is given.
    """
    left_s = scale.budget_s - len(least) * (scale.warmup_s + STEP_OVERHEAD_S)
    lengths = sorted(least, reverse=True)
    share = left_s / max(len(least), 1)
    for others, needed in zip(range(len(least) - 1, 0, -1), lengths, strict=False):
        if needed <= share:
            break
        left_s -= needed
        share = left_s / others
    return round(min(max(share, SHORTEST_S), scale.longest_s), 2)
