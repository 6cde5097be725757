"""Compares our load generator with wrk and ab: the same load on the same server, in turn.

The server's CPU time per request is compared. It differs between clients for known reasons: their
requests differ in length, ab speaks HTTP/1.0, and a slower client leaves the server idle more
often, so that it finds fewer requests per wake-up. Differences beyond `EXPECTED_RATIO` are reported
as warnings. Connections are persistent, because the way in which a client closes one moves TCP work
to or from the server.
"""

import contextlib
import math
import re
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring import interruption, process
from gossamer_lab.measuring.accounting import tree_cpu
from gossamer_lab.measuring.load import Generator, Load, LoadFailedError
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import present_peers, version_line
from gossamer_lab.servers.server import Running, Server, ServerFailedError, serving

Json = dict[str, Any]

EXPECTED_RATIO = (0.75, 1.4)
"""Expected range of the server's CPU time per request under another client, relative to ours."""
_OURS = "gossamer load"
_CONNECTIONS = 64
_SECONDS = 1
_WARM_UP_S = 0.2
_SLACK_S = 60.0
_TICK_S = 0.25


class ClientFailedError(Exception):
    """A client gave no result, or one with errors; the message says why."""


@dataclass(frozen=True)
class ClientResult:
    """A client's own result."""

    requests: int
    seconds: float


@dataclass(frozen=True)
class Client:
    """Another load generator."""

    name: str
    version_option: str
    options: tuple[str, ...]
    """For this many persistent connections and seconds; the URL follows."""
    result_pattern: re.Pattern[str]
    """Finds `requests` and `seconds` in the output."""
    failure_pattern: re.Pattern[str]
    """Finds failed requests in the output."""

    def parse(self, output: str) -> ClientResult:
        """Return the result; ClientFailedError if requests failed or there is no result."""
        if failed := self.failure_pattern.search(output):
            raise ClientFailedError(" ".join(failed.group().split()))
        found = {
            kind: value
            for match in self.result_pattern.finditer(output)
            for kind, value in match.groupdict().items()
            if value
        }
        if not {"requests", "seconds"} <= found.keys():
            raise ClientFailedError("its output has no result")
        return ClientResult(int(found["requests"]), float(found["seconds"]))


WRK = Client(
    "wrk",
    "-v",
    ("-t1", f"-c{_CONNECTIONS}", f"-d{_SECONDS}s"),
    re.compile(r"(?P<requests>\d+) requests in (?P<seconds>[\d.]+)s"),
    re.compile(r"Socket errors.*|Non-2xx.*"),
)
AB = Client(
    "ab",
    "-V",
    # -t implies -n 50000 unless -n follows.
    ("-q", "-k", "-t", str(_SECONDS), "-n", str(_SECONDS * 1_000_000), "-c", str(_CONNECTIONS)),
    re.compile(r"Complete requests:\s+(?P<requests>\d+)|Time taken.*?(?P<seconds>[\d.]+) sec"),
    re.compile(r"Failed requests:\s+[1-9]\d*|Non-2xx.*"),
)
CLIENTS = (WRK, AB)


@dataclass(frozen=True)
class _Setup:
    """The testbed of the comparison."""

    workspace: Workspace
    generator: Generator
    point: Point

    def ours(self, url: str, seconds: float = _SECONDS) -> ClientResult:
        """Apply our load to the server."""
        report = self.generator.run(Load(url, self.point, seconds))
        if failed := sum(report["errors"].values()):
            raise ClientFailedError(f"{failed} requests failed")
        return ClientResult(report["requests"], report["seconds"])

    def command(self, client: Client, url: str) -> tuple[str, ...]:
        """Return the command line of another client."""
        return (str(paths.peer(client.name)), *client.options, url + self.point.path)

    def theirs(self, client: Client, url: str) -> ClientResult:
        """Apply the load of another client to the server."""
        folder = self.workspace.site.folder
        output, errors = folder / "client.out", folder / "client.err"
        argv = self.command(client, url)
        with process.started(argv, self.workspace.client_core, output, errors) as child:
            deadline = time.monotonic() + _SECONDS + _SLACK_S
            while child.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_TICK_S)
                interruption.check()
                self.generator.tick()
            status = child.poll()
        if status != 0:
            how = "did not exit" if status is None else f"exited with status {status}"
            raise ClientFailedError(f"{how}: {process.stderr_tail(errors)}".removesuffix(": "))
        return client.parse(output.read_text(errors="replace"))


def _children_cpu_s() -> float:
    """Return the CPU time of all child processes that the lab has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(name: str, number: int, server: int, run: Callable[[], ClientResult]) -> Json:
    """Measure one load of a client."""
    row: Json = {"client": name, "round": number, "failure": None}
    before, client_before = tree_cpu(server), _children_cpu_s()
    try:
        result = run()
    except (ClientFailedError, LoadFailedError, OSError) as error:
        return row | {"failure": str(error)}
    cpu_s = (tree_cpu(server) - before).total_s
    client_s = _children_cpu_s() - client_before
    if not result.requests or not result.seconds or cpu_s <= 0:
        return row | {"failure": "too few requests"}
    return row | {
        "requests": result.requests,
        "throughput_per_s": result.requests / result.seconds,
        "server_cpu_us_per_request": cpu_s / result.requests * 1e6,
        "client_cpu_us_per_request": client_s / result.requests * 1e6,
    }


def _mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean, None of nothing."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _summary(client: Mapping[str, str], rows: Sequence[Json]) -> Json:
    """Return the means of one client over its rounds, and its server's cost relative to ours."""
    valid = {
        row["round"]: row for row in rows if row["client"] == client["name"] if "requests" in row
    }
    ours = {row["round"]: row for row in rows if row["client"] == _OURS if "requests" in row}
    column = "server_cpu_us_per_request"
    ratios = [row[column] / ours[at][column] for at, row in valid.items() if at in ours]
    failures = [row["failure"] for row in rows if row["client"] == client["name"] if row["failure"]]
    return {
        **client,
        **{
            name: _mean([row[name] for row in valid.values()])
            for name in ("throughput_per_s", column, "client_cpu_us_per_request")
        },
        "server_cpu_ratio": _mean(ratios),
        "failure": failures[0] if failures else None,
    }


def warnings(clients: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return warnings about unexpected differences and failures."""
    low, high = EXPECTED_RATIO
    found = []
    for client in clients:
        ratio = client["server_cpu_ratio"]
        if client["failure"]:
            found.append(f"{client['name']} failed: {client['failure']}")
        elif ratio is None:
            found.append(f"{client['name']} cannot be compared with ours, which failed")
        elif not low <= ratio <= high:
            found.append(
                f"a request of {client['name']} cost the server {ratio:.2f} times as much as one "
                f"of ours; from {low:g} to {high:g} is expected"
            )
    return found


def _server(workspace: Workspace) -> Server:
    """Return nginx if it is installed, else one of our architectures."""
    ours = our_servers(workspace.program)
    found = [*present_peers(("nginx",)), *(one for one in ours if one.name == "event"), *ours]
    return found[0]


def _compare(setup: _Setup, clients: Sequence[Client], rounds: int, running: Running) -> Json:
    """Measure all clients in each round; every second round is in reverse order."""
    url = running.url
    setup.ours(url, _WARM_UP_S)
    runs: list[tuple[str, Callable[[], ClientResult]]] = [(_OURS, lambda: setup.ours(url))]
    runs += [(client.name, lambda c=client: setup.theirs(c, url)) for client in clients]
    rows: list[Json] = []
    for number in range(1, rounds + 1):
        order = runs if number % 2 else runs[::-1]
        rows += [_row(name, number, running.pid, run) for name, run in order]
    load = Load("URL", setup.point, _SECONDS)
    ours = {
        "name": _OURS,
        "version": "this checkout",
        "command": " ".join(setup.generator.command(load)),
    }
    client = [ours] + [
        {
            "name": client.name,
            "version": version_line(setup.command(client, "")[0], client.version_option),
            "command": " ".join(setup.command(client, "URL")),
        }
        for client in clients
    ]
    summaries = [_summary(one, rows) for one in client]
    return {"clients": summaries, "rows": rows, "warnings": warnings(summaries)}


def cross_check(
    sizes: Sequence[int], rounds: int, workspace: Workspace, generator: Generator
) -> Json:
    """Compare our load generator with the others that are installed, if any.

    The page is the smallest of those sizes. A server that fails is a warning, not an error.
    """
    clients = [client for client in CLIENTS if paths.peer(client.name)]
    found: Json = {
        "expected_ratio": list(EXPECTED_RATIO),
        "absent": [client.name for client in CLIENTS if client not in clients],
        "rounds": rounds,
        "seconds": _SECONDS,
        "clients": [],
        "rows": [],
        "warnings": [],
    }
    if not clients:
        return found
    point = Point("cross-check", min(sizes), _CONNECTIONS, 0)
    setup = _Setup(workspace, replace(generator, hosts=None), point)
    server = _server(workspace)
    found |= {"server": server.name, "version": server.version, "point": point.label}
    try:
        page = (point.path, point.size)
        with serving(server, workspace.site, workspace.server_core, page) as running:
            return found | _compare(setup, clients, rounds, running)
    except (ServerFailedError, LoadFailedError, ClientFailedError) as error:
        return found | {"warnings": [f"the cross-check failed: {server.name}: {error}"]}
