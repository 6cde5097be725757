"""``thread-pool-server``: greeters, a queue and workers, against Apache, in bursts of clients."""

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import Fall, Mean, Quantity, Ratio, Share, Slope, Where
from gossamer_lab.experiments.manifest import (
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
_APACHES = ("apache-event, stock", "apache-worker, stock", "apache-prefork, stock")
_NONBLOCKING = "queue, non-blocking"
_COMPARED = ("queue", _NONBLOCKING, *_APACHES)
_LOCAL_SERVERS = (*_COMPARED, "nginx", "user", "event")
_FEW_FILES = "queue, 1024 files"
_X, _Y = "connections", "servicing_us"
_BURST_S = 30.0

_WAN: Where = (("is_wan", True), ("topic", ""))
_LOCAL: Where = (("is_wan", False), ("topic", ""))
_NETWORKS = ((_WAN, "", ""), (_LOCAL, "-local", ", without a WAN"))
"""Points by network, with the suffixes of their keys and texts."""


def _time(name: str, where: Where, column: str = _Y, words: str = "mean time") -> Quantity:
    return Mean(name, column, where, f"{words} of {name}")


_ALL_SUCCEED = Claim(
    "all-succeed",
    "Every request of a burst of 30 s by 1200 clients over a WAN succeeds",
    "section 3",
    "my server successfully responded to every request in these tests",
    Share("queue", "errors", (("topic", "burst"),), "share of failed requests"),
    holds_to=0.0001,
    reading="at most one in 10,000 fails; its timeouts are from 10 s on",
)


_OF_FILES: Where = (("topic", "files"),)
_FILES_RUN_OUT = Claim(
    "files-run-out",
    "With more clients the server reaches the limit on open files, and scales less gracefully",
    "section 3",
    "on additional concurrent connections, my server begins to hit system limits with respect to "
    "open file descriptors",
    Ratio(_time(_FEW_FILES, _OF_FILES), _time("queue", _OF_FILES)),
    1.25,
    reading="with 1200 clients and 1024 open files, response times are at least a quarter longer "
    "than without such a limit",
)


def _against(apache: str, where: Where, key: str, words: str) -> tuple[Claim, Claim]:
    """Return the claims against one of Apache's models for one network."""
    model = apache.partition("-")[2].partition(",")[0]
    return (
        Claim(
            f"comparable-with-{model}{key}",
            f"Its response times are comparable with those of Apache 2.4, {model}{words}",
            "abstract and section 3, Figure 2",
            "it appears to perform comparably to the Apache server",
            Ratio(_time("queue", where), _time(apache, where)),
            0.8,
            1.25,
            "within a quarter in the mean over all bursts",
        ),
        Claim(
            f"scales-worse-than-{model}{key}",
            f"It does not scale as gracefully as Apache 2.4, {model}{words}",
            "section 3",
            "however, it does not scale gracefully as the Apache server does on increased "
            "concurrency levels",
            Ratio(Slope("queue", _X, _Y, where), Slope(apache, _X, _Y, where)),
            1.0,
            reading="its times grow faster with the number of clients",
        ),
    )


def _claims(where: Where, key: str, words: str) -> tuple[Claim, ...]:
    """Return the claims for one network."""
    return (
        *(claim for apache in _APACHES for claim in _against(apache, where, key, words)),
        Claim(
            f"times-oscillate{key}",
            f"Its response times oscillate as the number of clients grows{words}",
            "section 3",
            "the strange oscillation in my server's performance as the concurrency level goes up",
            Fall("queue", _X, _Y, where),
            0.1,
            reading="with some number of clients they are a tenth shorter than with fewer, in the "
            "mean over the rounds",
        ),
        Claim(
            f"non-blocking-sockets-help{key}",
            f"Workers with non-blocking sockets would respond faster{words}",
            "section 3",
            "if a recv call on a particular request blocks for a long time, then responses to "
            "requests that arrive directly after it are significantly delayed",
            Ratio(
                _time(_NONBLOCKING, where, "total_p90_us", "90th percentile"),
                _time("queue", where, "total_p90_us", "90th percentile"),
            ),
            holds_to=0.9,
            reading="90 of 100 responses take a tenth less time, as the author suspects",
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
            ("p50", "Median", 3, "total_p50_us"),
            ("p75", "75th percentile of the", 3, "total_p75_us"),
            ("p90", "90th percentile of the", 3, "total_p90_us"),
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
        "A web server with an event-driven architecture and thread pooling",
        "David Moon",
        2016,
        says="A server of greeters, a queue and workers answers every request, about as fast as "
        "Apache, but does not scale as gracefully.",
        differs="our architecture queue; 20 hosts behind an emulated WAN on one machine, whose "
        "delay and loss we estimated; each of Apache's models, with stock limits; a CPU limit.",
        main_claims=(
            *("all-succeed", "comparable-with-event", "scales-worse-than-event"),
            *("times-oscillate", "files-run-out"),
        ),
        chart="mean",
    ),
    points=(
        *(Point(f"clients-{n}", 417, n, 1, servers=_LOCAL_SERVERS, hosts=_HOSTS) for n in _CLIENTS),
        Point("files-1200", 417, 1200, 1, servers=("queue", _FEW_FILES), topic="files"),
        Point(
            "burst-1200",
            417,
            1200,
            1,
            servers=("queue",),
            topic="burst",
            hosts=_HOSTS,
            is_wan=True,
            min_s=_BURST_S,
        ),
        *(
            Point(
                f"wan-{n}",
                417,
                n,
                1,
                servers=_COMPARED,
                hosts=_HOSTS,
                is_wan=True,
            )
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
            budget_s=1500.0,
            warmup_s=2.0,
            max_load_s=_BURST_S,
            rounds=5,
            points=(
                *_points(20, 300, 600, 900, 1200, wan=(20, 200, 400, 600, 800, 1000, 1200)),
                *("files-1200", "burst-1200"),
            ),
        ),
        Scale("paper", budget_s=0.0, warmup_s=2.0, max_load_s=_BURST_S, rounds=4, load_s=_BURST_S),
    ),
    peers=(*_APACHES, "nginx"),
    architectures=(
        Variant("queue", "queue"),
        Variant(_NONBLOCKING, "queue", ("--nonblocking",)),
        Variant(_FEW_FILES, "queue", open_files=1024),
        Variant("user", "user"),
        Variant("event", "event"),
    ),
    server_share=0.25,
    links=_LINKS,
    validity_rules=ValidityRules(may_fail=(*_LOCAL_SERVERS, _FEW_FILES), exempt=_APACHES),
    claims=(
        _ALL_SUCCEED,
        _FILES_RUN_OUT,
        *(claim for network in _NETWORKS for claim in _claims(*network)),
    ),
    charts=tuple(chart_spec for network in _NETWORKS for chart_spec in _charts(*network)),
    names=(
        ("queue", "our architecture queue: greeters, a queue and workers, with blocking sockets"),
        (_NONBLOCKING, "the same with --nonblocking"),
        (_FEW_FILES, "the same with 1024 open files"),
        ("apache-..., stock", "Apache 2.4 with the limits that are compiled into it"),
    ),
    notes=(
        "20 client hosts, as in the document; each is a process here, in its own network namespace "
        "if it is behind the WAN. Packets between Oregon and Massachusetts have a one-way "
        "delay of 37 to 42 ms, and one in 2000 is lost: our estimate, since the document gives no "
        "numbers. A host's connections start together, at up to 128 per millisecond.",
        "The document does not say which of its models Apache had; event is the default of 2.4. "
        "Every server is measured alone on the same core, under the same CPU limit, so that the "
        "client is not the limit; its time slices of a few milliseconds are visible in the "
        "percentiles. The document's servers had four cores each.",
        "Apache's stock accept queue holds 511, and its prefork model 256 processes: in larger "
        "bursts clients wait to connect. These waits are Apache's, and part of its times; the "
        "measured load of such a burst may fall short of the offered one.",
        "25 greeters and workers per core of the machine, as in the document.",
        "Times are from connecting to the end of the response, as ab measures them.",
        "Bursts are shorter than the document's 30 s at normal scale, except one.",
    ),
)
