"""Soak test of unchanged programs under `gossamer run`: memory must not grow at a low load.

libmicrohttpd and stunnel, each with a thread for each connection, are asked for an hour by clients
that stay and by clients that connect for each request, natively and by `gossamer run` at the same
time. Memory, descriptors and kernel threads are sampled; the robust slope of the memory after a
warm-up must not be more than natively, where a program fills its own caches, and a margin.
"""

import contextlib
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from results import Results, options
from soak import GROWTH, WARM_UP, format_time, slope, sparkline

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.experiments.unchanged_binaries import UNCHANGED_BINARIES
from gossamer_lab.measuring import process
from gossamer_lab.measuring.accounting import tree_descriptors, tree_threads
from gossamer_lab.measuring.workspace import Workspace, open_workspace
from gossamer_lab.servers.peers import present_peers
from gossamer_lab.servers.server import Running, Server, serving
from gossamer_lab.servers.toys import toy_server
from gossamer_lab.servers.unchanged import by_run

PAGE = Point("305", 305, 1, 0)
LOADS = (
    ("stay", ("-c", "16", "--think", "400")),
    ("connect", ("-c", "4", "-k", "1", "--think", "100")),
)
"""About forty requests per second of each kind."""
KERNEL_THREADS_MAX = 16


@dataclass
class Subject:
    """A server with its samples: the time, and what was found at that time."""

    server: Server
    running: Running
    samples: list[tuple[float, dict[str, int]]] = field(default_factory=list)

    def sample(self, at_s: float) -> None:
        """Take a sample."""
        threads = tree_threads(self.running.pid)
        found = {"memory": threads.memory_kb, "kernel threads": threads.number}
        self.samples.append((at_s, found | {"descriptors": tree_descriptors(self.running.pid)}))

    def values(self, what: str) -> list[int]:
        """Return all samples of a kind."""
        return [found[what] for _, found in self.samples]


def servers(workspace: Workspace, results: Results) -> list[Server]:
    """Return the servers that are here, each natively and by `gossamer run`."""
    toy = next(one for one in UNCHANGED_BINARIES.toys if one.name == "microhttpd")
    found = present_peers(("stunnel",))
    if (workspace.programs / toy.file).is_file():
        found.append(toy_server(toy, workspace.programs, ""))
    for name in {toy.name, "stunnel"} - {server.name for server in found}:
        results.skip("run", name, "it is not on this machine")
    return [one for server in found for one in (server, by_run(server, workspace.program))]


def load_argv(workspace: Workspace, subject: Subject, kind: str, seconds: float) -> tuple[str, ...]:
    """Return the command line of a load."""
    times = (
        "-d",
        f"{seconds:g}",
        "--timeout",
        "60s",
        "--json",
        str(report(workspace, subject, kind)),
    )
    url = subject.running.url + PAGE.path
    return (str(workspace.program), "load", *dict(LOADS)[kind], *times, url)


def report(workspace: Workspace, subject: Subject, kind: str) -> Path:
    """Return the path of a load's report."""
    return workspace.site.folder / f"{subject.server.name}-{kind}.json"


def watch(workspace: Workspace, subjects: list[Subject], seconds: float) -> None:
    """Apply all loads, and take samples meanwhile."""
    with contextlib.ExitStack() as stack:
        loads = []
        for subject in subjects:
            for kind, _ in LOADS:
                argv = load_argv(workspace, subject, kind, seconds)
                outputs = (
                    report(workspace, subject, kind).with_suffix(f".{e}") for e in ("o", "e")
                )
                started = process.started(argv, workspace.client_core, *outputs)
                loads.append(stack.enter_context(started))
        start, interval_s = time.monotonic(), max(seconds / 360, 0.5)
        while (at_s := time.monotonic() - start) < seconds - interval_s:
            for subject in subjects:
                subject.sample(at_s)
            time.sleep(interval_s)
        for load in loads:
            load.wait(timeout=120)


def growth(subject: Subject, seconds: float) -> tuple[float, float]:
    """Return the growth of the memory after the warm-up, and the margin, in KiB."""
    later = [
        (at_s, found["memory"]) for at_s, found in subject.samples if at_s >= seconds * WARM_UP
    ]
    level = statistics.median(memory for _, memory in later)
    return slope(later) * seconds, GROWTH[0] * level + GROWTH[1] / 1024


def limit(results: Results, native: Subject, ours: Subject, seconds: float) -> None:
    """Limit the growth by run to that natively and a margin."""
    margin = growth(ours, seconds)[1]
    allowed = max(growth(native, seconds)[0], 0) + margin
    results.add("growth of the memory", f"{ours.server.name}: allowed", allowed, "KiB")
    results.limit("growth of the memory", ours.server.name, (f"{ours.server.name}: allowed",), 1.0)
    if max(ours.values("kernel threads")) > KERNEL_THREADS_MAX:
        results.skip("kernel threads", ours.server.name, f"more than {KERNEL_THREADS_MAX}")


def evaluate(results: Results, workspace: Workspace, subject: Subject, seconds: float) -> None:
    """Add medians of each tenth of the run, the growth of the memory, and the clients' reports."""
    name = subject.server.name
    for tenth in range(10):
        part = [found for at_s, found in subject.samples if int(at_s / seconds * 10) == tenth]
        for what in subject.samples[0][1] if part else ():
            value = statistics.median(found[what] for found in part)
            until = format_time(seconds * (tenth + 1) / 10)
            results.add(f"to {until}: {what}", name, value, "KiB" if what == "memory" else "")
    results.add("growth of the memory", name, growth(subject, seconds)[0], "KiB")
    for what in subject.samples[0][1]:
        values = subject.values(what)
        print(f"{name:18} {what:15} {sparkline(values)} {min(values)} to {max(values)}")
    for kind, _ in LOADS:
        found = json.loads(report(workspace, subject, kind).read_text())
        errors = {error: count for error, count in found["errors"].items() if count}
        if errors:
            results.skip(kind, name, f"errors: {errors}")
        results.add(f"requests: {kind}", name, found["requests"], "")


def main() -> int:
    """Run the soak test; return 1 if a limit is not met or a part was skipped."""
    parser = options(__doc__ or "")
    parser.set_defaults(seconds=3600.0)
    chosen = parser.parse_args()
    results, experiment = Results(), Experiment("soak", "", (PAGE,), (), ())
    with open_workspace(experiment, paths.program()) as workspace, contextlib.ExitStack() as stack:
        subjects = []
        for server in servers(workspace, results):
            page = (PAGE.path, PAGE.size)
            running = serving(server, workspace.site, workspace.server_core, page)
            subjects.append(Subject(server, stack.enter_context(running)))
        if not subjects:
            sys.exit("soak_run: neither libmicrohttpd-dev nor stunnel4 is installed")
        watch(workspace, subjects, chosen.seconds)
        for subject in subjects:
            evaluate(results, workspace, subject, chosen.seconds)
        for native, ours in zip(subjects[::2], subjects[1::2], strict=True):
            limit(results, native, ours, chosen.seconds)
    status = results.finish(chosen.json)
    return 1 if results.skipped else status


if __name__ == "__main__":
    sys.exit(main())
