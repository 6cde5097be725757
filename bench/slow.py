"""The web server under attack by clients that send or read one byte per second.

Each attack has 9,000 concurrent clients, beside a normal load. The server's timeouts are short
unless --full is given.
"""

import argparse
import json
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pauses import Pauses
from points import generator
from results import Results, options

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring import process
from gossamer_lab.measuring.accounting import tree_memory_kb
from gossamer_lab.measuring.load import Load, LoadFailedError
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.server import Launch, Running, Server, ServerFailedError, Site, serving

OURS = "event"
ALONE = "alone"
EXPECTED = "expected"
ATTACKS = ("header", "blank", "body", "read")
LARGE = ("/large", 64 << 20)
GOOD = Point("305-keep-100", 305, 100, 0)

RAMP_S = 2
"""Time in which the slow clients connect."""
CLOSE_DELAY_S = 3.0
"""Maximum time from a connection's timeout to its close."""
MIN_AGE_SHARE = 0.9
"""A connection must not be closed before this share of its timeout."""
SAMPLE_S = RAMP_S + 0.5
"""At this time all slow clients are connected, and none has been closed."""
P99_RATIO = 2.0
TRIES = 3
TICK_S = 0.25
"""Interval of the callbacks of a load."""


class PausedError(Exception):
    """The machine was paused during a load."""


@dataclass(frozen=True)
class Limits:
    """The server's timeout for slow clients, and the options that set it."""

    seconds: float
    options: tuple[str, ...]


DEFAULT = Limits(10.0, ())
# The number of bytes per window is the default, which exceeds a small receive buffer.
SHORT = Limits(5.0, ("--header-timeout", "5s", "--rate-grace", "5s", "--rate", "2k"))


@dataclass(frozen=True)
class Setup:
    """The setup that all measurements of a run share."""

    workspace: Workspace
    results: Results
    limits: Limits
    clients: int
    normal: Point = GOOD

    @property
    def seconds(self) -> float:
        """Duration of one load: the slow clients connect, stay open, and are closed."""
        return RAMP_S + self.limits.seconds + CLOSE_DELAY_S

    def server(self) -> Server:
        """Return our server, with enough connections for all clients."""
        options = ("--arch", OURS, "--workers", "1", "--listen", "127.0.0.1:0")
        limit = ("--max-connections", str(self.clients + 2000))

        def configure(site: Site) -> Launch:
            program = str(self.workspace.program)
            return Launch(
                (program, "serve", *options, *limit, *self.limits.options, str(site.root))
            )

        return Server(OURS, True, "", "this checkout", configure)

    def attack(self, mode: str, url: str) -> tuple[str, ...]:
        """Return the command line of the slow clients."""
        program = paths.program().parent / "bench/clients/slow_clients"
        port = str(urllib.parse.urlsplit(url).port)
        return (str(program), mode, port, LARGE[0], str(self.clients), f"{self.seconds:.0f}")


def kernel_bytes() -> int:
    """Return the memory that the kernel uses for TCP on the whole machine."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        name, *fields = line.split()
        if name == "TCP:":
            return int(fields[fields.index("mem") + 1]) * 4096
    return 0


class Sampler:
    """Measures once how much memory the slow clients use."""

    def __init__(self, running: Running) -> None:
        """Record the memory before the clients connect."""
        self.pid = running.pid
        self.start = time.monotonic()
        self.before = (tree_memory_kb(self.pid) * 1024, kernel_bytes())
        self.growth: tuple[int, int] | None = None

    def tick(self) -> None:
        """Take the sample if it is time; called several times per second."""
        if self.growth is None and time.monotonic() - self.start >= SAMPLE_S:
            server, kernel = self.before
            self.growth = (tree_memory_kb(self.pid) * 1024 - server, kernel_bytes() - kernel)


def run_load(setup: Setup, running: Running, tick: Callable[[], None]) -> dict[str, Any]:
    """Run the normal load; raise LoadFailedError for errors, or PausedError."""
    workspace = setup.workspace
    pauses = Pauses()

    def on_tick() -> None:
        pauses.tick(TICK_S)
        tick()

    report = generator(workspace, on_tick).run(Load(running.url, setup.normal, setup.seconds))
    if pauses.is_long:
        raise PausedError(f"the machine was paused for {pauses.longest_s:.0f} s")
    errors = {kind: count for kind, count in report["errors"].items() if count}
    if errors:
        raise LoadFailedError(f"errors: {errors}")
    return report


def run_attack(setup: Setup, mode: str) -> tuple[dict[str, Any], dict[str, Any], Sampler]:
    """Return the reports of the normal load and of the slow clients, and the memory sampler."""
    folder = setup.workspace.site.folder
    output, errors = folder / "slow.out", folder / "slow.err"
    with serving(
        setup.server(), setup.workspace.site, setup.workspace.server_core, LARGE
    ) as running:
        sampler = Sampler(running)
        argv = setup.attack(mode, running.url)
        with process.started(argv, setup.workspace.client_core, output, errors) as child:
            report = run_load(setup, running, sampler.tick)
            if child.wait(timeout=CLOSE_DELAY_S + 5):
                raise LoadFailedError(f"slow clients: {process.stderr_tail(errors)}")
    return report, json.loads(output.read_text()), sampler


def measure(setup: Setup, mode: str) -> None:
    """Measure the normal load without and with one kind of slow clients."""
    results = setup.results
    with serving(
        setup.server(), setup.workspace.site, setup.workspace.server_core, LARGE
    ) as running:
        alone = run_load(setup, running, lambda: None)
    report, slow, sampler = run_attack(setup, mode)
    for name, found in ((ALONE, alone), (OURS, report)):
        results.add(f"{mode}: p99 of normal clients", name, found["response_us"]["p99"], "us")
        results.add(
            f"{mode}: requests of normal clients", name, found["throughput_per_s"], "per second"
        )
    results.add(f"{mode}: clients open", EXPECTED, setup.clients, "at a time")
    results.add(f"{mode}: clients open", OURS, slow["max_open"], "at a time")
    results.add(f"{mode}: clients closed", EXPECTED, setup.clients, "")
    results.add(f"{mode}: clients closed", OURS, slow["closed"], "")
    if slow["closed"]:
        results.add(f"{mode}: first close", OURS, slow["min_age_s"], "s")
        results.add(f"{mode}: last close", OURS, slow["max_age_s"], "s")
    results.add(f"{mode}: first close", EXPECTED, setup.limits.seconds * MIN_AGE_SHARE, "s")
    results.add(f"{mode}: last close", EXPECTED, setup.limits.seconds + CLOSE_DELAY_S, "s")
    if sampler.growth:
        server, kernel = (grown / setup.clients for grown in sampler.growth)
        results.add(f"{mode}: memory of the server", OURS, server, "bytes each")
        results.add(f"{mode}: memory of the kernel", OURS, kernel, "bytes each")


def set_limits(results: Results, mode: str) -> None:
    """Set the limits."""
    results.limit(f"{mode}: p99 of normal clients", OURS, (ALONE,), P99_RATIO)
    results.limit(f"{mode}: clients open", EXPECTED, (OURS,), 1.0)
    results.limit(f"{mode}: clients closed", EXPECTED, (OURS,), 1.0)
    results.limit(f"{mode}: first close", EXPECTED, (OURS,), 1.0)
    results.limit(f"{mode}: last close", OURS, (EXPECTED,), 1.0)


def settings() -> argparse.Namespace:
    """Parse the options."""
    parser = options(__doc__ or "")
    parser.set_defaults(rounds=1)
    parser.add_argument("--full", action="store_true", help="use the server's default timeouts")
    parser.add_argument(
        "--clients", type=int, default=9_000, metavar="N", help="slow clients per attack"
    )
    return parser.parse_args()


def attempt(
    setup: Setup, attack: str, loads: int, measure_attack: Callable[[Setup, str], None]
) -> None:
    """Measure one attack by so many loads; repeat it after a pause; record failures."""
    for left in reversed(range(TRIES)):
        print(f"  {attack}: {loads * setup.seconds:.0f} s", file=sys.stderr)
        try:
            measure_attack(setup, attack)
        except PausedError as pause:
            if left:
                continue
            setup.results.skip(f"{attack}: all", OURS, str(pause))
        except (LoadFailedError, ServerFailedError, subprocess.TimeoutExpired) as failure:
            setup.results.skip(f"{attack}: all", OURS, str(failure))
        return


def main() -> int:
    """Run every attack; return 1 if a limit is not met."""
    chosen = settings()
    results = Results()
    modes = [mode for mode in ATTACKS if chosen.only in mode]
    with open_workspace(Experiment("slow", "", (GOOD,), (), ()), paths.program()) as workspace:
        with (workspace.site.root / LARGE[0].lstrip("/")).open("wb") as large:
            large.truncate(LARGE[1])
        setup = Setup(workspace, results, DEFAULT if chosen.full else SHORT, chosen.clients)
        for mode in modes * chosen.rounds:
            attempt(setup, mode, 2, measure)
    for mode in modes:
        set_limits(results, mode)
    return results.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
