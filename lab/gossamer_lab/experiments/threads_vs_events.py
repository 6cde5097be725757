"""``threads-vs-events``: throughput among many threads, and bandwidth against many clients."""

from gossamer_lab.claims import Claim, Highest, Mean, Quantity, Ratio
from gossamer_lab.experiment import (
    Case,
    Document,
    Drawing,
    Experiment,
    Point,
    Program,
    Scale,
    Soundness,
    Variant,
)

_COUNTS = (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
_BYTES_A_THREAD = 13 * 1024
_CLIENTS = (1, 4, 16, 64, 256, 1024, 4096, 8192)
_THINK_MS, _REQUESTS = 20, 5
_DIRECTORIES = 25
_PROGRAMS = (
    Program("threads", "threads/figure2", ("threads",), "a pool of user-level threads"),
    Program("events", "threads/figure2", ("events",), "one thread that takes from a queue"),
)
_THREADS, _CLIENTS_FIELD = "threads", "connections"


def _case(count: int) -> Case:
    return Case(
        key=f"among-{count}",
        label=f"among {count:,} threads or contexts",
        words=(str(count),),
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
    return Highest(name, "bytes_per_s", ((_CLIENTS_FIELD, _CLIENTS),), f"best bandwidth of {name}")


def _switches(name: str) -> Quantity:
    return Highest(
        name, "server_switches_per_s", ((_CLIENTS_FIELD, _CLIENTS),), f"most switches of {name}"
    )


_CLAIMS = (
    Claim(
        "threads-match-events",
        "Threads match an event server's throughput, from one to 100,000 of them",
        "section 2.2, Figure 2",
        "easily matching, at every number; here 0.95 or more in the mean of all numbers",
        Ratio(_speed("threads", _COUNTS[:-1]), _speed("events", _COUNTS[:-1])),
        holds_from=0.95,
    ),
    Claim(
        "threads-scale",
        "The throughput of threads does not fall as they become 100,000",
        "section 2.2, Figure 2",
        "quite well; here to no less than half of that of ten",
        Ratio(
            Mean("threads", "throughput_per_s", ((_THREADS, 100_000),), "throughput of 100,000"),
            Mean("threads", "throughput_per_s", ((_THREADS, 10),), "of 10 threads"),
        ),
        holds_from=0.5,
    ),
    Claim(
        "threads-reach-more",
        "A threaded server reaches more bandwidth than a staged event-driven one",
        "section 5, Figure 3",
        "700 Mbit/s for Knot-C, 500 for Haboob",
        Ratio(_bandwidth("user, connections"), _bandwidth("stage")),
        holds_from=1.0,
    ),
    Claim(
        "stages-switch-more",
        "A staged server switches contexts far more often than a threaded one",
        "section 5",
        "30,000 a second for Haboob, more than 6 times as often as Knot",
        Ratio(_switches("stage"), _switches("user, connections")),
        holds_from=6.0,
    ),
    Claim(
        "policies-agree",
        "Whether connections or accepting come first, the best bandwidth is about the same",
        "section 5, Figure 3",
        "the same general pattern; here within a tenth",
        Ratio(_bandwidth("user, connections"), _bandwidth("user, accept")),
        holds_from=0.9,
        holds_to=1.1,
    ),
)

THREADS_VS_EVENTS = Experiment(
    name="threads-vs-events",
    summary="Throughput among 1 to 1,000,000 threads, and bandwidth against 1 to 8,192 clients "
    "of a SPECweb99 file set",
    document=Document(
        "Why events are a bad idea", "Rob von Behren, Jeremy Condit and Eric Brewer", 2003
    ),
    points=(*map(_case, _COUNTS), *map(_load, _CLIENTS)),
    scales=(
        Scale(
            "smoke",
            budget_s=20.0,
            warmup_s=0.2,
            longest_s=1.0,
            rounds=2,
            points=(
                *("among-1", "among-10", "among-1000", "among-10000"),
                *("clients-4", "clients-64", "clients-256"),
            ),
        ),
        Scale("normal", budget_s=420.0, warmup_s=1.0, longest_s=5.0, rounds=4, repeats=2),
        Scale("paper", budget_s=7200.0, warmup_s=20.0, longest_s=60.0, rounds=8, repeats=3),
    ),
    architectures=(
        Variant("user, connections", "user", ("--favor", "connections")),
        Variant("user, accept", "user", ("--favor", "accept")),
        Variant("event", "event"),
        Variant("stage", "stage"),
    ),
    programs=_PROGRAMS,
    claims=_CLAIMS,
    soundness=Soundness(most_client=1.1),
    drawings=(
        Drawing(
            "figure-2",
            "Throughput against the number of threads",
            "After Figure 2. Each request reads 8 KB of a cached file, and is made inside the "
            "program.",
            _THREADS,
            "throughput_per_s",
            "threads, or contexts of the event server (logarithmic)",
            "requests a second",
            log_x=True,
        ),
        Drawing(
            "figure-3",
            "Bandwidth against simultaneous clients",
            "After Figure 3. SPECweb99 file set, 20 ms between requests, five requests a "
            "connection.",
            _CLIENTS_FIELD,
            "bytes_per_s",
            "clients (logarithmic)",
            "bytes a second",
            log_x=True,
        ),
        Drawing(
            "switches",
            "Context switches of the kernel against simultaneous clients",
            "After section 5, which tells of 30,000 a second under full load.",
            _CLIENTS_FIELD,
            "server_switches_per_s",
            "clients (logarithmic)",
            "switches a second",
            log_x=True,
        ),
    ),
    notes=(
        "Knot stands for a server of user-level threads: our architecture user, with connections "
        "first for Knot-C and accepting first for Knot-A. Haboob is our architecture stage, in C, "
        "where the document's was in Java.",
        "Up to 8,192 clients; Haboob ran out of memory beyond 16,384.",
        "The loops wait with epoll; the document's servers with poll().",
        f"{_DIRECTORIES} directories at every load; the original grows them with the load. "
        "Requests are drawn once, by Zipf's law, and then asked for in turn.",
        "Server and load share one machine: where the load generator is busy all the time, "
        "bandwidth is its own, and alike for all servers.",
    ),
)
