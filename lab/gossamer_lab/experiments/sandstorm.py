"""``sandstorm``: an event-driven server beside pools of threads, under clients that come and go."""

from gossamer_lab.claims import Claim, Highest, Mean, Quantity, Ratio
from gossamer_lab.experiment import (
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
_MANY = ((_X, 1000),)
_AS_THERE = ("--requests-per-connection", "100", "--backlog", "50", "--no-defer-accept")
_THINK_MS = 20


def _longest_connect(name: str) -> Quantity:
    return Highest(name, "connect_max_us", _MANY, f"longest connect of {name}, µs")


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
        Ratio(_longest_connect("pool"), _longest_connect("quad")),
        holds_from=10.0,
    ),
    Claim(
        "dropped-packets-show",
        "The pool's kernel drops packets of clients that connect, and they wait until the next try",
        "response time",
        "bursts every 3 s, when the kernel of then tried again; that of today does after 1 s",
        _longest_connect("pool"),
        holds_from=1e6,
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

SANDSTORM = Experiment(
    name="sandstorm",
    summary="Completions a second, connect and response times against 1 to 1000 clients, of an "
    "event-driven server, a pool of 150 threads and a thread for each connection",
    document=Document("SandStorm HTTP server results", "Matt Welsh", 2000),
    points=tuple(Point(f"clients-{n}", 8192, n, 100, _THINK_MS) for n in _CLIENTS),
    scales=(
        Scale(
            "smoke",
            budget_s=25.0,
            warmup_s=0.0,
            longest_s=1.0,
            rounds=2,
            points=("clients-10", "clients-200", "clients-1000"),
        ),
        Scale(
            "normal",
            budget_s=720.0,
            warmup_s=0.5,
            longest_s=15.0,
            rounds=3,
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
            "connect_max_us",
            "clients",
            "longest connect, µs (logarithmic)",
            log_y=True,
        ),
        Drawing(
            "response",
            "Longest response time against clients",
            "After the histograms of response times.",
            _X,
            "response_max_us",
            "clients",
            "longest response, µs (logarithmic)",
            log_y=True,
        ),
    ),
    notes=(
        "One machine over loopback. The event-driven server is our architecture quad: four threads "
        "that exchange events. The pool has 150 threads; accept queues hold 50, as Java's did.",
        "The longest wait cannot be longer than the load: a client that still waits at its end is "
        "not counted.",
    ),
)
