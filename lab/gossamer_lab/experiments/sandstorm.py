"""``sandstorm``: an event-driven server beside pools of threads, under clients that come and go."""

from gossamer_lab.bursts import RETRY_S
from gossamer_lab.claims import Claim, Highest, Mean, Provided, Quantity, Ratio, Total, Where
from gossamer_lab.experiment import (
    Distribution,
    Document,
    Drawing,
    Experiment,
    Point,
    Scale,
    Soundness,
    Variant,
)

_CLIENTS = (1, 10, 50, 100, 200, 400, 700, 1000)
_X = "connections"
_FEW, _MANY = ((_X, 100),), ((_X, 1000),)
_AS_THERE = ("--requests-per-connection", "100", "--backlog", "50", "--no-defer-accept")
_THINK_MS = 20
_STARVED_S = 15.0
"""Ten times as long as the one second of others is not seen in less."""


def _longest(name: str, kind: str, where: Where = _MANY) -> Quantity:
    clients = dict(where)[_X]
    words = f"longest {kind} of {name} with {clients} clients, µs"
    return Highest(name, f"{kind}_longest_us", where, words)


def _rate(name: str, clients: int) -> Quantity:
    where = ((_X, clients),)
    return Mean(name, "throughput_per_s", where, f"rate of {name} with {clients} clients")


_CLAIMS = (
    Claim(
        "pool-sustains",
        "The pool of threads sustains its throughput with far more clients than threads",
        "throughput",
        "about 3000 a second; somewhat less with 1000 clients; here no less than four fifths",
        Ratio(_rate("pool", 1000), _rate("pool", 200)),
        holds_from=0.8,
    ),
    Claim(
        "events-sustain",
        "The event-driven server sustains its throughput regardless of the number of clients",
        "throughput",
        "level to 1000 clients; here no less than 0.95",
        Ratio(_rate("quad", 1000), _rate("quad", 200)),
        holds_from=0.95,
    ),
    Claim(
        "pool-starves-clients",
        "With 1000 clients the pool makes some wait far longer to connect than the event-driven "
        "server",
        "connect time",
        "183 s against 3.1 s, 59 times as long; here ten times or more",
        Ratio(_longest("pool", "connect"), _longest("quad", "connect")),
        holds_from=10.0,
    ),
    Claim(
        "a-thread-each-starves-clients",
        "A thread for each connection makes some of many clients wait far longer to connect than "
        "some of a hundred",
        "connect time",
        "45 s with 500 clients against 0.24 s with 100; here ten times or more, with 1000",
        Ratio(_longest("thread", "connect"), _longest("thread", "connect", _FEW)),
        holds_from=10.0,
    ),
    Claim(
        "most-connect-at-once",
        "With 100 clients most connect to the event-driven server at once",
        "connect time",
        "less than 10 ms in most cases; here 90 of 100",
        Mean("quad", "connect_p90_us", _FEW, "90th percentile of quad's connect times, µs"),
        holds_to=10_000.0,
    ),
    Claim(
        "even-a-hundred-may-wait",
        "With 100 clients, too, some wait to connect until their packet is sent again",
        "connect time",
        "3.5 s at the most, when the kernel of then tried again after 3 s; that of today does "
        "after 1 s",
        _longest("quad", "connect", _FEW),
        holds_from=RETRY_S * 1e6,
    ),
    Claim(
        "dropped-packets-show",
        "The pool's kernel drops packets of clients that connect, and they come in a burst when "
        "these are sent again",
        "response time",
        "bursts every 3 s, when the kernel of then tried again; that of today does after 1 s: here "
        "twice as many or more take a second try as take half of that time or more",
        Provided(
            Highest("pool", "accept_queue_overflows", _MANY, "overflows of the pool"),
            1,
            "no accept queue overflowed here",
            Provided(
                Mean("pool", "seconds", _MANY, "length of a load"),
                3 * RETRY_S,
                "the loads of this scale are too short for a second try",
                Highest("pool", "connect_burst", _MANY, "connects at the second try / before it"),
            ),
        ),
        holds_from=2.0,
    ),
    Claim(
        "150-at-a-time",
        "The pool serves no more than 150 of 1000 clients at any time",
        "throughput",
        "150; here 200 at the most, with those that wait in the accept queue of 50",
        Mean("pool", "measured_load", _MANY, "measured load of pool with 1000 clients"),
        holds_to=200.0,
    ),
    Claim(
        "pool-answers-sooner-at-100",
        "With 100 clients the pool's longest response is shorter than the event-driven server's",
        "response time",
        "0.56 s against 1.26 s",
        Ratio(_longest("pool", "response", _FEW), _longest("quad", "response", _FEW)),
        holds_to=1.0,
    ),
    Claim(
        "events-have-a-hump",
        "With 1000 clients the event-driven server's response times crowd around one value",
        "response time",
        "a hump around 400 ms; here a 75th percentile of no more than twice the median",
        Ratio(
            Mean("quad", "response_p75_us", _MANY, "75th percentile of quad, 1000 clients"),
            Mean("quad", "response_p50_us", _MANY, "median"),
        ),
        holds_to=2.0,
    ),
    Claim(
        "events-have-a-tail",
        "From 100 to 1000 clients the event-driven server's longest response grows several times",
        "response time",
        "1.3 s to 12.5 s; here threefold or more",
        Ratio(_longest("quad", "response"), _longest("quad", "response", _FEW)),
        holds_from=3.0,
    ),
    Claim(
        "pool-has-a-heavier-tail",
        "With 1000 clients the pool's longest response takes far longer than the event-driven "
        "server's",
        "response time",
        "190.8 s against 12.5 s, where the wait to connect counted; here the sum of both, five "
        "times or more",
        Ratio(
            Total((_longest("pool", "response"), _longest("pool", "connect"))),
            Total((_longest("quad", "response"), _longest("quad", "connect"))),
        ),
        holds_from=5.0,
    ),
    Claim(
        "a-thread-each-has-a-tail",
        "So does that of a thread for each connection, against its own with 100 clients",
        "response time",
        "48.1 s with the most clients against 9.6 s with 100; here threefold or more",
        Ratio(_longest("thread", "response"), _longest("thread", "response", _FEW)),
        holds_from=3.0,
    ),
    Claim(
        "a-thread-each-runs-out",
        "A thread for each connection does not work beyond 500 clients",
        "throughput",
        "no more threads beyond 500; here its rate with 1000 is half of that with 200 at the most",
        Ratio(_rate("thread", 1000), _rate("thread", 200)),
        holds_to=0.5,
    ),
)


def _distribution(kind: str, words: str, clients: int, documented: str) -> Distribution:
    return Distribution(
        f"{kind}-{clients}",
        f"Histogram of the {words} with {clients:,} clients",
        f"After the histograms of the {words}. All rounds together; triangles are the longest. "
        f"There: {documented}.",
        kind,
        words,
        f"clients-{clients}",
    )


_DISTRIBUTIONS = (
    _distribution("connect", "time to connect", 100, "3534 ms of events, 3547 of the pool"),
    _distribution("connect", "time to connect", 1000, "3116 ms of events, 183,340 of the pool"),
    _distribution("response", "response time", 100, "1255 ms of events, 557 of the pool"),
    _distribution("response", "response time", 1000, "12,518 ms of events, 190,766 of the pool"),
)

SANDSTORM = Experiment(
    name="sandstorm",
    summary="Completions a second, connect and response times against 1 to 1000 clients, of an "
    "event-driven server, a pool of 150 threads and a thread for each connection",
    document=Document("SandStorm HTTP server results", "Matt Welsh", 2000),
    points=tuple(
        Point(f"clients-{n}", 8192, n, 100, _THINK_MS, least_s=_STARVED_S if n == 1000 else 0)
        for n in _CLIENTS
    ),
    scales=(
        Scale(
            "smoke",
            budget_s=25.0,
            warmup_s=0.0,
            longest_s=1.0,
            rounds=2,
            points=("clients-100", "clients-200", "clients-1000"),
        ),
        Scale(
            "normal",
            budget_s=690.0,
            warmup_s=0.3,
            longest_s=15.0,
            rounds=5,
            points=("clients-100", "clients-200", "clients-1000"),
        ),
        Scale("paper", budget_s=7200.0, warmup_s=5.0, longest_s=60.0, rounds=8),
    ),
    architectures=(
        Variant("quad", "quad", _AS_THERE),
        Variant("pool", "pool", _AS_THERE),
        Variant("thread", "thread", _AS_THERE),
        Variant("user", "user", _AS_THERE),
        Variant("event", "event", _AS_THERE),
    ),
    soundness=Soundness(most_client=1.1),
    claims=_CLAIMS,
    distributions=_DISTRIBUTIONS,
    drawings=(
        Drawing(
            "completions",
            "Completions a second against clients",
            "After the first figure. 8192 bytes, 20 ms between the requests of a client, 100 "
            "requests a connection.",
            _X,
            "throughput_per_s",
            "clients",
            "completions a second",
        ),
        Drawing(
            "connect",
            "Longest time to connect against clients",
            "After the histograms of connect times, of which the document names the maxima. The "
            "whole histograms are in the folder of the run.",
            _X,
            "connect_longest_us",
            "clients",
            "longest connect, µs (logarithmic)",
            log_y=True,
        ),
        Drawing(
            "response",
            "Longest response time against clients",
            "After the histograms of response times.",
            _X,
            "response_longest_us",
            "clients",
            "longest response, µs (logarithmic)",
            log_y=True,
        ),
    ),
    notes=(
        "One machine over loopback. The event-driven server is our architecture quad: four threads "
        "that exchange events. The pool has 150 threads; accept queues hold 50, as Java's did.",
        "The longest wait cannot be longer than the load: a client that still waits at its end "
        "counts with what it has waited until then, though not in the histograms.",
    ),
)
