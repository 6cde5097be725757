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
    shape = (len(POINTS), len(SERVERS), machine.rounds)
    truth_rng, rng = np.random.default_rng(seed), np.random.default_rng((seed, part))
    cost = truth_rng.uniform(2, 5, shape[:2]) + rng.normal(0, machine.run, shape[:2])
    cost += math.log(SLOWDOWN) * np.array([server == slower for server in SERVERS])
    varies = machine.round_ * np.exp(truth_rng.normal(0, 0.4, shape[:2]))[..., None]
    common = rng.normal(0, machine.drift, (shape[0], 1, shape[2]))
    raised = np.where(rng.random(shape) < machine.outliers, rng.exponential(0.1, shape), 0.0)
    contention = rng.exponential(machine.contention, shape)
    slow = common + _SERVER_SHARE * contention
    value = cost[..., None] + slow + varies * rng.normal(0, 1, shape) + raised
    client = common + varies * rng.normal(0, 1, shape) + contention
    loop = slow + rng.normal(0, machine.calibration or 0, shape)
    point, server, number = (axis.ravel() for axis in np.indices(shape))
    run = pl.DataFrame(
        {
            "round": number,
            "point": np.array(POINTS)[point],
            "server": np.array(SERVERS)[server],
            "failure": pl.Series([None] * point.size, dtype=pl.String),
            "invalid": pl.Series([None] * point.size, dtype=pl.String),
            "server_cpu_us_per_request": np.exp(value).ravel() * drift,
            "client_cpu_s": np.exp(client).ravel() * drift,
            "requests": np.full(point.size, 1000),
            "calibration_ns": np.exp(loop).ravel() * drift,
        }
    )
    return run.drop("calibration_ns") if machine.calibration is None else run
