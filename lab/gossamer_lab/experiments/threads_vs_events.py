"""``threads-vs-events``: throughput against threads, and bandwidth against clients."""

from gossamer_lab.claims import Claim, Correlation, Maximum, Mean, Quantity, Ratio
from gossamer_lab.experiment import (
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
_MANY = 8192
_FEW = (1, 4, 16, 64)
_KNOT_C, _KNOT_A, _KNOT_POLL = "user, connections", "user, accept", "user, accept, poll()"
_THINK_MS, _REQUESTS = 20, 5
_DIRECTORIES = 25
_PROGRAMS = (
    Program("threads", "threads/figure2", ("threads",), "a pool of user-level threads"),
    Program("events", "threads/figure2", ("events",), "one thread that processes a queue"),
)
_THREADS, _CLIENTS_FIELD = "threads", "connections"


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
    return Point(f"clients-{clients}", 8192, clients, _REQUESTS, _THINK_MS, _DIRECTORIES)


def _speed(name: str, counts: tuple[int, ...]) -> Quantity:
    return Mean(name, "throughput_per_s", ((_THREADS, counts),), f"throughput of {name}")


def _bandwidth(name: str) -> Quantity:
    return Maximum(
        name, "bytes_per_s", ((_CLIENTS_FIELD, _CLIENTS),), f"maximum bandwidth of {name}"
    )


def _retained(name: str) -> Quantity:
    """Return the share of its maximum bandwidth that a server retains with very many clients."""
    where = ((_CLIENTS_FIELD, _MANY),)
    many = Mean(name, "bytes_per_s", where, f"bandwidth of {name}, {_MANY:,} clients")
    return Ratio(many, _bandwidth(name))


def _switches(name: str) -> Quantity:
    return Maximum(
        name,
        "server_switches_per_s",
        ((_CLIENTS_FIELD, _CLIENTS),),
        f"maximum context switches of {name}",
    )


_CLAIMS = (
    Claim(
        "threads-match-events",
        "Threads match the throughput of an event server, from 1 to 100,000 threads",
        "section 2.2, Figure 2",
        "easily, at every number; here at least 0.95 in the mean over all numbers",
        Ratio(_speed("threads", _COUNTS[:-1]), _speed("events", _COUNTS[:-1])),
        holds_from=0.95,
    ),
    Claim(
        "threads-scale",
        "The throughput of threads does not fall up to 100,000 threads",
        "section 2.2, Figure 2",
        "quite well; here at least half of that of ten threads",
        Ratio(
            Mean("threads", "throughput_per_s", ((_THREADS, 100_000),), "throughput of 100,000"),
            Mean("threads", "throughput_per_s", ((_THREADS, 10),), "of 10 threads"),
        ),
        holds_from=0.5,
    ),
    Claim(
        "bandwidth-rises-linearly",
        "Until the server is saturated, bandwidth rises linearly with the number of clients",
        "section 5, Figure 3",
        "a linear increase; here a correlation of at least 0.99 up to 64 clients",
        Correlation(_KNOT_C, _CLIENTS_FIELD, "bytes_per_s", ((_CLIENTS_FIELD, _FEW),)),
        holds_from=0.99,
    ),
    Claim(
        "bandwidth-levels-out",
        "Once the server that favours connections is saturated, its bandwidth levels out",
        "section 5, Figure 3",
        "steady at nearly 700 Mbit/s; here at least 0.8 of its maximum, with 8,192 clients",
        _retained(_KNOT_C),
        holds_from=0.8,
    ),
    Claim(
        "poll-does-not-scale",
        "With poll() bandwidth falls with very many clients",
        "section 5, Figure 3",
        "it fell for Knot-A and for Haboob; here at most 0.8 of the maximum, with 8,192 clients",
        _retained(_KNOT_POLL),
        holds_to=0.8,
    ),
    Claim(
        "epoll-scales",
        "With epoll it does not fall",
        "section 5",
        "it avoids the problem, with excellent scalability; here at least 0.8 of the maximum",
        _retained(_KNOT_A),
        holds_from=0.8,
    ),
    Claim(
        "a-peak-at-1024",
        "Bandwidth has a peak around 1024 clients",
        "section 5, Figure 3",
        "a spike, attributed to fewer interrupts of the network card; here at least 1.05 times the "
        "bandwidth with 4,096 clients",
        Ratio(
            Mean(
                _KNOT_C, "bytes_per_s", ((_CLIENTS_FIELD, 1024),), f"bandwidth of {_KNOT_C}, 1024"
            ),
            Mean(_KNOT_C, "bytes_per_s", ((_CLIENTS_FIELD, 4096),), "4,096 clients"),
        ),
        holds_from=1.05,
    ),
    Claim(
        "stages-use-up-the-processor",
        "The staged server is limited by its processor from 512 clients on",
        "section 5",
        "CPU limited at 512 clients; here at least 0.95 of its core busy",
        Mean("stage", "server_busy", ((_CLIENTS_FIELD, 512),), "share of its core that stage uses"),
        holds_from=0.95,
    ),
    Claim(
        "stages-run-out-of-memory",
        "The staged server runs out of memory beyond 16,384 clients",
        "Figure 3",
        "it could not be run with more; here requests fail with 32,768",
        Maximum("stage", "errors", ((_CLIENTS_FIELD, 32_768),), "failed requests of stage"),
        holds_from=1.0,
    ),
    Claim(
        "threads-reach-more",
        "A threaded server reaches a higher bandwidth than a staged event-driven one",
        "section 5, Figure 3",
        "700 Mbit/s for Knot-C, 500 for Haboob",
        Ratio(_bandwidth(_KNOT_C), _bandwidth("stage")),
        holds_from=1.0,
    ),
    Claim(
        "stages-switch-more",
        "A staged server has far more context switches than a threaded one",
        "section 5",
        "30,000 per second for Haboob, more than 6 times as many as Knot",
        Ratio(_switches("stage"), _switches(_KNOT_C)),
        holds_from=6.0,
    ),
    Claim(
        "stages-switch-30000-times",
        "A staged server under full load has 30,000 context switches per second",
        "section 5",
        "30,000; here from half to twice as many",
        _switches("stage"),
        holds_from=15_000.0,
        holds_to=60_000.0,
    ),
    Claim(
        "policies-agree",
        "With either connections or accepting favoured, the maximum bandwidth is about the same",
        "section 5, Figure 3",
        "the same general pattern; here within a tenth",
        Ratio(_bandwidth(_KNOT_C), _bandwidth(_KNOT_A)),
        holds_from=0.9,
        holds_to=1.1,
    ),
)

THREADS_VS_EVENTS = Experiment(
    name="threads-vs-events",
    summary="Throughput with 1 to 1,000,000 threads, and bandwidth against 1 to 32,768 clients of "
    "a SPECweb99 file set",
    document=Document(
        "Why events are a bad idea", "Rob von Behren, Jeremy Condit and Eric Brewer", 2003
    ),
    points=(*map(_case, _COUNTS), *map(_load, _CLIENTS)),
    scales=(
        Scale(
            "smoke",
            budget_s=20.0,
            warmup_s=0.2,
            max_load_s=1.0,
            rounds=2,
            points=(
                *("threads-1", "threads-10", "threads-1000", "threads-10000"),
                *("clients-4", "clients-64", "clients-256"),
            ),
        ),
        Scale("normal", budget_s=660.0, warmup_s=1.0, max_load_s=5.0, rounds=4, repeats=2),
        Scale("paper", budget_s=21_600.0, warmup_s=20.0, max_load_s=60.0, rounds=8, repeats=3),
    ),
    architectures=(
        Variant(_KNOT_C, "user", ("--favor", "connections"), raises_max_connections=True),
        Variant(_KNOT_A, "user", ("--favor", "accept"), raises_max_connections=True),
        Variant(
            _KNOT_POLL,
            "user",
            ("--favor", "accept", "--poller", "poll"),
            raises_max_connections=True,
        ),
        Variant("event", "event", raises_max_connections=True),
        Variant("stage", "stage", raises_max_connections=True),
    ),
    programs=_PROGRAMS,
    claims=_CLAIMS,
    validity_rules=ValidityRules(max_client_busy=1.1),
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
            _CLIENTS_FIELD,
            "bytes_per_s",
            "clients (logarithmic)",
            "bytes per second",
            log_x=True,
        ),
        ChartSpec(
            "switches",
            "Context switches of the kernel against simultaneous clients",
            "After section 5, which reports 30,000 per second under full load.",
            _CLIENTS_FIELD,
            "server_switches_per_s",
            "clients (logarithmic)",
            "context switches per second",
            log_x=True,
        ),
    ),
    notes=(
        "Knot, a server of user-level threads, is our architecture user, favouring connections for "
        "Knot-C and accepting for Knot-A. Haboob is our architecture stage, in C, where the "
        "document's was in Java.",
        "The loops use epoll, one of them poll() like the document's servers.",
        "That a thread package has 5000 lines and a server 700 is not measured.",
        f"{_DIRECTORIES} directories at every load; the original's number grows with the load. "
        "The sequence of requests is random, by Zipf's law, but the same in every run.",
        "Server and load generator share one machine: if the load generator is busy all the time, "
        "it limits the bandwidth, equally for all servers.",
    ),
)
