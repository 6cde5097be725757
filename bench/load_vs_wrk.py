"""``gossamer load`` compared with wrk: their results agree, and ours needs no more CPU time.

The results must agree for a server with known delays. On a saturated server, the waiting time of
each request depends on the order in which the client reads its connections, so only the CPU time of
the clients is compared there.

Open loops must keep their rate, and report the known delays.
"""

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial

from results import Results, arguments

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.peers import certificate, present_peers
from gossamer_lab.servers.server import Launch, Server, Site, serving

OURS, WRK = "gossamer", "wrk"
SERVERS = ("nginx", "h2o", "lighttpd")
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
LIMITS = {"throughput": 1.05, "p50": 1.05, "p99": 1.15}
UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Outcome:
    """The results of a load generator, and its CPU time per request."""

    throughput: float
    p50: float
    p99: float
    cpu_us: float


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


def run_ours(workspace: Workspace, url: str, connections: int, seconds: int) -> Outcome:
    """Measure a point with ``gossamer load``."""
    path = workspace.site.folder / "load.json"
    options = ("-c", str(connections), "-d", str(seconds), "--json", str(path))
    _, cpu_s = run((str(workspace.program), "load", *options, url), workspace.client_core)
    report = json.loads(path.read_text())
    response = report["response_us"]
    cpu_us = cpu_s / report["requests"] * 1e6
    return Outcome(report["throughput_per_s"], response["p50"], response["p99"], cpu_us)


def run_wrk(workspace: Workspace, url: str, connections: int, seconds: int) -> Outcome:
    """Measure a point with wrk."""
    options = ("-t1", f"-c{connections}", f"-d{seconds}s", "--latency")
    output, cpu_s = run((str(paths.peer("wrk")), *options, url), workspace.client_core)
    requests = int(re.search(r"(\d+) requests in", output)[1])

    def time_us(percent: int) -> float:
        value, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\b", output).groups()
        return float(value) * UNITS_US[unit]

    throughput = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    return Outcome(throughput, time_us(50), time_us(99), cpu_s / requests * 1e6)


@dataclass(frozen=True)
class Comparison:
    """The setup of a comparison."""

    results: Results
    workspace: Workspace
    seconds: int

    def compare(self, name: str, url: str, connections: int) -> None:
        """Measure a point with both load generators, in random order."""
        subjects = [(OURS, run_ours), (WRK, run_wrk)]
        random.shuffle(subjects)
        for subject, measured in subjects:
            found = measured(self.workspace, url, connections, self.seconds)
            self.results.add(f"{name} throughput", subject, found.throughput, "/s")
            self.results.add(f"{name} p50", subject, found.p50, "us")
            self.results.add(f"{name} p99", subject, found.p99, "us")
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


def main() -> int:
    """Measure all; return 1 if a limit is not met."""
    settings = arguments((__doc__ or "").splitlines()[0])
    results = Results()
    if not paths.peer("wrk"):
        results.skip("all", WRK, "not installed: make peers")
    elif not present_peers(SERVERS):
        results.skip("all", "server", f"none of {', '.join(SERVERS)} is installed: make peers")
    else:
        experiment = Experiment("load", "", (*POINTS, *TLS_POINTS), (), ())
        with open_workspace(experiment, paths.program()) as workspace:
            seconds = max(1, round(settings.seconds))
            measure(Comparison(results, workspace, seconds), settings.rounds, settings.only)
    set_limits(results, settings.only)
    return results.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
