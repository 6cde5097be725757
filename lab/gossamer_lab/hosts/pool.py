"""The client hosts of a run, seen from the lab: distributes loads and merges their reports."""

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

from gossamer_lab.experiments.manifest import Link, Point
from gossamer_lab.hosts import merge
from gossamer_lab.hosts.network import RELAY, Network, NetworkUnavailableError, wan_hosts
from gossamer_lab.hosts.worker import Job
from gossamer_lab.measuring import interruption, process
from gossamer_lab.measuring.accounting import tree_cpu
from gossamer_lab.measuring.load import (
    Generator,
    HostsDiedError,
    Load,
    LoadFailedError,
    check_report,
)
from gossamer_lab.measuring.plan import Plan
from gossamer_lab.measuring.workspace import Workspace
from gossamer_lab.servers.server import ServerFailedError, Site

Json = dict[str, Any]

_SLACK_S = 240.0
"""Extra time for a load to be prepared and collected, also on a busy machine."""
_JOIN_S = 180.0
_TICK_S = 0.25
_RECEIVE_SIZE = 1 << 20


def split_evenly(connections: int, hosts: int) -> list[int]:
    """Return the connections of each host, as even as possible; hosts without any are left out."""
    each, rest = divmod(connections, hosts)
    return [each + (i < rest) for i in range(hosts) if each or i < rest]


@dataclass
class HostPool:
    """Client hosts that wait for loads."""

    channel: socket.socket
    count: int
    """Number of workers."""
    cluster: str
    """The address of their scheduler; empty: they are processes of this machine."""
    links: tuple[Link, ...] = ()
    network: Network | None = None
    """The emulated network of these links."""
    buffer: bytes = b""
    coordinator: int = 0
    """Process id of the coordinator, whose children are the hosts of this machine."""

    def handles(self, point: Point) -> bool:
        """Return whether these hosts generate the load of a point."""
        return point.hosts > 1 or bool(self.cluster)

    def site(self, site: Site, point: Point) -> Site:
        """Return the site with the address at which the hosts of a point reach its servers."""
        return replace(site, address=self.network.server) if self.network and point.is_wan else site

    def _jobs(self, generator: Generator, load: Load) -> list[Job]:
        """Split a load into jobs."""
        point = load.point
        connections = split_evenly(
            point.connections, point.hosts if point.hosts > 1 else self.count
        )
        namespaces = self.network.namespaces if self.network and point.is_wan else ()
        drop = load.drop // len(connections)
        return [
            Job(
                host=f"host-{i + 1:02}",
                arguments=generator.arguments(
                    replace(load, point=replace(point, connections=n), drop=drop)
                ),
                program="" if self.cluster else str(generator.program),
                namespace=namespaces[i] if namespaces else "",
                core=None if self.cluster else generator.core,
                folder="" if self.cluster else str(generator.folder),
            )
            for i, n in enumerate(connections)
        ]

    def run(self, generator: Generator, load: Load) -> Json:
        """Apply a load to a server; return the report, with a row for each host.

        LoadFailedError if there is none; HostsDiedError if a host died during the load.
        """
        jobs = self._jobs(generator, load)
        before_s = self._network_cpu_s()
        self.channel.sendall(json.dumps({"jobs": [asdict(p) for p in jobs]}).encode() + b"\n")
        answer = self.receive(load.whole_s + _SLACK_S, generator.tick)
        if answer.get("died"):
            raise HostsDiedError(", ".join(answer["died"]))
        if answer.get("failed"):
            raise LoadFailedError(f"a client host failed: {answer['failed']}")
        results = [merge.parsed(result) for result in answer["results"]]
        for result in results:
            _check(result)
        report, log = merge.merged(results)
        report["client_cpu_s"] = self._client_cpu_s(results) + self._network_cpu_s() - before_s
        if load.keeps_histograms:
            generator.histograms.write_text(log)
        if load.point.is_wan:
            report["hosts"] = [row | self._link(row["host"]) for row in report["hosts"]]
        return report

    def _client_cpu_s(self, results: Sequence[Json]) -> float:
        """Return the CPU time of the load: the sum if hosts share a core, else the maximum."""
        each = [float(result["report"]["client_cpu_s"]) for result in results]
        return max(each) if self.cluster else sum(each)

    def cpu_s(self) -> float:
        """Return the CPU time of all processes on this machine that generate loads."""
        return tree_cpu(self.coordinator).total_s + self._network_cpu_s()

    def _network_cpu_s(self) -> float:
        return tree_cpu(self.network.pid).total_s if self.network else 0.0

    def _link(self, host: str) -> Json:
        link = self.links[int(host.rpartition("-")[2]) - 1]
        return {"delay_ms": link.delay_ms, "loss": link.loss, "return_loss": link.return_loss}

    def receive(self, timeout_s: float, tick: Callable[[], None]) -> Json:
        """Receive a line from the coordinator; LoadFailedError if there is none in time."""
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self.buffer:
            interruption.check()
            tick()
            if time.monotonic() > deadline:
                raise LoadFailedError("the client hosts did not respond")
            with contextlib.suppress(TimeoutError):
                received = self.channel.recv(_RECEIVE_SIZE)
                if not received:
                    raise LoadFailedError("the coordinator of the client hosts has exited")
                self.buffer += received
        line, _, self.buffer = self.buffer.partition(b"\n")
        answer: Json = json.loads(line)
        return answer


def _check(result: Json) -> None:
    """Raise LoadFailedError if a host's load gave no valid result."""
    host, report = result["host"], result["report"]
    if report is None:
        how = f"exited with status {result['status']}"
        raise LoadFailedError(f"{host}: load {how} and left no report: {result['words']}")
    try:
        check_report(report)
    except LoadFailedError as error:
        raise LoadFailedError(f"{host}: {error}") from error


def _accept_coordinator(
    listener: socket.socket, coordinator: subprocess.Popen[bytes], errors: Path
) -> socket.socket:
    """Accept the coordinator's connection; LoadFailedError."""
    deadline = time.monotonic() + _JOIN_S
    while coordinator.poll() is None and time.monotonic() < deadline:
        interruption.check()
        with contextlib.suppress(TimeoutError):
            return listener.accept()[0]
    words = process.stderr_tail(errors)
    raise LoadFailedError(f"the client hosts are not available: {words}")


@contextlib.contextmanager
def open_pool(count: int, cluster: str, folder: Path) -> Iterator[HostPool]:
    """Connect to the hosts of a cluster, or start this many here, for a ``with`` block.

    LoadFailedError if they are not available. Their coordinator, and hosts on this machine, are
    processes that exit with the block.
    """
    path, output, errors = folder / "hosts", folder / "hosts.out", folder / "hosts.err"
    target = cluster or str(count)
    argv = (sys.executable, "-m", "gossamer_lab.hosts.coordinator", str(path), target)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(_TICK_S)
        with (
            process.started(argv, None, output, errors) as child,
            _accept_coordinator(listener, child, errors) as channel,
        ):
            channel.settimeout(_TICK_S)
            hosts = HostPool(channel, 0, cluster, coordinator=child.pid)
            answer = hosts.receive(_JOIN_S, lambda: None)
            if "hosts" not in answer:
                raise LoadFailedError(f"no client hosts: {answer['failed']}")
            hosts.count = answer["hosts"]
            yield hosts


def local_address(cluster: str) -> str:
    """Return the address of this machine at which the hosts of a cluster reach its servers.

    The address is that of the route to the cluster's scheduler. ServerFailedError if there is none.
    """
    if not cluster:
        return "127.0.0.1"
    host, _, port = cluster.rpartition("//")[2].rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))
            return str(probe.getsockname()[0])
    except (OSError, ValueError) as error:
        raise ServerFailedError(f"no route to a cluster at {cluster!r}: {error}") from error


@contextlib.contextmanager
def pool_for_run(plan: Plan, workspace: Workspace) -> Iterator[HostPool | None]:
    """Provide the hosts that a run needs for the duration of a ``with`` block; None: none needed.

    ServerFailedError if they are not available.
    """
    loads = [point for point in plan.points if isinstance(point, Point)]
    cluster, folder = plan.options.cluster, workspace.site.folder
    count = max((point.hosts for point in loads), default=1)
    with contextlib.ExitStack() as stack:
        if count == 1 and not (cluster and loads):
            yield None
            return
        try:
            hosts = stack.enter_context(open_pool(count, cluster, folder))
            if any(point.is_wan for point in loads):
                hosts.links = plan.experiment.links
                relay, core = workspace.programs / RELAY, workspace.client_core
                network = wan_hosts(relay, hosts.links, plan.options.seed, core, folder)
                hosts.network = stack.enter_context(network)
        except (LoadFailedError, NetworkUnavailableError) as error:
            raise ServerFailedError(str(error)) from error
        yield hosts
