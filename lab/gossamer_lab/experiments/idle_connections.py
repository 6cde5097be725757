"""``idle-connections``: the memory of a server for each connection that waits."""

from gossamer_lab.experiments.manifest import ChartSpec, Experiment, Point, Scale, Variant

_CONNECTIONS = (1000, 2000, 5000, 10_000)
_THINK_MS = 30_000
"""Longer than a load: each connection carries one request, then waits."""
_SETTLED_S = 8.0
"""Within half of this time the connections are open and have had their response."""


def _point(connections: int) -> Point:
    return Point(f"idle-{connections}", 305, connections, 0, think_ms=_THINK_MS, min_s=_SETTLED_S)


IDLE_CONNECTIONS = Experiment(
    name="idle-connections",
    summary="memory of each connection that waits for its next request",
    points=tuple(_point(connections) for connections in _CONNECTIONS),
    scales=(
        Scale(
            "smoke",
            budget_s=30.0,
            warmup_s=0.0,
            max_load_s=_SETTLED_S,
            rounds=2,
            points=("idle-1000",),
        ),
        Scale("normal", budget_s=450.0, warmup_s=0.0, max_load_s=_SETTLED_S, rounds=2),
    ),
    is_of_memory=True,
    peers=("nginx", "lighttpd", "h2o"),
    architectures=tuple(
        Variant(name, name, raises_max_connections=True) for name in ("user", "event", "thread")
    ),
    charts=(
        ChartSpec(
            key="memory",
            title="Memory of an idle connection",
            caption="Growth of the server's anonymous and shared memory since its start, divided "
            "by the number of connections. Each has had one response and waits. Kernel memory, "
            "such as socket buffers and the stacks of kernel threads, is not included.",
            x="connections",
            y="server_memory_per_connection",
            x_title="connections",
            y_title="bytes per connection",
            log_x=True,
            log_y=True,
        ),
    ),
)
