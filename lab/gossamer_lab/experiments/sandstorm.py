"""``sandstorm``: an event-driven server against thread pools, with many short-lived connections."""

from gossamer_lab.claims import Claim, Conditional, Maximum, Mean, Quantity, Ratio, Sum, Where
from gossamer_lab.experiment import (
    ChartSpec,
    Distribution,
    Document,
    Experiment,
    Point,
    Scale,
    ValidityRules,
    Variant,
)
from gossamer_lab.syn_retries import SYN_RETRY_S

_CLIENTS = (1, 10, 50, 100, 200, 400, 700, 1000)
_X = "connections"
_FEW, _MANY = ((_X, 100),), ((_X, 1000),)
_PUBLISHED_OPTIONS = ("--requests-per-connection", "100", "--backlog", "50", "--no-defer-accept")
_THINK_MS = 20
_MIN_STARVATION_S = 15.0
"""Minimum load for waits ten times as long as one second to be observable."""


def _longest(name: str, kind: str, where: Where = _MANY) -> Quantity:
    clients = dict(where)[_X]
    words = f"longest {kind} of {name} with {clients} clients, µs"
    return Maximum(name, f"{kind}_max_wait_us", where, words)


def _rate(name: str, clients: int) -> Quantity:
    where = ((_X, clients),)
    return Mean(name, "throughput_per_s", where, f"rate of {name} with {clients} clients")


_CLAIMS = (
    Claim(
        "pool-sustains",
        "The thread pool sustains its throughput with far more clients than threads",
        "throughput",
        "about 3000 per second; somewhat less with 1000 clients; here at least four fifths",
        Ratio(_rate("pool", 1000), _rate("pool", 200)),
        holds_from=0.8,
    ),
    Claim(
        "events-sustain",
        "The event-driven server sustains its throughput regardless of the number of clients",
        "throughput",
        "constant up to 1000 clients; here at least 0.95",
        Ratio(_rate("quad", 1000), _rate("quad", 200)),
        holds_from=0.95,
    ),
    Claim(
        "pool-starves-clients",
        "With 1000 clients some wait far longer to connect to the pool than to the event-driven "
        "server",
        "connect time",
        "183 s against 3.1 s, 59 times as long; here at least ten times",
        Ratio(_longest("pool", "connect"), _longest("quad", "connect")),
        holds_from=10.0,
    ),
    Claim(
        "a-thread-each-starves-clients",
        "With a thread per connection, some of many clients wait far longer to connect than some "
        "of a hundred",
        "connect time",
        "45 s with 500 clients against 0.24 s with 100; here at least ten times, with 1000",
        Ratio(_longest("thread", "connect"), _longest("thread", "connect", _FEW)),
        holds_from=10.0,
    ),
    Claim(
        "most-connect-at-once",
        "With 100 clients most connect to the event-driven server immediately",
        "connect time",
        "less than 10 ms in most cases; here 90 of 100",
        Mean("quad", "connect_p90_us", _FEW, "90th percentile of quad's connect times, µs"),
        holds_to=10_000.0,
    ),
    Claim(
        "even-a-hundred-may-wait",
        "Even with 100 clients some connect only after a SYN retransmission",
        "connect time",
        "at most 3.5 s, when the kernel retransmitted after 3 s; today's kernel does so after 1 s",
        _longest("quad", "connect", _FEW),
        holds_from=SYN_RETRY_S * 1e6,
    ),
    Claim(
        "dropped-packets-show",
        "The kernel drops SYNs to the pool, and connections occur in bursts when they are "
        "retransmitted",
        "response time",
        "bursts every 3 s, the retransmission timeout then, 1 s today: here at least twice as many "
        "connect after the first retransmission as in the half of the timeout before it",
        Conditional(
            Maximum("pool", "accept_queue_overflows", _MANY, "overflows of the pool"),
            1,
            "no accept queue overflowed here",
            Conditional(
                Mean("pool", "seconds", _MANY, "length of a load"),
                3 * SYN_RETRY_S,
                "the loads of this scale are too short for a SYN retransmission",
                Maximum(
                    "pool", "syn_retry_ratio", _MANY, "connects after a SYN retransmission / before"
                ),
            ),
        ),
        holds_from=2.0,
    ),
    Claim(
        "150-at-a-time",
        "The pool serves no more than 150 of 1000 clients at any time",
        "throughput",
        "150; here at most 200, including the accept queue of 50",
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
        "With 1000 clients the event-driven server's response times concentrate around one value",
        "response time",
        "a mode around 400 ms; here a 75th percentile of at most twice the median",
        Ratio(
            Mean("quad", "response_p75_us", _MANY, "75th percentile of quad, 1000 clients"),
            Mean("quad", "response_p50_us", _MANY, "median"),
        ),
        holds_to=2.0,
    ),
    Claim(
        "events-have-a-tail",
        "From 100 to 1000 clients the event-driven server's longest response grows several-fold",
        "response time",
        "1.3 s to 12.5 s; here at least threefold",
        Ratio(_longest("quad", "response"), _longest("quad", "response", _FEW)),
        holds_from=3.0,
    ),
    Claim(
        "pool-has-a-heavier-tail",
        "With 1000 clients the pool's longest response takes far longer than the event-driven "
        "server's",
        "response time",
        "190.8 s against 12.5 s, including the time to connect; here the sum of both, at least "
        "five times",
        Ratio(
            Sum((_longest("pool", "response"), _longest("pool", "connect"))),
            Sum((_longest("quad", "response"), _longest("quad", "connect"))),
        ),
        holds_from=5.0,
    ),
    Claim(
        "a-thread-each-has-a-tail",
        "With a thread per connection the longest response grows several-fold from 100 clients on",
        "response time",
        "48.1 s with the most clients against 9.6 s with 100; here at least threefold",
        Ratio(_longest("thread", "response"), _longest("thread", "response", _FEW)),
        holds_from=3.0,
    ),
    Claim(
        "a-thread-each-runs-out",
        "A thread per connection does not work beyond 500 clients",
        "throughput",
        "no more threads beyond 500; here its rate with 1000 is at most half of that with 200",
        Ratio(_rate("thread", 1000), _rate("thread", 200)),
        holds_to=0.5,
    ),
)


def _distribution(kind: str, words: str, clients: int, documented: str) -> Distribution:
    return Distribution(
        f"{kind}-{clients}",
        f"Histogram of the {words} with {clients:,} clients",
        f"After the histograms of the {words}. All rounds together; triangles are maxima. "
        f"Published: {documented}.",
        kind,
        words,
        f"clients-{clients}",
    )


_DISTRIBUTIONS = (
    _distribution("connect", "time to connect", 100, "3534 ms for events, 3547 for the pool"),
    _distribution("connect", "time to connect", 1000, "3116 ms for events, 183,340 for the pool"),
    _distribution("response", "response time", 100, "1255 ms for events, 557 for the pool"),
    _distribution("response", "response time", 1000, "12,518 ms for events, 190,766 for the pool"),
)

SANDSTORM = Experiment(
    name="sandstorm",
    summary="Completions per second, connect and response times against 1 to 1000 clients, of an "
    "event-driven server, a pool of 150 threads and a thread per connection",
    document=Document("SandStorm HTTP server results", "Matt Welsh", 2000),
    points=tuple(
        Point(f"clients-{n}", 8192, n, 100, _THINK_MS, min_s=_MIN_STARVATION_S if n == 1000 else 0)
        for n in _CLIENTS
    ),
    scales=(
        Scale(
            "smoke",
            budget_s=25.0,
            warmup_s=0.0,
            max_load_s=1.0,
            rounds=2,
            points=("clients-100", "clients-200", "clients-1000"),
        ),
        Scale(
            "normal",
            budget_s=690.0,
            warmup_s=0.3,
            max_load_s=15.0,
            rounds=5,
            points=("clients-100", "clients-200", "clients-1000"),
        ),
        Scale("paper", budget_s=7200.0, warmup_s=5.0, max_load_s=60.0, rounds=8),
    ),
    architectures=(
        Variant("quad", "quad", _PUBLISHED_OPTIONS),
        Variant("pool", "pool", _PUBLISHED_OPTIONS),
        Variant("thread", "thread", _PUBLISHED_OPTIONS),
        Variant("user", "user", _PUBLISHED_OPTIONS),
        Variant("event", "event", _PUBLISHED_OPTIONS),
    ),
    validity_rules=ValidityRules(max_client_busy=1.1),
    claims=_CLAIMS,
    distributions=_DISTRIBUTIONS,
    charts=(
        ChartSpec(
            "completions",
            "Completions per second against clients",
            "After the first figure. 8192 bytes, 20 ms between the requests of a client, 100 "
            "requests per connection.",
            _X,
            "throughput_per_s",
            "clients",
            "completions per second",
        ),
        ChartSpec(
            "connect",
            "Longest time to connect against clients",
            "After the histograms of connect times, of which the document gives the maxima. The "
            "complete histograms are in the folder of the run.",
            _X,
            "connect_max_wait_us",
            "clients",
            "longest connect, µs (logarithmic)",
            log_y=True,
        ),
        ChartSpec(
            "response",
            "Longest response time against clients",
            "After the histograms of response times.",
            _X,
            "response_max_wait_us",
            "clients",
            "longest response, µs (logarithmic)",
            log_y=True,
        ),
    ),
    notes=(
        "One machine over loopback. The event-driven server is our architecture quad: four threads "
        "that exchange events. The pool has 150 threads; accept queues hold 50, as Java's did.",
        "Waits are limited by the duration of the load: a client that is still waiting at the end "
        "counts with its wait so far, but not in the histograms.",
    ),
)
