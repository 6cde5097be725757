"""Our load generator beside wrk and ab: the same load on the same server, each in turn.

What a request costs the server is compared. It is not the same with every client, for known
reasons: their requests differ in length, ab speaks HTTP/1.0, and a client that is slower leaves the
server idle more often, so that it finds fewer requests each time it looks. What goes beyond
`EXPLAINED` is told as a warning. Connections are kept, because the way in which a client ends one
moves work of TCP to the server or away from it.
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

from gossamer_lab import interruption, paths, process
from gossamer_lab.accounting import family_cpu
from gossamer_lab.experiment import Point
from gossamer_lab.load import Generator, Load, LoadFailedError
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.peers import present_peers, version_line
from gossamer_lab.servers.server import Running, Server, ServerFailedError, serving
from gossamer_lab.workshop import Workshop

Json = dict[str, Any]

EXPLAINED = (0.75, 1.4)
"""What another client may cost the server for a request, as a multiple of ours."""
_OURS = "gossamer load"
_CONNECTIONS = 64
_SECONDS = 1
_WARM_UP_S = 0.2
_SLACK_S = 60.0
_TICK_S = 0.25


class ClientFailedError(Exception):
    """A client gave no result, or one with errors; says why."""


@dataclass(frozen=True)
class Outcome:
    """What a client says of its load."""

    requests: int
    seconds: float


@dataclass(frozen=True)
class Client:
    """A load generator by somebody else."""

    name: str
    version_option: str
    options: tuple[str, ...]
    """For a load of so many kept connections and seconds; the address follows."""
    result: re.Pattern[str]
    """Finds `requests` and `seconds` in what it prints."""
    wrong: re.Pattern[str]
    """Finds in there that requests failed."""

    def parse(self, output: str) -> Outcome:
        """Return what it measured; ClientFailedError if requests failed or nothing was."""
        if failed := self.wrong.search(output):
            raise ClientFailedError(" ".join(failed.group().split()))
        found = {
            kind: value
            for match in self.result.finditer(output)
            for kind, value in match.groupdict().items()
            if value
        }
        if not {"requests", "seconds"} <= found.keys():
            raise ClientFailedError("it told no result")
        return Outcome(int(found["requests"]), float(found["seconds"]))


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
    # Its time limit implies a limit of requests, unless one follows.
    ("-q", "-k", "-t", str(_SECONDS), "-n", str(_SECONDS * 1_000_000), "-c", str(_CONNECTIONS)),
    re.compile(r"Complete requests:\s+(?P<requests>\d+)|Time taken.*?(?P<seconds>[\d.]+) sec"),
    re.compile(r"Failed requests:\s+[1-9]\d*|Non-2xx.*"),
)
CLIENTS = (WRK, AB)


@dataclass(frozen=True)
class _Setting:
    """Where the comparison is made."""

    shop: Workshop
    generator: Generator
    point: Point

    def ours(self, url: str, seconds: float = _SECONDS) -> Outcome:
        """Put the server under our load."""
        report = self.generator.run(Load(url, self.point, seconds))
        if failed := sum(report["errors"].values()):
            raise ClientFailedError(f"{failed} requests failed")
        return Outcome(report["requests"], report["seconds"])

    def command(self, client: Client, url: str) -> tuple[str, ...]:
        """Return the command line of another client."""
        return (str(paths.peer(client.name)), *client.options, url + self.point.path)

    def theirs(self, client: Client, url: str) -> Outcome:
        """Put the server under the load of another client."""
        folder = self.shop.site.folder
        output, errors = folder / "client.out", folder / "client.err"
        argv = self.command(client, url)
        with process.started(argv, self.shop.client_core, output, errors) as child:
            deadline = time.monotonic() + _SECONDS + _SLACK_S
            while child.poll() is None and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(_TICK_S)
                interruption.check()
                self.generator.tick()
            status = child.poll()
        if status != 0:
            how = "did not end" if status is None else f"ended with status {status}"
            raise ClientFailedError(f"{how}: {process.last_words(errors)}".removesuffix(": "))
        return client.parse(output.read_text(errors="replace"))


def _children_cpu_s() -> float:
    """Return the CPU time of all processes that the lab has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(name: str, number: int, server: int, run: Callable[[], Outcome]) -> Json:
    """Measure one load of a client."""
    row: Json = {"client": name, "round": number, "failure": None}
    before, client_before = family_cpu(server), _children_cpu_s()
    try:
        outcome = run()
    except (ClientFailedError, LoadFailedError, OSError) as error:
        return row | {"failure": str(error)}
    cpu_s = (family_cpu(server) - before).total_s
    client_s = _children_cpu_s() - client_before
    if not outcome.requests or not outcome.seconds or cpu_s <= 0:
        return row | {"failure": "it asked for too little"}
    return row | {
        "requests": outcome.requests,
        "throughput_per_s": outcome.requests / outcome.seconds,
        "server_cpu_us_per_request": cpu_s / outcome.requests * 1e6,
        "client_cpu_us_per_request": client_s / outcome.requests * 1e6,
    }


def _mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean, None of nothing."""
    logs = [math.log(value) for value in values if value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _summed_up(told: Mapping[str, str], rows: Sequence[Json]) -> Json:
    """Return the figures of one client over its rounds, and its server's cost against ours."""
    sound = {
        row["round"]: row for row in rows if row["client"] == told["name"] if "requests" in row
    }
    ours = {row["round"]: row for row in rows if row["client"] == _OURS if "requests" in row}
    column = "server_cpu_us_per_request"
    ratios = [row[column] / ours[at][column] for at, row in sound.items() if at in ours]
    failures = [row["failure"] for row in rows if row["client"] == told["name"] if row["failure"]]
    return {
        **told,
        **{
            name: _mean([row[name] for row in sound.values()])
            for name in ("throughput_per_s", column, "client_cpu_us_per_request")
        },
        "server_cpu_ratio": _mean(ratios),
        "failure": failures[0] if failures else None,
    }


def warnings(clients: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what differs beyond what is explained, and what failed, in sentences."""
    low, high = EXPLAINED
    found = []
    for client in clients:
        ratio = client["server_cpu_ratio"]
        if client["failure"]:
            found.append(f"{client['name']} failed: {client['failure']}")
        elif ratio is None:
            found.append(f"{client['name']} cannot be set beside ours, which failed")
        elif not low <= ratio <= high:
            found.append(
                f"a request of {client['name']} cost the server {ratio:.2f} times what one of ours "
                f"did; from {low:g} to {high:g} is explained"
            )
    return found


def _server(shop: Workshop) -> Server:
    """Return nginx where it is present, else an architecture of ours."""
    ours = our_servers(shop.program)
    found = [*present_peers(("nginx",)), *(one for one in ours if one.name == "event"), *ours]
    return found[0]


def _compared(setting: _Setting, clients: Sequence[Client], rounds: int, running: Running) -> Json:
    """Measure all clients round by round, every second round in the opposite order."""
    url = running.url
    setting.ours(url, _WARM_UP_S)
    runs: list[tuple[str, Callable[[], Outcome]]] = [(_OURS, lambda: setting.ours(url))]
    runs += [(client.name, lambda c=client: setting.theirs(c, url)) for client in clients]
    rows: list[Json] = []
    for number in range(1, rounds + 1):
        order = runs if number % 2 else runs[::-1]
        rows += [_row(name, number, running.pid, run) for name, run in order]
    load = Load("URL", setting.point, _SECONDS)
    ours = {
        "name": _OURS,
        "version": "this checkout",
        "command": " ".join(setting.generator.command(load)),
    }
    told = [ours] + [
        {
            "name": client.name,
            "version": version_line(setting.command(client, "")[0], client.version_option),
            "command": " ".join(setting.command(client, "URL")),
        }
        for client in clients
    ]
    summed_up = [_summed_up(one, rows) for one in told]
    return {"clients": summed_up, "rows": rows, "warnings": warnings(summed_up)}


def cross_check(sizes: Sequence[int], rounds: int, shop: Workshop, generator: Generator) -> Json:
    """Check our load generator against the others that this machine has; without any, say so.

    The page is the smallest of those sizes. A server that fails is a warning, not an error.
    """
    clients = [client for client in CLIENTS if paths.peer(client.name)]
    found: Json = {
        "explained": list(EXPLAINED),
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
    setting = _Setting(shop, replace(generator, hosts=None), point)
    server = _server(shop)
    found |= {"server": server.name, "version": server.version, "point": point.label}
    try:
        page = (point.path, point.size)
        with serving(server, shop.site, shop.server_core, page) as running:
            return found | _compared(setting, clients, rounds, running)
    except (ServerFailedError, LoadFailedError, ClientFailedError) as error:
        return found | {"warnings": [f"there was no cross-check: {server.name}: {error}"]}
