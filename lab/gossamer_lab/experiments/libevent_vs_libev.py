"""``libevent-vs-libev``: the cost of many watchers, of which few are active, in event loops."""

from itertools import product

from gossamer_lab.claims import Claim, Extreme, Mean, Quantity, Ratio, Where
from gossamer_lab.experiment import Case, ChartSpec, Document, Experiment, Program, Scale

_PAIRS = (100, 316, 1000, 3162, 9900, 31_623, 100_000)
_ACTIVE = (100, 1000)
_COLUMNS = ("total_us", "setup_us", "poll_us")
_PROGRAMS = (
    Program("libev", "loops/libev", ("pairs", "set"), "native API", "libev-dev"),
    Program(
        "libev, emulated",
        "loops/libev_emulation",
        ("pairs", "set"),
        "its emulation of libevent: event_del, event_set, event_add",
        "libev-libevent-dev",
    ),
    Program("libevent", "loops/libevent", ("pairs", "set"), "event_del, event_add", "libevent-dev"),
    Program(
        "libuv", "loops/libuv", ("pairs", "again"), "uv_poll_stop, uv_poll_start", "libuv1-dev"
    ),
    Program("gossamer", "loops/ours", ("pairs", "set"), "descriptor set again, as with libev"),
    Program("gossamer, kept", "loops/ours", ("pairs", "again"), "only stopped and started"),
)
_PLAIN, _TIMED = "without timeouts", "with timeouts"


def _case(pairs: int, active: int, timeouts: str) -> Case:
    return Case(
        key=f"{pairs}-{active}-{'timed' if timeouts == _TIMED else 'plain'}",
        label=f"{pairs:,} socket pairs, {active:,} active, {timeouts}",
        arguments=(str(pairs), str(active), str(int(timeouts == _TIMED))),
        columns=_COLUMNS,
        programs=tuple(program.name for program in _PROGRAMS),
        fields=(("descriptors", pairs), ("active", active), ("timeouts", timeouts)),
        descriptors=2 * pairs,
    )


_CASES = tuple(
    _case(pairs, active, timeouts)
    for pairs, active, timeouts in product(_PAIRS, _ACTIVE, (_PLAIN, _TIMED))
    if active <= pairs
)


def _keys(*pairs: int) -> tuple[str, ...]:
    return tuple(case.key for case in _CASES if dict(case.fields)["descriptors"] in pairs)


def _against(part: str, where: Where) -> Quantity:
    """Return libevent's time as a multiple of libev's."""
    column = f"{part}_us"
    return Ratio(
        Mean("libevent", column, where, f"{part} time of libevent"),
        Mean("libev", column, where, "libev"),
    )


def _emulated_against(library: str, part: str, where: Where) -> Quantity:
    """Return the time of libev's emulation as a multiple of another library's."""
    column = f"{part}_us"
    return Ratio(
        Mean("libev, emulated", column, where, f"{part} time of libev's emulation"),
        Mean(library, column, where, library),
    )


def _timeouts_add(library: str) -> Quantity:
    """Return the total time with timeouts as a multiple of that without."""
    return Ratio(
        Mean(library, "total_us", (("timeouts", _TIMED),), f"total time of {library}, timeouts"),
        Mean(library, "total_us", (("timeouts", _PLAIN),), "without"),
    )


def _grows(library: str) -> Quantity:
    """Return the total time without timeouts at 9900 pairs as a multiple of that at 100."""
    many, few = (
        (("timeouts", _PLAIN), ("active", 100), ("descriptors", pairs)) for pairs in (9900, 100)
    )
    return Ratio(
        Mean(library, "total_us", many, f"total time of {library} at 9900"),
        Mean(library, "total_us", few, "at 100"),
    )


def _many(timeouts: str, active: int) -> Where:
    return (("timeouts", timeouts), ("active", active))


_CLAIMS = (
    Claim(
        "twice-the-total",
        "Without timeouts libevent takes almost twice the total time of libev",
        "first benchmark, discussion",
        "almost 2, regardless of the number of clients",
        _against("total", (("timeouts", _PLAIN),)),
        holds_from=1.5,
        holds_to=2.5,
    ),
    Claim(
        "growth-is-alike",
        "Total times of both grow similarly with the number of watchers",
        "first benchmark, discussion",
        "similar growth characteristics; here at most 1.5 times as much in one as in the other",
        Ratio(_grows("libevent"), _grows("libev")),
        holds_from=0.67,
        holds_to=1.5,
    ),
    Claim(
        "faster-at-many",
        "At higher numbers of descriptors libev is consistently faster",
        "first benchmark, interpretation",
        "consistently; here total time from 1000 socket pairs on, at the smallest difference",
        Extreme(
            "min",
            tuple(
                _against("total", (("timeouts", _PLAIN), ("descriptors", pairs)))
                for pairs in (1000, 3162, 9900)
            ),
            "minimum total time of libevent / libev at 1000, 3162 and 9900",
        ),
        holds_from=1.0,
    ),
    Claim(
        "poll-is-alike",
        "Without timeouts and with 100 active clients both take about the same time to poll",
        "first benchmark, discussion",
        "less than 5 % difference",
        _against("poll", _many(_PLAIN, 100)),
        holds_from=0.95,
        holds_to=1.05,
    ),
    Claim(
        "poll-is-slower-at-1000",
        "Without timeouts and with 1000 active clients libevent is slower to poll",
        "first benchmark, discussion",
        "consistently slightly slower",
        _against("poll", _many(_PLAIN, 1000)),
        holds_from=1.0,
    ),
    Claim(
        "timeouts-cost-libevent",
        "Timeouts raise libevent's total time dramatically",
        "second benchmark, discussion",
        "dramatically; here by at least half",
        _timeouts_add("libevent"),
        holds_from=1.5,
    ),
    Claim(
        "timeouts-are-cheap-in-libev",
        "Timeouts raise libev's total time only slightly",
        "second benchmark, discussion",
        "slightly; here by at most a quarter",
        _timeouts_add("libev"),
        holds_to=1.25,
    ),
    Claim(
        "poll-with-timeouts",
        "With timeouts libev polls two to almost three times as fast",
        "second benchmark, discussion",
        "2 to almost 3, over the whole range",
        _against("poll", (("timeouts", _TIMED),)),
        holds_from=2.0,
        holds_to=3.0,
    ),
    Claim(
        "at-100000",
        "At 100,000 socket pairs libev is faster in total",
        "first benchmark, interpretation",
        "consistently faster at higher numbers",
        _against("total", (("descriptors", 100_000),)),
        holds_from=1.0,
    ),
    Claim(
        "emulation-is-cheap",
        "Programs written for libevent run at a small cost on libev's emulation of it",
        "first benchmark, interpretation",
        "a small overhead; here at most a tenth",
        _emulated_against("libev", "total", (("timeouts", _PLAIN),)),
        holds_to=1.1,
    ),
    Claim(
        "native-is-faster-with-timeouts",
        "With timeouts libev's native API is almost twice as fast in total as the emulation",
        "second benchmark, interpretation",
        "almost twice as fast overall; here at least 1.5 times",
        _emulated_against("libev", "total", (("timeouts", _TIMED),)),
        holds_from=1.5,
    ),
    Claim(
        "emulation-beats-libevent",
        "Even the emulation is much faster than libevent itself",
        "summary",
        "still much faster; here at most two thirds of the total time",
        _emulated_against("libevent", "total", ()),
        holds_to=0.67,
    ),
)


def _chart(part: str, active: int, timeouts: str) -> ChartSpec:
    of = "total time" if part == "total" else "time of polling and handling"
    return ChartSpec(
        f"{part}-{active}-{'timed' if timeouts == _TIMED else 'plain'}",
        f"{of.capitalize()}, {active} active, {timeouts}",
        "After the graphs of the "
        + ("first" if timeouts == _PLAIN else "second")
        + " benchmark: the second iteration, normally the minimum of six runs.",
        "descriptors",
        f"{part}_us",
        "socket pairs (logarithmic)",
        f"{of}, µs (logarithmic)",
        where=(("active", active), ("timeouts", timeouts)),
        log_x=True,
        log_y=True,
    )


LIBEVENT_VS_LIBEV = Experiment(
    name="libevent-vs-libev",
    summary="Total and poll time of an iteration against the number of watchers, with and "
    "without timeouts",
    document=Document("Benchmarking libevent against libev", "Marc Lehmann", 2011),
    points=_CASES,
    scales=(
        Scale("smoke", 0.0, 0.0, 0.0, rounds=2, points=_keys(100, 1000, 100_000)),
        Scale("normal", 0.0, 0.0, 0.0, rounds=5, repeats=6),
        Scale("paper", 0.0, 0.0, 0.0, rounds=10, repeats=6),
    ),
    programs=_PROGRAMS,
    claims=_CLAIMS,
    charts=tuple(
        _chart(part, active, timeouts)
        for timeouts, part, active in product((_PLAIN, _TIMED), ("total", "poll"), _ACTIVE)
    ),
    notes=(
        "The program is ours, after the description of libevent's bench.c: the same iteration, "
        "measured by the CPU time of its thread.",
        "The versions of the libraries are today's. Since 2011 libev has a 4-ary timer heap, and "
        "libevent a binary heap.",
        "libev's emulation has the API of libevent 1.4, so its program calls event_set where that "
        "of libevent calls event_assign; timers are separate events in both.",
    ),
)
