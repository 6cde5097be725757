"""Simulated machines on which what the documents say is true, or on which all servers are alike.

A world tells the columns of a subject at a point. Where a document has numbers they are its own;
where it has words, numbers that agree with them.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from gossamer_lab.claims.quantities import Round
from gossamer_lab.experiments.manifest import Case, Experiment, Point

Columns = dict[str, float]
World = Callable[[Mapping[str, Any], str], Columns]

_NOISY = {
    "servicing_max_us": 0.15,
    "connect_max_wait_us": 0.08,
    "syn_retry_ratio": 0.2,
    "second_syn_retry_ratio": 0.2,
    "unanswered": 0.0,
    "bytes_per_s": 0.015,
    "hump_us": 0.05,
    "server_connections": 0.02,
    "errors": 0.0,
    "requests": 0.0,
    "epoll_ctl": 0.0,
    "server_saturation": 0.005,
    "seconds": 0.0,
    "accept_queue_overflows": 0.0,
    "hump_share": 0.02,
    "server_kernel_threads": 0.0,
    "server_whole_memory_kb": 0.01,
}
"""Standard deviations of the logarithms of columns."""
TIME_NOISE, PROGRAM_NOISE = 0.03, 0.006


def _is_measured(point: Point | Case, name: str) -> bool:
    chosen = point.servers if isinstance(point, Point) else point.programs
    return not chosen or name in chosen


class _Rows(Mapping[tuple[str, str], Columns]):
    """The rows of a round in a world, made when they are needed."""

    def __init__(
        self,
        points: Mapping[str, Point | Case],
        known: Mapping[str, Mapping[str, Any]],
        world: World,
        seed: str,
    ) -> None:
        """Keep what determines them; without a seed there is no noise."""
        self._points, self._known, self._world, self._seed = points, known, world, seed
        self._made: dict[tuple[str, str], Columns] = {}

    def __getitem__(self, key: tuple[str, str]) -> Columns:
        """Return a row."""
        if key not in self._made:
            self._made[key] = self._row(*key)
        return self._made[key]

    def _row(self, key: str, name: str) -> Columns:
        point = self._points[key]
        if not _is_measured(point, name):
            raise KeyError(key, name)
        row = dict(self._world(self._known[key], name))
        scatter = row.pop("scatter", 0.0)
        if not self._seed:
            return row
        random_ = random.Random(f"{self._seed} {key} {name}")
        usual = PROGRAM_NOISE if isinstance(point, Case) else TIME_NOISE
        noisy = _NOISY
        if "bytes_per_s" in row:
            # Requests vary as their bytes do.
            noisy = _NOISY | {"throughput_per_s": _NOISY["bytes_per_s"]}
        for column in row:
            row[column] *= math.exp(random_.gauss(0, noisy.get(column, usual)))
        if scatter:
            row["service_us"] *= math.exp(random_.gauss(0, scatter))
        return row

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of the rows made so far."""
        return iter(self._made)

    def __len__(self) -> int:
        """Return the number of rows made so far."""
        return len(self._made)


def rounds(
    experiment: Experiment, world: World, seed: int | None, scale: str = "normal"
) -> list[Round]:
    """Return the rounds of a run in a world; without a seed one, which is without noise."""
    chosen = experiment.scale(scale)
    points = {point.key: point for point in experiment.points_of(chosen)}
    known = {key: point.as_dict() for key, point in points.items()}

    def missing(point: str, name: str) -> str:
        return f"{name} at {point} is missing"

    if seed is None:
        return [Round(known, _Rows(points, known, world, ""), missing)]
    return [
        Round(known, _Rows(points, known, world, f"{seed} {number}"), missing)
        for number in range(chosen.rounds)
    ]


# ---- Are events fast? ----

_SLOPES = {
    "toy-fork": 400.0,
    "toy-kernel": 135.0,
    "toy-pth": 130.0,
    "toy-st": 90.0,
    "toy-cpc": 110.0,
    "nginx": 160.0,
    "h2o": 155.0,
    "lighttpd": 140.0,
    "apache-prefork": 330.0,
    "apache-worker": 330.0,
    "toy-event": 88.0,
}


def _queue(point: Mapping[str, Any], name: str) -> Columns:
    load = point["connections"]
    short = name != "thread-1024"
    return {
        "measured_load": min(load, 130.0) if short else load,
        "total_p50_us": 50_000.0 if short and load > 128 else 400.0 * load,
        "servicing_max_us": 400_000.0,
        "accept_queue_overflows": 100.0 if short and load > 128 else 0.0,
        "service_us": 100.0 * load,
        "response_mean_us": 100.0 * load,
        "scatter": 0.4 if name in {"thread-128", "event-128"} else 0.05,
    }


def are_events_fast(point: Mapping[str, Any], name: str) -> Columns:
    """Return what Kerneis and Chroboczek describe."""
    load = point["connections"]
    if point["topic"] == "queue":
        return _queue(point, name)
    slope = _SLOPES.get(name, 100.0)
    if point["topic"] == "files" and name != "event":
        slope *= 1.03
    time_us = slope * load + 300
    return {
        "service_us": time_us,
        "servicing_us": time_us,
        "total_p50_us": time_us,
        "server_memory_kb": 60_000.0 if name == "toy-kernel" else 6_000.0,
    }


# ---- Benchmarking libevent against libev ----


def libevent_vs_libev(point: Mapping[str, Any], name: str) -> Columns:
    """Return what Lehmann describes; `descriptors` are socket pairs."""
    pairs, active, timed = point["descriptors"], point["active"], point["timeouts"] != _PLAIN
    setup, poll = 0.5 * pairs, 2.0 * active + 0.02 * pairs
    libevent = name == "libevent"
    emulated = name == "libev, emulated"
    if libevent:
        # Twice the total: what is not polled costs more by as much.
        poll *= 2.5 if timed else 1.025
        setup = 2 * (setup + 2.0 * active) - 2.0 * active + (1.8 * pairs + 4 * active) * timed
    elif emulated:
        poll *= 1.25 if timed else 1.025
        setup = setup * 1.03 + (0.8 * (setup + poll) + 0.1 * pairs) * timed
    else:
        setup *= 1.1 if timed else 1.0
    return {
        "total_us": setup + poll,
        "poll_us": poll,
        "epoll_ctl": 2.0 if libevent else 1.0,
    }


_PLAIN = "without timeouts"

# ---- Why events are a bad idea ----

_SATURATED = {"Knot-C": 87.5e6, "Knot-A": 80e6, "Haboob": 62.5e6}
"""Bytes per second: 700 Mbit/s for Knot-C, 500 for Haboob."""
_REQUEST_BYTES = 17_100.0
_FIRST_FILES = {1: 1.5, 4: 1.53, 16: 1.13, 64: 1.02}
"""An error that all rounds share: so many clients request files that are larger than the average,
the first of a sequence that is the same in each load."""


def threads_vs_events(point: Mapping[str, Any], name: str) -> Columns:
    """Return what von Behren, Condit and Brewer describe."""
    if "threads" in point:
        falls = 0.92 ** math.log10(point["threads"])
        return {"throughput_per_s": 1e6 * falls * (1.06 if name == "threads" else 1.0)}
    clients = point["connections"]
    server, _, poller = name.partition(", ")
    maximum = _SATURATED[server]
    bandwidth = min(clients * 0.25e6, maximum)
    if not poller and server != "Knot-C" and clients > 8000:
        bandwidth *= 0.6
    if server == "Knot-C" and clients == 1024:
        bandwidth *= 1.15
    switches = 30_000.0 if server == "Haboob" else 4_300.0
    return {
        "throughput_per_s": bandwidth / _REQUEST_BYTES,
        "bytes_per_s": bandwidth * _FIRST_FILES.get(clients, 1.0),
        "server_switches_per_s": switches,
        "switches_per_megabyte": 480.0 if server == "Haboob" else 50.0,
        "server_connections": clients * (0.3 if server == "Knot-C" else 0.9),
        "server_saturation": 0.99 if clients > 400 else 0.5,
        "server_memory_kb": 900_000.0 if server == "Haboob" and clients > 8000 else 50_000.0,
    }


# ---- SandStorm HTTP server results ----

_RATES = {"pool": {1000: 2600.0}, "forking": {1000: 100.0}}
_CONNECTS_MS = {
    "events": {100: 3534.0, 1000: 3116.0},
    "pool": {100: 3547.0, 1000: 183_340.0},
    "forking": {100: 243.0, 500: 45_201.0, 1000: 45_201.0},
}
_RESPONSES_MS = {
    "events": {100: 1255.0, 1000: 12_518.0},
    "pool": {100: 557.0, 1000: 190_766.0},
    "forking": {100: 9617.0, 500: 48_136.0, 1000: 48_136.0},
}


def sandstorm(point: Mapping[str, Any], name: str) -> Columns:
    """Return what Welsh published."""
    clients = point["connections"]
    return {
        "throughput_per_s": _RATES.get(name, {}).get(clients, 3000.0),
        "server_saturation": 0.99,
        "server_connections": min(clients, 150.0) if name == "pool" else float(clients),
        "connect_p90_us": 5_000.0,
        "connect_max_wait_us": 1e3 * _CONNECTS_MS.get(name, {}).get(clients, 1000.0),
        "servicing_max_us": 1e3 * _RESPONSES_MS.get(name, {}).get(clients, 1000.0),
        "accept_queue_overflows": 50.0,
        "seconds": 240.0,
        "syn_retry_ratio": 20.0,
        "second_syn_retry_ratio": 20.0,
        "hump_us": 400_000.0 if clients >= 1000 else 20_000.0,
        "hump_share": 0.8,
    }


# ---- A web server with an event-driven architecture and thread pooling ----


def thread_pool_server(point: Mapping[str, Any], name: str) -> Columns:
    """Return what Moon describes."""
    clients = point["connections"]
    start_us = 80_000.0 if point["is_wan"] else 500.0
    time_us = start_us + 100.0 * clients
    if name.startswith("queue"):
        # Oscillation: spikes between numbers of clients with shorter times.
        time_us = start_us + (160.0 if clients // 300 % 2 else 98.0) * clients
    if name == "queue, 1024 files":
        time_us *= 1.6
    tail = 1.0 if name == "queue, non-blocking" else 1.4
    return {
        "servicing_us": time_us,
        "total_p90_us": time_us * tail,
        "errors": 0.0,
        "requests": 100_000.0,
    }


# ---- Our own: controllers of staged servers ----


def overload(point: Mapping[str, Any], name: str) -> Columns:
    """Return what we expect of the controllers."""
    is_overloaded, is_open = point["load_factor"] > 1, name == "all admitted"
    return {
        "worst_p90_s": (20.0 if is_open else 1.0) if is_overloaded else 0.2,
        "accepted_per_s": 23.0 if is_overloaded else 12.0,
        "saturation_per_s": 24.0,
        "requests": 3000.0,
        "unanswered": 2.0,
        "rejection_p90_s": 0.02,
        "rejected_share": 0.5 if is_overloaded else 0.005,
        "max_threads": 20.0 if is_overloaded else 2.0,
    }


# ---- Why events are a bad idea, for programs that nobody rewrote ----


def unchanged_binaries(point: Mapping[str, Any], name: str) -> Columns:
    """Return what threads are like whose weaknesses are gone."""
    is_run, connections = name.endswith(", run"), point["connections"]
    cpu_us = 10.0 + connections / 1000
    return {
        "server_cpu_us_per_request": cpu_us * (0.5 if is_run else 1.0),
        "switches_per_megabyte": 50.0 if is_run else 2000.0,
        "server_whole_memory_kb": connections * (10.0 if is_run else 30.0),
        "server_kernel_threads": 4.0 if is_run else connections + 2.0,
    }


DOCUMENTS: dict[str, World] = {
    "are-events-fast": are_events_fast,
    "libevent-vs-libev": libevent_vs_libev,
    "threads-vs-events": threads_vs_events,
    "sandstorm": sandstorm,
    "thread-pool-server": thread_pool_server,
    "overload": overload,
    "unchanged-binaries": unchanged_binaries,
}


@cache
def alike(experiment: str) -> World:
    """Return a world in which all subjects are like one of them, as today's may be."""
    like = {
        "are-events-fast": "toy-pth",
        "libevent-vs-libev": "libev",
        "threads-vs-events": "Knot-A, epoll",
        "sandstorm": "events",
        "thread-pool-server": "apache-event, stock",
        "overload": "admission",
        "unchanged-binaries": "microhttpd",
    }[experiment]

    def world(point: Mapping[str, Any], name: str) -> Columns:
        if point.get("topic") == "queue":
            return _queue(point, "thread-1024") | {"accept_queue_overflows": 100.0}
        same = "events" if name in {"threads", "events"} and "threads" in point else like
        return DOCUMENTS[experiment](point, same)

    return world
