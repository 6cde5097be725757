"""The experiments, one module each."""

from gossamer_lab.experiments.are_events_fast import ARE_EVENTS_FAST
from gossamer_lab.experiments.idle_connections import IDLE_CONNECTIONS
from gossamer_lab.experiments.libevent_vs_libev import LIBEVENT_VS_LIBEV
from gossamer_lab.experiments.manifest import Experiment
from gossamer_lab.experiments.overload import OVERLOAD
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.experiments.sandstorm import SANDSTORM
from gossamer_lab.experiments.thread_pool_server import THREAD_POOL_SERVER
from gossamer_lab.experiments.threads_vs_events import THREADS_VS_EVENTS
from gossamer_lab.experiments.unchanged_binaries import UNCHANGED_BINARIES

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        QUICK,
        ARE_EVENTS_FAST,
        LIBEVENT_VS_LIBEV,
        THREADS_VS_EVENTS,
        SANDSTORM,
        THREAD_POOL_SERVER,
        OVERLOAD,
        IDLE_CONNECTIONS,
        UNCHANGED_BINARIES,
    )
}
