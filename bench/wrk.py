"""wrk as a second load generator, so that results do not depend on a single client."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring.accounting import CpuTime, tree_cpu
from gossamer_lab.measuring.crosscheck import WRK, ClientFailedError
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.server import Server, ServerFailedError, serving

_SLACK_S = 30.0
_SETTLE_S = 0.05


class WrkFailedError(Exception):
    """wrk failed, or reported errors."""


@dataclass(frozen=True)
class Wrk:
    """The program, which runs on the core of the calling process, that of the client."""

    program: Path

    def run(self, url: str, connections: int, seconds: float) -> int:
        """Load a server; return the number of responses."""
        argv = (str(self.program), "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", url)
        done = subprocess.run(
            argv,
            check=False,
            capture_output=True,
            text=True,
            timeout=seconds + _SLACK_S,
        )
        if done.returncode:
            raise WrkFailedError(done.stderr.strip() or f"wrk ended with status {done.returncode}")
        try:
            return WRK.parse(done.stdout).requests
        except ClientFailedError as error:
            raise WrkFailedError(str(error)) from error


def installed() -> Wrk | None:
    """Return wrk, if it is installed."""
    program = paths.peer("wrk")
    return Wrk(program) if program else None


def server_cpu(
    wrk: Wrk, workspace: Workspace, server: Server, point: Point, seconds: float
) -> float:
    """Return the server's CPU time per request in us; raise WrkFailedError."""
    try:
        with serving(
            server, workspace.site, workspace.server_core, (point.path, point.size)
        ) as running:
            wrk.run(running.url + point.path, point.connections, 1)
            time.sleep(_SETTLE_S)
            before = tree_cpu(running.pid)
            requests = wrk.run(running.url + point.path, point.connections, seconds)
            used: CpuTime = tree_cpu(running.pid) - before
    except ServerFailedError as failure:
        raise WrkFailedError(str(failure)) from failure
    return used.total_s / requests * 1e6
