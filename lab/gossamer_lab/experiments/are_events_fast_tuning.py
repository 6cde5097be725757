"""Section 2 of Are events fast?: the claims about tuning, before servers are compared.

Accept queues that overflow, the median against the mean, a page that is read from a file each time,
larger files. Each topic has points of its own, with the servers that it concerns.
"""

from gossamer_lab.claims import (
    Claim,
    Conditional,
    Extreme,
    Maximum,
    Mean,
    Quantity,
    Ratio,
    RelativeRmse,
    Slope,
    Where,
)
from gossamer_lab.experiment import ChartSpec, Point, Variant
from gossamer_lab.service_time import SERVICE

_X, _Y = "connections", SERVICE
_MEDIAN = "response_p50_us"
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
_UNLIMITED_SERVERS = (
    *("toy-fork", "toy-kernel", "toy-pth", "toy-user", "nginx", "lighttpd"),
    *("apache-prefork", "apache-worker"),
)
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
    return Ratio(
        Mean(name, _Y, where, f"mean time of {name}"),
        Mean(name, _MEDIAN, where, "median of the same"),
    )


def _overflowed(names: tuple[str, ...], quantity: Quantity) -> Quantity:
    """Return a quantity of the rounds in which the accept queue of each of these overflowed."""
    counts = tuple(
        Maximum(name, "accept_queue_overflows", _OVERLOADED, f"overflows of {name}")
        for name in names
    )
    fewest = Extreme("min", counts, "minimum of overflows", len(names))
    return Conditional(fewest, 1, "no accept queue overflowed here", quantity)


def _highest_load(name: str) -> Quantity:
    where: Where = (("topic", _QUEUE),)
    return Maximum(name, "measured_load", where, f"measured load of {name}")


_QUEUE_CLAIMS = (
    Claim(
        "short-queue-limits-load",
        "With an accept queue of 128 the measured load never exceeds about 130",
        "section 2, Figure 1(a)",
        "about 130, however large the offered load; here at most 150",
        Extreme(
            "max",
            tuple(map(_highest_load, _SHORT)),
            "maximum measured load with a queue of 128",
            len(_SHORT),
        ),
        holds_to=150.0,
    ),
    Claim(
        "longer-queue-admits-all",
        "With an accept queue of 1024 the measured load reaches the offered load",
        "section 2, Figure 1(b)",
        "it solves the problem; here at least 900 of 1000",
        Mean(LONGER, "measured_load", _at(_QUEUE, 1000), f"measured load of {LONGER} at 1000"),
        holds_from=900.0,
    ),
    Claim(
        "short-queue-keeps-the-median",
        "Above a load of 128, with an accept queue of 128, the median is constant",
        "section 2",
        "constant at 50 ms; here within a quarter between loads of 250 and 1000",
        _overflowed(
            ("thread-128",),
            Ratio(
                Mean("thread-128", _MEDIAN, _at(_QUEUE, 1000), "median of thread-128 at 1000"),
                Mean("thread-128", _MEDIAN, _at(_QUEUE, 250), "at 250"),
            ),
        ),
        holds_from=0.8,
        holds_to=1.25,
    ),
    Claim(
        "short-queue-makes-outliers",
        "Connections that a full accept queue drops are retried, and served much later than others",
        "section 2",
        "a few requests of 200 ms or more; here the longest wait for a connection or a response",
        _overflowed(
            ("thread-128",),
            Extreme(
                "max",
                tuple(
                    Maximum("thread-128", f"{wait}_max_wait_us", _OVERLOADED, f"longest {wait}")
                    for wait in ("connect", "response")
                ),
                "longest connect or response of thread-128, µs",
                2,
            ),
        ),
        holds_from=200_000.0,
    ),
    Claim(
        "eager-is-regular",
        "If the accept queue overflows, a server that accepts eagerly into a queue of its own is "
        "far more regular than others",
        "section 4",
        "thttpd was much more regular; here the scatter of others is at least 1.5 times as large",
        _overflowed(
            _SHORT,
            Ratio(
                Extreme(
                    "min",
                    tuple(RelativeRmse(name, _X, _Y, _OVERLOADED) for name in _SHORT[:2]),
                    "minimum relative RMSE of thread-128 and event-128 about their linear fits",
                    2,
                ),
                RelativeRmse("eager-128", _X, _Y, _OVERLOADED),
            ),
        ),
        holds_from=1.5,
    ),
)

CLAIMS = (
    Claim(
        "median-is-mean",
        "Below a load of 128 the median and the mean of the service time coincide",
        "section 2",
        "they coincided; here within a tenth, for the server with the largest difference",
        Extreme(
            "max",
            tuple(map(_median_and_mean, _UNLIMITED_SERVERS)),
            "maximum mean / median of all servers, without a CPU limit",
            2,
        ),
        holds_from=0.9,
        holds_to=1.1,
    ),
    *_QUEUE_CLAIMS,
    Claim(
        "preloading-is-slight",
        "Preloading the page into memory makes only a slight difference",
        "section 2",
        "a slight additive difference; here within a tenth",
        Ratio(_slope(_FROM_FILES, _FILES), _slope("event", _FILES)),
        holds_from=0.9,
        holds_to=1.1,
    ),
    Claim(
        "large-files-agree",
        "With files of up to 100 kB events are as fast as threads, as with the small page",
        "section 2",
        "the general result was confirmed; here our event loop and our user-level threads",
        Ratio(_slope("event", _LARGE), _slope("user", _LARGE)),
        holds_to=1.05,
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
        "After sections 2 and 4, which describe it without a figure. The wait for a connection is "
        "not included.",
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
