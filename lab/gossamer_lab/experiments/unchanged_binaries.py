"""``unchanged-binaries``: programs with POSIX threads, natively and under ``gossamer run``."""

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import Every, Maximum, Mean, Named, Quantity, Ratio, Where
from gossamer_lab.experiments.manifest import (
    ChartSpec,
    Document,
    Experiment,
    Point,
    Program,
    Scale,
    ValidityRules,
)

_HTTP, _TLS, _PROXY = "microhttpd", "stunnel", "tinyproxy"
_TOY = "toy-kernel"
_RUN = ", run"
_CONNECTIONS = (100, 1000, 5000)
_MANY = 5000
_FEW = 100
_RAMP_UP_S = {100: 0.5, 1000: 3.0, 5000: 8.0}
"""Until all are connected: a thousand threads that run leave little to the one that accepts."""
_IDLE = 2000
_IDLE_MS = 60_000
"""Think time longer than a load: each connection carries one request, then waits."""
_SETTLED_S = 12.0
"""Within half of this time all TLS connections are open and have had their response."""
_KEEP, _WAIT, _CLOSE = "connections", "idle", "closed"
_X = "connections"


def _both(name: str) -> tuple[str, str]:
    return (name, name + _RUN)


def _kept(connections: int) -> Point:
    return Point(
        f"keep-{connections}",
        305,
        connections,
        0,
        servers=_both(_HTTP),
        topic=_KEEP,
        ramp_up_s=_RAMP_UP_S[connections],
    )


_POINTS = (
    *(_kept(connections) for connections in _CONNECTIONS),
    Point(
        f"idle-tls-{_IDLE}",
        305,
        _IDLE,
        0,
        think_ms=_IDLE_MS,
        servers=_both(_TLS),
        topic=_WAIT,
        min_s=_SETTLED_S,
    ),
    Point("proxy-64", 305, 64, 1, servers=_both(_PROXY), topic=_CLOSE),
)
_TRY = Point("toy-64", 305, 64, 0, servers=_both(_TOY), topic=_TOY)
"""Needs nothing that is not built here."""


def _kept_with(*connections: int) -> Where:
    return (("topic", _KEEP), (_X, connections))


def _cpu(name: str, where: Where) -> Quantity:
    return Mean(name, "server_cpu_us_per_request", where, f"CPU time per request of {name}")


def _against_kernel(column: str, where: Where, name: str, words: str) -> Quantity:
    """Return a column under ``gossamer run``, relative to that with kernel threads."""
    run, native = (Mean(one, column, where, f"{words} of {one}") for one in reversed(_both(name)))
    return Ratio(run, native)


def _scaled(name: str) -> Quantity:
    many, few = (_cpu(name, _kept_with(count)) for count in (_MANY, _FEW))
    words = f"CPU time per request of {name} with {_MANY:,} connections / with {_FEW}"
    return Named(Ratio(many, few), words)


_CPU = "server_cpu_us_per_request"

_CLAIMS = (
    Claim(
        "cpu-is-of-the-implementation",
        "With 5,000 connections another implementation of threads takes much less CPU time for a "
        "request of an unchanged server",
        "section 2.2, performance",
        "Many attempts to use threads for high concurrency have not performed well. We don't "
        "dispute this criticism; rather, we believe it is an artifact of poor thread "
        "implementations",
        _against_kernel(_CPU, _kept_with(_MANY), _HTTP, "CPU time per request"),
        holds_to=0.6,
        reading="at most 0.6 of that with kernel threads, of libmicrohttpd with a thread for each "
        "connection",
    ),
    Claim(
        "cpu-at-every-number",
        "It takes less with any number of connections",
        "abstract",
        "the weaknesses of threads are artifacts of specific threading implementations and not "
        "inherent to the threading paradigm",
        Every(
            tuple(
                Named(
                    _against_kernel(_CPU, _kept_with(count), _HTTP, "CPU time per request"),
                    f"with {count:,}",
                )
                for count in _CONNECTIONS
            ),
            "CPU time per request under run / with kernel threads",
        ),
        holds_to=1.0,
        reading="at most that with kernel threads, at every number of connections",
    ),
    Claim(
        "no-operation-is-linear",
        "The CPU time for a request hardly grows with the number of threads",
        "section 2.2, performance",
        "a major source of overhead is the presence of operations that are O(n) in the number of "
        "threads",
        _scaled(_HTTP + _RUN),
        holds_to=2.0,
        reading="with fifty times as many threads it is at most twice as long; they no longer fit "
        "into the processor's caches",
    ),
    Claim(
        "switches-are-of-the-implementation",
        "The kernel switches between far fewer threads",
        "section 2.2, performance",
        "relatively high context switch overhead when compared with events. This overhead is due "
        "to both preemption, and additional kernel crossings (in the case of kernel threads)",
        _against_kernel(
            "switches_per_megabyte", _kept_with(_MANY), _HTTP, "context switches per megabyte"
        ),
        holds_to=0.1,
        reading="at most a tenth as many switches for the same bytes, with 5,000 connections",
    ),
    Claim(
        "memory-is-of-the-implementation",
        "With 5,000 connections the threads of an unchanged server take much less memory",
        "abstract",
        "threads can achieve all of the strengths of events, including support for high "
        "concurrency, low overhead, and a simple concurrency model",
        _against_kernel("server_whole_memory_kb", _kept_with(_MANY), _HTTP, "memory"),
        holds_to=0.4,
        reading="at most 0.4 of that with kernel threads, of all memory, with page tables and "
        "the stacks of kernel threads; the document's threads had small stacks, ours have those "
        "that the program asks for",
    ),
    Claim(
        "tunnel-needs-few-kernel-threads",
        "A TLS tunnel with 2,000 idle connections needs at most 16 kernel threads",
        "",
        "",
        Maximum(
            _TLS + _RUN,
            "server_kernel_threads",
            (("topic", _WAIT),),
            f"kernel threads of {_TLS}{_RUN}",
        ),
        holds_to=16.0,
        reading="where there are 2,002 natively",
    ),
    Claim(
        "tunnel-needs-no-more-memory",
        "The tunnel's memory is less than with kernel threads",
        "",
        "",
        _against_kernel("server_whole_memory_kb", (("topic", _WAIT),), _TLS, "memory"),
        holds_to=1.0,
        reading="all memory, with page tables and the stacks of kernel threads",
    ),
    Claim(
        "short-threads-are-no-dearer",
        "A proxy that starts a thread for each request needs no more CPU time",
        "",
        "",
        _against_kernel(_CPU, (("topic", _CLOSE),), _PROXY, "CPU time per request"),
        holds_to=1.0,
        reading="at most that with kernel threads, of tinyproxy",
    ),
)


UNCHANGED_BINARIES = Experiment(
    name="unchanged-binaries",
    summary="the same binaries under kernel threads and under gossamer run",
    document=Document(
        "Why events are a bad idea, for programs that nobody rewrote",
        "Rob von Behren, Jeremy Condit and Eric Brewer",
        2003,
        says="The weaknesses of threads are those of their implementations; with another one, "
        "programs written for POSIX threads are as good as those with events.",
        differs="installed programs and gossamer run in place of Knot and Capriccio; beside them "
        "the kernel threads of today, which are not those of 2003.",
        main_claims=(
            *("cpu-is-of-the-implementation", "cpu-at-every-number", "no-operation-is-linear"),
            *("switches-are-of-the-implementation", "memory-is-of-the-implementation"),
        ),
        chart="cpu",
    ),
    points=(*_POINTS, _TRY),
    scales=(
        Scale(
            "smoke",
            budget_s=0.0,
            warmup_s=0.0,
            max_load_s=_SETTLED_S,
            rounds=2,
            load_s=0.5,
            points=(_TRY.key, "keep-100", "proxy-64"),
        ),
        Scale(
            "normal",
            budget_s=0.0,
            warmup_s=0.0,
            max_load_s=_SETTLED_S,
            rounds=5,
            load_s=3.0,
            points=tuple(point.key for point in _POINTS),
        ),
    ),
    architectures=(),
    toys=(
        Program(
            _HTTP,
            "servers/microhttpd",
            ("305",),
            "libmicrohttpd with a thread for each connection",
            "libmicrohttpd-dev",
        ),
        Program(_TOY, "toys/kernel", (), "a kernel thread for each connection"),
    ),
    peers=(_TLS, _PROXY),
    also_by_run=(_HTTP, _TLS, _PROXY, _TOY),
    validity_rules=ValidityRules(),
    claims=_CLAIMS,
    charts=(
        ChartSpec(
            "cpu",
            "CPU time of a request against connections",
            "libmicrohttpd with a thread for each connection, which waits for its next request.",
            _X,
            _CPU,
            "connections",
            "CPU time per request, µs",
            where=(("topic", _KEEP),),
            log_x=True,
        ),
        ChartSpec(
            "memory",
            "Memory against connections",
            "All memory of the same server, with page tables and the stacks of kernel threads.",
            _X,
            "server_whole_memory_kb",
            "connections",
            "KiB",
            where=(("topic", _KEEP),),
            log_x=True,
            log_y=True,
        ),
    ),
    names=(
        ("..., run", "the same program under gossamer run"),
        (_HTTP, "a page of 305 bytes by libmicrohttpd, a thread for each connection"),
        (_TLS, "stunnel4 in front of our architecture event; its clients come through another"),
        (_TOY, "the toy with a thread for each connection, measured at smoke scale only"),
        (_PROXY, "tinyproxy in front of our architecture event, a thread for each request"),
    ),
    notes=(
        "The server has a core and the load generator another, with the programs that a proxy "
        "needs: so gossamer run has one worker, its default.",
        "Memory is sampled in the middle of a load: all pages (PSS), page tables, and 16 KiB for "
        "the kernel's stack of each kernel thread.",
        "Stacks have the size that the programs ask for; libmicrohttpd asks for none, and gets the "
        "system's 8 MiB, of which a thread touches a few pages.",
    ),
)
