"""``are-events-fast``: service time against load, for servers of many structures."""

import gossamer_lab.experiments.are_events_fast_tuning as tuning
from gossamer_lab.claims import (
    Claim,
    Correlation,
    Extreme,
    Mean,
    Quantity,
    Ratio,
    Slope,
)
from gossamer_lab.experiment import (
    Document,
    Drawing,
    Experiment,
    Point,
    Program,
    Scale,
    Soundness,
    Variant,
)
from gossamer_lab.service import SERVICE

_LOADS = (1, 16, 64, 100, 128, 250, 400, 700, 1000)
_LEAST_S = {100: 0.5, 400: 0.8, 700: 1.0, 1000: 1.2}
"""The slowest answer so many connections hardly once in a shorter time."""
_SLOW = (
    *((name, 5.0) for name in ("apache-prefork", "apache-worker", "apache-event")),
    ("toy-fork", 3.0),
    (tuning.LONGER, 3.0),
)
"""Who waits for an answer at a load's end is not counted: with Apache, some wait as long as a load
of others lasts, and with processes or the long queue all wait for a while."""
_X, _Y = "connections", SERVICE
_PLAIN = (("topic", ""),)
_TOYS = (
    Program("toy-fork", "toys/fork", (), "a process for each connection"),
    Program("toy-kernel", "toys/kernel", (), "a kernel thread for each connection"),
    Program("toy-pth", "toys/pth", (), "a thread of GNU Pth for each connection", "libpth-dev"),
    Program("toy-st", "toys/st", (), "a State Thread for each connection", "libst-dev"),
    Program(
        "toy-cpc",
        "toys/cpc",
        (),
        "a thread compiled into events for each connection",
        "the compiler from threads to events, gossamer cc",
    ),
    Program("toy-user", "toys/threads", (), "a user-level thread of ours for each connection"),
    Program("toy-event", "toys/loop", (), "our event loop, a watcher for each connection"),
)
_TOY_NAMES = tuple(toy.name for toy in _TOYS)
_LIBRARIES = ("toy-kernel", "toy-pth", "toy-st")
_EVENT_DRIVEN = ("nginx", "lighttpd", "h2o")
_APACHES = ("apache-prefork", "apache-worker")
_PEERS = (*_EVENT_DRIVEN, *_APACHES, "apache-event", "mini-httpd", "go")
_NAMES = ", ".join(_EVENT_DRIVEN)
_OURS = ("user", "event", "eager")
_AT_EVERY_LOAD = (*_TOY_NAMES, *_OURS, *_PEERS)
_EVERYBODY = (*_TOY_NAMES, *_OURS, *_EVENT_DRIVEN, "mini-httpd", "go")


def _point(load: int) -> Point:
    least_s = _LEAST_S.get(load, 0.0)
    return Point(f"load-{load}", 305, load, 1, servers=_AT_EVERY_LOAD, least_s=least_s)


def _slope(name: str) -> Slope:
    return Slope(name, _X, _Y, _PLAIN)


def _memory(name: str) -> Quantity:
    return Mean(name, "server_memory_kb", ((_X, 1000), *_PLAIN), f"memory of {name}")


def _slopes(names: tuple[str, ...]) -> tuple[Quantity, ...]:
    return tuple(map(_slope, names))


_CLAIMS = (
    Claim(
        "events-match-threads",
        "Event-driven code is as fast as the fastest threads, or faster",
        "abstract and section 5",
        "CPC, threads compiled to events, was slower than State Threads alone; here the toy on an "
        "event loop",
        Ratio(
            _slope("toy-event"),
            Extreme("least", _slopes(_LIBRARIES), "the least of the thread libraries", 2),
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
            tuple(Correlation(name, _X, _Y, _PLAIN) for name in _EVERYBODY),
            "the least correlation of any server but Apache",
            3,
        ),
        holds_from=0.999,
    ),
    Claim(
        "fork-is-slowest",
        "A process for each connection is slower than any other structure",
        "section 4, Figure 2(b)",
        "fork had the steepest line of all toys",
        Ratio(
            _slope("toy-fork"),
            Extreme(
                "greatest",
                _slopes(tuple(name for name in _TOY_NAMES if name != "toy-fork")),
                "the greatest of the other toys",
                3,
            ),
        ),
        holds_from=1.0,
    ),
    Claim(
        "kernel-threads-are-fast",
        "Kernel threads come close to user-space threads of the plainer kind",
        "section 4, Figure 2(b)",
        "NPTL about equal to Pth; here at most a quarter apart",
        Ratio(_slope("toy-kernel"), _slope("toy-pth")),
        holds_from=0.8,
        holds_to=1.25,
    ),
    Claim(
        "st-is-fastest",
        "State Threads, with good data structures, are the fastest of all toys",
        "section 4, Figure 2(b)",
        "excellent results, below fork, NPTL, Pth and CPC",
        Ratio(
            _slope("toy-st"),
            Extreme(
                "least",
                _slopes(("toy-fork", "toy-kernel", "toy-pth", "toy-cpc")),
                "the least of fork, kernel threads, Pth and CPC",
                3,
            ),
        ),
        holds_to=1.0,
    ),
    Claim(
        "cpc-is-second",
        "Threads compiled into events are faster than all others but State Threads",
        "section 4, Figure 2(b)",
        "better than all of the other implementations save the one using ST",
        Ratio(
            _slope("toy-cpc"),
            Extreme(
                "least",
                _slopes(("toy-fork", "toy-kernel", "toy-pth")),
                "the least of fork, kernel threads and Pth",
                3,
            ),
        ),
        holds_to=1.0,
    ),
    Claim(
        "production-is-alike",
        "Event-driven production servers are about equally fast",
        "section 4, Figure 2(a)",
        "Polipo, thttpd and lighttpd lay close together; here at most a quarter apart",
        Ratio(
            Extreme("greatest", _slopes(_EVENT_DRIVEN), f"the greatest slope of {_NAMES}", 2),
            Extreme("least", _slopes(_EVENT_DRIVEN), "the least of them", 2),
        ),
        holds_to=1.25,
    ),
    Claim(
        "production-is-slower",
        "Production servers are slower than toy servers, which do less",
        "section 4",
        "generally so; here the fastest of each kind",
        Ratio(
            Extreme("least", _slopes(_EVENT_DRIVEN), f"the least slope of {_NAMES}", 2),
            Extreme("least", _slopes(_TOY_NAMES), "the least of the toys", 3),
        ),
        holds_from=1.0,
    ),
    Claim(
        "apache-is-slowest",
        "Apache is the slowest of the production servers",
        "section 4, Figure 2(a)",
        "significantly slower than all three event-driven ones",
        Ratio(
            Extreme("least", _slopes(_APACHES), "the lesser slope of Apache's two models", 2),
            Extreme("greatest", _slopes(_EVENT_DRIVEN), f"the greatest slope of {_NAMES}", 2),
        ),
        holds_from=1.0,
    ),
    Claim(
        "apache-models-are-equal",
        "Apache is equally slow with processes and with threads",
        "section 4, Figure 2(a)",
        "prefork and worker poor alike; here at most a tenth apart",
        Ratio(_slope("apache-prefork"), _slope("apache-worker")),
        holds_from=0.9,
        holds_to=1.1,
    ),
    Claim(
        "lighttpd-is-fastest",
        "lighttpd is the fastest of the event-driven production servers, by little",
        "section 4, Figure 2(a)",
        "very slightly faster than Polipo, and thttpd somewhat slower; here against nginx and h2o",
        Ratio(
            _slope("lighttpd"),
            Extreme("least", _slopes(("nginx", "h2o")), "the lesser of nginx and h2o", 2),
        ),
        holds_to=1.0,
    ),
    Claim(
        "events-need-less-memory",
        "Events need much less memory than threads",
        "section 5",
        "much smaller memory requirements; here kernel threads need twice as much or more, with "
        "1000 connections",
        Ratio(_memory("toy-kernel"), _memory("toy-event")),
        holds_from=2.0,
    ),
    *tuning.CLAIMS,
)

ARE_EVENTS_FAST = Experiment(
    name="are-events-fast",
    summary="Service time against load, 1 to 1000 connections, a connection for each request of "
    "a 305-byte page",
    document=Document("Are events fast?", "Gabriel Kerneis and Juliusz Chroboczek", 2009),
    points=(
        *map(_point, _LOADS),
        *tuning.POINTS,
    ),
    scales=(
        Scale(
            "smoke",
            budget_s=20.0,
            warmup_s=0.0,
            longest_s=0.5,
            rounds=2,
            points=("load-16", "load-128", "load-400"),
        ),
        Scale(
            "normal",
            budget_s=2048.0,
            warmup_s=0.1,
            longest_s=6.0,
            rounds=8,
            most_rounds=10,
            points=(*(f"load-{load}" for load in (1, 100, 400, 700, 1000)), *tuning.AT_NORMAL),
            drop=50,
            slow=_SLOW,
        ),
        Scale("paper", budget_s=14_400.0, warmup_s=1.0, longest_s=20.0, rounds=8, drop=1000),
    ),
    peers=_PEERS,
    architectures=(
        *(Variant(name, name) for name in _OURS),
        *tuning.VARIANTS,
    ),
    toys=_TOYS,
    soundness=Soundness(spared=tuning.SPARED),
    server_share=0.25,
    claims=_CLAIMS,
    drawings=(
        *(
            Drawing(
                key,
                f"Service time against load, {words}",
                f"After Figure 2({letter}). Mean time of a request, at the usual speed of the "
                "core; a smaller slope is a faster server. Bars are intervals over the rounds, "
                "lines are fits.",
                _X,
                _Y,
                "offered load, connections",
                "mean service time, µs",
                where=_PLAIN,
                subjects=names,
                has_fits=True,
            )
            for key, letter, words, names in (
                ("service-time", "a", "full servers", (*_OURS, *_PEERS)),
                ("service-time-toys", "b", "toys", _TOY_NAMES),
            )
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
            where=_PLAIN,
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
            where=_PLAIN,
            log_x=True,
        ),
        *tuning.DRAWINGS,
    ),
    notes=(
        "One machine over loopback instead of two over Gigabit Ethernet; the server's core is "
        "shared with a brake in place of a slower processor.",
        "Where the brake is on, service times are as if the core had always been as fast as it is "
        "on average in this run, and the client's core does not halt while clients wait.",
        "The load generator is ours, not ApacheBench; each run checks it against wrk and ab.",
        "The toys are ours too, of the document's structure: one accepts, each connection gets a "
        "new thread or process. CPC itself is not measured; its place is that of our compiler.",
        "nginx, lighttpd and h2o stand for the event-driven production servers of 2009, and our "
        "eager for thttpd, which has no package: mini-httpd is its author's other server.",
        "There the client used a fifth of its processor at most; here a measurement does not count "
        "if it used nearly all. Other network cards, or none between, cannot be compared on one "
        "machine.",
        "Apache's accept queue is as long as that of the others here, not 512.",
        "Memory is read halfway through a load, without pages of files and without the kernel's "
        "own, such as the stacks that threads have there.",
    ),
)
