"""The group h2 of bench/web: HTTP/2 over TLS 1.3, beside nginx, lighttpd and h2o."""

import argparse
import random
from dataclasses import dataclass, replace

from points import bench
from results import Results
from web_page import NAME as PAGE
from web_page import measure_page, set_page_limits
from web_points import OURS, PEERS, THREADS, cpu_name, measure_idle, report

from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring import measure
from gossamer_lab.measuring.schedule import Step
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import certificate, present_peers
from gossamer_lab.servers.server import Server

KEEP = 0
IDLE = Point("h2 10000 idle connections", 305, 10_000, KEEP, think_ms=120_000)
IDLE_S = 32.0
"""Within half of this time all connections are open and have had their response."""


@dataclass(frozen=True)
class Case:
    """A load of HTTP/2, and the peers that it is compared with."""

    point: Point
    streams: int
    """Concurrent requests of each connection."""
    peers: tuple[str, ...]
    min_s: float = 0.0
    """The least duration with which the handshakes have no weight."""


STREAMS = Case(Point("h2-305-keep-16-of-10", 305, 16, KEEP), 10, ("nginx", "h2o"))
SINGLE = Case(Point("h2-305-keep-128", 305, 128, KEEP), 1, PEERS, 4.0)
LARGE = Case(Point("h2-1048576-keep-16", 1 << 20, 16, KEEP), 1, ("h2o",))
CASES = (STREAMS, SINGLE, LARGE)
H2_POINTS = tuple(case.point for case in CASES)


def named(servers: list[Server], names: tuple[str, ...]) -> list[Server]:
    """Return our servers, and the peers of these names."""
    return [server for server in servers if server.ours or server.name in names]


def with_http2(setup: measure.MeasurementSetup, streams: int) -> measure.MeasurementSetup:
    """Return a setup whose loads are of HTTP/2."""
    options = ("--http2", "--streams", str(streams))
    return replace(setup, generator=replace(setup.generator, options=options))


def measure_h2(results: Results, workspace: Workspace, settings: argparse.Namespace) -> None:
    """Measure all servers; their order is random in each round."""
    site = replace(workspace.site, certificate=certificate(workspace.site.folder))
    ours = [one for one in our_servers(workspace.program) if one.name in (OURS, THREADS)]
    servers = [*ours, *present_peers(PEERS)]
    each = replace(bench(workspace, settings.seconds), site=site)
    chosen = [case for case in CASES if settings.only in case.point.key]
    for number in range(settings.rounds):
        for case in chosen:
            subjects = named(servers, case.peers)
            setup = replace(each, seconds=max(each.seconds, case.min_s))
            for server in random.sample(subjects, len(subjects)):
                step = Step(0, number, case.point, "")
                row = measure.measure(step, server, with_http2(setup, case.streams))
                report(results, case.point, server.name, row)
    if settings.only in IDLE.key:
        setup = replace(bench(workspace, IDLE_S), site=site)
        measure_idle(results, with_http2(setup, 1), IDLE, named(servers, ("nginx",)))
    if settings.only in PAGE:
        measure_page(results, workspace, site, servers)


def set_h2_limits(results: Results, chosen: str) -> None:
    """Set the limits."""
    limits = (
        (STREAMS, ("h2o",), 1.15),
        (STREAMS, ("nginx",), 0.3),
        (SINGLE, PEERS, 1.0),
        (LARGE, ("h2o",), 0.95),
    )
    for case, peers, limit in limits:
        if chosen not in case.point.key:
            continue
        for ours in (OURS, THREADS):
            results.limit(cpu_name(case.point), ours, peers, limit)
    if chosen in IDLE.key:
        for ours in (OURS, THREADS):
            results.limit(IDLE.key, ours, ("nginx",), 1.0)
    if chosen in PAGE:
        set_page_limits(results)
