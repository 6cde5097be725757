"""``gossamer load`` beside wrk, on the same servers: they agree, and ours costs no more.

They are held to agree on a server whose delays are known, because there the times are the server's.
On a server at its limit, which request waits how long depends on the order in which a client looks
at its connections; those points tell what a request costs the client.

Open loops are held to keep their rate, and to find the same server's times.
"""

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

from figures import Figures, arguments

from gossamer_lab import paths
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.servers.peers import present_peers
from gossamer_lab.servers.server import Launch, Server, Site, serving
from gossamer_lab.workshop import Workshop, workshop

OURS, WRK = "gossamer", "wrk"
SERVERS = ("nginx", "h2o", "lighttpd")
DELAYS = (16, 128)
RATES = ("1000", "1000 --poisson")
RATE_CONNECTIONS = 128
USUAL_US, LATE_US = 2000.0, 8000.0
"""The delays of bench/delays.c."""
POINTS = (
    *(Point(f"305-keep-{n}", 305, n, 0) for n in (128, 1000)),
    Point("8192-keep-128", 8192, 128, 0),
)
LIMITS = {"throughput": 1.05, "p50": 1.05, "p99": 1.15}
UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Outcome:
    """What a load generator measured, and what it cost."""

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
    user, system = (
        after.children_user - before.children_user,
        after.children_system - before.children_system,
    )
    return done.stdout, user + system


def run_ours(shop: Workshop, url: str, connections: int, seconds: int) -> Outcome:
    """Measure with ``gossamer load``."""
    path = shop.site.folder / "load.json"
    options = ("-c", str(connections), "-d", str(seconds), "--json", str(path))
    _, cpu_s = run((str(shop.program), "load", *options, url), shop.client_core)
    report = json.loads(path.read_text())
    response = report["response_us"]
    cpu_us = cpu_s / report["requests"] * 1e6
    return Outcome(report["throughput_per_s"], response["p50"], response["p99"], cpu_us)


def run_wrk(shop: Workshop, url: str, connections: int, seconds: int) -> Outcome:
    """Measure with wrk."""
    options = ("-t1", f"-c{connections}", f"-d{seconds}s", "--latency")
    output, cpu_s = run((str(paths.peer("wrk")), *options, url), shop.client_core)
    requests = int(re.search(r"(\d+) requests in", output)[1])

    def time_us(percent: int) -> float:
        value, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\b", output).groups()
        return float(value) * UNITS_US[unit]

    throughput = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    return Outcome(throughput, time_us(50), time_us(99), cpu_s / requests * 1e6)


@dataclass(frozen=True)
class Round:
    """One comparison: where it happens, and how."""

    figures: Figures
    shop: Workshop
    seconds: int

    def compare(self, name: str, url: str, connections: int) -> None:
        """Measure a point with both, one after the other in some order."""
        subjects = [(OURS, run_ours), (WRK, run_wrk)]
        random.shuffle(subjects)
        for subject, measured in subjects:
            found = measured(self.shop, url, connections, self.seconds)
            self.figures.add(f"{name} throughput", subject, found.throughput, "/s")
            self.figures.add(f"{name} p50", subject, found.p50, "us")
            self.figures.add(f"{name} p99", subject, found.p99, "us")
            self.figures.add_cost(f"{name} client CPU", subject, found.cpu_us, "us a request")


def delays_server() -> Server:
    """Return the server whose delays are known."""
    program = paths.program().parent / "bench/servers/delays"

    def configure(_site: Site) -> Launch:
        return Launch((str(program),))

    return Server("delays", False, "answers after known delays", "this checkout", configure)


def measure_rates(setting: Round, rounds: int, url: str) -> None:
    """Measure open loops at a server whose delays are known."""
    shop, figures = setting.shop, setting.figures
    path = shop.site.folder / "load.json"
    for rate in RATES:
        for _ in range(rounds):
            how = ("-c", str(RATE_CONNECTIONS), "-d", str(setting.seconds), "--late", "1h")
            words = (*how, "--json", str(path), "--rate", *rate.split())
            run((str(shop.program), "load", *words, url), shop.client_core)
            report = json.loads(path.read_text())
            kept = report["throughput_per_s"] / report["rate_per_s"]
            figures.add(f"rate {rate}: kept", OURS, kept, "of it")
            figures.add(f"rate {rate}: p50", OURS, report["response_us"]["p50"], "us")
            figures.add(f"rate {rate}: p99", OURS, report["response_us"]["p99"], "us")
            figures.add(f"rate {rate}: lag p99", OURS, report["lag_us"]["p99"], "us")


def measure(setting: Round, rounds: int, chosen: str) -> None:
    """Measure every point, round after round."""
    shop = setting.shop
    for connections in (n for n in DELAYS if chosen in f"delays-{n}"):
        with serving(delays_server(), shop.site, shop.server_core, ("/", 2)) as running:
            for _ in range(rounds):
                setting.compare(f"delays-{connections}", running.url + "/", connections)
    if chosen in "rate":
        with serving(delays_server(), shop.site, shop.server_core, ("/", 2)) as running:
            measure_rates(setting, rounds, running.url + "/")
    server = next(iter(present_peers(SERVERS)))
    for point in (point for point in POINTS if chosen in point.key):
        with serving(server, shop.site, shop.server_core, (point.path, point.size)) as running:
            for _ in range(rounds):
                setting.compare(point.key, running.url + point.path, point.connections)


def agree(figures: Figures, name: str, limit: float) -> None:
    """State how far the two are apart, whichever is larger."""
    ours, wrk = figures.value(name, OURS), figures.value(name, WRK)
    row = {"name": f"{name}: apart", "ratio": None, "limit": limit, "ok": False}
    if ours and wrk:
        ratio = max(ours / wrk, wrk / ours)
        row |= {"ratio": round(ratio, 4), "ok": ratio <= limit}
    else:
        row["reason"] = "not measured"
    figures.ratios.append(row)


def hold(figures: Figures, name: str, truth: float, limit: float) -> None:
    """State how far a figure is from what it is known to be."""
    found = figures.value(name, OURS)
    row = {"name": f"{name}: from {truth:g}", "ratio": None, "limit": limit, "ok": False}
    if found:
        ratio = max(found / truth, truth / found)
        row |= {"ratio": round(ratio, 4), "ok": ratio <= limit}
    else:
        row["reason"] = "not measured"
    figures.ratios.append(row)


def set_limits(figures: Figures, chosen: str) -> None:
    """State what is to be reached."""
    for connections in (n for n in DELAYS if chosen in f"delays-{n}"):
        for metric, limit in LIMITS.items():
            agree(figures, f"delays-{connections} {metric}", limit)
    for rate in RATES if chosen in "rate" else ():
        hold(figures, f"rate {rate}: kept", 1.0, 1.1 if "poisson" in rate else 1.01)
        hold(figures, f"rate {rate}: p50", USUAL_US, 1.1)
        hold(figures, f"rate {rate}: p99", LATE_US, 1.15)
    for point in (point for point in POINTS if chosen in point.key):
        figures.limit(f"{point.key} client CPU", OURS, (WRK,), 1.0)


def main() -> int:
    """Measure all; 1 if a limit is not kept."""
    settings = arguments((__doc__ or "").splitlines()[0])
    figures = Figures()
    if not paths.peer("wrk"):
        figures.miss("all", WRK, "not installed: make peers")
    elif not present_peers(SERVERS):
        figures.miss("all", "server", f"none of {', '.join(SERVERS)} is installed: make peers")
    else:
        with workshop(Experiment("load", "", POINTS, (), ()), paths.program()) as shop:
            seconds = max(1, round(settings.seconds))
            measure(Round(figures, shop, seconds), settings.rounds, settings.only)
    set_limits(figures, settings.only)
    return figures.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
