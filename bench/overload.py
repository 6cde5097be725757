"""Twice the load that saturates the overload page: stages with admission, and without."""

import asyncio
import json
import math
import os
import random
import sys
import time
import urllib.parse
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from figures import Figures, options

from gossamer_lab import paths
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.servers.server import Launch, Server, ServerFailedError, Site, serving
from gossamer_lab.workshop import Workshop, workshop

PAGE, COST_MS = "/bottleneck", 41
TARGET_S = 1.0
OVERLOAD = 2.0
WARM_UP_S, WINDOW_S = 30.0, 10.0
SATURATING_CLIENTS, SATURATION_S = 4, 6.0
ADMISSION, NONE, TARGET = "admission", "none", "target"
POINT = Point("305", 305, 1, 0)


@dataclass
class Answers:
    """What became of the requests of a run."""

    accepted: list[tuple[float, float]] = field(default_factory=list)
    """When each was asked for, and how long it took."""
    kinds: Counter[str] = field(default_factory=Counter)

    def p90(self, start: float, end: float) -> float | None:
        """Return the 90th percentile of those asked for in that time; None: there are none."""
        times = sorted(took for asked, took in self.accepted if start <= asked < end)
        return times[math.ceil(0.9 * len(times)) - 1] if times else None


def subject(program: Path, name: str) -> Server:
    """Return the server with the page, and with what is to be measured."""
    words = ("--admission", f"{TARGET_S:g}s") if name == ADMISSION else ()

    def configure(site: Site) -> Launch:
        page = ("--bottleneck", f"{PAGE}={COST_MS}", "--workers", "1")
        start = (str(program), "serve", "--arch", "stage", *page, *words)
        return Launch((*start, "--listen", "127.0.0.1:0", str(site.root)))

    return Server(name, True, "stages", "this checkout", configure)


async def ask(url: str, answers: Answers, begun: float) -> None:
    """Ask for the page once, through a connection of its own."""
    address = urllib.parse.urlsplit(url)
    asked = time.monotonic()
    try:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(f"GET {PAGE} HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n".encode())
        status = (await reader.read(-1)).partition(b" ")[2][:3].decode()
        writer.close()
    except OSError as error:
        status = type(error).__name__
    answers.kinds[status] += 1
    if status == "200":
        answers.accepted.append((asked - begun, time.monotonic() - asked))


async def saturate(url: str) -> float:
    """Return how many requests a second are answered to clients that go on at once."""
    answers, begun = Answers(), time.monotonic()

    async def go_on() -> None:
        while time.monotonic() - begun < SATURATION_S:
            await ask(url, answers, begun)

    await asyncio.gather(*(go_on() for _ in range(SATURATING_CLIENTS)))
    return len(answers.accepted) / (time.monotonic() - begun)


async def overload(url: str, rate: float, seconds: float) -> Answers:
    """Ask at random times, so often, whatever the answers do."""
    answers, begun = Answers(), time.monotonic()
    dice, tasks = random.Random(1), []
    due = 0.0
    while due < seconds:
        await asyncio.sleep(max(0.0, begun + due - time.monotonic()))
        tasks.append(asyncio.create_task(ask(url, answers, begun)))
        due += dice.expovariate(rate)
    _, late = await asyncio.wait(tasks, timeout=TARGET_S * 5)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
    answers.kinds["unanswered"] += len(late)
    return answers


def measure(figures: Figures, shop: Workshop, rate: float, name: str, seconds: float) -> None:
    """Measure one server under the load."""
    with serving(subject(shop.program, name), shop.site, shop.server_core, page_of_site()) as up:
        answers = asyncio.run(overload(up.url, rate, seconds))
    for kind, count in answers.kinds.items():
        figures.add(f"answered {kind}", name, count / seconds, "a second")
    start = WARM_UP_S
    while start + WINDOW_S <= seconds:
        end = start + WINDOW_S
        p90 = answers.p90(start, end)
        row = f"p90 of the accepted, {start:g}-{end:g} s"
        figures.add(row, TARGET, TARGET_S, "s")
        if p90 is None:
            figures.miss(row, name, "none that was asked for then was answered")
        else:
            figures.add(row, name, p90, "s")
        if name == ADMISSION:
            figures.limit(row, ADMISSION, (TARGET,), 1.2)
        start = end


def page_of_site() -> tuple[str, int]:
    """Return a page that the site has, and its size."""
    return POINT.path, POINT.size


def main() -> int:
    """Measure all; 1 if a limit is not kept."""
    parser = options(__doc__ or "")
    parser.set_defaults(seconds=60.0)
    settings = parser.parse_args()
    figures = Figures()
    with workshop(Experiment("overload", "", (POINT,), (), ()), paths.program()) as shop:
        os.sched_setaffinity(0, {shop.client_core})
        server = subject(shop.program, NONE)
        with serving(server, shop.site, shop.server_core, page_of_site()) as up:
            rate = asyncio.run(saturate(up.url))
        figures.add("saturation", NONE, rate, "a second")
        print(f"  saturated by {rate:.1f} requests a second", file=sys.stderr)
        for name in (ADMISSION, NONE):
            if settings.only in name:
                measure(figures, shop, OVERLOAD * rate, name, settings.seconds)
    print(json.dumps({"target_s": TARGET_S, "cost_ms": COST_MS}), file=sys.stderr)
    return figures.finish(settings.json)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerFailedError as failure:
        sys.exit(f"overload: {failure}")
