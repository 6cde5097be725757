"""``overload``: the controllers of our staged server under more load than its capacity.

A test of our stages with the parameters of SEDA's controllers, not one of the documents: all claims
are ours.
"""

import math

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import Maximum, Mean, Quantity, Ratio, Share, Where
from gossamer_lab.experiments.manifest import (
    ChartSpec,
    Experiment,
    OpenLoopPoint,
    Scale,
    Variant,
)

_PAGE, _METRICS, _COST_MS = "/bottleneck", "/metrics", 41
TARGET_S = 1.0
_OPTIONS = ("--bottleneck", f"{_PAGE}={_COST_MS}", "--metrics", _METRICS)
_ADMIT = ("--admission", f"{TARGET_S:g}s")
_BELOW, _AT, _TWICE = 0.5, 1.0, 2.0
_X = "load_factor"
_MOST_OPEN = 4096
_ALL, ADMISSION, _FIXED = "all admitted", "admission", "admission, 20 threads"


def _load(load_factor: float, duration_factor: float, *servers: str) -> OpenLoopPoint:
    return OpenLoopPoint(
        key=f"load-{load_factor:g}",
        size=305,
        connections=_MOST_OPEN,
        requests_per_connection=1,
        servers=servers,
        probe=Variant("probe", "stage", _OPTIONS),
        page=_PAGE,
        metrics=_METRICS,
        load_factor=load_factor,
        duration_factor=duration_factor,
    )


TWICE = _load(_TWICE, 1.0)


def _at(load_factor: float) -> Where:
    return ((_X, load_factor),)


def _worst(name: str) -> Quantity:
    """Return the maximum of the windows' 90th percentiles at twice the saturation rate."""
    return Maximum(
        name,
        "worst_p90_s",
        _at(_TWICE),
        f"worst 90th percentile of {name} in a sixth of a load, s",
    )


def _of(name: str, column: str, load_factor: float, words: str) -> Quantity:
    return Maximum(name, column, _at(load_factor), words)


def _claim(
    key: str, text: str, quantity: Quantity, limits: tuple[float, float], reading: str
) -> Claim:
    """Return a claim of ours on one of the controllers."""
    return Claim(key, text, "ours", "", quantity, *limits, reading)


_CLAIMS = (
    _claim(
        "admission-keeps-the-target",
        "At twice the saturation rate the admission controller keeps the 90th percentile of the "
        "response time of accepted requests near its target",
        _worst(ADMISSION),
        (-math.inf, 1.2 * TARGET_S),
        "at most 1.2 times the target, above which it reacts, in each sixth of a load after its "
        "first half",
    ),
    _claim(
        "without-admission-times-grow",
        "Without admission control response times grow as long as the overload lasts",
        _worst(_ALL),
        (1.2 * TARGET_S, math.inf),
        "beyond 1.2 times the target",
    ),
    _claim(
        "throughput-does-not-collapse",
        "A server that rejects requests keeps its throughput",
        Ratio(
            _of(ADMISSION, "accepted_per_s", _TWICE, f"rate accepted by {ADMISSION}"),
            _of(ADMISSION, "saturation_per_s", _TWICE, "saturation rate"),
        ),
        (0.8, math.inf),
        "at least 0.8 of the saturation rate",
    ),
    _claim(
        "rejections-are-answered",
        "Rejected requests get a response: no request is left without one",
        Share(ADMISSION, "unanswered", _at(_TWICE), f"share unanswered by {ADMISSION}"),
        (-math.inf, 0.01),
        "99 of 100 requests, of those sent in the first half of a load, get a response until its "
        "end",
    ),
    _claim(
        "rejections-are-quick",
        "A rejection takes little time",
        _of(ADMISSION, "rejection_p90_s", _TWICE, f"90th percentile of {ADMISSION}'s rejections"),
        (-math.inf, 0.2 * TARGET_S),
        "90 of 100 are within a fifth of the target",
    ),
    _claim(
        "half-the-load-is-admitted",
        "Well below saturation the admission controller rejects almost no request",
        _of(
            ADMISSION,
            "rejected_share",
            _BELOW,
            f"share rejected by {ADMISSION}, half the saturation rate",
        ),
        (-math.inf, 0.05),
        "at most one in twenty at half the saturation rate",
    ),
    _claim(
        "the-pool-grows",
        "The thread-pool controller gives a stage more threads as its queue grows",
        Ratio(
            _of(
                _ALL, "max_threads", _TWICE, f"maximum threads of {_ALL}, twice the saturation rate"
            ),
            _of(_ALL, "max_threads", _BELOW, "half of it"),
        ),
        (4.0, math.inf),
        "at least four times as many at twice the saturation rate as at half of it",
    ),
    _claim(
        "the-pool-costs-nothing",
        "A dynamic thread pool accepts as many requests as a fixed pool of 20 threads",
        Ratio(
            Mean(ADMISSION, "accepted_per_s", _at(_TWICE), f"rate accepted by {ADMISSION}"),
            Mean(_FIXED, "accepted_per_s", _at(_TWICE), f"by {_FIXED}"),
        ),
        (0.8, 1.25),
        "within a fifth",
    ),
)


def _over_time(key: str, title: str, y: str, y_title: str, *, is_log: bool = False) -> ChartSpec:
    return ChartSpec(
        key,
        f"{title} over time, at twice the saturation rate",
        "Means over the rounds, for each thirtieth of a load. Requests without a response count "
        "with their wait so far.",
        "time_s",
        y,
        "time since the start of the load, s",
        y_title,
        where=_at(_TWICE),
        log_y=is_log,
        is_over_time=True,
    )


def _against_load(key: str, title: str, y: str, y_title: str) -> ChartSpec:
    return ChartSpec(
        key,
        f"{title} against the load",
        "For the second half of each load, after the controllers have settled.",
        _X,
        y,
        "offered load, as a multiple of the saturation rate",
        y_title,
    )


OVERLOAD = Experiment(
    name="overload",
    summary=f"Response times, rejections and queues of a page of {_COST_MS} ms, from half to twice "
    "the saturation rate, with and without the controllers of staged servers",
    points=(
        _load(_BELOW, 1 / 3, _ALL, ADMISSION),
        _load(_AT, 1 / 3, _ALL, ADMISSION),
        TWICE,
    ),
    scales=(
        Scale(
            "smoke",
            budget_s=45.0,
            warmup_s=0.6,
            max_load_s=2.5,
            rounds=2,
            points=("load-0.5", "load-2"),
        ),
        Scale("normal", budget_s=1400.0, warmup_s=3.0, max_load_s=60.0, rounds=3),
        Scale("paper", budget_s=17_200.0, warmup_s=6.0, max_load_s=300.0, rounds=8),
    ),
    architectures=(
        Variant(_ALL, "stage", _OPTIONS),
        Variant(ADMISSION, "stage", (*_OPTIONS, *_ADMIT)),
        Variant(_FIXED, "stage", (*_OPTIONS, *_ADMIT, "--controllers", "none")),
    ),
    claims=_CLAIMS,
    charts=(
        _over_time("p90", "90th percentile of response times", "p90_s", "s (log)", is_log=True),
        _over_time("accepted", "Accepted requests", "accepted_per_s", "responses 200 per second"),
        _over_time("rejected", "Rejected requests", "rejected_per_s", "responses 503 per second"),
        _over_time("queue", "Requests in the queue of the stage", "queue", "requests"),
        _over_time("threads", "Threads of the stage", "threads", "threads"),
        _against_load("p90-load", "Worst 90th percentile", "worst_p90_s", "s"),
        _against_load("accepted-load", "Accepted requests", "accepted_per_s", "per second"),
        _against_load("rejected-load", "Rejected requests", "rejected_share", "share of requests"),
    ),
    notes=(
        "Just before each measurement four closed-loop clients saturate a server without admission "
        "control on the same core. Their throughput, the saturation rate, is the unit of the "
        "load, so that a change in the machine's speed affects all servers equally. It replaces "
        "a warm-up.",
        "A test of our stages with the parameters of SEDA's controllers (Welsh, Culler and Brewer "
        "2001); no document publishes these figures.",
        "Requests are sent at random times, each over a new connection, by gossamer load "
        "--rate --poisson.",
        f"The target is {TARGET_S:g} s, where the suite's was 5 s, so that a minute is enough to "
        "observe the controller; its other parameters are the suite's. A stage also rejects "
        "requests that would be late at its current rate, which the suite's did not.",
        "The batching controller has no effect here: the overloaded stage processes one request "
        "at a time, since each is long.",
    ),
)
