"""How long the requests of kept TLS connections take, alone and beside handshakes."""

import contextlib
import json
import sys
from collections.abc import Iterator

from points import BEHIND
from results import Results
from web_points import OURS, THREADS

from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring import process
from gossamer_lab.measuring.load import Load, LoadFailedError
from gossamer_lab.measuring.measure import MeasurementSetup
from gossamer_lab.servers.server import Running, Server, ServerFailedError, serving

HANDSHAKES = 1000
"""Full ones a second, each followed by a request and a close."""
KEPT = Point("tls-kept-128-beside-handshakes", 305, 128, 0, think_ms=4)
"""A third of what a server and the client can do, so that both have time for the handshakes."""
P99 = f"{KEPT.key} p99"
MADE = f"{KEPT.key} made"
WARM_UP_S = 1.0


@contextlib.contextmanager
def handshakes(
    setup: MeasurementSetup, running: Running, results: Results, name: str
) -> Iterator[None]:
    """Have clients make handshakes meanwhile; add how many there were a second.

    They share a core with those of the kept connections, which go first.
    """
    generator = setup.generator
    report, out, errors = (generator.folder / f"beside.{kind}" for kind in ("json", "out", "err"))
    report.unlink(missing_ok=True)
    page = running.url + KEPT.path
    seconds = setup.seconds + WARM_UP_S
    argv = (
        *BEHIND,
        str(generator.program),
        "load",
        page,
        "-c",
        "128",
        "--requests-per-connection",
        "1",
    )
    argv += ("--rate", str(HANDSHAKES), "--max-send-delay", "1h", "--duration", f"{seconds:g}")
    with process.started((*argv, "--json", str(report)), generator.core, out, errors) as child:
        yield
        process.wait(child, seconds + 30.0, generator.tick)
    made = json.loads(report.read_text())
    results.add(MADE, name, made["throughput_per_s"], "a second")
    if errors_by_kind := {kind: n for kind, n in made["errors"].items() if n}:
        results.skip(MADE, name, str(errors_by_kind))


def measure_one(
    results: Results, server: Server, setup: MeasurementSetup, *, is_beside: bool
) -> None:
    """Measure one server, alone or beside handshakes."""
    name = server.name if is_beside else f"{server.name} alone"
    page = (KEPT.path, KEPT.size)
    try:
        with serving(server, setup.site, setup.server_core, page) as running:
            others = (
                handshakes(setup, running, results, name) if is_beside else contextlib.nullcontext()
            )
            with others:
                load = Load(running.url, KEPT, setup.seconds, ramp_up_s=WARM_UP_S / 2)
                report = setup.generator.run(load)
    except (LoadFailedError, ServerFailedError) as error:
        results.skip(P99, name, str(error))
        return
    print(f"  {KEPT.key} {name}: {report['response_us']['p99']}", file=sys.stderr)
    results.add(P99, name, report["response_us"]["p99"], "us")


def measure_beside(
    results: Results, servers: list[Server], setup: MeasurementSetup, rounds: int
) -> None:
    """Measure each server alone and beside handshakes, in turn."""
    for _ in range(rounds):
        for server in servers:
            for is_beside in (False, True):
                measure_one(results, server, setup, is_beside=is_beside)


def set_beside_limits(results: Results) -> None:
    """Set the limits."""
    for ours in (OURS, THREADS):
        results.limit(P99, ours, (f"{ours} alone",), 2.0)
        results.limit(P99, ours, ("nginx",), 1.0)
