"""Runs of simulated machines: figures whose truth is known, and how they vary."""

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gossamer_lab.experiments.are_events_fast import ARE_EVENTS_FAST

SERVERS = tuple(f"server-{i}" for i in range(12))
POINTS = tuple(f"load-{x}" for x in (1, 100, 400, 700, 1000))
ROUNDS = ARE_EVENTS_FAST.scale("normal").rounds
SLOWDOWN = 1.1
_OF_NEIGHBOURS = 0.75
"""Part of what makes a client slower that makes its server slower, too."""


@dataclass(frozen=True)
class Machine:
    """How figures vary: all are standard deviations of logarithms."""

    round_: float = 0.02
    """Of a figure between rounds, in the mean of all figures: some vary more, others less."""
    drift: float = 0.03
    """Of all subjects of a point together, between rounds."""
    run: float = 0.0
    """Of a figure between runs."""
    rounds: int = ROUNDS
    disturbed: float = 0.0
    """How many figures in a hundred something else has raised, by a tenth in the mean."""
    neighbours: float = 0.0
    """Of what makes a server and its client slower, for a single measurement."""
    beat: float | None = None
    """Of the metronome's beats, beside what makes the server slower; None: there is none."""


QUIET = Machine()
BUSY = Machine(round_=0.025, drift=0.05, run=0.007, disturbed=0.1)
SHARED = Machine(round_=0.025, drift=0.05, neighbours=0.1)
BRAKED = replace(SHARED, beat=0.01)


def frame(
    machine: Machine, seed: int, part: int, slower: str = "", drift: float = 1.0
) -> pl.DataFrame:
    """Return a run: the seed sets its figures, with the part how they vary."""
    rounds = machine.rounds
    truth, dice = np.random.default_rng(seed), np.random.default_rng((seed, part))
    pulse = np.random.default_rng((seed, part, 1))
    rows = []
    for point in POINTS:
        common = dice.normal(0, machine.drift, rounds)
        for server in SERVERS:
            cost, varies = truth.uniform(2, 5), machine.round_ * math.exp(truth.normal(0, 0.4))
            cost += dice.normal(0, machine.run) + (math.log(SLOWDOWN) if server == slower else 0)
            for number in range(rounds):
                raised = dice.exponential(0.1) if dice.random() < machine.disturbed else 0.0
                slower_by = dice.exponential(machine.neighbours)
                value = cost + common[number] + dice.normal(0, varies) + raised
                cpu_us = math.exp(value + _OF_NEIGHBOURS * slower_by) * drift
                client_s = math.exp(common[number] + dice.normal(0, varies) + slower_by) * drift
                slow = common[number] + _OF_NEIGHBOURS * slower_by
                beat_ns = math.exp(slow + pulse.normal(0, machine.beat or 0)) * drift
                rows.append((number, point, server, None, None, cpu_us, client_s, 1000, beat_ns))
    names = ("round", "point", "server", "failure", "void", "server_cpu_us_per_request")
    names += ("client_cpu_s", "requests", "beat_ns")
    words, numbers = (pl.String,) * 4, (pl.Float64, pl.Float64, pl.Int64, pl.Float64)
    kinds = (pl.Int64, *words, *numbers)
    run = pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")
    return run.drop("beat_ns") if machine.beat is None else run
