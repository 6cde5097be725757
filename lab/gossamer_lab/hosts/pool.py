"""The client hosts of a run, as the lab sees them: given loads, and their reports merged."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gossamer_lab import interruption, process
from gossamer_lab.accounting import family_cpu
from gossamer_lab.experiment import Link, Point
from gossamer_lab.hosts import merge
from gossamer_lab.hosts.network import RELAY, Network, NoNetworkError, far_hosts
from gossamer_lab.hosts.part import Part
from gossamer_lab.load import Generator, HostsDiedError, Load, LoadFailedError, check_report
from gossamer_lab.plan import Plan
from gossamer_lab.servers.server import ServerFailedError, Site
from gossamer_lab.workshop import Workshop

Json = dict[str, Any]

_SLACK_S = 240.0
"""For what is done around a load, also by a machine that is busy with much else."""
_JOIN_S = 180.0
_TICK_S = 0.25
_PIECE = 1 << 20


def shares(connections: int, hosts: int) -> list[int]:
    """Return the connections of each host: as even as can be, and no host without any."""
    each, rest = divmod(connections, hosts)
    return [each + (i < rest) for i in range(hosts) if each or i < rest]


@dataclass
class Hosts:
    """Hosts that are there, and wait for loads."""

    channel: socket.socket
    count: int
    """Of workers."""
    cluster: str
    """The address of their scheduler; empty: they are processes of this machine."""
    links: tuple[Link, ...] = ()
    network: Network | None = None
    """Of the hosts at the ends of these links."""
    heard: bytes = b""

    def takes(self, point: Point) -> bool:
        """Tell whether a load is theirs."""
        return point.hosts > 1 or bool(self.cluster)

    def site(self, site: Site, point: Point) -> Site:
        """Return the site with the address at which the hosts of a point reach its servers."""
        return replace(site, address=self.network.server) if self.network and point.is_far else site

    def _parts(self, generator: Generator, load: Load) -> list[Part]:
        """Share a load out."""
        point = load.point
        connections = shares(point.connections, point.hosts if point.hosts > 1 else self.count)
        spaces = self.network.spaces if self.network and point.is_far else ()
        drop = load.drop // len(connections)
        return [
            Part(
                host=f"host-{i + 1:02}",
                words=generator.words(
                    replace(load, point=replace(point, connections=n), drop=drop)
                ),
                program="" if self.cluster else str(generator.program),
                space=spaces[i] if spaces else "",
                core=None if self.cluster else generator.core,
                folder="" if self.cluster else str(generator.folder),
            )
            for i, n in enumerate(connections)
        ]

    def run(self, generator: Generator, load: Load) -> Json:
        """Put a server under load; return the report, with a row for each host.

        LoadFailedError if there is none; HostsDiedError if a host ended in the middle of it.
        """
        parts = self._parts(generator, load)
        before_s = self._network_s()
        self.channel.sendall(json.dumps({"parts": [asdict(p) for p in parts]}).encode() + b"\n")
        answer = self.hear(load.seconds + _SLACK_S, generator.tick)
        if answer.get("died"):
            raise HostsDiedError(", ".join(answer["died"]))
        if answer.get("failed"):
            raise LoadFailedError(f"a client host failed: {answer['failed']}")
        results = [merge.unpacked(result) for result in answer["results"]]
        for result in results:
            _check(result)
        report, log = merge.merged(results)
        report["client_cpu_s"] = self._client_s(results) + self._network_s() - before_s
        if load.is_kept:
            generator.histograms.write_text(log)
        if load.point.is_far:
            report["hosts"] = [row | self._link(row["host"]) for row in report["hosts"]]
        return report

    def _client_s(self, results: Sequence[Json]) -> float:
        """Return the CPU time of the load: where hosts share a core all, else the busiest's."""
        each = [float(result["report"]["client_cpu_s"]) for result in results]
        return max(each) if self.cluster else sum(each)

    def _network_s(self) -> float:
        return family_cpu(self.network.pid).total_s if self.network else 0.0

    def _link(self, host: str) -> Json:
        link = self.links[int(host.rpartition("-")[2]) - 1]
        return {"delay_ms": link.delay_ms, "loss": link.loss, "loss_back": link.loss_back}

    def hear(self, longest_s: float, tick: Callable[[], None]) -> Json:
        """Await a line of the coordinator; LoadFailedError if none comes."""
        deadline = time.monotonic() + longest_s
        while b"\n" not in self.heard:
            interruption.check()
            tick()
            if time.monotonic() > deadline:
                raise LoadFailedError("the client hosts did not answer")
            with contextlib.suppress(TimeoutError):
                piece = self.channel.recv(_PIECE)
                if not piece:
                    raise LoadFailedError("the client hosts' coordinator has ended")
                self.heard += piece
        line, _, self.heard = self.heard.partition(b"\n")
        answer: Json = json.loads(line)
        return answer


def _check(result: Json) -> None:
    """Raise LoadFailedError if a host's load gave no result, or none that counts."""
    host, report = result["host"], result["report"]
    if report is None:
        how = f"ended with status {result['status']}"
        raise LoadFailedError(f"{host}: load {how} and left no report: {result['words']}")
    try:
        check_report(report)
    except LoadFailedError as error:
        raise LoadFailedError(f"{host}: {error}") from error


def _accepted(
    listener: socket.socket, coordinator: subprocess.Popen[bytes], errors: Path
) -> socket.socket:
    """Await the coordinator's connection; LoadFailedError."""
    deadline = time.monotonic() + _JOIN_S
    while coordinator.poll() is None and time.monotonic() < deadline:
        interruption.check()
        with contextlib.suppress(TimeoutError):
            return listener.accept()[0]
    words = process.last_words(errors)
    raise LoadFailedError(f"the client hosts cannot be had: {words}")


@contextlib.contextmanager
def gathered(count: int, cluster: str, folder: Path) -> Iterator[Hosts]:
    """Have the hosts of a cluster, or so many of our own, for the length of a ``with`` block.

    LoadFailedError if they cannot be had. Their coordinator, and hosts of our own, are processes
    that end with the block.
    """
    path, output, errors = folder / "hosts", folder / "hosts.out", folder / "hosts.err"
    where = cluster or str(count)
    argv = (sys.executable, "-m", "gossamer_lab.hosts.coordinator", str(path), where)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(_TICK_S)
        with (
            process.started(argv, None, output, errors) as child,
            _accepted(listener, child, errors) as channel,
        ):
            channel.settimeout(_TICK_S)
            hosts = Hosts(channel, 0, cluster)
            answer = hosts.hear(_JOIN_S, lambda: None)
            if "hosts" not in answer:
                raise LoadFailedError(f"no client hosts: {answer['failed']}")
            hosts.count = answer["hosts"]
            yield hosts


def own_address(cluster: str) -> str:
    """Return the address of this machine that the hosts of a cluster reach its servers at.

    It is that on the way to the cluster's scheduler. ServerFailedError if there is none.
    """
    if not cluster:
        return "127.0.0.1"
    host, _, port = cluster.rpartition("//")[2].rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise ServerFailedError(f"no way to a cluster at {cluster!r}: {error}") from error


@contextlib.contextmanager
def for_run(plan: Plan, shop: Workshop) -> Iterator[Hosts | None]:
    """Have the hosts that a run needs for the length of a ``with`` block; None: it needs none.

    ServerFailedError if they cannot be had.
    """
    loads = [point for point in plan.points if isinstance(point, Point)]
    cluster, folder = plan.wish.cluster, shop.site.folder
    count = max((point.hosts for point in loads), default=1)
    with contextlib.ExitStack() as stack:
        if count == 1 and not (cluster and loads):
            yield None
            return
        try:
            hosts = stack.enter_context(gathered(count, cluster, folder))
            if any(point.is_far for point in loads):
                hosts.links = plan.experiment.links
                relay, core = shop.programs / RELAY, shop.client_core
                far = far_hosts(relay, hosts.links, plan.wish.seed, core, folder)
                hosts.network = stack.enter_context(far)
        except (LoadFailedError, NoNetworkError) as error:
            raise ServerFailedError(str(error)) from error
        yield hosts
