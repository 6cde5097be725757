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
    ChartSpec,
    Document,
    Experiment,
    Point,
    Program,
    Scale,
    ValidityRules,
    Variant,
)
from gossamer_lab.service_time import SERVICE

_LOADS = (1, 16, 64, 100, 128, 250, 400, 700, 1000)
_MIN_S = {100: 0.5, 400: 0.8, 700: 1.0, 1000: 1.2}
"""With this many connections the slowest server hardly answers each once in a shorter time."""
_SLOW = (
    *((name, 5.0) for name in ("apache-prefork", "apache-worker", "apache-event")),
    ("toy-fork", 3.0),
    (tuning.LONGER, 3.0),
)
"""Requests unfinished at the end of a load are not counted: with Apache, some wait as long as a
load of other servers lasts; with processes or the long queue, all wait for a while."""
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
_ALL_BUT_APACHE = (*_TOY_NAMES, *_OURS, *_EVENT_DRIVEN, "mini-httpd", "go")


def _point(load: int) -> Point:
    min_s = _MIN_S.get(load, 0.0)
    return Point(f"load-{load}", 305, load, 1, servers=_AT_EVERY_LOAD, min_s=min_s)


def _slope(name: str) -> Slope:
    return Slope(name, _X, _Y, _PLAIN)


def _memory(name: str) -> Quantity:
    return Mean(name, "server_memory_kb", ((_X, 1000), *_PLAIN), f"memory of {name}")


def _slopes(names: tuple[str, ...]) -> tuple[Quantity, ...]:
    return tuple(map(_slope, names))


_CLAIMS = (
    Claim(
        "events-match-threads",
        "Event-driven code is at least as fast as the fastest threads",
        "abstract and section 5",
        "CPC, threads compiled to events, was slower only than State Threads; here the toy on an "
        "event loop",
        Ratio(
            _slope("toy-event"),
            Extreme("min", _slopes(_LIBRARIES), "minimum of the thread libraries", 2),
        ),
        holds_to=1.05,
    ),
    Claim(
        "linear",
        "Service time grows linearly with load",
        "section 4",
        "correlation above 0.999 for every server but Apache",
        Extreme(
            "min",
            tuple(Correlation(name, _X, _Y, _PLAIN) for name in _ALL_BUT_APACHE),
            "minimum correlation of all servers but Apache",
            3,
        ),
        holds_from=0.999,
    ),
    Claim(
        "fork-is-slowest",
        "A process for each connection is slower than any other structure",
        "section 4, Figure 2(b)",
        "fork had the largest slope of all toys",
        Ratio(
            _slope("toy-fork"),
            Extreme(
                "max",
                _slopes(tuple(name for name in _TOY_NAMES if name != "toy-fork")),
                "maximum of the other toys",
                3,
            ),
        ),
        holds_from=1.0,
    ),
    Claim(
        "kernel-threads-are-fast",
        "Kernel threads are about as fast as simple user-space threads",
        "section 4, Figure 2(b)",
        "NPTL about equal to Pth; here within a quarter",
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
                "min",
                _slopes(("toy-fork", "toy-kernel", "toy-pth", "toy-cpc")),
                "minimum of fork, kernel threads, Pth and CPC",
                3,
            ),
        ),
        holds_to=1.0,
    ),
    Claim(
        "cpc-is-second",
        "Threads compiled into events are faster than all others except State Threads",
        "section 4, Figure 2(b)",
        "better than all of the other implementations save the one using ST",
        Ratio(
            _slope("toy-cpc"),
            Extreme(
                "min",
                _slopes(("toy-fork", "toy-kernel", "toy-pth")),
                "minimum of fork, kernel threads and Pth",
                3,
            ),
        ),
        holds_to=1.0,
    ),
    Claim(
        "production-is-alike",
        "Event-driven production servers are about equally fast",
        "section 4, Figure 2(a)",
        "Polipo, thttpd and lighttpd were close together; here within a quarter",
        Ratio(
            Extreme("max", _slopes(_EVENT_DRIVEN), f"maximum slope of {_NAMES}", 2),
            Extreme("min", _slopes(_EVENT_DRIVEN), "minimum of the same", 2),
        ),
        holds_to=1.25,
    ),
    Claim(
        "production-is-slower",
        "Production servers are slower than toy servers, which do less",
        "section 4",
        "in general; here the fastest of each kind",
        Ratio(
            Extreme("min", _slopes(_EVENT_DRIVEN), f"minimum slope of {_NAMES}", 2),
            Extreme("min", _slopes(_TOY_NAMES), "minimum of the toys", 3),
        ),
        holds_from=1.0,
    ),
    Claim(
        "apache-is-slowest",
        "Apache is the slowest of the production servers",
        "section 4, Figure 2(a)",
        "significantly slower than all three event-driven servers",
        Ratio(
            Extreme("min", _slopes(_APACHES), "minimum slope of Apache's two models", 2),
            Extreme("max", _slopes(_EVENT_DRIVEN), f"maximum slope of {_NAMES}", 2),
        ),
        holds_from=1.0,
    ),
    Claim(
        "apache-models-are-equal",
        "Apache is equally slow with processes and with threads",
        "section 4, Figure 2(a)",
        "prefork and worker equally slow; here within a tenth",
        Ratio(_slope("apache-prefork"), _slope("apache-worker")),
        holds_from=0.9,
        holds_to=1.1,
    ),
    Claim(
        "lighttpd-is-fastest",
        "lighttpd is slightly the fastest of the event-driven production servers",
        "section 4, Figure 2(a)",
        "very slightly faster than Polipo, thttpd somewhat slower; here against nginx and h2o",
        Ratio(
            _slope("lighttpd"),
            Extreme("min", _slopes(("nginx", "h2o")), "minimum of nginx and h2o", 2),
        ),
        holds_to=1.0,
    ),
    Claim(
        "events-need-less-memory",
        "Events need much less memory than threads",
        "section 5",
        "much smaller memory requirements; here kernel threads need at least twice as much, with "
        "1000 connections",
        Ratio(_memory("toy-kernel"), _memory("toy-event")),
        holds_from=2.0,
    ),
    *tuning.CLAIMS,
)

ARE_EVENTS_FAST = Experiment(
    name="are-events-fast",
    summary="Service time against load, 1 to 1000 connections, one connection per request of a "
    "305-byte page",
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
            max_load_s=0.5,
            rounds=2,
            points=("load-16", "load-128", "load-400"),
        ),
        Scale(
            "normal",
            budget_s=2048.0,
            warmup_s=0.1,
            max_load_s=6.0,
            rounds=8,
            max_rounds=10,
            points=(*(f"load-{load}" for load in (1, 100, 400, 700, 1000)), *tuning.AT_NORMAL),
            drop=50,
            slow_servers=_SLOW,
        ),
        Scale("paper", budget_s=14_400.0, warmup_s=1.0, max_load_s=20.0, rounds=8, drop=1000),
    ),
    peers=_PEERS,
    architectures=(
        *(Variant(name, name) for name in _OURS),
        *tuning.VARIANTS,
    ),
    toys=_TOYS,
    validity_rules=ValidityRules(exempt=tuning.EXEMPT),
    server_share=0.25,
    claims=_CLAIMS,
    charts=(
        *(
            ChartSpec(
                key,
                f"Service time against load, {words}",
                f"After Figure 2({letter}). Mean response time, normalized for the speed of the "
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
        ChartSpec(
            "measured-load",
            "Measured load against offered load",
            "After Figure 1. Number of requests times their mean time, divided by the duration of "
            "the run: below the diagonal something other than the server delayed requests.",
            _X,
            "measured_load",
            "offered load, connections",
            "measured load",
            where=_PLAIN,
            has_diagonal=True,
        ),
        ChartSpec(
            "cpu",
            "CPU time per request against load",
            "Not in the document: the server's own CPU time.",
            _X,
            "server_cpu_us_per_request",
            "offered load, connections",
            "CPU time per request, µs",
            where=_PLAIN,
            log_x=True,
        ),
        *tuning.CHARTS,
    ),
    notes=(
        "One machine over loopback instead of two over Gigabit Ethernet; a CPU limit instead of a "
        "slower processor.",
        "With the CPU limit, service times are normalized to the average speed of the core in this "
        "run, and the client's core does not halt while clients wait.",
        "The load generator is ours, not ApacheBench; each run checks it against wrk and ab.",
        "The toys are ours too, with the document's structure: one thread accepts, each connection "
        "gets a new thread or process. CPC itself is not measured; our compiler takes its place.",
        "nginx, lighttpd and h2o represent the event-driven production servers of 2009, and our "
        "eager represents thttpd, which has no package: mini-httpd is its author's other server.",
        "In the document the client used at most a fifth of its processor; here a measurement is "
        "invalid if the client used nearly all of its core. Different network cards cannot be "
        "compared on one machine.",
        "Apache's accept queue is as long as that of the other servers, not 512.",
        "Memory is anonymous and shared memory halfway through a load; kernel memory, such as the "
        "kernel stacks of threads, is not included.",
    ),
)
