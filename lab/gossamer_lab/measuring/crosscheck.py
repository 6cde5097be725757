"""Compares our load generator with wrk, ab and h2load: the same loads on the same server, in turn.

With persistent connections the server's CPU time per request is compared, because the way in which
a client closes connections moves TCP work to or from the server. It differs between clients for
known reasons: their requests differ in length, ab speaks HTTP/1.0, and a slower client leaves the
server idle more often, so that it finds fewer requests per wake-up. HTTP/2 is compared in the same
way, over TLS, with h2load.

With a thousand clients that connect for each request, times are compared. A CPU limit makes the
server the bottleneck: otherwise each client would measure itself. ab's times are from connecting
to the end of the response, wrk's are from sending the request; ours are known for both.

Differences beyond the expected ratios are reported as warnings.
"""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Point
from gossamer_lab.measuring import cpu_limit, process
from gossamer_lab.measuring.accounting import exited_children_cpu_s, tree_cpu
from gossamer_lab.measuring.load import Generator, Load, LoadFailedError
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import certificate, present_peers, version_line
from gossamer_lab.servers.server import Running, Server, ServerFailedError, Site, serving

Json = dict[str, Any]

EXPECTED_RATIO = (0.75, 1.4)
"""Expected range of the server's CPU time per request under another client, relative to ours."""
EXPECTED_TIME_RATIO = (0.8, 1.25)
"""Expected range of another client's times, relative to ours: "about equal" in the claims."""
_OURS = "gossamer load"
_STREAMS = 10
"""Concurrent requests of each connection of HTTP/2."""
_SHARE = 0.25
"""Share of its core that the CPU limit leaves to the server, for the load whose times count."""
_WARM_UP_S = 0.2
_SLACK_S = 60.0


class ClientFailedError(Exception):
    """A client gave no result, or one with errors; the message says why."""


@dataclass(frozen=True)
class ClientResult:
    """A client's own result."""

    requests: int
    seconds: float
    times_us: Mapping[str, float]
    """Mean and median times by kind, as in `total_mean_us`."""


_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def _times(kind: str, found: Mapping[str, str]) -> dict[str, float]:
    """Return the times that another client has printed, each with its unit if it has one."""
    times = {}
    for name in ("mean", "p50"):
        if text := found.get(name):
            digits = text.rstrip("mus")
            times[f"{kind}_{name}_us"] = float(digits) * _UNITS[text[len(digits) :] or "ms"]
    return times


@dataclass(frozen=True)
class Client:
    """Another load generator."""

    name: str
    version_option: str
    options: Callable[[int], tuple[str, ...]]
    """Returns those for a load of so many seconds."""
    keep_options: tuple[str, ...]
    """For persistent connections."""
    close_options: tuple[str, ...]
    """For a connection for each request."""
    kind: str
    """The times that it measures: "total" with the connect, "response" without."""
    result_pattern: re.Pattern[str]
    """Finds `requests` and `seconds` in the output, and `mean` and `p50` times."""
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
        times = _times(self.kind, found)
        return ClientResult(int(found["requests"]), float(found["seconds"]), times)

    def arguments(self, point: Point, seconds: int) -> tuple[str, ...]:
        """Return the options for a load; the URL follows."""
        way = self.keep_options if point.is_keep_alive else self.close_options
        return (*self.options(seconds), *way, "-c", str(point.connections))


WRK = Client(
    "wrk",
    "-v",
    lambda seconds: ("-t1", f"-d{seconds}s", "--latency"),
    (),
    ("-H", "Connection: close"),
    "response",
    re.compile(
        r"(?P<requests>\d+) requests in (?P<seconds>[\d.]+)s"
        r"|Latency\s+(?P<mean>[\d.]+[mu]?s)|50%\s+(?P<p50>[\d.]+[mu]?s)"
    ),
    re.compile(r"Socket errors.*|Non-2xx.*"),
)
AB = Client(
    "ab",
    "-V",
    # -t implies -n 50000 unless -n follows.
    lambda seconds: ("-q", "-t", str(seconds), "-n", str(seconds * 1_000_000)),
    ("-k",),
    (),
    "total",
    re.compile(
        r"Complete requests:\s+(?P<requests>\d+)|Time taken.*?(?P<seconds>[\d.]+) sec"
        r"|Total:\s+\d+\s+(?P<mean>\d+)\s+[\d.]+\s+(?P<p50>\d+)"
    ),
    re.compile(r"Failed requests:\s+[1-9]\d*|Non-2xx.*"),
)
H2LOAD = Client(
    "h2load",
    "--version",
    lambda seconds: ("-t1", f"-D{seconds}"),
    (f"-m{_STREAMS}",),
    (),
    "response",
    re.compile(
        r"(?P<requests>\d+) succeeded|finished in (?P<seconds>[\d.]+)s"
        r"|time for request:\s+\S+\s+\S+\s+(?P<mean>[\d.]+[mu]?s)"
    ),
    re.compile(r"\b[1-9]\d* (failed|errored|timeout)\b"),
)
CLIENTS = (WRK, AB, H2LOAD)


@dataclass(frozen=True)
class _Kind:
    """A kind of load, on the smallest page."""

    point: Point
    seconds: int
    clients: tuple[Client, ...]
    is_http2: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Our options for it."""
        return ("--http2", "--streams", str(_STREAMS)) if self.is_http2 else ()

    @property
    def label(self) -> str:
        """The load in words."""
        streams = f", HTTP/2 with {_STREAMS} streams" if self.is_http2 else ""
        return self.point.label + streams


_LOADS = (
    _Kind(Point("cross-check-keep", 0, 64, 0), 1, (WRK, AB)),
    # A second would be too short for a thousand clients: their start takes part of it.
    _Kind(Point("cross-check-close", 0, 1000, 1), 3, (WRK, AB)),
    _Kind(Point("cross-check-http2", 0, 16, 0), 1, (H2LOAD,), is_http2=True),
)


@dataclass(frozen=True)
class _Setup:
    """The testbed of the comparison."""

    workspace: Workspace
    generator: Generator
    kind: _Kind
    seconds: int

    @property
    def point(self) -> Point:
        """The load."""
        return self.kind.point

    def ours(self, url: str, seconds: float = 0) -> ClientResult:
        """Apply our load to the server."""
        report = self.generator.run(Load(url, self.point, seconds or self.seconds))
        if failed := sum(report["errors"].values()):
            raise ClientFailedError(f"{failed} requests failed")
        times = {
            f"{kind}_{name}_us": (report.get(f"{kind}_us") or {}).get(name)
            for kind in ("total", "response")
            for name in ("mean", "p50")
        }
        known = {name: value for name, value in times.items() if value}
        return ClientResult(report["requests"], report["seconds"], known)

    def command(self, client: Client, url: str) -> tuple[str, ...]:
        """Return the command line of another client."""
        return (
            str(paths.peer(client.name)),
            *client.arguments(self.point, self.seconds),
            url + self.point.path,
        )

    def theirs(self, client: Client, url: str) -> ClientResult:
        """Apply the load of another client to the server."""
        folder = self.workspace.site.folder
        output, errors = folder / "client.out", folder / "client.err"
        argv = self.command(client, url)
        with process.started(argv, self.workspace.client_core, output, errors) as child:
            status = process.wait(child, self.seconds + _SLACK_S, self.generator.tick)
        if status != 0:
            words = f"{process.ending(status)}: {process.stderr_tail(errors)}"
            raise ClientFailedError(words.removesuffix(": "))
        return client.parse(output.read_text(errors="replace"))


def _row(name: str, number: int, server: int, run: Callable[[], ClientResult]) -> Json:
    """Measure one load of a client."""
    row: Json = {"client": name, "round": number, "failure": None}
    before, client_before = tree_cpu(server), exited_children_cpu_s()
    try:
        result = run()
    except (ClientFailedError, LoadFailedError, OSError) as error:
        return row | {"failure": str(error)}
    cpu_s = (tree_cpu(server) - before).total_s
    client_s = exited_children_cpu_s() - client_before
    if not result.requests or not result.seconds or cpu_s <= 0:
        return row | {"failure": "too few requests"}
    return row | {
        "requests": result.requests,
        "throughput_per_s": result.requests / result.seconds,
        "server_cpu_us_per_request": cpu_s / result.requests * 1e6,
        "client_cpu_us_per_request": client_s / result.requests * 1e6,
        **result.times_us,
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

    def ratio(name: str) -> float | None:
        both = [(row, ours[at]) for at, row in valid.items() if at in ours]
        return _mean([one[name] / other[name] for one, other in both if name in one.keys() & other])

    failures = [row["failure"] for row in rows if row["client"] == client["name"] if row["failure"]]
    return {
        **client,
        **{
            name: _mean([row[name] for row in valid.values()])
            for name in ("throughput_per_s", column, "client_cpu_us_per_request")
        },
        "server_cpu_ratio": ratio(column),
        "mean_ratio": ratio(f"{client['kind']}_mean_us"),
        "median_ratio": ratio(f"{client['kind']}_p50_us"),
        "mean_us": _mean([row.get(f"{client['kind']}_mean_us", 0.0) for row in valid.values()]),
        "failure": failures[0] if failures else None,
    }


def _outside(ratio: float | None, limits: tuple[float, float]) -> bool:
    return ratio is not None and not limits[0] <= ratio <= limits[1]


def _warnings_of(client: Mapping[str, Any]) -> list[str]:
    """Return the warnings about another client."""
    name, ratio = client["name"], client["server_cpu_ratio"]
    if client["failure"]:
        return [f"{name} failed: {client['failure']}"]
    if ratio is None:
        return [f"{name} cannot be compared with ours, which failed"]
    found = []
    low, high = EXPECTED_RATIO
    if client["is_keep_alive"] and _outside(ratio, EXPECTED_RATIO):
        found.append(
            f"a request of {name} cost the server {ratio:.2f} times as much as one of ours; from "
            f"{low:g} to {high:g} is expected"
        )
    low, high = EXPECTED_TIME_RATIO
    for words, column in (("mean", "mean_ratio"), ("median", "median_ratio")):
        if client["is_limited"] and _outside(client[column], EXPECTED_TIME_RATIO):
            found.append(
                f"{name}'s {words} time is {client[column]:.2f} times ours, with "
                f"{client['connections']} connections; from {low:g} to {high:g} is expected"
            )
    return found


def warnings(clients: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return warnings about unexpected differences and failures."""
    return [warning for client in clients for warning in _warnings_of(client)]


def _server(workspace: Workspace) -> Server:
    """Return nginx if it is installed, else one of our architectures."""
    ours = our_servers(workspace.program)
    found = [*present_peers(("nginx",)), *(one for one in ours if one.name == "event"), *ours]
    return found[0]


def _site(kind: _Kind, workspace: Workspace) -> Site:
    """Return the site that a load is applied to: HTTP/2 over TLS, by which it is chosen."""
    site = workspace.site
    return replace(site, certificate=certificate(site.folder)) if kind.is_http2 else site


@contextlib.contextmanager
def _limited(setup: _Setup, server: int) -> Iterator[bool]:
    """Limit the server's share of its core, if this is a load whose times count and it can be."""
    workspace = setup.workspace
    share = None if setup.point.is_keep_alive or workspace.is_shared_core else _SHARE
    with contextlib.ExitStack() as stack:
        limiter = cpu_limit.applied(server, share, workspace.server_core, workspace.site.folder)
        try:
            stack.enter_context(limiter)
        except OSError:
            share = None
        yield share is not None


def _rows(setup: _Setup, clients: Sequence[Client], rounds: int, running: Running) -> list[Json]:
    """Measure all clients in each round; every second round is in reverse order."""
    url = running.url
    setup.ours(url, _WARM_UP_S)
    runs: list[tuple[str, Callable[[], ClientResult]]] = [(_OURS, lambda: setup.ours(url))]
    runs += [(client.name, lambda c=client: setup.theirs(c, url)) for client in clients]
    rows: list[Json] = []
    for number in range(1, rounds + 1):
        order = runs if number % 2 else runs[::-1]
        rows += [
            _row(name, number, running.pid, run) | {"point": setup.point.key} for name, run in order
        ]
    return rows


def _compare(setup: _Setup, clients: Sequence[Client], rounds: int, running: Running) -> Json:
    """Compare all clients under one load."""
    with _limited(setup, running.pid) as is_limited:
        rows = _rows(setup, clients, rounds, running)
    load = Load("URL", setup.point, setup.seconds)
    shared = {
        "point": setup.kind.label,
        "seconds": setup.seconds,
        "connections": setup.point.connections,
        "is_keep_alive": setup.point.is_keep_alive,
        "is_limited": is_limited and rounds > 1,
    }
    ours = {
        "name": _OURS,
        "kind": "total",
        "version": "this checkout",
        "command": " ".join(setup.generator.command(load)),
    }
    described = [ours] + [
        {
            "name": client.name,
            "kind": client.kind,
            "version": version_line(setup.command(client, "")[0], client.version_option),
            "command": " ".join(setup.command(client, "URL")),
        }
        for client in clients
    ]
    summaries = [shared | _summary(one, rows) for one in described]
    return {"clients": summaries, "rows": rows, "warnings": warnings(summaries)}


def cross_check(
    sizes: Sequence[int], rounds: int, workspace: Workspace, generator: Generator
) -> Json:
    """Compare our load generator with the others that are installed, if any.

    The page is the smallest of those sizes. A server that fails is a warning, not an error. One
    round only tests that everything works: its loads last a second, and no time is judged.
    """
    clients = [client for client in CLIENTS if paths.peer(client.name)]
    found: Json = {
        "expected_ratio": list(EXPECTED_RATIO),
        "expected_time_ratio": list(EXPECTED_TIME_RATIO),
        "absent": [client.name for client in CLIENTS if client not in clients],
        "rounds": rounds,
        "clients": [],
        "rows": [],
        "warnings": [],
    }
    if not clients:
        return found
    server = _server(workspace)
    found |= {"server": server.name, "version": server.version}
    for known in _LOADS:
        present = [client for client in known.clients if client in clients]
        if not present:
            continue
        kind = replace(known, point=replace(known.point, size=min(sizes)))
        seconds = kind.seconds if rounds > 1 else 1
        ours = replace(generator, hosts=None, options=(*generator.options, *kind.options))
        setup = _Setup(workspace, ours, kind, seconds)
        try:
            page = (kind.point.path, kind.point.size)
            with serving(server, _site(kind, workspace), workspace.server_core, page) as running:
                compared = _compare(setup, present, rounds, running)
        except (ServerFailedError, LoadFailedError, ClientFailedError, OSError) as error:
            return found | {"warnings": [f"the cross-check failed: {server.name}: {error}"]}
        found |= {key: found[key] + compared[key] for key in compared}
    return found
