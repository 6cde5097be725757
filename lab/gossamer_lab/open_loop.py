"""Open-loop loads: requests are sent at random times, independent of earlier responses."""

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
"""Time to wait for outstanding responses at the end, relative to the duration of the load."""
_MAX_GRACE_S = 5.0
_FIRST_RESPONSE_TIMEOUT_S = 60.0
"""Extra time for the first response while the saturation rate is measured."""
_CLOSED_CLIENTS = 4
_GAUGE = re.compile(r'^gossamer_stage_(queue|threads)\{[^}]*stage="make"\} (\d+)$', re.MULTILINE)

Tick = Callable[[], None]


@dataclass(frozen=True)
class Request:
    """A request and its outcome."""

    time_s: float
    """Time of sending, since the start of the load."""
    duration_s: float
    """Until the response, or until the end of the wait if there was none."""
    status: str
    """HTTP status, or the name of an error; empty: no response."""


@dataclass(frozen=True)
class Sample:
    """A server's metrics of its stage at one moment."""

    time_s: float
    queue: int
    threads: int


@dataclass
class LoadRecord:
    """All requests of a load, with the server's metrics during it."""

    seconds: float
    requests: list[Request] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


async def _fetch(url: str, path: str) -> tuple[str, str]:
    """Request a page over a new connection; return the status and the response."""
    address = urllib.parse.urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n".encode())
        answer = (await reader.read(-1)).decode()
    finally:
        writer.close()
    return answer.partition(" ")[2][:3], answer


class _Clients:
    """Clients that request one page of one server."""

    def __init__(self, url: str, path: str, record: LoadRecord) -> None:
        """Start the clock."""
        self._url, self._path = url, path
        self._record = record
        self._start = time.monotonic()

    def now_s(self) -> float:
        """Return the time since the start."""
        return time.monotonic() - self._start

    def has_success(self) -> bool:
        """Return whether any request has succeeded."""
        return any(request.status == "200" for request in self._record.requests)

    async def request_once(self) -> None:
        """Send one request and record its outcome."""
        time_s, status = self.now_s(), ""
        try:
            status, _ = await _fetch(self._url, self._path)
            status = status or "closed"
        except OSError as error:
            status = type(error).__name__
        finally:
            self._record.requests.append(Request(time_s, self.now_s() - time_s, status))

    async def request_repeatedly(self) -> None:
        """Send requests until the time is over."""
        while self.now_s() < self._record.seconds:
            await self.request_once()

    async def poll_metrics(self, path: str, every_s: float) -> None:
        """Record the server's metrics of its stage periodically."""
        while True:
            with contextlib.suppress(OSError):
                _, answer = await _fetch(self._url, path)
                gauges = {name: int(value) for name, value in _GAUGE.findall(answer)}
                if gauges:
                    self._record.samples.append(Sample(self.now_s(), **gauges))
            await asyncio.sleep(every_s)

    async def sleep_until(self, due_s: float, tick: Tick) -> None:
        """Sleep until a time; KeyboardInterrupt if the run is interrupted meanwhile."""
        while (left_s := due_s - self.now_s()) > 0:
            await asyncio.sleep(min(left_s, _TICK_S))
            interruption.check()
            tick()


def _any_pending(tasks: set[asyncio.Task[None]]) -> bool:
    return any(not task.done() for task in tasks)


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks after each has started."""
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _run_closed_loop(clients: _Clients, seconds: float, tick: Tick) -> None:
    tasks = {asyncio.create_task(clients.request_repeatedly()) for _ in range(_CLOSED_CLIENTS)}
    try:
        await clients.sleep_until(seconds, tick)
        # A slow machine may need longer for its first response.
        end_s = seconds + _FIRST_RESPONSE_TIMEOUT_S
        while not clients.has_success() and clients.now_s() < end_s and _any_pending(tasks):
            await clients.sleep_until(clients.now_s() + _TICK_S, tick)
    finally:
        await _cancel(tasks)


async def _run_open_loop(
    clients: _Clients, rate: float, seconds: float, polling: Awaitable[None], tick: Tick
) -> None:
    rng, due_s = random.Random(_SEED), 0.0
    tasks: set[asyncio.Task[None]] = set()
    poller = asyncio.ensure_future(polling)
    try:
        while (due_s := due_s + rng.expovariate(rate)) < seconds:
            await clients.sleep_until(due_s, tick)
            tasks.add(asyncio.create_task(clients.request_once()))
        await clients.sleep_until(seconds, tick)
        end_s = seconds + min(_GRACE * seconds, _MAX_GRACE_S)
        while _any_pending(tasks) and clients.now_s() < end_s:
            await clients.sleep_until(min(clients.now_s() + _TICK_S, end_s), tick)
    finally:
        await _cancel({*tasks, poller})


@contextlib.contextmanager
def _raised_file_limit() -> Iterator[None]:
    """Raise the soft limit on open files to the hard one for the duration of a ``with`` block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def success_rate(record: LoadRecord) -> float:
    """Return the rate of successful requests, until the last of them."""
    good = [
        request.time_s + request.duration_s
        for request in record.requests
        if request.status == "200"
    ]
    return len(good) / max(good, default=1.0)


def saturation_rate(url: str, path: str, seconds: float, tick: Tick) -> float:
    """Return the rate of successful requests of clients that each send the next one at once."""
    record = LoadRecord(seconds)

    async def load() -> None:
        await _run_closed_loop(_Clients(url, path, record), seconds, tick)

    asyncio.run(load())
    return success_rate(record)


@dataclass(frozen=True)
class OpenLoad:
    """An open-loop load."""

    path: str
    """Of the page."""
    metrics: str
    """Path of the server's metrics."""
    rate: float
    """Requests per second."""
    seconds: float
    sample_s: float
    """Interval at which the server's metrics are read."""


def run_open_load(url: str, load: OpenLoad, tick: Tick) -> LoadRecord:
    """Apply an open-loop load to a server; return the record of its requests."""
    record = LoadRecord(load.seconds)

    async def run() -> None:
        clients = _Clients(url, load.path, record)
        polling = clients.poll_metrics(load.metrics, load.sample_s)
        await _run_open_loop(clients, load.rate, load.seconds, polling, tick)

    with _raised_file_limit():
        asyncio.run(run())
    return record
