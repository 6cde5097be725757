"""Section 2 of Are events fast?: what was found out before anything was compared, and its claims.

Accept queues that overflow, the median beside the mean, a page that is read each time, larger
files. Each has points of its own, with those servers that it is about.
"""

from gossamer_lab.claims import (
    Claim,
    Extreme,
    Highest,
    Mean,
    Provided,
    Quantity,
    Ratio,
    Scatter,
    Slope,
    Where,
)
from gossamer_lab.experiment import Drawing, Point, Variant
from gossamer_lab.service import SERVICE

_X, _Y = "connections", SERVICE
_MEDIAN = "response_p50_us"
_QUEUE, _FREE, _FILES, _LARGE = "queue", "free", "files", "large"
_LARGE_PAGE = 102_400
_QUEUE_LOADS = (100, 250, 350, 450, 500, 600, 700, 850, 1000)
"""Many: how far figures stray from a line is known no better than there are loads."""
_FREE_LOADS = (16, 64, 100)
_FILE_LOADS = (100, 250, 500, 750, 1000)
_LEAST_S = {_QUEUE: 1.5, _FREE: 1.0, _FILES: 1.0, _LARGE: 1.0}
"""A connection that the queue has no room for is tried again after a second; what files cost is
told apart by few servers, that are much alike."""
_FROM_FILES = "event, from files"
_SHORT = ("thread-128", "event-128", "eager-128")
LONGER = "thread-1024"
_LONGER_LOADS = (100, 250, 500, 1000)
_FREE_SERVERS = (
    *("toy-fork", "toy-kernel", "toy-pth", "toy-user", "nginx", "lighttpd"),
    *("apache-prefork", "apache-worker"),
)
_OVER: Where = (("topic", _QUEUE), (_X, _QUEUE_LOADS[1:]))

VARIANTS = (
    *(Variant(name, name.partition("-")[0], ("--backlog", "128")) for name in _SHORT),
    Variant(LONGER, "thread", ("--backlog", "1024")),
    Variant(_FROM_FILES, "event", ("--page-cache", "0")),
)
SPARED = (*_SHORT, LONGER)
"""Whose measured load may fall short: it is what is looked at."""


def _point(topic: str, load: int, servers: tuple[str, ...], size: int = 305) -> Point:
    return Point(
        f"{topic}-{load}",
        size,
        load,
        1,
        servers=servers,
        is_braked=topic != _FREE,
        topic=topic,
        least_s=_LEAST_S[topic],
    )


def _queue_point(load: int) -> Point:
    return _point(_QUEUE, load, SPARED if load in _LONGER_LOADS else _SHORT)


POINTS = (
    *map(_queue_point, _QUEUE_LOADS),
    *(_point(_FREE, load, _FREE_SERVERS) for load in _FREE_LOADS),
    *(_point(_FILES, load, ("event", _FROM_FILES)) for load in _FILE_LOADS),
    *(_point(_LARGE, load, ("event", "user"), _LARGE_PAGE) for load in _FILE_LOADS),
)
AT_NORMAL = tuple(p.key for p in POINTS if p.key not in ("queue-100", "free-64"))
"""Keys of those that a run of minutes has time for."""


def _at(topic: str, load: int) -> Where:
    return (("topic", topic), (_X, load))


def _slope(name: str, topic: str) -> Quantity:
    return Slope(name, _X, _Y, (("topic", topic),))


def _median_and_mean(name: str) -> Quantity:
    where: Where = (("topic", _FREE),)
    return Ratio(
        Mean(name, _Y, where, f"mean time of {name}"), Mean(name, _MEDIAN, where, "its median")
    )


def _overflowed(names: tuple[str, ...], quantity: Quantity) -> Quantity:
    """Return a quantity of rounds in which the accept queue of each of these did overflow."""
    counts = tuple(
        Highest(name, "accept_queue_overflows", _OVER, f"overflows of {name}") for name in names
    )
    fewest = Extreme("least", counts, "the fewest overflows", len(names))
    return Provided(fewest, 1, "no accept queue overflowed here", quantity)


def _highest_load(name: str) -> Quantity:
    where: Where = (("topic", _QUEUE),)
    return Highest(name, "measured_load", where, f"measured load of {name}")


_OF_THE_QUEUE = (
    Claim(
        "short-queue-limits-load",
        "With an accept queue of 128 the measured load never exceeds 130 or so",
        "section 2, Figure 1(a)",
        "about 130, however large the offered load; here at most 150",
        Extreme(
            "greatest",
            tuple(map(_highest_load, _SHORT)),
            "the highest measured load with a queue of 128",
            len(_SHORT),
        ),
        holds_to=150.0,
    ),
    Claim(
        "longer-queue-admits-all",
        "With a queue of 1024 the measured load comes up to the offered load",
        "section 2, Figure 1(b)",
        "it solves the problem; here 900 or more of 1000",
        Mean(LONGER, "measured_load", _at(_QUEUE, 1000), f"measured load of {LONGER} at 1000"),
        holds_from=900.0,
    ),
    Claim(
        "short-queue-keeps-the-median",
        "Above a load of 128 a queue of 128 keeps the median where it is",
        "section 2",
        "constant at 50 ms; here a quarter more or less between loads of 250 and 1000",
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
        "What the queue has no room for is tried again, and served much later than all others",
        "section 2",
        "a few requests of 200 ms or more; here the longest wait for a connection or an answer",
        _overflowed(
            ("thread-128",),
            Extreme(
                "greatest",
                tuple(
                    Highest("thread-128", f"{wait}_longest_us", _OVER, f"longest {wait}")
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
        "Where the accept queue overflows, a server that accepts eagerly into a queue of its own "
        "is far more regular than others",
        "section 4",
        "much more regular for thttpd; here others stray from their lines half as far again",
        _overflowed(
            _SHORT,
            Ratio(
                Extreme(
                    "least",
                    tuple(Scatter(name, _X, _Y, _OVER) for name in _SHORT[:2]),
                    "the lesser scatter of thread-128 and event-128 about their lines",
                    2,
                ),
                Scatter("eager-128", _X, _Y, _OVER),
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
        "they coincided; here within a tenth, of the server where they differ most",
        Extreme(
            "greatest",
            tuple(map(_median_and_mean, _FREE_SERVERS)),
            "the greatest mean / median of any server, without a brake",
            2,
        ),
        holds_from=0.9,
        holds_to=1.1,
    ),
    *_OF_THE_QUEUE,
    Claim(
        "preloading-is-slight",
        "To preload the page into memory makes only a slight difference",
        "section 2",
        "a slight additive difference; here a tenth at the most",
        Ratio(_slope(_FROM_FILES, _FILES), _slope("event", _FILES)),
        holds_from=0.9,
        holds_to=1.1,
    ),
    Claim(
        "large-files-agree",
        "Files of up to 100 kB show the same as the small page: events are as fast as threads",
        "section 2",
        "they confirmed the general thrust; here our event loop and our user-level threads",
        Ratio(_slope("event", _LARGE), _slope("user", _LARGE)),
        holds_to=1.05,
    ),
)


def _drawing(key: str, topic: str, title: str, caption: str, *, y: str = _Y) -> Drawing:
    is_load = y == "measured_load"
    return Drawing(
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


DRAWINGS = (
    _drawing(
        "queue-load",
        _QUEUE,
        "Measured load against offered load, accept queues of 128 and 1024",
        "After Figure 1(a) and (b).",
        y="measured_load",
    ),
    _drawing(
        "queue-time",
        _QUEUE,
        "Service time against load, accept queues of 128 and 1024",
        "After section 2 and 4, which tell of it without a figure. The wait for a connection is "
        "not part of it.",
    ),
    _drawing(
        "from-files",
        _FILES,
        "Service time against load, the page in memory and read each time",
        "After section 2, which tells of it without a figure.",
    ),
    _drawing(
        "large-files",
        _LARGE,
        "Service time against load, files of 100 kB",
        "After section 2, which tells of it without a figure.",
    ),
)
