"""Open-loop loads by ``gossamer load --rate --poisson``: requests at random times."""

import contextlib
import csv
import http.client
import re
import time
import urllib.parse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gossamer_lab.measuring.load import Generator, run_command

_CLOSED_CLIENTS = 4
_FIRST_RESPONSE_TIMEOUT_S = 60.0
"""Extra time for the first response while the saturation rate is measured."""
_METRICS_TIMEOUT_S = 0.2
"""A server that is saturated may answer late; the sample is then missing."""
_SEND_DELAY = "100ms"
"""Beyond this delay of one request in a hundred, the load generator itself was late."""
_GAUGE = re.compile(r'^gossamer_stage_(queue|threads)\{[^}]*stage="make"\} (\d+)$', re.MULTILINE)
WAITING = "waiting"
"""Status of a request without a response at the end of the load."""


@dataclass(frozen=True)
class Request:
    """A request and its outcome."""

    time_s: float
    """Time at which it was to be sent, since the start of the load."""
    duration_s: float
    """Until the response, or until the end of the load if there was none."""
    status: str
    """HTTP status, the name of an error, or WAITING."""


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
    invalid: str = ""
    """Why the load generator considers the load invalid."""


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
    connections: int
    """Maximum number of requests that wait at a time."""


def read_requests(log: Path) -> list[Request]:
    """Return the requests of a log of ``gossamer load --log``, in the order of their times."""
    with log.open() as lines:
        found = [
            Request(float(row["start_s"]), float(row["duration_s"]), row["status"])
            for row in csv.DictReader(lines)
        ]
    return sorted(found, key=lambda request: request.time_s)


def _run(generator: Generator, arguments: tuple[str, ...], seconds: float) -> dict[str, Any]:
    """Run the load generator with these arguments; return its report."""
    report = generator.folder / "load.json"
    argv = (str(generator.program), "load", *arguments, "--json", str(report))
    return run_command(generator, argv, report, seconds)


class _Gauges:
    """Reads a server's metrics while a load runs, at an interval."""

    def __init__(self, url: str, load: OpenLoad, record: LoadRecord) -> None:
        self._address = urllib.parse.urlsplit(url)
        self._load, self._record = load, record
        self._start = time.monotonic()
        self._due_s = 0.0

    def tick(self) -> None:
        """Read them if it is time."""
        now_s = time.monotonic() - self._start
        if now_s < self._due_s:
            return
        self._due_s = now_s + self._load.sample_s
        connection = http.client.HTTPConnection(
            str(self._address.hostname), self._address.port, timeout=_METRICS_TIMEOUT_S
        )
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", self._load.metrics)
            text = connection.getresponse().read().decode()
            gauges = {name: int(value) for name, value in _GAUGE.findall(text)}
            if gauges:
                self._record.samples.append(Sample(now_s, **gauges))
        connection.close()


def success_rate(requests: list[Request]) -> float:
    """Return the rate of successful requests, until the last of them."""
    ends = [one.time_s + one.duration_s for one in requests if one.status == "200"]
    return len(ends) / max(ends, default=1.0)


def saturation_rate(url: str, path: str, seconds: float, generator: Generator) -> float:
    """Return the rate of successful requests of clients that each send the next one at once."""
    log = generator.folder / "load.log"
    common = ("-c", str(_CLOSED_CLIENTS), "--requests-per-connection", "1", "--log", str(log))
    common += ("--give-up", "0", "--warmup", "0")
    _run(generator, (url + path, *common, "-d", f"{seconds:g}"), seconds)
    if rate := success_rate(read_requests(log)):
        return rate
    # A slow machine may need longer for its first response.
    limit_s = _FIRST_RESPONSE_TIMEOUT_S
    timeout = ("--timeout", f"{limit_s:g}s", "-n", str(_CLOSED_CLIENTS))
    _run(generator, (url + path, *common, *timeout), limit_s)
    return success_rate(read_requests(log))


def run_open_load(url: str, load: OpenLoad, generator: Generator) -> LoadRecord:
    """Apply an open-loop load to a server; return the record of its requests."""
    record = LoadRecord(load.seconds)
    gauges = _Gauges(url, load, record)

    def tick() -> None:
        generator.tick()
        gauges.tick()

    log = generator.folder / "load.log"
    arguments = (
        *(url + load.path, "--rate", str(max(round(load.rate), 1)), "--poisson"),
        *("-c", str(load.connections), "-d", f"{load.seconds:g}", "--warmup", "0"),
        *("--requests-per-connection", "1", "--timeout", f"{load.seconds:g}s", "--give-up", "0"),
        *("--max-send-delay", _SEND_DELAY, "--expect-status", "200", "--log", str(log)),
    )
    report = _run(replace(generator, tick=tick), arguments, load.seconds)
    if report.get("invalid"):
        record.invalid = f"invalid: {report['invalid_reason']}"
    record.requests = read_requests(log)
    return record
