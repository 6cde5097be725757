"""``thread-pool-server``: greeters, a queue and workers, against Apache, in bursts of clients."""

from gossamer_lab.claims import Claim, Correlation, Maximum, Mean, Quantity, Ratio, Slope, Where
from gossamer_lab.experiment import (
    ChartSpec,
    Document,
    Experiment,
    Link,
    Point,
    Scale,
    ValidityRules,
    Variant,
)

_CLIENTS = (20, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200)
_HOSTS = 20
_LINKS = tuple(Link(37.0 + 0.25 * i, loss=0.0005, return_loss=0.0005) for i in range(_HOSTS))
_COMPARED = ("queue", "queue, non-blocking", "apache-worker")
_LOCAL_SERVERS = (*_COMPARED, "nginx", "user", "event")
_FEW_FILES = "queue, 1024 files"
_X, _Y = "connections", "response_mean_us"

_WAN, _LOCAL = (("is_wan", True),), (("is_wan", False), ("topic", ""))
_NETWORKS = ((_WAN, "", ""), (_LOCAL, "-local", ", without a WAN"))
"""Points by network, with the suffixes of their keys and texts."""


def _time(name: str, where: Where) -> Quantity:
    return Mean(name, _Y, where, f"mean time of {name}")


_ALL_SUCCEED = Claim(
    "all-succeed",
    "Every request of a burst of up to 1200 clients succeeds",
    "section 3",
    "every request succeeded",
    Maximum("queue", "errors", (), "maximum failed requests of a burst on queue"),
    holds_to=0.0,
)


_OF_FILES = (("topic", "files"),)
_FILES_RUN_OUT = Claim(
    "files-run-out",
    "With more clients the server reaches the limit on open files, and scales less gracefully",
    "section 3",
    "no figure; here response times with 1200 clients and 1024 open files are at least a quarter "
    "longer than without such a limit",
    Ratio(
        Mean(_FEW_FILES, _Y, _OF_FILES, f"mean time of {_FEW_FILES}, 1200 clients"),
        Mean("queue", _Y, _OF_FILES, "mean time of queue"),
    ),
    holds_from=1.25,
)


def _claims(where: Where, key: str, words: str) -> tuple[Claim, Claim, Claim, Claim]:
    """Return the claims for one network."""
    return (
        Claim(
            f"comparable-with-apache{key}",
            f"Its response times are comparable with those of Apache 2.4{words}",
            "abstract and section 3, Figure 2",
            "comparable; here within a quarter in the mean over all bursts",
            Ratio(_time("queue", where), _time("apache-worker", where)),
            holds_from=0.8,
            holds_to=1.25,
        ),
        Claim(
            f"scales-worse-than-apache{key}",
            f"It does not scale as gracefully as Apache{words}",
            "section 3",
            "its times grew faster with the number of clients",
            Ratio(Slope("queue", _X, _Y, where), Slope("apache-worker", _X, _Y, where)),
            holds_from=1.0,
        ),
        Claim(
            f"times-oscillate{key}",
            f"Its response times oscillate as the number of clients grows{words}",
            "section 3",
            "a strange oscillation, without a number; here a correlation with the number of "
            "clients of at most 0.95",
            Correlation("queue", _X, _Y, where),
            holds_to=0.95,
        ),
        Claim(
            f"non-blocking-sockets-help{key}",
            f"Workers with non-blocking sockets would respond faster{words}",
            "section 3",
            "a suspicion of the author's",
            Ratio(_time("queue, non-blocking", where), _time("queue", where)),
            holds_to=1.0,
        ),
    )


def _charts(where: Where, key: str, words: str) -> tuple[ChartSpec, ...]:
    """Return the charts for one network."""
    return tuple(
        ChartSpec(
            f"{name}{key}",
            f"{title} response time against clients{words}",
            f"After Figure {number}. Each point is a burst of clients on {_HOSTS} hosts that "
            "request one page of 417 bytes per connection.",
            _X,
            column,
            "clients",
            "response time, µs",
            where=where,
        )
        for name, title, number, column in (
            ("mean", "Mean", 2, _Y),
            ("p50", "Median", 3, "response_p50_us"),
            ("p75", "75th percentile of the", 3, "response_p75_us"),
            ("p90", "90th percentile of the", 3, "response_p90_us"),
        )
    )


def _points(*clients: int, wan: tuple[int, ...]) -> tuple[str, ...]:
    """Return the keys of points."""
    return tuple(f"clients-{n}" for n in clients) + tuple(f"wan-{n}" for n in wan)


THREAD_POOL_SERVER = Experiment(
    name="thread-pool-server",
    summary="Mean and percentiles of the response time against 20 to 1200 clients on 20 hosts over "
    "a WAN, of a server with greeters, a queue and workers",
    document=Document(
        "A web server with an event-driven architecture and thread pooling", "David Moon", 2016
    ),
    points=(
        *(Point(f"clients-{n}", 417, n, 1, servers=_LOCAL_SERVERS, hosts=_HOSTS) for n in _CLIENTS),
        Point("files-1200", 417, 1200, 1, servers=("queue", _FEW_FILES), topic="files"),
        *(
            Point(f"wan-{n}", 417, n, 1, servers=_COMPARED, hosts=_HOSTS, is_wan=True)
            for n in _CLIENTS
        ),
    ),
    scales=(
        Scale(
            "smoke",
            budget_s=40.0,
            warmup_s=0.0,
            max_load_s=1.0,
            rounds=2,
            points=_points(600, wan=(20, 200, 600)),
        ),
        Scale(
            "normal",
            budget_s=520.0,
            warmup_s=0.1,
            max_load_s=5.0,
            rounds=3,
            points=(
                *_points(20, 300, 600, 900, 1200, wan=(20, 200, 400, 600, 800, 1000, 1200)),
                "files-1200",
            ),
        ),
        Scale("paper", budget_s=14_400.0, warmup_s=1.0, max_load_s=30.0, rounds=4),
    ),
    peers=("apache-worker", "nginx"),
    architectures=(
        Variant("queue", "queue"),
        Variant("queue, non-blocking", "queue", ("--nonblocking",)),
        Variant(_FEW_FILES, "queue", open_files=1024),
        Variant("user", "user"),
        Variant("event", "event"),
    ),
    server_share=0.25,
    links=_LINKS,
    validity_rules=ValidityRules(tolerates_errors=True),
    claims=(
        _ALL_SUCCEED,
        _FILES_RUN_OUT,
        *(claim for network in _NETWORKS for claim in _claims(*network)),
    ),
    charts=tuple(chart_spec for network in _NETWORKS for chart_spec in _charts(*network)),
    notes=(
        "20 client hosts, as in the document; each is a process here, in its own network namespace "
        "if it is behind the WAN. Packets between Oregon and Massachusetts have a one-way "
        "delay of 37 to 42 ms, and one in 2000 is lost: our estimate, since the document gives no "
        "numbers. A host's connections start together, at up to 128 per millisecond.",
        "25 greeters and workers per core of the machine, as in the document, but all on one core. "
        "A CPU limit applies to the server, so that the client is not the limit; its time slices "
        "of a few milliseconds are visible in the percentiles.",
    ),
)
