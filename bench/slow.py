"""The web server under clients that send or read a byte a second, while others want their pages.

Each attack is made by 10,000 clients at a time; the server's limits are shortened unless --full.
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

from figures import Figures, options
from pauses import Pauses
from points import generator

from gossamer_lab import paths, process
from gossamer_lab.accounting import family_memory_kb
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.load import Load, LoadFailedError
from gossamer_lab.servers.server import Launch, Running, Server, ServerFailedError, Site, serving
from gossamer_lab.workshop import Workshop, workshop

OURS = "event"
ALONE = "alone"
ASKED = "asked for"
ATTACKS = ("header", "blank", "body", "read")
LARGE = ("/large", 64 << 20)
GOOD = Point("305-keep-100", 305, 100, 0)

RAMP_S = 2
"""In which the slow clients connect."""
LATE_S = 3.0
"""How much later than its limit a connection may be closed."""
EARLY = 0.9
"""And no earlier than this part of its limit."""
SAMPLE_S = RAMP_S + 0.5
"""When all slow clients are there, and none has been closed."""
P99_RATIO = 2.0
TRIES = 3
TICK_S = 0.25
"""How often a load tells us that it goes on."""


class PausedError(Exception):
    """The machine stood still during a load."""


@dataclass(frozen=True)
class Limits:
    """What the server is told, and when it has to close a connection."""

    seconds: float
    words: tuple[str, ...]


DEFAULT = Limits(10.0, ())
# As many bytes in each window as by default: more than a small receive buffer takes at once.
SHORT = Limits(5.0, ("--header-timeout", "5s", "--rate-grace", "5s", "--rate", "2k"))


@dataclass(frozen=True)
class Trial:
    """What every run of this program shares."""

    shop: Workshop
    figures: Figures
    limits: Limits
    clients: int

    @property
    def seconds(self) -> float:
        """Length of one load: the slow clients come, are held, and are closed."""
        return RAMP_S + self.limits.seconds + LATE_S

    def server(self) -> Server:
        """Return our server, with room for the slow clients and the others."""
        words = ("--arch", OURS, "--workers", "1", "--listen", "127.0.0.1:0")
        room = ("--max-connections", str(self.clients + 2000))

        def configure(site: Site) -> Launch:
            program = str(self.shop.program)
            return Launch((program, "serve", *words, *room, *self.limits.words, str(site.root)))

        return Server(OURS, True, "", "this checkout", configure)

    def attack(self, mode: str, url: str) -> tuple[str, ...]:
        """Return the command line of the slow clients."""
        program = paths.program().parent / "bench/clients/slow_clients"
        port = str(urllib.parse.urlsplit(url).port)
        return (str(program), mode, port, LARGE[0], str(self.clients), f"{self.seconds:.0f}")


def kernel_bytes() -> int:
    """Return the memory that the kernel has for TCP, of the whole machine."""
    for line in Path("/proc/net/sockstat").read_text().splitlines():
        name, *words = line.split()
        if name == "TCP:":
            return int(words[words.index("mem") + 1]) * 4096
    return 0


class Sampler:
    """Measures, once, what the slow clients cost."""

    def __init__(self, running: Running) -> None:
        """Begin before they come."""
        self.pid = running.pid
        self.began = time.monotonic()
        self.before = (family_memory_kb(self.pid) * 1024, kernel_bytes())
        self.growth: tuple[int, int] | None = None

    def tick(self) -> None:
        """To be called a few times a second."""
        if self.growth is None and time.monotonic() - self.began >= SAMPLE_S:
            server, kernel = self.before
            self.growth = (family_memory_kb(self.pid) * 1024 - server, kernel_bytes() - kernel)


def loaded(trial: Trial, running: Running, tick: Callable[[], None]) -> dict[str, Any]:
    """Let the good clients do their work; LoadFailedError if any gets an error, PausedError."""
    shop = trial.shop
    pauses = Pauses()

    def note() -> None:
        pauses.tick(TICK_S)
        tick()

    report = generator(shop, note).run(Load(running.url, GOOD, trial.seconds))
    if pauses.is_long:
        raise PausedError(f"the machine stood still for {pauses.longest_s:.0f} s")
    errors = {kind: count for kind, count in report["errors"].items() if count}
    if errors:
        raise LoadFailedError(f"errors: {errors}")
    return report


def under_attack(trial: Trial, mode: str) -> tuple[dict[str, Any], dict[str, Any], Sampler]:
    """Return what the good clients saw, what the slow ones saw, and what these cost."""
    folder = trial.shop.site.folder
    output, errors = folder / "slow.out", folder / "slow.err"
    with serving(trial.server(), trial.shop.site, trial.shop.server_core, LARGE) as running:
        sampler = Sampler(running)
        argv = trial.attack(mode, running.url)
        with process.started(argv, trial.shop.client_core, output, errors) as child:
            report = loaded(trial, running, sampler.tick)
            if child.wait(timeout=LATE_S + 5):
                raise LoadFailedError(f"slow clients: {process.last_words(errors)}")
    return report, json.loads(output.read_text()), sampler


def measure(trial: Trial, mode: str) -> None:
    """Measure the same load without and with one kind of slow clients."""
    figures = trial.figures
    with serving(trial.server(), trial.shop.site, trial.shop.server_core, LARGE) as running:
        alone = loaded(trial, running, lambda: None)
    report, slow, sampler = under_attack(trial, mode)
    for name, found in ((ALONE, alone), (OURS, report)):
        figures.add(f"{mode}: p99 of the others", name, found["response_us"]["p99"], "us")
        figures.add(f"{mode}: requests of the others", name, found["throughput_per_s"], "a second")
    figures.add(f"{mode}: clients held", ASKED, trial.clients, "at a time")
    figures.add(f"{mode}: clients held", OURS, slow["held_most"], "at a time")
    figures.add(f"{mode}: clients closed", ASKED, trial.clients, "")
    figures.add(f"{mode}: clients closed", OURS, slow["closed"], "")
    if slow["closed"]:
        figures.add(f"{mode}: first close", OURS, slow["fastest_s"], "s")
        figures.add(f"{mode}: last close", OURS, slow["slowest_s"], "s")
    figures.add(f"{mode}: first close", ASKED, trial.limits.seconds * EARLY, "s")
    figures.add(f"{mode}: last close", ASKED, trial.limits.seconds + LATE_S, "s")
    if sampler.growth:
        server, kernel = (grown / trial.clients for grown in sampler.growth)
        figures.add(f"{mode}: memory of the server", OURS, server, "bytes each")
        figures.add(f"{mode}: memory of the kernel", OURS, kernel, "bytes each")


def set_limits(figures: Figures, mode: str) -> None:
    """State what is to be reached."""
    figures.limit(f"{mode}: p99 of the others", OURS, (ALONE,), P99_RATIO)
    figures.limit(f"{mode}: clients held", ASKED, (OURS,), 1.0)
    figures.limit(f"{mode}: clients closed", ASKED, (OURS,), 1.0)
    figures.limit(f"{mode}: first close", ASKED, (OURS,), 1.0)
    figures.limit(f"{mode}: last close", OURS, (ASKED,), 1.0)


def settings() -> argparse.Namespace:
    """Read the options."""
    parser = options(__doc__ or "")
    parser.set_defaults(rounds=1)
    parser.add_argument("--full", action="store_true", help="with the server's default limits")
    parser.add_argument("--clients", type=int, default=10_000, metavar="N", help="slow ones")
    return parser.parse_args()


def attempt(trial: Trial, mode: str) -> None:
    """Measure one attack, again if the machine stood still; a failure is noted."""
    for left in reversed(range(TRIES)):
        print(f"  {mode}: {2 * trial.seconds:.0f} s", file=sys.stderr)
        try:
            measure(trial, mode)
        except PausedError as pause:
            if left:
                continue
            trial.figures.miss(f"{mode}: all", OURS, str(pause))
        except (LoadFailedError, ServerFailedError, subprocess.TimeoutExpired) as failure:
            trial.figures.miss(f"{mode}: all", OURS, str(failure))
        return


def main() -> int:
    """Make every attack; 1 if a limit is not kept."""
    chosen = settings()
    figures = Figures()
    modes = [mode for mode in ATTACKS if chosen.only in mode]
    with workshop(Experiment("slow", "", (GOOD,), (), ()), paths.program()) as shop:
        with (shop.site.root / LARGE[0].lstrip("/")).open("wb") as large:
            large.truncate(LARGE[1])
        trial = Trial(shop, figures, DEFAULT if chosen.full else SHORT, chosen.clients)
        for mode in modes * chosen.rounds:
            attempt(trial, mode)
    for mode in modes:
        set_limits(figures, mode)
    return figures.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
