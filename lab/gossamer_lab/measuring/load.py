"""The load generator: runs ``gossamer load`` and reads its report."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring import process
from gossamer_lab.servers.server import Site

_SLACK_S = 30.0
_MIN_TIMEOUT_S = 30.0
"""Timeout of a request, as that of ab; it is never shorter than the load."""


class LoadFailedError(Exception):
    """The load generator gave no result; the message says why."""


COPIED = (
    "requests",
    "seconds",
    "throughput_per_s",
    "bytes_per_s",
    "offered_load",
    "measured_load",
    "client_cpu_s",
)
"""Values of a report that the raw data contain unchanged."""
_REQUIRED = (*COPIED, "errors", "total_us", "waiting_to_connect", "waiting_for_response")
"""Keys that a report must have; times may be missing."""


class HostsDiedError(Exception):
    """Client hosts died during a load; the message names them."""


@dataclass(frozen=True)
class Load:
    """One load to generate."""

    url: str
    """Of the server."""
    point: Point
    seconds: float
    """Duration of what counts."""
    drop: int = 0
    """Number of first and last responses excluded from the histograms, if there are enough."""
    keeps_histograms: bool = False
    """Whether its histograms are stored."""
    ramp_up_s: float = 0
    """Time before what counts."""

    @property
    def whole_s(self) -> float:
        """Duration with the ramp-up."""
        return self.ramp_up_s + self.seconds


class HostGroup(Protocol):
    """Client hosts that generate a load together."""

    cluster: str
    """The address of their scheduler; empty: they are processes of this machine."""

    def handles(self, point: Point) -> bool:
        """Return whether these hosts generate the load of a point."""

    def site(self, site: Site, point: Point) -> Site:
        """Return the site with the address at which the hosts reach its servers."""

    def run(self, generator: "Generator", load: Load) -> dict[str, Any]:
        """Apply a load to a server; return the report, or raise the errors of Generator.run."""

    def cpu_s(self) -> float:
        """Return the CPU time of all processes on this machine that generate loads."""


@dataclass(frozen=True)
class Generator:
    """How load is generated: the program, its core, a folder for its output."""

    program: Path
    core: int
    folder: Path
    tick: Callable[[], None]
    """Called a few times a second during a load."""
    paths: Callable[[Point], tuple[str, ...]]
    """Paths that the clients of a point request in turn."""
    hosts: HostGroup | None = None
    options: tuple[str, ...] = ()
    """More arguments for each load."""
    keeps_awake: bool = False
    """Whether its core is kept from halting while clients wait; never for hosts sharing a core."""

    @property
    def histograms(self) -> Path:
        """Path of the histograms of the last load that keeps them."""
        return self.folder / "load.hlog"

    def arguments(self, load: Load) -> tuple[str, ...]:
        """Return the arguments of a load, without those for its output."""
        point = load.point
        arguments = (
            *("load", *(load.url + path for path in self.paths(point))),
            *("-c", str(point.connections), "-d", f"{load.seconds:g}"),
            *("--warmup", f"{load.ramp_up_s:g}"),
            *("--requests-per-connection", str(point.requests_per_connection)),
            *("--timeout", f"{max(load.whole_s, _MIN_TIMEOUT_S):g}s"),
            *("--expect-status", "200", "--expect-length", "same"),
            *self.options,
        )
        if point.think_ms:
            arguments += ("--think", f"{point.think_ms:g}ms")
        return (*arguments, "--drop", str(load.drop)) if load.drop else arguments

    def command(self, load: Load) -> tuple[str, ...]:
        """Return the command line of a load."""
        out = ("--idle-spin",) if self.keeps_awake else ()
        out += ("--json", str(self.folder / "load.json"))
        out += ("--hdr-log", str(self.histograms)) if load.keeps_histograms else ()
        return (str(self.program), *self.arguments(load), *out)

    def run(self, load: Load) -> dict[str, Any]:
        """Apply a load to a server; return the report, LoadFailedError if there is none.

        HostsDiedError if many hosts generated it and one of them died.
        """
        if self.hosts and self.hosts.handles(load.point):
            return self.hosts.run(self, load)
        self.histograms.unlink(missing_ok=True)
        result = run_command(self, self.command(load), self.folder / "load.json", load.whole_s)
        check_report(result)
        return result


def run_command(
    generator: Generator, argv: tuple[str, ...], report: Path, seconds: float
) -> dict[str, Any]:
    """Run the load generator; return its report, LoadFailedError if there is none."""
    report.unlink(missing_ok=True)
    output, errors = generator.folder / "load.out", generator.folder / "load.err"
    with process.started(argv, generator.core, output, errors) as child:
        status = process.wait(child, seconds + _SLACK_S, generator.tick)
    try:
        result: dict[str, Any] = json.loads(report.read_text())
    except (OSError, ValueError) as error:
        how, words = process.ending(status), process.stderr_tail(errors)
        raise LoadFailedError(f"load {how} and left no report: {words}") from error
    return result


def check_report(report: dict[str, Any]) -> None:
    """Raise LoadFailedError if the report of a load is invalid or of another version."""
    if report.get("invalid"):
        raise LoadFailedError(f"load is invalid: {report['invalid_reason']}")
    if absent := [name for name in _REQUIRED if name not in report]:
        raise LoadFailedError(
            f"load reports no {absent[0]}: this gossamer is older than the lab; rebuild it"
        )
