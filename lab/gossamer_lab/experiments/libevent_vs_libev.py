"""``libevent-vs-libev``: the cost of many watchers, of which few are active, in event loops."""

from itertools import product

from gossamer_lab.claims.claim import Claim
from gossamer_lab.claims.quantities import (
    Conditional,
    Difference,
    Every,
    Mean,
    Named,
    Quantity,
    Ratio,
    Where,
)
from gossamer_lab.experiments.manifest import (
    Case,
    ChartSpec,
    Document,
    Experiment,
    Program,
    Scale,
)

_PAIRS = (100, 316, 1000, 3162, 9900, 31_623, 100_000)
_ACTIVE = (100, 1000)
_COLUMNS = (
    *("total_us", "setup_us", "poll_us"),
    *("later_total_us", "later_setup_us", "later_poll_us", "epoll_ctl"),
)
_SUPPORTED = (100, 316, 1000, 3162, 9900)
"""Numbers of socket pairs within the usual limit of 20,000 open files."""
_MANY = (1000, 3162, 9900)
_PROGRAMS = (
    Program("libev", "loops/libev", ("pairs", "set"), "native API, ev_timer_again", "libev-dev"),
    Program(
        "libev, emulated",
        "loops/libev_emulation",
        ("pairs", "set"),
        "its emulation of libevent: event_del, event_set, event_add with the timeout",
        "libev-libevent-dev",
    ),
    Program(
        "libevent",
        "loops/libevent",
        ("pairs", "set"),
        "event_del, event_assign, event_add with the timeout",
        "libevent-dev",
    ),
    Program("libuv", "loops/libuv", ("pairs", "same"), "uv_poll_stop, uv_poll_start", "libuv1-dev"),
    Program("gossamer", "loops/ours", ("pairs", "set"), "descriptor set again, as with libev"),
    Program("gossamer, kept", "loops/ours", ("pairs", "same"), "only stopped and started"),
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


def _time(library: str, part: str, where: Where, words: str = "") -> Quantity:
    """Return a time of a library, in the mean over its points."""
    return Mean(library, f"{part}_us", where, words or f"{part} time of {library}")


def _times(library: str, other: str, part: str, where: Where) -> Quantity:
    """Return a library's time as a multiple of another's."""
    return Ratio(_time(library, part, where), _time(other, part, where, other))


def _where(timeouts: str, *active: int, pairs: tuple[int, ...] = _SUPPORTED) -> Where:
    found: Where = (("timeouts", timeouts), ("descriptors", pairs))
    return (*found, ("active", active)) if active else found


def _numbers(pairs: tuple[int, ...], *active: int) -> tuple[tuple[int, int], ...]:
    return tuple((n, a) for n, a in product(pairs, active or _ACTIVE) if a <= n)


def _at_every(
    of: tuple[str, str], part: str, timeouts: str, numbers: tuple[tuple[int, int], ...]
) -> Quantity:
    """Return how a library's time compares with another's at each number of pairs and clients."""
    library, other = of
    return Every(
        tuple(
            Named(
                _times(library, other, part, _where(timeouts, active, pairs=(pairs,))),
                f"with {pairs:,} pairs, {active:,} active",
            )
            for pairs, active in numbers
        ),
        f"{part} time of {library} / {other}",
    )


def _timeouts_add(library: str) -> Quantity:
    """Return the total time with timeouts as a multiple of that without."""
    return Ratio(
        _time(library, "total", _where(_TIMED), f"total time of {library}, timeouts"),
        _time(library, "total", _where(_PLAIN), "without"),
    )


def _ends(library: str, part: str, timeouts: str) -> tuple[Quantity, Quantity]:
    """Return the time with most and with fewest pairs, with 100 active clients."""
    most, fewest = (
        _time(library, part, _where(timeouts, 100, pairs=(pairs,)), words)
        for pairs, words in ((9900, f"{part} time of {library} with 9900"), (100, "with 100"))
    )
    return most, fewest


def _grows(part: str, timeouts: str) -> Quantity:
    """Return how many times libevent's time grows, as a multiple of how many times libev's does."""
    return Ratio(Ratio(*_ends("libevent", part, timeouts)), Ratio(*_ends("libev", part, timeouts)))


def _added(part: str, timeouts: str) -> Quantity:
    """Return how much time further pairs add to libevent's, as a multiple of libev's."""
    more, less = (Difference(*_ends(name, part, timeouts)) for name in ("libevent", "libev"))
    return Named(Ratio(more, less), f"{part} time that pairs 101 to 9900 add, libevent / libev")


def _if_libraries_differ(quantity: Quantity, words: str) -> Quantity:
    """Return a quantity of the rounds in which libevent polls plainly slower than libev."""
    ratio = _times("libevent", "libev", "poll", _where(_TIMED))
    reason = "the libraries hardly differ in poll time here"
    return Named(Conditional(ratio, 1.1, reason, quantity), words)


_LIBRARIES, _API = ("libevent", "libev"), ("libev, emulated", "libev")
_FIRST, _SECOND = "first benchmark", "second benchmark"
_UP_TO = "up to 9900 socket pairs"
_FEW_ACTIVE = "with 100 active clients"
"""Growth is judged with these: with 1000 the curves begin at 1000 pairs."""

_CLAIMS = (
    Claim(
        "twice-the-total",
        f"Without timeouts libevent takes almost twice the total time of libev, {_UP_TO}",
        f"{_FIRST}, discussion",
        "taking almost twice as much time than libev regardless of the number of clients",
        _at_every(_LIBRARIES, "total", _PLAIN, _numbers(_SUPPORTED)),
        1.5,
        2.5,
        "from 1.5 to 2.5 times at every number of pairs and of active clients",
    ),
    Claim(
        "twice-at-both-numbers-of-clients",
        "The same, in the mean over the numbers of socket pairs, with 100 and with 1000 clients",
        f"{_FIRST}, discussion",
        "almost twice as much time than libev regardless of the number of clients",
        Every(
            tuple(
                Named(_times(*_LIBRARIES, "total", _where(_PLAIN, active)), f"{active:,} active")
                for active in _ACTIVE
            ),
            "total time of libevent / libev",
        ),
        1.5,
        2.5,
        "from 1.5 to 2.5 times; the clients are the active ones",
    ),
    Claim(
        "increases-faster",
        f"Libevent's total time increases much faster with the number of pairs, {_FEW_ACTIVE}",
        f"{_FIRST}, discussion",
        "the total time per iteration increases much faster for libevent than for libev",
        _added("total", _PLAIN),
        1.5,
        reading="pairs add at least 1.5 times as much time, from 100 to 9900 pairs",
    ),
    Claim(
        "growth-is-alike",
        f"Total times of both grow similarly with the number of watchers, {_FEW_ACTIVE}",
        f"{_FIRST}, discussion",
        "both exhibit similar growth characteristics, though",
        _grows("total", _PLAIN),
        0.5,
        2.0,
        "by factors that differ at most twofold, from 100 to 9900 pairs",
    ),
    Claim(
        "faster-at-many",
        "With 1000 socket pairs and more libev is faster in total, up to 9900",
        f"{_FIRST}, interpretation",
        "at higher numbers of file descriptors, libev is consistently faster than libevent",
        _at_every(_LIBRARIES, "total", _PLAIN, _numbers(_MANY)),
        1.0,
        reading="at each number from 1000 pairs on",
    ),
    Claim(
        "poll-is-alike",
        f"Without timeouts and with 100 active clients both poll equally fast, {_UP_TO}",
        f"{_FIRST}, discussion",
        "virtually identical timings in the 100-fd case; less than 5 %",
        _at_every(_LIBRARIES, "poll", _PLAIN, _numbers(_SUPPORTED, 100)),
        0.95,
        1.05,
    ),
    Claim(
        "poll-is-slower-at-1000",
        f"Without timeouts and with 1000 active clients libevent polls slower, {_UP_TO}",
        f"{_FIRST}, discussion",
        "libevent being consistently being slower in the 1000-fd case",
        _at_every(_LIBRARIES, "poll", _PLAIN, _numbers(_MANY, 1000)),
        1.0,
    ),
    Claim(
        "poll-differs-little-at-1000",
        f"Without timeouts and with 1000 active clients the difference is small, {_UP_TO}",
        f"{_FIRST}, discussion",
        "the absolute difference, however, is small (less than 5 %)",
        _at_every(_LIBRARIES, "poll", _PLAIN, _numbers(_MANY, 1000)),
        0.95,
        1.05,
    ),
    Claim(
        "native-polls-faster",
        f"Without timeouts libev's native API polls no slower than the emulation, {_UP_TO}",
        f"{_FIRST}, discussion",
        "the native API timings are consistently better than the emulation API",
        _at_every(_API, "poll", _PLAIN, _numbers(_SUPPORTED)),
        1.0,
    ),
    Claim(
        "emulation-is-cheap",
        "Programs written for libevent run at a small cost on libev's emulation of it",
        f"{_FIRST}, interpretation",
        "the libevent API emulation itself only results in a small overhead in this case",
        _times(*_API, "total", _where(_PLAIN)),
        holds_to=1.1,
        reading="at most a tenth of the total time, in the mean",
    ),
    Claim(
        "timeouts-cost-libevent",
        "Timeouts raise libevent's total time dramatically",
        f"{_SECOND}, discussion",
        "the total time per iteration has increased dramatically for libevent",
        _timeouts_add("libevent"),
        1.5,
        reading="by at least half, in the mean",
    ),
    Claim(
        "timeouts-are-cheap-in-libev",
        "Timeouts raise libev's total time only slightly",
        f"{_SECOND}, discussion",
        "but has increased only slightly for the libev curves",
        _timeouts_add("libev"),
        holds_to=1.25,
        reading="by at most a quarter, in the mean",
    ),
    Claim(
        "poll-with-timeouts",
        f"With timeouts libev polls two to almost three times as fast, {_UP_TO}",
        f"{_SECOND}, discussion",
        "consistently faster (with a factor of two to almost three) over the whole range",
        _at_every(_LIBRARIES, "poll", _TIMED, _numbers(_SUPPORTED)),
        2.0,
        3.0,
        "at every number of pairs and of active clients",
    ),
    Claim(
        "poll-growth-is-alike",
        f"With timeouts the times to poll grow similarly, {_FEW_ACTIVE}",
        f"{_SECOND}, discussion",
        "the growth behaviour exhibited is roughly similar",
        _grows("poll", _TIMED),
        0.5,
        2.0,
        "by factors that differ at most twofold, from 100 to 9900 pairs",
    ),
    Claim(
        "poll-grows-less-in-libev",
        f"With timeouts the time to poll grows much less for libev, {_FEW_ACTIVE}",
        f"{_SECOND}, discussion",
        "but much lower for libev than for libevent",
        _added("poll", _TIMED),
        2.0,
        reading="pairs add at least twice as much time to libevent's, from 100 to 9900 pairs",
    ),
    Claim(
        "native-polls-faster-with-timeouts",
        f"With timeouts libev's native API polls faster than the emulation, {_UP_TO}",
        f"{_SECOND}, discussion",
        "the native API is consistently faster than the emulated API, regarding poll times",
        _at_every(_API, "poll", _TIMED, _numbers(_SUPPORTED)),
        1.0,
    ),
    Claim(
        "api-matters-less-than-library",
        "With timeouts the APIs of libev differ less in poll time than the libraries do",
        f"{_SECOND}, discussion",
        "still relatively small when compared to the difference between libevent and libev",
        _if_libraries_differ(
            Ratio(
                Difference(
                    _time("libev, emulated", "poll", _where(_TIMED)),
                    _time("libev", "poll", _where(_TIMED)),
                ),
                Difference(
                    _time("libevent", "poll", _where(_TIMED)),
                    _time("libev", "poll", _where(_TIMED)),
                ),
            ),
            "poll time of the emulation beyond libev / of libevent beyond libev",
        ),
        holds_to=0.5,
        reading="at most half as much, in the mean",
    ),
    Claim(
        "native-is-faster-with-timeouts",
        "With timeouts libev's native API is almost twice as fast in total as the emulation",
        f"{_SECOND}, discussion and interpretation",
        "almost twice as fast overall",
        _times(*_API, "total", _where(_TIMED)),
        1.5,
        reading="at least 1.5 times, in the mean",
    ),
    Claim(
        "libevent-calls-the-kernel-twice",
        "Libevent calls epoll_ctl twice for each descriptor that is deleted and added",
        f"{_SECOND}, interpretation",
        "libevent calls the epoll_ctl syscall on each change (twice per fd for del/add)",
        Mean("libevent", "epoll_ctl", _where(_TIMED), "calls of epoll_ctl, libevent"),
        1.9,
        2.1,
        "during the set-up, without rounding errors",
    ),
    Claim(
        "libev-calls-the-kernel-once",
        "Libev sends at most one change of a descriptor to the kernel, before it polls",
        f"{_SECOND}, interpretation",
        "libev only sends changes to the kernel before the next poll (EPOLL_MOD)",
        Mean("libev", "epoll_ctl", _where(_TIMED), "calls of epoll_ctl, libev"),
        holds_to=1.1,
        reading="one for a descriptor that was set again, as the program does",
    ),
    Claim(
        "emulation-beats-libevent",
        "With timeouts even the emulation is much faster than libevent itself",
        "summary",
        "still much faster than libevent even when using the libevent emulation API",
        _times("libev, emulated", "libevent", "total", _where(_TIMED)),
        holds_to=0.67,
        reading="at most two thirds of the total time, in the mean",
    ),
    Claim(
        "at-100000",
        "At 100,000 socket pairs libev is faster in total",
        f"{_FIRST}, interpretation",
        "at higher numbers of file descriptors, libev is consistently faster than libevent",
        _at_every(_LIBRARIES, "total", _PLAIN, _numbers((100_000,))),
        1.0,
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
    document=Document(
        "Benchmarking libevent against libev",
        "Marc Lehmann",
        2011,
        says="Libevent takes almost twice the total time of libev whatever the number of clients, "
        "and far more once timeouts are used.",
        differs="libevent 2.1 and libev 4.33 instead of 1.4.3 and 3.31; at most 9900 socket pairs, "
        "since a process may open 20,000 files; a virtual machine.",
        main_claims=(
            *("twice-the-total", "growth-is-alike", "faster-at-many", "timeouts-cost-libevent"),
            *("poll-with-timeouts", "emulation-beats-libevent"),
        ),
        chart="total-100-timed",
    ),
    points=_CASES,
    scales=(
        Scale("smoke", 0.0, 0.0, 0.0, rounds=2, points=_keys(100, 1000, 100_000), program_s=0.06),
        Scale("normal", 0.0, 0.0, 0.0, rounds=5, repeats=6, program_s=0.7),
        Scale("paper", 0.0, 0.0, 0.0, rounds=10, repeats=6, program_s=0.7),
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
        "of libevent calls event_assign.",
        "As in the document's program, descriptors are set again before each iteration, a timeout "
        "of libevent and of the emulation belongs to its I/O event, which is deleted and added "
        "again when its client received data, and native libev uses ev_timer_again.",
        "The document measured 100 to 100,000 socket pairs. Claims are about the numbers that "
        "20,000 open files allow; one is about 100,000. Claims about growth are judged with 100 "
        "active clients, whose curves begin at 100 pairs; those of 1000 begin at 1000.",
    ),
)
