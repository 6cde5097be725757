"""``threads-vs-events``: throughput against threads, and bandwidth against clients."""

from collections.abc import Callable
from itertools import pairwise, product

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import (
    Every,
    Maximum,
    Mean,
    Named,
    Quantity,
    Ratio,
    Spread,
    Where,
)
from gossamer_lab.experiments.manifest import (
    PATIENT,
    Case,
    ChartSpec,
    Document,
    Experiment,
    Point,
    Program,
    Scale,
    ValidityRules,
    Variant,
)

_COUNTS = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
_BYTES_A_THREAD = 13 * 1024
_CLIENTS = (1, 4, 16, 64, 256, 512, 1024, 4096, 8192, 16_384, 32_768)
_AT_NORMAL = (1, 4, 16, 64, 256, 512, 1024, 4096, 16_384)
_SATURATED = (1024, 4096)
_BEFORE_POLL_SLOWS = (1, 4, 16, 64, 256, 512, 1024, 4096)
_MANY = 16_384
_FEW = (4, 16, 64)
_KNOT_C, _KNOT_A, _HABOOB = "Knot-C", "Knot-A", "Haboob"
_KNOT_C_EPOLL, _KNOT_A_EPOLL, _STAGE = "Knot-C, epoll", "Knot-A, epoll", "Haboob, epoll"
_PUBLISHED = (_KNOT_C, _KNOT_A, _HABOOB)
_THINK_MS, _REQUESTS = 20, 5
_DIRECTORIES = 25
_MIN_S = 5.0
_RAMP_UP_S = {1024: 1.0, 4096: 3.0, 8192: 4.0, 16_384: 6.0, 32_768: 10.0}
"""Until so many clients are connected, a server accepts instead of sending. SYNs that a full accept
queue drops are retransmitted after 1 s and 3 s."""
_SWITCHES_PER_MB = 30_000 / (500 / 8)
"""30,000 a second at 500 Mbit/s."""
_PROGRAMS = (
    Program("threads", "threads/figure2", ("threads",), "a pool of user-level threads"),
    Program("events", "threads/figure2", ("events",), "one thread that processes a queue"),
)
_THREADS, _X = "threads", "connections"


def _case(count: int) -> Case:
    return Case(
        key=f"threads-{count}",
        label=f"{count:,} threads or contexts",
        arguments=(str(count),),
        columns=("request_ns", "switches"),
        programs=("threads", "events"),
        fields=((_THREADS, count),),
        memory=count * _BYTES_A_THREAD,
        rates=(("throughput_per_s", "request_ns"),),
    )


def _load(clients: int) -> Point:
    return Point(
        f"clients-{clients}",
        8192,
        clients,
        _REQUESTS,
        _THINK_MS,
        _DIRECTORIES,
        min_s=_MIN_S if clients > 1024 else 0.0,
        ramp_up_s=_RAMP_UP_S.get(clients, 0.0),
    )


def _with(*clients: int) -> Where:
    return ((_X, clients),)


def _speed(name: str, count: int) -> Quantity:
    return Mean(name, "throughput_per_s", ((_THREADS, count),), f"throughput of {name}")


def _bandwidth(name: str, clients: int) -> Quantity:
    words = f"bandwidth of {name} with {clients:,} clients"
    return Mean(name, "bytes_per_s", _with(clients), words)


def _maximum(name: str) -> Quantity:
    return Maximum(name, "bytes_per_s", _with(*_AT_NORMAL), f"maximum bandwidth of {name}")


def _retained(*names: str) -> Quantity:
    """Return the share of its maximum bandwidth that each server retains with very many clients."""
    shares = tuple(Ratio(_bandwidth(name, _MANY), _maximum(name)) for name in names)
    return Every(shares, "bandwidth retained")


def _steady(*names: str) -> Quantity:
    """Return the share of its maximum bandwidth at each number of clients that saturate it."""
    return Every(
        tuple(
            Ratio(_bandwidth(name, clients), _maximum(name))
            for name, clients in product(names, (*_SATURATED, _MANY))
        ),
        "bandwidth retained",
    )


def _rate(name: str, clients: int) -> Quantity:
    words = f"requests per second of {name} with {clients:,} clients"
    return Mean(name, "throughput_per_s", _with(clients), words)


def _grown(
    of: Callable[[str, int], Quantity], clients: tuple[int, ...], names: tuple[str, ...], words: str
) -> Quantity:
    """Return how many times something of each server grows from a number of clients to the next."""
    ratios = (
        Ratio(of(name, many), of(name, few)) for name in names for few, many in pairwise(clients)
    )
    return Every(tuple(ratios), f"growth of the {words}")


def _loaded(name: str, column: str, words: str) -> Quantity:
    """Return a column of a saturated server."""
    return Mean(name, column, _with(*_SATURATED), f"{words} of {name}")


_CLAIMS = (
    Claim(
        "threads-match-events",
        "Threads match the throughput of an event server, from 1 to 100,000 threads",
        "section 2.2, Figure 2",
        "scales quite well up to 100,000 threads, easily matching the performance of the "
        "event-based server",
        Every(
            tuple(
                Named(Ratio(_speed("threads", count), _speed("events", count)), f"with {count:,}")
                for count in _COUNTS[:-1]
            ),
            "throughput of threads / events",
        ),
        0.95,
        reading="at least 0.95 of it at every number of threads",
    ),
    Claim(
        "threads-scale",
        "The throughput of threads does not fall up to 100,000 threads",
        "section 2.2, Figure 2",
        "scales quite well up to 100,000 threads",
        Every(
            tuple(
                Named(Ratio(_speed("threads", count), _speed("threads", 10)), f"with {count:,}")
                for count in _COUNTS[:-1]
                if count > 10
            ),
            "throughput of threads / of ten of them",
        ),
        0.5,
        reading="at least half of that of ten threads, at every number",
    ),
    Claim(
        "bandwidth-rises-linearly",
        "Until the servers are saturated, the bandwidth of Knot and Haboob rises linearly",
        "section 5, Figure 3",
        "Knot and Haboob have the same general performance pattern. Initially, there is a linear "
        "increase in bandwidth as the number of simultaneous connections increases",
        _grown(_rate, _FEW, _PUBLISHED, "requests per second"),
        0.9 * 4,
        1.1 * 4,
        "four times as much with 16 clients as with 4, and with 64 as with 16, within a tenth, for "
        "each server; of requests, not bytes: every load begins the same sequence of files anew, "
        "and few clients get no further than its first files, which happen to be large",
    ),
    Claim(
        "bandwidth-levels-out",
        "Once the servers are saturated, the bandwidth of Knot and Haboob levels out",
        "section 5, Figure 3",
        "when the server is saturated, the bandwidth levels out",
        _grown(_bandwidth, _SATURATED, _PUBLISHED, "bandwidth"),
        0.8,
        1.25,
        "from 1024 to 4096 clients it differs by at most a quarter, for each server",
    ),
    Claim(
        "same-pattern",
        "Knot and Haboob have the same general performance pattern",
        "section 5, Figure 3",
        "Figure 3 shows that Knot and Haboob have the same general performance pattern",
        Every(
            tuple(
                Spread(
                    knot,
                    _HABOOB,
                    "bytes_per_s",
                    _with(*_BEFORE_POLL_SLOWS),
                    f"variation of {knot} / {_HABOOB}",
                )
                for knot in (_KNOT_C, _KNOT_A)
            ),
            "largest ratio of bandwidths / smallest",
        ),
        holds_to=2.0,
        reading="up to 4,096 clients the ratio of bandwidths varies at most twofold; at "
        "the published maxima, 700 and 500 Mbit/s, it is 1.4 times that of unsaturated servers",
    ),
    Claim(
        "bandwidth-is-steady",
        "The bandwidth of Knot-C is steady up to 16,384 clients",
        "section 5, Figure 3",
        "the steady-state bandwidth achieved by Knot-C is nearly 700 Mbit/s",
        _steady(_KNOT_C),
        0.8,
        reading="at least 0.8 of its maximum from 1024 clients on",
    ),
    Claim(
        "poll-does-not-scale",
        "With poll() the bandwidth of Knot-A and of Haboob falls with very many clients",
        "section 5, Figure 3",
        "the performance degradation for both Knot-A and Haboob is due to the poor scalability of "
        "poll()",
        _retained(_KNOT_A, _HABOOB),
        holds_to=0.8,
        reading="at most 0.8 of the maximum with 16,384 clients, for each of the two",
    ),
    Claim(
        "epoll-scales",
        "With epoll it does not fall",
        "section 5",
        "using the newer sys_epoll system call with Knot avoids this problem and achieves "
        "excellent scalability",
        _steady(_KNOT_A_EPOLL, _KNOT_C_EPOLL),
        0.8,
        reading="at least 0.8 of the maximum from 1024 clients on, for each policy of Knot",
    ),
    Claim(
        "accepting-is-throttled",
        "A server that favours connections accepts fewer of them when it is saturated",
        "section 5",
        "the first policy provides a natural throttling mechanism by limiting the number of new "
        "connections; the second was designed to create higher internal concurrency",
        Named(
            Ratio(
                Mean(_KNOT_C, "server_connections", _with(_MANY), ""),
                Mean(_KNOT_A, "server_connections", _with(_MANY), ""),
            ),
            f"open connections of {_KNOT_C} / {_KNOT_A} with {_MANY:,} clients",
        ),
        holds_to=0.8,
        reading="at most 0.8 times as many are open at a time",
    ),
    Claim(
        "a-peak-at-1024",
        "The bandwidth of Knot-C has a peak around 1024 clients",
        "section 5, Figure 3",
        "the performance spike around 1024 clients is due to lower interrupt overhead when fewer "
        "connections to the server are being created",
        Every(
            tuple(
                Ratio(_bandwidth(_KNOT_C, 1024), _bandwidth(_KNOT_C, other))
                for other in (512, 4096)
            ),
            "bandwidth with 1024 clients / before and after",
        ),
        1.05,
        reading="at least 1.05 times the bandwidth with 512 and with 4,096 clients",
    ),
    Claim(
        "stages-use-up-the-processor",
        "The staged server is limited by its processor from 512 clients on",
        "section 5",
        "Haboob becomes CPU limited at 512 clients",
        Mean(
            _HABOOB,
            "server_saturation",
            _with(512),
            f"CPU time of {_HABOOB} / CPU time that it may use",
        ),
        0.95,
        reading="it uses at least 0.95 of the CPU time that it may use",
    ),
    Claim(
        "stages-need-memory",
        "The staged server needs about 1 GB with 16,384 clients",
        "Figure 3",
        "we were unable to run the benchmark for Haboob with more than 16384 clients, as Haboob "
        "ran out of memory",
        Named(
            Mean(_HABOOB, "server_memory_kb", _with(_MANY), ""),
            f"memory of {_HABOOB}, kB",
        ),
        500_000.0,
        reading="at least half of the 1 GB of the document's machine",
    ),
    Claim(
        "threads-reach-more",
        "A threaded server reaches a higher bandwidth than a staged event-driven one",
        "section 5, Figure 3",
        "Haboob's maximum bandwidth of 500 Mbit/s is significantly lower than Knot's",
        Ratio(_maximum(_KNOT_C), _maximum(_HABOOB)),
        1.0,
    ),
    Claim(
        "stages-switch-more",
        "A saturated staged server has far more context switches than a threaded one",
        "section 5",
        "Haboob context switches 30,000 times per second when fully loaded - more than 6 times as "
        "frequently as Knot",
        Ratio(
            _loaded(_HABOOB, "server_switches_per_s", "context switches"),
            _loaded(_KNOT_C, "server_switches_per_s", "context switches"),
        ),
        6.0,
        reading="with 1024 and 4096 clients",
    ),
    Claim(
        "stages-switch-for-each-piece",
        "A saturated staged server has 480 context switches for each megabyte",
        "section 5",
        "30,000 per second when fully loaded, at its maximum bandwidth of 500 Mbit/s",
        _loaded(_HABOOB, "switches_per_megabyte", "context switches per MB"),
        0.5 * _SWITCHES_PER_MB,
        2.0 * _SWITCHES_PER_MB,
        "from half to twice as many; per second they depend on the speed of the machine",
    ),
)

THREADS_VS_EVENTS = Experiment(
    name="threads-vs-events",
    summary="Throughput with 1 to 1,000,000 threads, and bandwidth against 1 to 32,768 clients of "
    "a SPECweb99 file set",
    document=Document(
        "Why events are a bad idea",
        "Rob von Behren, Jeremy Condit and Eric Brewer",
        2003,
        says="Threads match the throughput of events up to 100,000 threads, and a threaded server "
        "reaches a higher bandwidth than a staged event-driven one.",
        differs="our architectures user and stage, in C, instead of Knot and of Haboob in Java; a "
        "quarter of a core instead of two processors and a network; at most 16,384 clients.",
        main_claims=(
            *("threads-match-events", "threads-scale", "poll-does-not-scale", "epoll-scales"),
            *("threads-reach-more", "stages-switch-more"),
        ),
        chart="figure-3",
    ),
    points=(*map(_case, _COUNTS), *map(_load, _CLIENTS)),
    scales=(
        Scale(
            "smoke",
            budget_s=20.0,
            warmup_s=0.2,
            max_load_s=1.0,
            rounds=2,
            program_s=0.6,
            points=(
                *("threads-1", "threads-10", "threads-1000", "threads-10000"),
                *("clients-4", "clients-64", "clients-256"),
            ),
        ),
        Scale(
            "normal",
            budget_s=900.0,
            warmup_s=0.5,
            max_load_s=5.0,
            rounds=5,
            repeats=2,
            program_s=1.5,
            points=(
                *(f"threads-{count}" for count in _COUNTS),
                *(f"clients-{clients}" for clients in _AT_NORMAL),
            ),
        ),
        Scale(
            "paper",
            budget_s=0.0,
            warmup_s=1.0,
            ramp_up_s=20.0,
            max_load_s=60.0,
            rounds=8,
            load_s=60.0,
            repeats=3,
            program_s=2.0,
        ),
    ),
    architectures=tuple(
        Variant(
            f"{name}{'' if poller == 'poll' else ', epoll'}",
            arch,
            (*options, *PATIENT, *(("--poller", "poll") if poller == "poll" else ())),
            raises_max_connections=True,
        )
        for poller, (name, arch, options) in product(
            ("poll", "epoll"),
            (
                (_KNOT_C, "user", ("--favor", "connections")),
                (_KNOT_A, "user", ("--favor", "accept")),
                (_HABOOB, "stage", ()),
            ),
        )
    ),
    server_share=0.25,
    programs=_PROGRAMS,
    claims=_CLAIMS,
    validity_rules=ValidityRules(),
    charts=(
        ChartSpec(
            "figure-2",
            "Throughput against the number of threads",
            "After Figure 2. Each request reads 8 KB of a cached file, and is generated inside the "
            "program.",
            _THREADS,
            "throughput_per_s",
            "threads, or contexts of the event server (logarithmic)",
            "requests per second",
            log_x=True,
        ),
        ChartSpec(
            "figure-3",
            "Bandwidth against simultaneous clients",
            "After Figure 3. SPECweb99 file set, 20 ms between requests, five requests per "
            "connection.",
            _X,
            "bytes_per_s",
            "clients (logarithmic)",
            "bytes per second",
            log_x=True,
        ),
        ChartSpec(
            "switches",
            "Context switches of the kernel against simultaneous clients",
            "After section 5, which reports 30,000 per second under full load.",
            _X,
            "server_switches_per_s",
            "clients (logarithmic)",
            "context switches per second",
            log_x=True,
        ),
    ),
    names=(
        (_KNOT_C, "our architecture user, favouring open connections, over poll()"),
        (_KNOT_A, "our architecture user, favouring new connections, over poll()"),
        (_HABOOB, "our architecture stage, over poll()"),
        ("..., epoll", "the same over epoll"),
        ("threads, events", "the program of Figure 2, without a network"),
    ),
    notes=(
        "Knot, a server of user-level threads, is our architecture user. Haboob is our "
        "architecture stage, in C, where the document's was in Java.",
        "A CPU limit leaves a quarter of its core to the server, so that the server and not the "
        "client is the limit; the document's server had two processors and its own network. "
        "Context switches that the limit causes are not counted.",
        "The event server of Figure 2 reads into one buffer, on the stack of its only thread. In "
        "the threaded server, each thread has a buffer on its own stack. The document does not say "
        "where its buffers are; we put them where such programs usually do. This matters: at "
        "100,000, threads reach 0.51 of the throughput of events, but 1.01 if each context of "
        "the event server also has a buffer (three runs on an AMD EPYC).",
        "The measured time begins when all clients are connected, as after the warm-up of the "
        "document's client: 1 s into a load of 1024 clients, 6 s into one of 16,384.",
        "Timeouts of the servers are set too long to expire.",
        "The sizes of the code, 5000 lines for a thread package and 700 for a server, are not "
        "checked.",
        f"{_DIRECTORIES} directories at every load; the original's number grows with the load. "
        "The sequence of requests is random, by Zipf's law, but the same in every run.",
        "The document plots Haboob up to 16,384 clients; more exceed 20,000 open files here.",
    ),
)
