"""``are-events-fast``: service time against load, for servers of many structures."""

from gossamer_lab.claims import (
    Claim,
    Correlation,
    Extreme,
    Highest,
    Mean,
    Quantity,
    Ratio,
    Slope,
    Unless,
)
from gossamer_lab.experiment import (
    Document,
    Drawing,
    Experiment,
    Point,
    Scale,
    Soundness,
    Variant,
)

_LOADS = (1, 16, 64, 100, 128, 250, 500, 750, 1000)
_X, _Y = "connections", "response_mean_us"
_BELOW_THE_QUEUE = ((_X, (16, 64, 100)),)
_TOYS = ("fork", "thread", "user")
_PRODUCTION = ("nginx", "lighttpd", "h2o")
_NAMES = ", ".join(_PRODUCTION)
_EVERYBODY = (*_TOYS, "event", "eager", *_PRODUCTION)


def _slope(name: str) -> Slope:
    return Slope(name, _X, _Y)


def _slopes(names: tuple[str, ...]) -> tuple[Quantity, ...]:
    return tuple(map(_slope, names))


def _median_and_mean(name: str) -> Quantity:
    mean = Mean(name, _Y, _BELOW_THE_QUEUE, f"mean time of {name}")
    return Ratio(mean, Mean(name, "response_p50_us", _BELOW_THE_QUEUE, "its median"))


_CLAIMS = (
    Claim(
        "events-match-threads",
        "Event-driven code is as fast as the fastest threads, or faster",
        "abstract and section 5",
        "CPC, threads compiled to events, was slower than State Threads alone",
        Ratio(
            _slope("event"),
            Extreme("least", _slopes(("thread", "user")), "the least of the threads", 2),
        ),
        holds_to=1.05,
    ),
    Claim(
        "linear",
        "Service time grows linearly with load",
        "section 4",
        "correlation above 0.999 for every server but Apache",
        Extreme(
            "least",
            tuple(Correlation(name, _X, _Y) for name in _EVERYBODY),
            "the least correlation of any server",
            3,
        ),
        holds_from=0.999,
    ),
    Claim(
        "fork-is-slowest",
        "A process for each connection is slower than any other structure",
        "section 4, Figure 2(b)",
        "fork had the steepest line of all",
        Ratio(
            _slope("fork"),
            Extreme(
                "greatest",
                _slopes(tuple(name for name in _EVERYBODY if name != "fork")),
                "the greatest of all others",
                3,
            ),
        ),
        holds_from=1.0,
    ),
    Claim(
        "kernel-threads-are-fast",
        "Kernel threads come close to user-space threads of the plainer kind",
        "section 4, Figure 2(b)",
        "NPTL about equal to Pth",
        Ratio(_slope("thread"), _slope("pth")),
        holds_from=0.8,
        holds_to=1.25,
    ),
    Claim(
        "user-threads-beat-kernel-threads",
        "User-space threads with good data structures are faster than kernel threads",
        "section 4, Figure 2(b)",
        "State Threads clearly below NPTL; here our user-level threads stand for them",
        Ratio(_slope("user"), _slope("thread")),
        holds_to=1.0,
    ),
    Claim(
        "production-is-alike",
        "Event-driven production servers are about equally fast",
        "section 4, Figure 2(a)",
        "Polipo, thttpd and lighttpd lay close together; here at most a quarter apart",
        Ratio(
            Extreme("greatest", _slopes(_PRODUCTION), f"the greatest slope of {_NAMES}", 2),
            Extreme("least", _slopes(_PRODUCTION), "the least of them", 2),
        ),
        holds_to=1.25,
    ),
    Claim(
        "production-is-slower",
        "Production servers are slower than toy servers, which do less",
        "section 4",
        "generally so; fork, thread, user and event stand for the toys here",
        Ratio(
            Extreme("least", _slopes(_PRODUCTION), f"the least slope of {_NAMES}", 2),
            Extreme("least", _slopes((*_TOYS, "event")), "the least of the toys", 3),
        ),
        holds_from=1.0,
    ),
    Claim(
        "apache-is-slowest",
        "Apache is the slowest of the production servers",
        "section 4, Figure 2(a)",
        "significantly slower than all three event-driven ones",
        Ratio(
            _slope("apache2"),
            Extreme("greatest", _slopes(_PRODUCTION), f"the greatest slope of {_NAMES}", 2),
        ),
        holds_from=1.0,
    ),
    Claim(
        "apache-models-are-equal",
        "Apache is equally slow with processes and with threads",
        "section 4, Figure 2(a)",
        "prefork and worker poor alike",
        Ratio(_slope("apache2-prefork"), _slope("apache2")),
        holds_from=0.9,
        holds_to=1.1,
    ),
    Claim(
        "median-is-mean",
        "Below a load of 128 the median and the mean of the service time coincide",
        "section 2",
        "they coincided; here within a tenth, of the server where they differ most",
        Unless(
            "brake_share",
            "the brake works in slices of milliseconds, which part mean and median at small loads",
            Extreme(
                "greatest",
                tuple(map(_median_and_mean, ("thread", "user", "event", *_PRODUCTION))),
                "the greatest mean / median of any server",
                3,
            ),
        ),
        holds_from=0.9,
        holds_to=1.1,
    ),
    Claim(
        "short-queue-limits-load",
        "With an accept queue of 128 the measured load never exceeds 130 or so",
        "section 2, Figure 1(a)",
        "about 130, however large the offered load; here at most 150",
        Extreme(
            "greatest",
            (
                Highest("thread-128", "measured_load", (), "measured load of thread, queue of 128"),
                Highest("eager-128", "measured_load", (), "measured load of eager, queue of 128"),
            ),
            "the highest measured load with a queue of 128",
            2,
        ),
        holds_to=150.0,
    ),
)

ARE_EVENTS_FAST = Experiment(
    name="are-events-fast",
    summary="Service time against load, 1 to 1000 connections, a connection for each request of "
    "a 305-byte page",
    document=Document("Are events fast?", "Gabriel Kerneis and Juliusz Chroboczek", 2009),
    points=tuple(Point(f"load-{load}", 305, load, 1) for load in _LOADS),
    scales=(
        Scale(
            "smoke",
            budget_s=30.0,
            warmup_s=0.0,
            longest_s=0.5,
            rounds=2,
            points=("load-16", "load-128", "load-500"),
        ),
        Scale("normal", budget_s=600.0, warmup_s=0.1, longest_s=2.0, rounds=4, drop=100),
        Scale("paper", budget_s=7200.0, warmup_s=1.0, longest_s=20.0, rounds=8, drop=1000),
    ),
    peers=(*_PRODUCTION, "apache2"),
    architectures=(
        *(Variant(name, name) for name in ("fork", "thread", "user", "event", "eager")),
        Variant("thread-128", "thread", ("--backlog", "128")),
        Variant("eager-128", "eager", ("--backlog", "128")),
    ),
    soundness=Soundness(spared=("thread-128", "eager-128")),
    server_share=0.25,
    claims=_CLAIMS,
    drawings=(
        Drawing(
            "service-time",
            "Service time against load",
            "After Figure 2. Mean time of a request; a smaller slope is a faster server. Bars are "
            "intervals over the rounds, lines are fits.",
            _X,
            _Y,
            "offered load, connections",
            "mean service time, µs",
            has_fits=True,
        ),
        Drawing(
            "measured-load",
            "Measured load against offered load",
            "After Figure 1. Requests times their mean time, by the length of the run: below the "
            "diagonal something other than the server held requests up.",
            _X,
            "measured_load",
            "offered load, connections",
            "measured load",
            has_diagonal=True,
        ),
        Drawing(
            "cpu",
            "CPU time a request against load",
            "Not in the document: what the server itself needed.",
            _X,
            "server_cpu_us_per_request",
            "offered load, connections",
            "CPU time a request, µs",
            log_x=True,
        ),
    ),
    notes=(
        "One machine over loopback instead of two over Gigabit Ethernet; the server's core is "
        "shared with a brake in place of a slower processor.",
        "The load generator is ours, not ApacheBench. The fork, kernel and user-level thread "
        "servers are architectures of one full server here, not toys of 200 lines.",
        "nginx, lighttpd and h2o stand for the event-driven production servers of 2009.",
    ),
)
