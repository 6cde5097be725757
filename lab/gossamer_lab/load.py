"""The load generator: runs ``gossamer load`` and reads what it reports."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gossamer_lab import interruption, process
from gossamer_lab.experiment import Point
from gossamer_lab.servers.server import Site

_SLACK_S = 30.0
_TICK_S = 0.25
_PATIENCE_S = 30.0
"""Of a client, as that of ab: it does not give up before the load is over."""


class LoadFailedError(Exception):
    """The load generator gave no result; says why."""


REPORTED = (
    "requests",
    "seconds",
    "throughput_per_s",
    "bytes_per_s",
    "offered_load",
    "measured_load",
    "client_cpu_s",
)
"""Figures of a report that stand in the raw data as they are."""
_READ = (*REPORTED, "errors", "waiting_to_connect", "waiting_for_answer")
"""What the lab reads of a report, besides times that a load may have none of."""


class HostsDiedError(Exception):
    """Client hosts ended in the middle of a load; names them."""


@dataclass(frozen=True)
class Load:
    """One load to make."""

    url: str
    """Of the server."""
    point: Point
    seconds: float
    drop: int = 0
    """How many of the first and last answers stay out of the histograms, if there are enough."""
    is_kept: bool = False
    """Whether its histograms are kept."""


class Spread(Protocol):
    """Many client hosts that make a load together."""

    def takes(self, point: Point) -> bool:
        """Tell whether a load is theirs."""

    def site(self, site: Site, point: Point) -> Site:
        """Return the site with the address at which they reach its servers."""

    def run(self, generator: "Generator", load: Load) -> dict[str, Any]:
        """Put a server under load; return the report, or raise the errors that there are here."""


@dataclass(frozen=True)
class Generator:
    """How load is made: the program, the core it runs on, a folder for what it writes."""

    program: Path
    core: int
    folder: Path
    tick: Callable[[], None]
    """Called a few times a second while a load lasts."""
    paths: Callable[[Point], tuple[str, ...]]
    """What a point's clients ask for, in turn."""
    hosts: Spread | None = None
    keeps_awake: bool = False
    """Whether its core does not halt while clients wait; hosts that share a core never do."""

    @property
    def histograms(self) -> Path:
        """Where the histograms of the last load are that was to be kept."""
        return self.folder / "load.hlog"

    def words(self, load: Load) -> tuple[str, ...]:
        """Return the command of a load, without the program and where its report goes."""
        point = load.point
        words = (
            *("load", *(load.url + path for path in self.paths(point))),
            *("-c", str(point.connections), "-d", f"{load.seconds:g}", "--warmup", "0"),
            *("--requests-per-connection", str(point.requests_per_connection)),
            *("--timeout", f"{max(load.seconds, _PATIENCE_S):g}s"),
        )
        if point.think_ms:
            words += ("--think", f"{point.think_ms:g}ms")
        return (*words, "--drop", str(load.drop)) if load.drop else words

    def command(self, load: Load) -> tuple[str, ...]:
        """Return the command line of a load."""
        out = ("--keep-awake",) if self.keeps_awake else ()
        out += ("--json", str(self.folder / "load.json"))
        out += ("--hdr-log", str(self.histograms)) if load.is_kept else ()
        return (str(self.program), *self.words(load), *out)

    def run(self, load: Load) -> dict[str, Any]:
        """Put a server under load; return the report, LoadFailedError if there is none.

        HostsDiedError if it was made by many hosts, and one of them ended in the middle of it.
        """
        if self.hosts and self.hosts.takes(load.point):
            return self.hosts.run(self, load)
        report = self.folder / "load.json"
        report.unlink(missing_ok=True)
        self.histograms.unlink(missing_ok=True)
        output, errors = self.folder / "load.out", self.folder / "load.err"
        with process.started(self.command(load), self.core, output, errors) as child:
            deadline = time.monotonic() + load.seconds + _SLACK_S
            while child.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_TICK_S)
                interruption.check()
                self.tick()
            status = child.poll()
        try:
            result: dict[str, Any] = json.loads(report.read_text())
        except (OSError, ValueError) as error:
            how = "did not end" if status is None else f"ended with status {status}"
            words = process.last_words(errors)
            raise LoadFailedError(f"load {how} and left no report: {words}") from error
        check_report(result)
        return result


def check_report(report: dict[str, Any]) -> None:
    """Raise LoadFailedError if the report of a load does not count, or is of another version."""
    if report.get("void"):
        raise LoadFailedError(f"load is void: {report['void_reason']}")
    if absent := [name for name in _READ if name not in report]:
        raise LoadFailedError(
            f"load reports no {absent[0]}: this gossamer is older than the lab; build it anew"
        )
