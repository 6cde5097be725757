"""``thread-pool-server``: greeters, a queue and workers, beside Apache, in bursts of clients."""

from gossamer_lab.claims import Claim, Correlation, Highest, Mean, Quantity, Ratio, Slope
from gossamer_lab.experiment import Document, Drawing, Experiment, Point, Scale, Soundness, Variant

_CLIENTS = (20, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200)
_X, _Y = "connections", "response_mean_us"


def _time(name: str) -> Quantity:
    return Mean(name, _Y, (), f"mean time of {name}")


_CLAIMS = (
    Claim(
        "all-succeed",
        "The server answers every request of a burst of up to 1200 clients",
        "section 3",
        "every request succeeded",
        Highest("queue", "errors", (), "most failed requests of a burst on queue"),
        holds_to=0.0,
    ),
    Claim(
        "comparable-with-apache",
        "Its response times are comparable with those of Apache 2.4",
        "abstract and section 3, Figure 2",
        "comparable; here within a quarter in the mean of all bursts",
        Ratio(_time("queue"), _time("apache2")),
        holds_from=0.8,
        holds_to=1.25,
    ),
    Claim(
        "scales-worse-than-apache",
        "It does not scale as gracefully as Apache",
        "section 3",
        "its times grew faster with the number of clients",
        Ratio(Slope("queue", _X, _Y), Slope("apache2", _X, _Y)),
        holds_from=1.0,
    ),
    Claim(
        "times-oscillate",
        "Its response times oscillate as the number of clients grows",
        "section 3",
        "a strange oscillation, not counted; here a correlation with the clients of at most 0.95",
        Correlation("queue", _X, _Y),
        holds_to=0.95,
    ),
    Claim(
        "non-blocking-sockets-help",
        "Workers that never block on a socket would answer faster",
        "section 3",
        "a suspicion of the author's",
        Ratio(_time("queue, non-blocking"), _time("queue")),
        holds_to=1.0,
    ),
)

THREAD_POOL_SERVER = Experiment(
    name="thread-pool-server",
    summary="Mean and percentiles of the response time against 20 to 1200 clients, of a server "
    "with greeters, a queue and workers",
    document=Document(
        "A web server with an event-driven architecture and thread pooling", "David Moon", 2016
    ),
    points=tuple(Point(f"clients-{n}", 417, n, 1) for n in _CLIENTS),
    scales=(
        Scale(
            "smoke",
            budget_s=25.0,
            warmup_s=0.0,
            longest_s=1.0,
            rounds=2,
            points=("clients-20", "clients-200", "clients-600"),
        ),
        Scale("normal", budget_s=600.0, warmup_s=0.1, longest_s=5.0, rounds=3),
        Scale("paper", budget_s=14_400.0, warmup_s=1.0, longest_s=30.0, rounds=8),
    ),
    peers=("apache2", "nginx"),
    architectures=(
        Variant("queue", "queue"),
        Variant("queue, non-blocking", "queue", ("--nonblocking",)),
        Variant("user", "user"),
        Variant("event", "event"),
    ),
    server_share=0.25,
    soundness=Soundness(forgives_errors=True),
    claims=_CLAIMS,
    drawings=(
        *(
            Drawing(
                key,
                f"{name} response time against clients",
                f"After Figure {number}. Each point is a burst of clients that ask for one page of "
                "417 bytes on each connection.",
                _X,
                column,
                "clients",
                "response time, µs",
            )
            for key, name, number, column in (
                ("mean", "Mean", 2, _Y),
                ("p50", "Median", 3, "response_p50_us"),
                ("p75", "75th percentile of the", 3, "response_p75_us"),
                ("p90", "90th percentile of the", 3, "response_p90_us"),
            )
        ),
    ),
    notes=(
        "One client host over loopback, where the document had 20 of them across a continent.",
        "25 greeters and workers for each core of the machine, as there, but all on one core. "
        "The server's core is shared with a brake, so that the client is not the limit; its "
        "slices of a few milliseconds show in the percentiles.",
    ),
)
