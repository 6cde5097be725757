"""The load generator: runs ``gossamer load`` and reads what it reports."""

import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer_lab import interruption, process
from gossamer_lab.experiment import Point

_SLACK_S = 30.0
_TICK_S = 0.25


class LoadFailedError(Exception):
    """The load generator gave no result; says why."""


@dataclass(frozen=True)
class Generator:
    """How load is made: the program, the core it runs on, a folder for what it writes."""

    program: Path
    core: int
    folder: Path
    tick: Callable[[], None]
    """Called a few times a second while a load lasts."""

    def command(self, url: str, point: Point, seconds: float) -> tuple[str, ...]:
        """Return the command line of one load."""
        return (
            *(str(self.program), "load", url + point.path),
            *("-c", str(point.connections), "-d", f"{seconds:g}", "--warmup", "0"),
            *("--requests-per-connection", str(point.requests_per_connection)),
            *("--json", str(self.folder / "load.json")),
        )

    def run(self, url: str, point: Point, seconds: float) -> dict[str, Any]:
        """Put a server under load; return the report, LoadFailedError if there is none."""
        report = self.folder / "load.json"
        report.unlink(missing_ok=True)
        output, errors = self.folder / "load.out", self.folder / "load.err"
        with process.started(self.command(url, point, seconds), self.core, output, errors) as child:
            deadline = time.monotonic() + seconds + _SLACK_S
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
        if result.get("void"):
            raise LoadFailedError(f"load is void: {result['void_reason']}")
        return result
