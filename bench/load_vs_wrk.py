"""``gossamer load`` compared with wrk and, for HTTP/2, with h2load: ours needs no more CPU time.

wrk's results must agree with ours for a server with known delays. On a saturated server, the
waiting time of each request depends on the order in which the client reads its connections, so only
the CPU time of the clients is compared there.

Open loops must keep their rate, and report the known delays.
"""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from results import Results, arguments

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.peers import certificate, present_peers
from gossamer_lab.servers.server import Launch, Server, Site, serving

OURS, WRK, H2LOAD = "gossamer", "wrk", "h2load"
SERVERS = ("nginx", "h2o", "lighttpd")
H2_SERVERS = ("h2o", "nginx", "lighttpd")
"""In the order of their speed, so that the client is the bottleneck."""
DELAYS = (16, 128)
RATES = ("1000", "1000 --poisson")
RATE_CONNECTIONS = 128
DELAY_US, LONG_DELAY_US = 2000.0, 8000.0
"""The delays of bench/delays.c."""
POINTS = (
    *(Point(f"305-keep-{n}", 305, n, 0) for n in (128, 1000)),
    Point("8192-keep-128", 8192, 128, 0),
)
TLS_POINTS = (Point("tls-305-keep-32", 305, 32, 0), Point("tls-1048576-keep-16", 1 << 20, 16, 0))
H2_POINTS = {
    Point("h2-305-keep-16-of-10", 305, 16, 0): 10,
    Point("h2-305-keep-128", 305, 128, 0): 1,
}
"""Each with the number of its streams."""
LIMITS = {"throughput": 1.05, "p50": 1.05, "p99": 1.15}
UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Outcome:
    """The results of a load generator, and its CPU time per request."""

    throughput: float
    cpu_us: float
    times_us: dict[str, float]
    """Percentiles, such as p50, if the load generator tells them."""


Measure = Callable[[Workspace, str, int, int], Outcome]
"""Measures a URL, with a number of connections and of seconds."""


def run(command: tuple[str, ...], core: int) -> tuple[str, float]:
    """Run a load generator on a core; return its output and its CPU seconds."""
    before = os.times()
    done = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=partial(os.sched_setaffinity, 0, {core}),
    )
    after = os.times()
    user_s = after.children_user - before.children_user
    return done.stdout, user_s + after.children_system - before.children_system


def run_ours(
    workspace: Workspace, url: str, connections: int, seconds: int, streams: int = 0
) -> Outcome:
    """Measure a point with ``gossamer load``; over HTTP/2 if there are streams."""
    path = workspace.site.folder / "load.json"
    options = ("-c", str(connections), "-d", str(seconds), "--json", str(path))
    options += ("--http2", "--streams", str(streams)) if streams else ()
    _, cpu_s = run((str(workspace.program), "load", *options, url), workspace.client_core)
    report = json.loads(path.read_text())
    times_us = {name: report["response_us"][name] for name in ("p50", "p99")}
    return Outcome(report["throughput_per_s"], cpu_s / report["requests"] * 1e6, times_us)


def run_wrk(workspace: Workspace, url: str, connections: int, seconds: int) -> Outcome:
    """Measure a point with wrk."""
    options = ("-t1", f"-c{connections}", f"-d{seconds}s", "--latency")
    output, cpu_s = run((str(paths.peer("wrk")), *options, url), workspace.client_core)
    requests = int(re.search(r"(\d+) requests in", output)[1])

    def time_us(percent: int) -> float:
        value, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\b", output).groups()
        return float(value) * UNITS_US[unit]

    throughput = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    times_us = {"p50": time_us(50), "p99": time_us(99)}
    return Outcome(throughput, cpu_s / requests * 1e6, times_us)


def run_h2load(
    workspace: Workspace, url: str, connections: int, seconds: int, streams: int
) -> Outcome:
    """Measure a point with h2load."""
    options = ("-t1", f"-c{connections}", f"-m{streams}", f"-D{seconds}")
    output, cpu_s = run((str(paths.peer("h2load")), *options, url), workspace.client_core)
    requests = int(re.search(r"(\d+) succeeded", output)[1])
    throughput = float(re.search(r"([\d.]+) req/s", output)[1])
    return Outcome(throughput, cpu_s / requests * 1e6, {})


@dataclass(frozen=True)
class Comparison:
    """The setup of a comparison."""

    results: Results
    workspace: Workspace
    seconds: int

    def compare(self, name: str, url: str, connections: int) -> None:
        """Measure a point with ours and with wrk."""
        self.measure(name, url, connections, {OURS: run_ours, WRK: run_wrk})

    def compare_http2(self, point: Point, url: str) -> None:
        """Measure a point with ours and with h2load."""
        streams = H2_POINTS[point]
        subjects = {
            OURS: partial(run_ours, streams=streams),
            H2LOAD: partial(run_h2load, streams=streams),
        }
        self.measure(point.key, url, point.connections, subjects)

    def measure(self, name: str, url: str, connections: int, subjects: dict[str, Measure]) -> None:
        """Measure a point with each load generator, in random order."""
        for subject in random.sample(list(subjects), len(subjects)):
            found = subjects[subject](self.workspace, url, connections, self.seconds)
            self.results.add(f"{name} throughput", subject, found.throughput, "/s")
            for percentile, time_us in found.times_us.items():
                self.results.add(f"{name} {percentile}", subject, time_us, "us")
            self.results.add_cost(f"{name} client CPU", subject, found.cpu_us, "us per request")


def delays_server() -> Server:
    """Return the server with known delays."""
    program = paths.program().parent / "bench/servers/delays"

    def configure(_site: Site) -> Launch:
        return Launch((str(program),))

    return Server("delays", False, "responds after known delays", "this checkout", configure)


def measure_rates(setting: Comparison, rounds: int, url: str) -> None:
    """Measure open loops against a server with known delays."""
    workspace, results = setting.workspace, setting.results
    path = workspace.site.folder / "load.json"
    for rate in RATES:
        for _ in range(rounds):
            options = ("-c", str(RATE_CONNECTIONS), "-d", str(setting.seconds))
            options += ("--max-send-delay", "1h", "--json", str(path), "--rate", *rate.split())
            run((str(workspace.program), "load", *options, url), workspace.client_core)
            report = json.loads(path.read_text())
            achieved = report["throughput_per_s"] / report["rate_per_s"]
            results.add(f"rate {rate}: achieved", OURS, achieved, "share")
            results.add(f"rate {rate}: p50", OURS, report["response_us"]["p50"], "us")
            results.add(f"rate {rate}: p99", OURS, report["response_us"]["p99"], "us")


def measure(setting: Comparison, rounds: int, chosen: str) -> None:
    """Measure every point in each round."""
    workspace = setting.workspace
    for connections in (n for n in DELAYS if chosen in f"delays-{n}"):
        with serving(delays_server(), workspace.site, workspace.server_core, ("/", 2)) as running:
            for _ in range(rounds):
                setting.compare(f"delays-{connections}", running.url + "/", connections)
    if chosen in "rate":
        with serving(delays_server(), workspace.site, workspace.server_core, ("/", 2)) as running:
            measure_rates(setting, rounds, running.url + "/")
    server = next(iter(present_peers(SERVERS)))
    with_tls = replace(workspace.site, certificate=certificate(workspace.site.folder))
    for point in (point for point in (*POINTS, *TLS_POINTS) if chosen in point.key):
        site = with_tls if point in TLS_POINTS else workspace.site
        with serving(server, site, workspace.server_core, (point.path, point.size)) as running:
            for _ in range(rounds):
                setting.compare(point.key, running.url + point.path, point.connections)


def measure_http2(setting: Comparison, rounds: int, chosen: str) -> None:
    """Measure every point of HTTP/2 in each round."""
    workspace = setting.workspace
    if not paths.peer(H2LOAD):
        setting.results.skip("all of HTTP/2", H2LOAD, "not installed: make peers")
        return
    server = next(iter(present_peers(H2_SERVERS)))
    site = replace(workspace.site, certificate=certificate(workspace.site.folder))
    for point in (point for point in H2_POINTS if chosen in point.key):
        with serving(server, site, workspace.server_core, (point.path, point.size)) as running:
            for _ in range(rounds):
                setting.compare_http2(point, running.url + point.path)


def limit_difference(results: Results, name: str, other: float | str, limit: float) -> None:
    """Limit the ratio of the larger to the smaller of our result and wrk's, or a known one."""
    ours = results.summary(name, OURS)
    expected = results.summary(name, other) if isinstance(other, str) else other
    row = {"name": f"{name}: difference from {other}", "ratio": None, "limit": limit, "ok": False}
    if ours and expected:
        ratio = max(ours / expected, expected / ours)
        row |= {"ratio": round(ratio, 4), "ok": ratio <= limit}
    else:
        row["reason"] = "not measured"
    results.ratios.append(row)


def set_limits(results: Results, chosen: str) -> None:
    """Set the limits."""
    for connections in (n for n in DELAYS if chosen in f"delays-{n}"):
        for metric, limit in LIMITS.items():
            limit_difference(results, f"delays-{connections} {metric}", WRK, limit)
    for rate in RATES if chosen in "rate" else ():
        is_random = "poisson" in rate
        limit_difference(results, f"rate {rate}: achieved", 1.0, 1.1 if is_random else 1.01)
        limit_difference(results, f"rate {rate}: p50", DELAY_US, 1.1)
        limit_difference(results, f"rate {rate}: p99", LONG_DELAY_US, 1.15)
    for point in (point for point in (*POINTS, *TLS_POINTS) if chosen in point.key):
        limit = 0.9 if point in TLS_POINTS else 1.0
        results.limit(f"{point.key} client CPU", OURS, (WRK,), limit)
    for point in (point for point in H2_POINTS if chosen in point.key):
        results.limit(f"{point.key} client CPU", OURS, (H2LOAD,), 1.0)


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    settings = arguments((__doc__ or "").splitlines()[0])
    results = Results()
    if not paths.peer("wrk"):
        results.skip("all", WRK, "not installed: make peers")
    elif not present_peers(SERVERS):
        results.skip("all", "server", f"none of {', '.join(SERVERS)} is installed: make peers")
    else:
        experiment = Experiment("load", "", (*POINTS, *TLS_POINTS, *H2_POINTS), (), ())
        with open_workspace(experiment, paths.program()) as workspace:
            seconds = max(1, round(settings.seconds))
            setting = Comparison(results, workspace, seconds)
            measure(setting, settings.rounds, settings.only)
            measure_http2(setting, settings.rounds, settings.only)
    set_limits(results, settings.only)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
