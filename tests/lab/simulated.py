"""Runs of simulated machines: values whose distribution is known."""

import math
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from gossamer_lab.experiments.are_events_fast import ARE_EVENTS_FAST

SERVERS = tuple(f"server-{i}" for i in range(12))
POINTS = tuple(f"load-{x}" for x in (1, 100, 400, 700, 1000))
ROUNDS = ARE_EVENTS_FAST.scale("normal").rounds
SLOWDOWN = 1.1
_SERVER_SHARE = 0.75
"""The share of a client's contention that also slows down its server."""


@dataclass(frozen=True)
class Machine:
    """Variability of the values: standard deviations of logarithms."""

    round_: float = 0.02
    """Between rounds, of one value; this is an average, and values differ."""
    drift: float = 0.03
    """Between rounds, of all subjects of a point together."""
    run: float = 0.0
    """Between runs, of one value."""
    rounds: int = ROUNDS
    outliers: float = 0.0
    """Share of values with a positive outlier of 10 % on average."""
    contention: float = 0.0
    """Within a single measurement: contention that slows down a server and its client."""
    calibration: float | None = None
    """Of the calibration loop, in addition to what slows down the server; None: no calibration."""


QUIET = Machine()
BUSY = Machine(round_=0.025, drift=0.05, run=0.007, outliers=0.1)
SHARED = Machine(round_=0.025, drift=0.05, contention=0.1)
CPU_LIMITED = replace(SHARED, calibration=0.01)


def frame(
    machine: Machine, seed: int, part: int, slower: str = "", drift: float = 1.0
) -> pl.DataFrame:
    """Return a run: the seed determines the true values, and with `part` the random errors."""
    rounds = machine.rounds
    truth_rng, rng = np.random.default_rng(seed), np.random.default_rng((seed, part))
    loop_rng = np.random.default_rng((seed, part, 1))
    rows = []
    for point in POINTS:
        common = rng.normal(0, machine.drift, rounds)
        for server in SERVERS:
            cost, varies = (
                truth_rng.uniform(2, 5),
                machine.round_ * math.exp(truth_rng.normal(0, 0.4)),
            )
            cost += rng.normal(0, machine.run) + (math.log(SLOWDOWN) if server == slower else 0)
            for number in range(rounds):
                raised = rng.exponential(0.1) if rng.random() < machine.outliers else 0.0
                contention = rng.exponential(machine.contention)
                value = cost + common[number] + rng.normal(0, varies) + raised
                cpu_us = math.exp(value + _SERVER_SHARE * contention) * drift
                client_s = math.exp(common[number] + rng.normal(0, varies) + contention) * drift
                slow = common[number] + _SERVER_SHARE * contention
                calibration_ns = (
                    math.exp(slow + loop_rng.normal(0, machine.calibration or 0)) * drift
                )
                rows.append(
                    (number, point, server, None, None, cpu_us, client_s, 1000, calibration_ns)
                )
    names = ("round", "point", "server", "failure", "invalid", "server_cpu_us_per_request")
    names += ("client_cpu_s", "requests", "calibration_ns")
    strings, numbers = (pl.String,) * 4, (pl.Float64, pl.Float64, pl.Int64, pl.Float64)
    kinds = (pl.Int64, *strings, *numbers)
    run = pl.DataFrame(rows, schema=dict(zip(names, kinds, strict=True)), orient="row")
    return run.drop("calibration_ns") if machine.calibration is None else run
