"""Section 2 of Are events fast?: the claims about tuning, before servers are compared.

Accept queues that overflow, the median against the mean, a page that is read from a file each time,
larger files. Each topic has points of its own, with the servers that it concerns.
"""

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import (
    Conditional,
    Every,
    Maximum,
    Mean,
    Named,
    Quantity,
    Ratio,
    Scatter,
    Slope,
    Where,
)
from gossamer_lab.experiments.manifest import ChartSpec, Point, Variant
from gossamer_lab.statistics.service_time import SERVICE

_X, _Y = "connections", SERVICE
_MEDIAN, _MEAN, _LONGEST = "total_p50_us", "servicing_us", "servicing_max_us"
_MEASURED = "measured_load"
_QUEUE, _UNLIMITED, _FILES, _LARGE = "queue", "unlimited", "files", "large"
_LARGE_PAGE = 102_400
_QUEUE_LOADS = (100, 250, 350, 450, 500, 600, 700, 850, 1000)
"""The residual scatter about a line is known only as well as the number of loads allows."""
_UNLIMITED_LOADS = (16, 64, 100)
_FILE_LOADS = (100, 250, 500, 750, 1000)
_MIN_S = {_QUEUE: 1.5, _UNLIMITED: 1.0, _FILES: 1.0, _LARGE: 1.0}
"""A SYN dropped by a full accept queue is retransmitted after a second. Comparisons of few, similar
servers need longer loads."""
_FROM_FILES = "event, from files"
_SHORT = ("thread-128", "event-128", "eager-128")
LONGER = "thread-1024"
_LONGER_LOADS = (100, 250, 500, 1000)
_UNLIMITED_SERVERS = ("toy-fork", "apache-prefork", "apache-worker")
"""Without a CPU limit all others are so fast that the load generator is the limit."""
_OVERLOADED: Where = (("topic", _QUEUE), (_X, _QUEUE_LOADS[1:]))

VARIANTS = (
    *(Variant(name, name.partition("-")[0], ("--backlog", "128")) for name in _SHORT),
    Variant(LONGER, "thread", ("--backlog", "1024")),
    Variant(_FROM_FILES, "event", ("--page-cache", "0")),
)
EXEMPT = (*_SHORT, LONGER)
"""Their measured load may fall short, because it is the subject of a claim."""


def _point(topic: str, load: int, servers: tuple[str, ...], size: int = 305) -> Point:
    return Point(
        f"{topic}-{load}",
        size,
        load,
        1,
        servers=servers,
        is_cpu_limited=topic != _UNLIMITED,
        topic=topic,
        min_s=_MIN_S[topic],
    )


def _queue_point(load: int) -> Point:
    return _point(_QUEUE, load, EXEMPT if load in _LONGER_LOADS else _SHORT)


POINTS = (
    *map(_queue_point, _QUEUE_LOADS),
    *(_point(_UNLIMITED, load, _UNLIMITED_SERVERS) for load in _UNLIMITED_LOADS),
    *(_point(_FILES, load, ("event", _FROM_FILES)) for load in _FILE_LOADS),
    *(_point(_LARGE, load, ("event", "user"), _LARGE_PAGE) for load in _FILE_LOADS),
)
AT_NORMAL = tuple(p.key for p in POINTS if p.key not in ("queue-100", "unlimited-64"))
"""Keys of the points measured at the normal scale."""


def _at(topic: str, load: int) -> Where:
    return (("topic", topic), (_X, load))


def _slope(name: str, topic: str) -> Quantity:
    return Slope(name, _X, _Y, (("topic", topic),))


def _median_and_mean(name: str) -> Quantity:
    where: Where = (("topic", _UNLIMITED),)
    means = Mean(name, _MEAN, where, ""), Mean(name, _MEDIAN, where, "")
    return Named(Ratio(*means), f"mean time of {name} / median")


def _overflowed(names: tuple[str, ...], quantity: Quantity) -> Quantity:
    """Return a quantity of the rounds in which the accept queue of each of these overflowed."""
    for name in names:
        count = Maximum(name, "accept_queue_overflows", _OVERLOADED, f"overflows of {name}")
        quantity = Conditional(count, 1, "no accept queue overflowed here", quantity)
    return quantity


def _scatters(name: str) -> Quantity:
    """Return how far a server's servicing times scatter, relative to those of the eager one."""
    ours = Scatter("eager-128", _X, _Y, _OVERLOADED)
    return _overflowed((name, "eager-128"), Ratio(Scatter(name, _X, _Y, _OVERLOADED), ours))


def _median_at(load: int) -> Quantity:
    """Return the median where the queue overflows, relative to that with a load of 250."""
    medians = (Mean("thread-128", _MEDIAN, _at(_QUEUE, n), "") for n in (load, 250))
    ratio = Named(Ratio(*medians), f"with a load of {load} / with 250")
    return _overflowed(("thread-128",), ratio)


_QUEUE_CLAIMS = (
    Claim(
        "short-queue-limits-load",
        "With an accept queue of 128 the measured load never exceeds about 130",
        "section 2, Figure 1(a)",
        "however large the offered load, the effective load never exceeded roughly 130",
        Every(
            tuple(
                Maximum(name, _MEASURED, _OVERLOADED, f"maximum measured load of {name}")
                for name in _SHORT
            ),
            "maximum measured load",
        ),
        holds_to=150.0,
        reading="at most 150; of answered requests, including the time to connect",
    ),
    Claim(
        "longer-queue-admits-all",
        "With an accept queue of 1024 the measured load reaches the offered load",
        "section 2, Figure 1(b)",
        "raising somaxconn to 1024 solves the problem",
        Mean(LONGER, _MEASURED, _at(_QUEUE, 1000), f"measured load of {LONGER} at 1000"),
        900.0,
        reading="at least 900 of 1000",
    ),
    Claim(
        "short-queue-keeps-the-median",
        "Above a load of 128, with an accept queue of 128, the median is constant",
        "section 2",
        "above that threshold, the median latency remained at a constant value of 50 ms",
        Every(tuple(map(_median_at, _QUEUE_LOADS[2:])), "median time of thread-128"),
        0.8,
        1.25,
        "within a quarter of that with a load of 250, with every larger load",
    ),
    Claim(
        "short-queue-makes-outliers",
        "Connections that a full accept queue drops are retried, and served much later than others",
        "section 2",
        "a small number of extreme outliers - requests that were being served in 200 ms or more",
        _overflowed(
            ("thread-128",),
            Maximum("thread-128", _LONGEST, _OVERLOADED, "longest time of thread-128, µs"),
        ),
        200_000.0,
        reading="the longest servicing time, also of those that still wait at the end",
    ),
    Claim(
        "short-queue-makes-the-mean-irregular",
        "With an accept queue of 128 and larger loads the mean is irregular and irreproducible",
        "section 2",
        "the average value became irregular and irreproducible",
        _overflowed(("thread-128",), Scatter("thread-128", _X, _Y, _OVERLOADED)),
        0.1,
        reading="single rounds scatter by at least a tenth about a line",
    ),
    Claim(
        "eager-is-regular",
        "If the accept queue overflows, a server that accepts eagerly into a queue of its own is "
        "far more regular than others",
        "section 4",
        "results when the accept queue did overflow were much more regular for thttpd than for the "
        "other servers, which shows the effect of a user-space accept queue",
        Every(tuple(map(_scatters, _SHORT[:2])), "ratio of scatters"),
        1.5,
        reading="single rounds of each of the others scatter at least 1.5 times as much about a "
        "line",
    ),
)

CLAIMS = (
    Claim(
        "median-is-mean",
        "Below a load of 128 the median and the mean of the service time coincide",
        "section 2",
        "below 128 simultaneous clients, the median and the average latency coincided",
        Every(tuple(map(_median_and_mean, _UNLIMITED_SERVERS)), "mean / median"),
        0.9,
        1.1,
        "within a tenth for each server, without a CPU limit, whose time slices would change the "
        "median; of servers that need more CPU time for a request than the client, which limits "
        "all others",
    ),
    *_QUEUE_CLAIMS,
    Claim(
        "preloading-is-slight",
        "Preloading the page into memory makes only a slight difference",
        "section 2",
        "preloading the served file into memory only caused a slight additive difference",
        Ratio(_slope(_FROM_FILES, _FILES), _slope("event", _FILES)),
        0.9,
        1.1,
        "slopes within a tenth",
    ),
    Claim(
        "large-files-agree",
        "With files of up to 100 kB events are as fast as threads, as with the small page",
        "section 2",
        "tests with differently sized files (up to 100 kB) confirmed the general thrust of our "
        "results",
        Ratio(_slope("event", _LARGE), _slope("user", _LARGE)),
        holds_to=1.05,
        reading="the slope of our event loop is at most 1.05 times that of our user-level threads",
    ),
)


def _chart(key: str, topic: str, title: str, caption: str, *, y: str = _Y) -> ChartSpec:
    is_load = y == "measured_load"
    return ChartSpec(
        key,
        title,
        caption,
        _X,
        y,
        "offered load, connections",
        "measured load" if is_load else "mean service time, µs",
        where=(("topic", topic),),
        has_fits=not is_load,
        has_diagonal=is_load,
    )


CHARTS = (
    _chart(
        "queue-load",
        _QUEUE,
        "Measured load against offered load, accept queues of 128 and 1024",
        "After Figure 1(a) and (b).",
        y="measured_load",
    ),
    _chart(
        "queue-time",
        _QUEUE,
        "Service time against load, accept queues of 128 and 1024",
        "After sections 2 and 4, which describe it without a figure. Includes the wait "
        "for a connection, and clients that still wait at the end.",
    ),
    _chart(
        "from-files",
        _FILES,
        "Service time against load, page in memory and read from a file",
        "After section 2, which describes it without a figure.",
    ),
    _chart(
        "large-files",
        _LARGE,
        "Service time against load, files of 100 kB",
        "After section 2, which describes it without a figure.",
    ),
)
