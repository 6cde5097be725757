"""``gossamer load`` beside wrk, on the same server: they agree, and ours costs no more.

The server is a peer that is slower than either client, for a client that is the limit would
measure itself. wrk corrects its response times: for each that is longer than two usual intervals
between the requests of a connection, it adds those that it holds to have been kept from being sent.
The same is done here to ours, read from the histogram log, before percentiles are compared.
"""

import base64
import os
import random
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from figures import Figures, arguments

from gossamer_lab import paths
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.servers.peers import present_peers
from gossamer_lab.servers.server import serving
from gossamer_lab.workshop import Workshop, workshop

OURS, WRK = "gossamer", "wrk"
SERVERS = ("nginx", "h2o", "lighttpd")
POINTS = (
    *(Point(f"305-keep-{n}", 305, n, 0) for n in (16, 128, 1000)),
    *(Point(f"8192-keep-{n}", 8192, n, 0) for n in (16, 128)),
)
LIMITS = {"throughput": 1.05, "p50": 1.05, "p99": 1.15}
AGREEING_SIZE = 8192  # the smaller page comes faster than wrk can take it: wrk would be the limit
UNITS_US = {"us": 1.0, "ms": 1e3, "s": 1e6}


@dataclass(frozen=True)
class Outcome:
    """What a load generator measured, and what it cost."""

    throughput: float
    p50: float
    p99: float
    cpu_us: float


def numbers(packed: bytes) -> Iterator[int]:
    """Read ZigZag LEB128 numbers, whose ninth byte has eight bits."""
    at = 0
    while at < len(packed):
        value = shift = 0
        while True:
            byte = packed[at]
            at += 1
            is_ninth = shift == 56
            value |= (byte if is_ninth else byte & 0x7F) << shift
            shift += 7
            if is_ninth or byte < 0x80:
                break
        yield (value >> 1) ^ -(value & 1)


def slot_value(slot: int) -> int:
    """Return the highest value of a slot of a histogram with three digits."""
    shift = max(0, (slot >> 10) - 1)
    return ((slot - (shift << 10)) << shift) + (1 << shift) - 1


def response_counts(log: Path) -> dict[int, int]:
    """Return the response times in microseconds, and how often there was each."""
    line = next(line for line in log.read_text().splitlines() if line.startswith("Tag=response,"))
    plain = zlib.decompress(base64.b64decode(line.rpartition(",")[2])[8:])
    length = struct.unpack(">I", plain[4:8])[0]
    counts: dict[int, int] = {}
    slot = 0
    for number in numbers(plain[40 : 40 + length]):
        if number > 0:
            microseconds = slot_value(slot) // 1000
            counts[microseconds] = counts.get(microseconds, 0) + number
        slot += 1 if number >= 0 else -number
    return counts


def percentile_as_wrk(counts: dict[int, int], interval_us: int, percent: float) -> float:
    """Return a percentile after the correction that wrk makes."""
    corrected = dict(counts)
    for value, count in counts.items():
        if value < 2 * interval_us:
            continue
        for added in range(value - interval_us, interval_us, -interval_us):
            corrected[added] = corrected.get(added, 0) + count
    rank = percent / 100 * sum(corrected.values())
    total = 0
    for value in sorted(corrected):
        total += corrected[value]
        if total >= rank:
            return float(value)
    return 0.0


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
    log = shop.site.folder / "load.hdr"
    options = ("-c", str(connections), "-d", str(seconds), "--hdr-log", str(log))
    output, cpu_s = run((str(shop.program), "load", *options, url), shop.client_core)
    counts = response_counts(log)
    requests = sum(counts.values())
    throughput = float(re.search(r"^throughput\s+([\d.]+)", output, re.MULTILINE)[1])
    interval_us = int(seconds * 1e6) // max(1, requests // connections)
    p50, p99 = (percentile_as_wrk(counts, interval_us, percent) for percent in (50, 99))
    return Outcome(throughput, p50, p99, cpu_s / requests * 1e6)


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


def measure_both(figures: Figures, shop: Workshop, point: Point, url: str, seconds: int) -> None:
    """Measure a point with both, one after the other in some order."""
    subjects = [(OURS, run_ours), (WRK, run_wrk)]
    random.shuffle(subjects)
    for subject, measured in subjects:
        found = measured(shop, url, point.connections, seconds)
        figures.add(f"{point.key} throughput", subject, found.throughput, "/s")
        figures.add(f"{point.key} client CPU", subject, found.cpu_us, "us a request")
        figures.add(f"{point.key} p50", subject, found.p50, "us")
        figures.add(f"{point.key} p99", subject, found.p99, "us")


def measure(figures: Figures, shop: Workshop, rounds: int, seconds: int, chosen: str) -> None:
    """Measure every point, round after round."""
    server = next(iter(present_peers(SERVERS)))
    for point in (point for point in POINTS if chosen in point.key):
        with serving(server, shop.site, shop.server_core, (point.path, point.size)) as running:
            for _ in range(rounds):
                measure_both(figures, shop, point, running.url + point.path, seconds)


def agree(figures: Figures, name: str, limit: float) -> None:
    """State how far the two are apart, whichever is larger."""
    ours, wrk = figures.median(name, OURS), figures.median(name, WRK)
    row = {"name": f"{name}: apart", "ratio": None, "limit": limit, "ok": False}
    if ours and wrk:
        ratio = max(ours / wrk, wrk / ours)
        row |= {"ratio": round(ratio, 4), "ok": ratio <= limit}
    else:
        row["reason"] = "not measured"
    figures.ratios.append(row)


def set_limits(figures: Figures, chosen: str) -> None:
    """State what is to be reached."""
    for point in (point for point in POINTS if chosen in point.key):
        if point.size == AGREEING_SIZE:
            for metric, limit in LIMITS.items():
                agree(figures, f"{point.key} {metric}", limit)
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
            measure(figures, shop, settings.rounds, seconds, settings.only)
    set_limits(figures, settings.only)
    return figures.finish(settings.json)


if __name__ == "__main__":
    sys.exit(main())
