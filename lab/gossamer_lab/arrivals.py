"""Open loads: requests that come at random times, whatever becomes of those before them."""

import asyncio
import contextlib
import random
import re
import resource
import time
import urllib.parse
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from gossamer_lab import interruption

_SEED = 1
_TICK_S = 0.25
_GRACE = 0.5
"""Of the length of a load, for the answers that are still to come at its end."""
_LONGEST_GRACE_S = 5.0
_PATIENCE_S = 60.0
"""For the first answer to clients that saturate a server, beyond their time."""
_CLOSED_CLIENTS = 4
_GAUGE = re.compile(r'^gossamer_stage_(queue|threads)\{[^}]*stage="make"\} (\d+)$', re.MULTILINE)

Tick = Callable[[], None]


@dataclass(frozen=True)
class Asked:
    """A request, and what became of it."""

    at_s: float
    """When it was made, since the load began."""
    took_s: float
    """Until its answer; until the end of all waiting, if there was none."""
    status: str
    """Of the answer, or the name of an error; empty: there was no answer."""


@dataclass(frozen=True)
class Sample:
    """What a server told of its stage at one moment."""

    at_s: float
    queue: int
    threads: int


@dataclass
class Fate:
    """What became of the requests of a load."""

    seconds: float
    asked: list[Asked] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


async def _fetch(url: str, path: str) -> tuple[str, str]:
    """Ask for a page once, through a connection of its own; return the status and the answer."""
    address = urllib.parse.urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n".encode())
        answer = (await reader.read(-1)).decode()
    finally:
        writer.close()
    return answer.partition(" ")[2][:3], answer


class _Clients:
    """Ask one server for one page."""

    def __init__(self, url: str, path: str, fate: Fate) -> None:
        """Begin now."""
        self._url, self._path = url, path
        self._fate = fate
        self._begun = time.monotonic()

    def now_s(self) -> float:
        """Return the time since the beginning."""
        return time.monotonic() - self._begun

    def are_answered(self) -> bool:
        """Tell whether there was a right answer."""
        return any(one.status == "200" for one in self._fate.asked)

    async def ask(self) -> None:
        """Ask once, and note what became of it."""
        at_s, status = self.now_s(), ""
        try:
            status, _ = await _fetch(self._url, self._path)
            status = status or "closed"
        except OSError as error:
            status = type(error).__name__
        finally:
            self._fate.asked.append(Asked(at_s, self.now_s() - at_s, status))

    async def ask_on(self) -> None:
        """Ask again and again until the time is over."""
        while self.now_s() < self._fate.seconds:
            await self.ask()

    async def watch(self, path: str, every_s: float) -> None:
        """Note again and again what the server tells of its stage."""
        while True:
            with contextlib.suppress(OSError):
                _, answer = await _fetch(self._url, path)
                told = {name: int(value) for name, value in _GAUGE.findall(answer)}
                if told:
                    self._fate.samples.append(Sample(self.now_s(), **told))
            await asyncio.sleep(every_s)

    async def pause_until(self, due_s: float, tick: Tick) -> None:
        """Wait for a time; KeyboardInterrupt if the end of the run is asked for meanwhile."""
        while (left_s := due_s - self.now_s()) > 0:
            await asyncio.sleep(min(left_s, _TICK_S))
            interruption.check()
            tick()


def _are_left(tasks: set[asyncio.Task[None]]) -> bool:
    return any(not task.done() for task in tasks)


async def _finish(tasks: set[asyncio.Task[None]]) -> None:
    """Break tasks off; each has begun before."""
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _closed(clients: _Clients, seconds: float, tick: Tick) -> None:
    tasks = {asyncio.create_task(clients.ask_on()) for _ in range(_CLOSED_CLIENTS)}
    try:
        await clients.pause_until(seconds, tick)
        # On a machine that is short of time one answer is worth the wait.
        end_s = seconds + _PATIENCE_S
        while not clients.are_answered() and clients.now_s() < end_s and _are_left(tasks):
            await clients.pause_until(clients.now_s() + _TICK_S, tick)
    finally:
        await _finish(tasks)


async def _open(
    clients: _Clients, rate: float, seconds: float, watching: Awaitable[None], tick: Tick
) -> None:
    dice, due_s = random.Random(_SEED), 0.0
    tasks: set[asyncio.Task[None]] = set()
    watch = asyncio.ensure_future(watching)
    try:
        while (due_s := due_s + dice.expovariate(rate)) < seconds:
            await clients.pause_until(due_s, tick)
            tasks.add(asyncio.create_task(clients.ask()))
        await clients.pause_until(seconds, tick)
        end_s = seconds + min(_GRACE * seconds, _LONGEST_GRACE_S)
        while _are_left(tasks) and clients.now_s() < end_s:
            await clients.pause_until(min(clients.now_s() + _TICK_S, end_s), tick)
    finally:
        await _finish({*tasks, watch})


@contextlib.contextmanager
def _many_files() -> Iterator[None]:
    """Let this process have as many open files as it may, for the length of a ``with`` block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def answered_per_s(fate: Fate) -> float:
    """Return how many requests a second were answered rightly, until the last that was."""
    good = [asked.at_s + asked.took_s for asked in fate.asked if asked.status == "200"]
    return len(good) / max(good, default=1.0)


def saturated(url: str, path: str, seconds: float, tick: Tick) -> float:
    """Return how many requests a second are answered to clients that go on at once."""
    fate = Fate(seconds)

    async def load() -> None:
        await _closed(_Clients(url, path, fate), seconds, tick)

    asyncio.run(load())
    return answered_per_s(fate)


@dataclass(frozen=True)
class Stream:
    """An open load."""

    path: str
    """Of the page."""
    metrics: str
    """Path of the server's own figures."""
    rate: float
    """Requests a second."""
    seconds: float
    sample_s: float
    """How often the server's own figures are read."""


def stream(url: str, load: Stream, tick: Tick) -> Fate:
    """Put a server under an open load; return what became of all its requests."""
    fate = Fate(load.seconds)

    async def run() -> None:
        clients = _Clients(url, load.path, fate)
        watching = clients.watch(load.metrics, load.sample_s)
        await _open(clients, load.rate, load.seconds, watching, tick)

    with _many_files():
        asyncio.run(run())
    return fate
