"""``quick``: the CPU time per request of each server, in under three minutes."""

from gossamer_lab.experiments.manifest import Experiment, Point, Scale, Variant

_KEEP, _CLOSE = 0, 1

QUICK = Experiment(
    name="quick",
    summary="CPU time per request, throughput and response time of each architecture and peer "
    "on one core",
    points=(
        Point("305-keep-16", 305, 16, _KEEP),
        Point("305-keep-128", 305, 128, _KEEP),
        Point("305-keep-1000", 305, 1000, _KEEP),
        Point("305-close-128", 305, 128, _CLOSE),
        Point("305-close-1000", 305, 1000, _CLOSE),
        Point("8192-keep-128", 8192, 128, _KEEP),
    ),
    scales=(
        Scale(
            "smoke",
            budget_s=25.0,
            warmup_s=0.1,
            max_load_s=1.0,
            rounds=2,
            points=("305-keep-128", "305-close-128", "8192-keep-128"),
        ),
        Scale("normal", budget_s=145.0, warmup_s=0.4, max_load_s=5.0, rounds=2),
    ),
    peers=("nginx", "lighttpd", "h2o"),
    architectures=tuple(
        Variant(name, name) for name in ("user", "event", "stage", "thread", "fork")
    ),
)
