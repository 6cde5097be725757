"""``are-events-fast``: service time against load, for servers of many structures."""

import gossamer_lab.experiments.are_events_fast_tuning as tuning
from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import Correlation, Every, Mean, Quantity, Ratio, Slope, Where
from gossamer_lab.experiments.manifest import (
    ChartSpec,
    Document,
    Experiment,
    Point,
    Program,
    Scale,
    ValidityRules,
    Variant,
)
from gossamer_lab.statistics.service_time import SERVICE

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
_PLAIN: Where = (("topic", ""),)
_DRAWN: Where = (("topic", ("", "one")),)
_TOYS = (
    Program("toy-fork", "toys/fork", (), "a process for each connection"),
    Program("toy-kernel", "toys/kernel", (), "a kernel thread for each connection"),
    Program("toy-pth", "toys/pth", (), "a thread of GNU Pth for each connection", "libpth-dev"),
    Program("toy-st", "toys/st", (), "a State Thread for each connection", "libst-dev"),
    Program(
        "toy-cpc",
        "toys/cpc",
        (),
        "a thread for each connection, compiled into events by gossamer cc",
        requirement="llvm-19-dev, to build gossamer cc",
    ),
    Program("toy-user", "toys/threads", (), "a user-level thread of ours for each connection"),
    Program("toy-event", "toys/loop", (), "our event loop, a watcher for each connection"),
)
_TOY_NAMES = tuple(toy.name for toy in _TOYS)
_LIBRARIES = ("toy-kernel", "toy-pth", "toy-st")
_PUBLISHED_TOYS = ("toy-fork", *_LIBRARIES)
_EVENT_DRIVEN = ("nginx", "lighttpd", "h2o")
_APACHES = ("apache-prefork", "apache-worker")
_PEERS = (*_EVENT_DRIVEN, *_APACHES, "apache-event", "mini-httpd", "go")
_OURS = ("user", "event", "eager")
_AT_EVERY_LOAD = (*_TOY_NAMES, *_OURS, *_PEERS)
_REGULAR = (*_PUBLISHED_TOYS, *_EVENT_DRIVEN)
_ALSO = ("toy-user", "toy-event", *_OURS)


def _point(load: int) -> Point:
    """Return a load."""
    return Point(
        f"load-{load}",
        305,
        load,
        1,
        servers=_AT_EVERY_LOAD,
        min_s=_MIN_S.get(load, 0.0),
        topic="one" if load == 1 else "",
    )


def _slope(name: str) -> Slope:
    return Slope(name, _X, _Y, _PLAIN)


def _memory(name: str) -> Quantity:
    return Mean(name, "server_memory_kb", ((_X, 1000), *_PLAIN), f"memory of {name}")


def _slopes(names: tuple[str, ...], others: tuple[str, ...]) -> Quantity:
    """Return the ratio of the slopes of each pair of two servers."""
    pairs = [(name, other) for name in names for other in others if name != other]
    if set(names) == set(others):
        pairs = [(name, other) for i, name in enumerate(names) for other in names[:i]]
    return Every(
        tuple(Ratio(_slope(name), _slope(other)) for name, other in pairs), "ratio of slopes"
    )


def _correlations(names: tuple[str, ...]) -> Quantity:
    return Every(tuple(Correlation(name, _X, _Y, _PLAIN) for name in names), "correlation")


_CLAIMS = (
    Claim(
        "events-match-threads",
        "Event-driven code is at least as fast as the fastest threads",
        "abstract and section 5",
        "event-driven code is as fast or faster than the fastest implementations using thread "
        "libraries",
        _slopes(("toy-event",), _LIBRARIES),
        holds_to=1.05,
        reading="the slope of the toy on our event loop is at most 1.05 times that of each "
        "library; the document's event-driven toy was CPC, threads compiled to events, and "
        "itself slower than State Threads",
    ),
    Claim(
        "linear",
        "Service time grows linearly with load",
        "section 4",
        "with the exception of Apache, the correlation coefficient between the mean response time "
        "and the offered load is above 0.999",
        _correlations(_REGULAR),
        0.999,
        reading="for each server, of the means over the rounds",
    ),
    Claim(
        "ours-are-linear",
        "Service times of our servers and toys grow linearly with load",
        "section 4",
        "",
        _correlations(_ALSO),
        0.999,
        reading="the same of servers that the document does not have",
    ),
    Claim(
        "fork-is-slowest",
        "A process for each connection is slower than any other implementation",
        "section 4, Figure 2(b)",
        "the implementation using full-fledged processes was slower than any other of the "
        "implementations that we benchmarked",
        _slopes(("toy-fork",), (*_LIBRARIES, *_EVENT_DRIVEN, *_APACHES)),
        1.0,
        reading="the slope is larger than that of each of the document's other toys and of each "
        "production server; toy-cpc, which stands for CPC, is the subject of another claim",
    ),
    Claim(
        "kernel-threads-are-fast",
        "Kernel threads are about as fast as simple user-space threads",
        "section 4, Figure 2(b)",
        "Pth yielded results similar to those of NPTL",
        Ratio(_slope("toy-kernel"), _slope("toy-pth")),
        0.8,
        1.25,
        "slopes within a quarter",
    ),
    Claim(
        "st-is-fastest",
        "State Threads, with good data structures, are faster than processes, NPTL and Pth",
        "section 4, Figure 2(b)",
        "ST yielded excellent results",
        _slopes(("toy-st",), ("toy-fork", "toy-kernel", "toy-pth")),
        holds_to=1.0,
        reading="the slope is smaller than each of theirs; toy-cpc, which stands for CPC, is the "
        "subject of another claim",
    ),
    Claim(
        "cpc-is-second",
        "Threads compiled into events are faster than all others except State Threads",
        "section 4, Figure 2(b)",
        "better than all of the other implementations save the one using ST",
        Every(
            tuple(
                Ratio(_slope(name), _slope(other))
                for name, other in (
                    *(("toy-cpc", other) for other in ("toy-fork", "toy-kernel", "toy-pth")),
                    ("toy-st", "toy-cpc"),
                )
            ),
            "ratio of slopes",
        ),
        holds_to=1.0,
        reading="the slope of toy-cpc, which gossamer cc compiles, is smaller than those of fork, "
        "NPTL and Pth, and larger than that of State Threads",
    ),
    Claim(
        "production-is-alike",
        "Event-driven production servers are about equally fast",
        "section 4, Figure 2(a)",
        "their performance was roughly similar",
        _slopes(_EVENT_DRIVEN, _EVENT_DRIVEN),
        0.8,
        1.25,
        "the slopes of each two of nginx, lighttpd and h2o are within a quarter",
    ),
    Claim(
        "production-is-slower",
        "Production servers are slower than toy servers, which do less",
        "section 4",
        "the production servers were generally slower than the toy servers",
        _slopes(_EVENT_DRIVEN, ("toy-pth", "toy-st")),
        1.0,
        reading="generally: every slope is larger than those of Pth and ST, the user-space threads",
    ),
    Claim(
        "apache-is-slowest",
        "Apache is slower than every event-driven production server",
        "section 4, Figure 2(a)",
        "all three event-driven production servers were significantly faster than Apache",
        _slopes(_APACHES, _EVENT_DRIVEN),
        1.0,
        reading="the slopes of both models are larger than each of theirs",
    ),
    Claim(
        "apache-models-are-equal",
        "Apache is equally slow with processes and with threads",
        "section 4, Figure 2(a)",
        "the process-pool (prefork) and the thread-pool (worker) implementations performed equally "
        "poorly",
        Ratio(_slope("apache-prefork"), _slope("apache-worker")),
        0.9,
        1.1,
        "slopes within a tenth",
    ),
    Claim(
        "lighttpd-is-fastest",
        "lighttpd is slightly the fastest of the event-driven production servers",
        "section 4, Figure 2(a)",
        "Thttpd was somewhat slower than Polipo, and Lighttpd very slightly faster",
        _slopes(("lighttpd",), ("nginx", "h2o")),
        holds_to=1.0,
        reading="against nginx and h2o, in place of Polipo and thttpd",
    ),
    Claim(
        "events-need-less-memory",
        "Events need much less memory than threads",
        "section 5",
        "events have much smaller memory requirements than threads",
        Ratio(_memory("toy-kernel"), _memory("toy-event")),
        2.0,
        reading="kernel threads need at least twice as much, with 1000 connections",
    ),
    *tuning.CLAIMS,
)

ARE_EVENTS_FAST = Experiment(
    name="are-events-fast",
    summary="Service time against load, 1 to 1000 connections, one connection per request of a "
    "305-byte page",
    document=Document(
        "Are events fast?",
        "Gabriel Kerneis and Juliusz Chroboczek",
        2009,
        says="Service time grows linearly with load, and event-driven code is as fast as the "
        "fastest threads or faster, in servers of many structures on a small page.",
        differs="one machine over loopback with a CPU limit, not two over Gigabit Ethernet; "
        "h2o and nginx in place of Polipo and thttpd; a kernel that drops SYNs when an accept "
        "queue is full.",
        main_claims=(
            *("events-match-threads", "linear", "fork-is-slowest", "kernel-threads-are-fast"),
            *("apache-is-slowest", "events-need-less-memory"),
        ),
        chart="service-time-toys",
    ),
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
            rounds=9,
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
                f"After Figure 2({letter}). Mean servicing time, normalized for the speed of the "
                "core; a smaller slope is a faster server. Bars are intervals over the rounds, "
                "lines are fits.",
                _X,
                _Y,
                "offered load, connections",
                "mean service time, µs",
                where=_DRAWN,
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
            where=_DRAWN,
            has_diagonal=True,
        ),
        *tuning.CHARTS,
    ),
    names=(
        ("toy-...", "servers of a hundred lines and equal structure: a thread for each connection"),
        ("user", "our architecture of user-level threads"),
        ("event", "our architecture of event loops"),
        ("eager", "our architecture that accepts at once into a queue of its own, as thttpd does"),
        ("...-128, ...-1024", "the same with an accept queue of this length"),
    ),
    notes=(
        "One machine over loopback instead of two over Gigabit Ethernet; a CPU limit instead of a "
        "slower processor.",
        "A servicing time runs from connecting to the end of the response, as ApacheBench measures "
        "it. Clients that still wait at the end of a load count with their wait so far.",
        "With one connection the server waits for its client most of the time, where the "
        "document's was busy close to 100 %: slopes and correlations are of loads from 16 on.",
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
