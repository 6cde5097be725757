"""``overload``: what the controllers of a staged server do under more load than it can bear."""

from gossamer_lab.claims import Claim, Highest, Mean, Quantity, Ratio, Where
from gossamer_lab.experiment import Arrivals, Document, Drawing, Experiment, Scale, Variant

_PAGE, _METRICS, _COST_MS = "/bottleneck", "/metrics", 41
TARGET_S = 1.0
_OPTIONS = ("--bottleneck", f"{_PAGE}={_COST_MS}", "--metrics", _METRICS)
_ADMIT = ("--admission", f"{TARGET_S:g}s")
_BELOW, _AT, _TWICE = 0.5, 1.0, 2.0
_X = "saturation"
_MOST_OPEN = 4096
_ALL, ADMISSION, _FIXED = "all admitted", "admission", "admission, 20 threads"


def _load(saturation: float, part: float, *servers: str) -> Arrivals:
    return Arrivals(
        key=f"load-{saturation:g}",
        size=305,
        connections=_MOST_OPEN,
        requests_per_connection=1,
        servers=servers,
        probe=Variant("probe", "stage", _OPTIONS),
        page=_PAGE,
        metrics=_METRICS,
        saturation=saturation,
        part=part,
    )


TWICE = _load(_TWICE, 1.0)


def _at(saturation: float) -> Where:
    return ((_X, saturation),)


def _worst(name: str) -> Quantity:
    """Return the worst 90th percentile of a server's windows at twice the saturation."""
    return Highest(
        name,
        "worst_p90_s",
        _at(_TWICE),
        f"the worst 90th percentile of {name} in a sixth of a load, s",
    )


def _of(name: str, column: str, saturation: float, words: str) -> Quantity:
    return Highest(name, column, _at(saturation), words)


_CLAIMS = (
    Claim(
        "admission-keeps-the-target",
        "Under twice the load that saturates, the admission controller keeps the response time "
        "of 90 of 100 accepted requests near its target",
        "the suite's admission controller",
        "it steps in above 1.2 times its target; here that is 1.2 s, in each sixth of a load "
        "after its first half",
        _worst(ADMISSION),
        holds_to=1.2 * TARGET_S,
    ),
    Claim(
        "without-admission-times-grow",
        "Without admission control response times grow for as long as the overload lasts",
        "the suite's admission controller",
        "the reason for it; here beyond 1.2 s",
        _worst(_ALL),
        holds_from=1.2 * TARGET_S,
    ),
    Claim(
        "throughput-does-not-collapse",
        "Who refuses requests still does as much work as before",
        "the suite's overload page",
        "throughput levels out under overload; here no less than 0.8 of what saturates",
        Ratio(
            _of(ADMISSION, "accepted_per_s", _TWICE, f"rate accepted by {ADMISSION}"),
            _of(ADMISSION, "saturation_per_s", _TWICE, "rate that saturates"),
        ),
        holds_from=0.8,
    ),
    Claim(
        "the-refused-are-told",
        "Whoever is refused is told so: nobody is left without an answer",
        "the suite's admission controller",
        "an error page for each; here 99 of 100 requests are answered with 200 or 503",
        _of(ADMISSION, "answered_share", _TWICE, f"share answered by {ADMISSION}"),
        holds_from=0.99,
    ),
    Claim(
        "refusals-are-quick",
        "A refusal costs little time",
        "the suite's admission controller",
        "refused at the stage's entry; here 90 of 100 within a fifth of the target",
        _of(ADMISSION, "refusal_p90_s", _TWICE, f"90th percentile of {ADMISSION}'s refusals"),
        holds_to=0.2 * TARGET_S,
    ),
    Claim(
        "half-the-load-is-admitted",
        "Well below saturation the admission controller refuses nearly nobody",
        "the suite's admission controller",
        "it admits more as long as 90 of 100 are below 0.9 of the target; here at most one in "
        "twenty is refused at half of what saturates",
        _of(ADMISSION, "refused_share", _BELOW, f"share refused by {ADMISSION}, half the load"),
        holds_to=0.05,
    ),
    Claim(
        "the-pool-grows",
        "The thread-pool controller gives a stage more threads as its queue grows",
        "the suite's thread-pool controller",
        "from 1 to 20, one more when 10 requests wait; here four times as many at twice the "
        "saturation as at half of it, or more",
        Ratio(
            _of(_ALL, "threads_most", _TWICE, f"most threads of {_ALL}, twice the saturation"),
            _of(_ALL, "threads_most", _BELOW, "half of it"),
        ),
        holds_from=4.0,
    ),
    Claim(
        "the-pool-costs-nothing",
        "A pool that grows and shrinks accepts as much as one of 20 threads that are always there",
        "the suite's thread-pool controller",
        "no figure; here within a fifth",
        Ratio(
            Mean(ADMISSION, "accepted_per_s", _at(_TWICE), f"rate accepted by {ADMISSION}"),
            Mean(_FIXED, "accepted_per_s", _at(_TWICE), f"by {_FIXED}"),
        ),
        holds_from=0.8,
        holds_to=1.25,
    ),
)


def _over_time(key: str, title: str, y: str, y_title: str, *, is_log: bool = False) -> Drawing:
    return Drawing(
        key,
        f"{title} over time, at twice the load that saturates",
        "Means over the rounds, of each thirtieth of a load. What was never answered counts as "
        "having taken as long as it was waited for.",
        "time_s",
        y,
        "time since the load began, s",
        y_title,
        where=_at(_TWICE),
        log_y=is_log,
        is_over_time=True,
    )


def _against_load(key: str, title: str, y: str, y_title: str) -> Drawing:
    return Drawing(
        key,
        f"{title} against the load",
        "Of the second half of each load, when the controllers have settled.",
        _X,
        y,
        "requests that come, as a multiple of what saturates",
        y_title,
    )


OVERLOAD = Experiment(
    name="overload",
    summary=f"Response times, refusals and queues of a page of {_COST_MS} ms, from half to twice "
    "the load that saturates, with and without the controllers of staged servers",
    document=Document(
        "SEDA: an architecture for well-conditioned, scalable Internet services, and its suite "
        "of programs, which Why events are a bad idea measures with",
        "Matt Welsh, David Culler and Eric Brewer",
        2001,
    ),
    points=(
        _load(_BELOW, 1 / 3, _ALL, ADMISSION),
        _load(_AT, 1 / 3, _ALL, ADMISSION),
        TWICE,
    ),
    scales=(
        Scale(
            "smoke",
            budget_s=45.0,
            warmup_s=0.6,
            longest_s=2.5,
            rounds=2,
            points=("load-0.5", "load-2"),
        ),
        Scale("normal", budget_s=1400.0, warmup_s=3.0, longest_s=60.0, rounds=3),
        Scale("paper", budget_s=17_200.0, warmup_s=6.0, longest_s=300.0, rounds=8),
    ),
    architectures=(
        Variant(_ALL, "stage", _OPTIONS),
        Variant(ADMISSION, "stage", (*_OPTIONS, *_ADMIT)),
        Variant(_FIXED, "stage", (*_OPTIONS, *_ADMIT, "--controllers", "none")),
    ),
    claims=_CLAIMS,
    drawings=(
        _over_time("p90", "90th percentile of response times", "p90_s", "s (log)", is_log=True),
        _over_time("accepted", "Requests answered", "accepted_per_s", "answered 200 a second"),
        _over_time("refused", "Requests refused", "refused_per_s", "answered 503 a second"),
        _over_time("queue", "Requests that wait in the stage", "queue", "requests"),
        _over_time("threads", "Threads of the stage", "threads", "threads"),
        _against_load("p90-load", "Worst 90th percentile", "worst_p90_s", "s"),
        _against_load("accepted-load", "Requests answered", "accepted_per_s", "answered a second"),
        _against_load("refused-load", "Share refused", "refused_share", "share of requests"),
    ),
    notes=(
        "Just before each measurement four clients that go on at once saturate a server without "
        "admission control on the same core: what they get is the unit of the load, so that a "
        "machine that became slower meets all alike. It takes the place of a warm-up.",
        "Requests come at random times, each on a connection of its own, from the lab itself: "
        f"they are few, for the page costs {_COST_MS} ms of a core.",
        f"The target is {TARGET_S:g} s, where the suite's was 5 s, so that a minute shows what "
        "the controller does; its other parameters are the suite's. A stage also refuses what "
        "would be done too late at its present pace, which the suite's did not.",
        "The batching controller shows nothing here: the stage that is overloaded takes one "
        "request at a time, since each is long.",
    ),
)
