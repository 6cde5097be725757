"""The group tls of bench/web: TLS 1.3 with a P-256 certificate, beside nginx, lighttpd and h2o."""

import argparse
import random
from dataclasses import replace

from points import bench
from results import Results
from web_points import OURS, PEERS, THREADS, cpu_name, measure_idle, report
from web_tls_beside import KEPT as BESIDE
from web_tls_beside import measure_beside, set_beside_limits

from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring import measure
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import certificate, present_peers

KEEP, CLOSE = 0, 1
KEPT = Point("tls-305-keep-128", 305, 128, KEEP)
FULL = Point("tls-full-handshake", 305, 64, CLOSE)
RESUMED = Point("tls-resumed-handshake", 305, 64, CLOSE)
LARGE = Point("tls-1048576-keep-16", 1 << 20, 16, KEEP)
TLS_POINTS = (KEPT, FULL, RESUMED, LARGE)
IDLE = Point("tls 10000 idle connections", 305, 10_000, KEEP, think_ms=120_000)
IDLE_S = 32.0
"""Within half of this time all connections are open and have had their response."""
MIN_KEPT_S = 4.0
"""Of many kept connections, so that their handshakes have no weight."""


def is_chosen(point: Point, settings: argparse.Namespace) -> bool:
    """Return whether a point is to be measured."""
    return settings.only in point.key


def measure_tls(results: Results, workspace: Workspace, settings: argparse.Namespace) -> None:
    """Measure all servers; their order is random in each round."""
    site = replace(workspace.site, certificate=certificate(workspace.site.folder))
    ours = [one for one in our_servers(workspace.program) if one.name in (OURS, THREADS)]
    servers = [*ours, *present_peers(PEERS)]
    each = replace(bench(workspace, settings.seconds), site=site)
    for number in range(settings.rounds):
        for point in TLS_POINTS:
            if not is_chosen(point, settings):
                continue
            options = ("--resume",) if point is RESUMED else ()
            seconds = max(each.seconds, MIN_KEPT_S) if point is KEPT else each.seconds
            generator = replace(each.generator, options=options)
            setup = replace(each, generator=generator, seconds=seconds)
            for server in random.sample(servers, len(servers)):
                row = measure.measure(Step(0, number, point, ""), server, setup)
                report(results, point, server.name, row)
    if is_chosen(IDLE, settings):
        setup = replace(bench(workspace, IDLE_S), site=site)
        measure_idle(results, setup, IDLE, servers)
    if is_chosen(BESIDE, settings):
        setup = replace(each, seconds=max(each.seconds, MIN_KEPT_S))
        nginx = [one for one in servers if one.name == "nginx"]
        measure_beside(results, [*ours, *nginx], setup, settings.rounds)


def set_tls_limits(results: Results, chosen: str) -> None:
    """Set the limits."""
    limits = [(KEPT, 0.9), (FULL, 1.0), (RESUMED, 1.0)]
    for point, limit in limits:
        if chosen not in point.key:
            continue
        for ours in (OURS, THREADS):
            results.limit(cpu_name(point), ours, PEERS, limit)
    if chosen in LARGE.key:
        results.limit(cpu_name(LARGE), OURS, ("h2o",), 0.9)
        results.limit(cpu_name(LARGE), THREADS, ("h2o",), 0.9)
    if chosen in IDLE.key:
        results.limit(IDLE.key, OURS, ("nginx",), 0.9)
        results.limit(IDLE.key, THREADS, (OURS,), 1.05)
    if chosen in BESIDE.key:
        set_beside_limits(results)
