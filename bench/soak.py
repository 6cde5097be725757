"""Soak test: the server's memory must not grow during an hour under all kinds of load.

The load is of HTTP/1, of HTTP/1 over TLS, or of HTTP/2 over TLS. Memory and descriptors are
sampled every few seconds; the robust slope after a warm-up is limited.
"""

import argparse
import contextlib
import json
import re
import statistics
import subprocess
import sys
import time
import urllib.parse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from abusive_clients import AbusiveClients
from pauses import Pauses
from results import Results, options
from transport import Over

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.measuring import process
from gossamer_lab.measuring.workspace import Workspace, open_workspace, page
from gossamer_lab.servers.peers import certificate
from gossamer_lab.servers.server import Launch, Running, Server, ServerFailedError, Site, serving

OURS = "event"
ALLOWED = "allowed"
POINTS = (Point("305", 305, 1, 0), Point("8192", 8192, 1, 0))
SMALL = POINTS[0].path
HUGE = ("/huge", 64 << 20)
MANY = 400
"""Number of small files: more than fit in the file cache, which is configured to be small."""
LARGE = 64
"""Number of files for sendfile: more than the server keeps open."""
KEPT_OPEN = 32
OTHER_DESCRIPTORS = 69
"""Descriptors of the server for other purposes than connections and files."""

SLOW_CLIENTS = {Over.PLAIN: 100, Over.TLS: 30, Over.H2: 30}
"""Of each kind."""
SLOW_LIMIT_S = {Over.PLAIN: 3.0, Over.TLS: 6.0, Over.H2: 6.0}
"""It covers the handshake, which takes long beside a full load."""
CLOSE_DELAY_S = 4.0

WARM_UP = 0.2
"""Share of the run that is not evaluated."""
WARM_UP_S = 15.0
"""Time that is not evaluated, of a run of twice as long or more."""
GROWTH = (0.01, 256 << 10)
"""Allowed growth of the memory: a share of it, plus a number of bytes."""
DRAIN_TIMEOUT_S = 15.0
RESPONSE_TIMEOUT_S = 600
"""Timeout for the responses of a load, long enough for pauses of the machine."""


@dataclass(frozen=True)
class Sample:
    """Memory and descriptors of the server at one time."""

    at_s: float
    rss: int
    pss: int
    descriptors: int


@dataclass(frozen=True)
class Load:
    """One kind of load, which has a process of its own."""

    name: str
    options: tuple[str, ...]
    targets: tuple[str, ...]


LOADS = (
    Load("keep-alive", ("-c", "64"), (SMALL,)),
    Load("connection per request", ("-c", "16", "-k", "1", "--think", "5"), (SMALL,)),
    Load("many files", ("-c", "8", "--think", "5"), tuple(f"/many-{n}" for n in range(MANY))),
    Load("large files", ("-c", "4", "--think", "10"), tuple(f"/large-{n}" for n in range(LARGE))),
    Load(
        "ranges",
        ("-c", "8", "--think", "10", "-H", "Range: bytes=1-99,200-299,-5"),
        (POINTS[1].path, "/large-1"),
    ),
    Load("not found", ("-c", "8", "--think", "10", "--expect-status", "404"), ("/none",)),
    Load("changing", ("-c", "2", "--think", "20"), ("/changing", "/large-0")),
)
SLOW_MODES = {
    Over.PLAIN: ("header", "blank", "body", "read"),
    Over.TLS: ("handshake", "header", "body", "read"),
    Over.H2: ("handshake", "header", "body", "read", "window"),
}
LOAD_OPTIONS: dict[Over, tuple[str, ...]] = {
    Over.PLAIN: (),
    Over.TLS: (),
    Over.H2: ("--http2", "--streams", "4"),
}


def write_files(root: Path) -> tuple[Path, ...]:
    """Write the files to serve; return those that are replaced during the run."""
    for number in range(MANY):
        (root / f"many-{number}").write_bytes(page(4096 + number))
    for number in range(LARGE):
        (root / f"large-{number}").write_bytes(page((128 << 10) + number))
    (root / "changing").write_bytes(page(2000))
    with (root / HUGE[0].lstrip("/")).open("wb") as huge:
        huge.truncate(HUGE[1])
    return root / "changing", root / "large-0"


def configure(program: Path, site: Site, over: Over) -> Launch:
    """Configure a server with small caches and short timeouts, so that their limits are reached."""
    connections = site.open_files - OTHER_DESCRIPTORS - KEPT_OPEN
    timeout = f"{SLOW_LIMIT_S[over]:g}s"
    listen: tuple[str, ...] = ("--listen", "127.0.0.1:0")
    if site.certificate:
        listen = ("--listen", "https://127.0.0.1:0", "--certificate", str(site.certificate))
    options = (
        *("--arch", OURS, "--workers", "1", *listen),
        *("--access-log", "/dev/null", "--page-cache", "1m", "--max-connections", str(connections)),
        *("--header-timeout", timeout, "--rate-grace", timeout, "--rate", "4k"),
    )
    return Launch((str(program), "serve", *options, str(site.root)))


def open_files(pid: int) -> list[str]:
    """Return the targets of the descriptors of a process."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def sockets(pid: int) -> int:
    """Return the number of sockets of a process."""
    return sum(name.startswith("socket:") for name in open_files(pid))


def take_sample(pid: int, start: float) -> Sample:
    """Take a sample of the server."""
    kib: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, _unit = line.split()
        kib[name] = int(value)
    return Sample(
        time.monotonic() - start, kib["Rss:"] << 10, kib["Pss:"] << 10, len(open_files(pid))
    )


class Soak:
    """One run: its processes and samples."""

    def __init__(self, workspace: Workspace, running: Running, seconds: float, over: Over) -> None:
        """Prepare the run without starting anything."""
        self.workspace = workspace
        self.running = running
        self.seconds = seconds
        self.over = over
        self.slow_modes = SLOW_MODES[over]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.abusive = AbusiveClients(running.url, SMALL, HUGE[0], over)
        self.samples: list[Sample] = []
        self.start_time = 0.0
        self.pauses = Pauses()
        self.sockets_before = sockets(running.pid)

    def _file(self, name: str, kind: str) -> Path:
        return self.workspace.site.folder / f"{name.replace(' ', '-')}.{kind}"

    def _start(self, stack: contextlib.ExitStack, name: str, argv: tuple[str, ...]) -> None:
        output, errors = self._file(name, "out"), self._file(name, "err")
        started = process.started(argv, self.workspace.client_core, output, errors)
        self.processes[name] = stack.enter_context(started)

    def start(self, stack: contextlib.ExitStack, changing: tuple[Path, ...]) -> None:
        """Start all clients; threads start last, because processes must be forked before."""
        url = self.running.url
        self.start_time = time.monotonic()
        for load in LOADS:
            options = ("-d", f"{self.seconds:g}", "--timeout", str(RESPONSE_TIMEOUT_S))
            options += ("--json", str(self._file(load.name, "json")), *LOAD_OPTIONS[self.over])
            urls = tuple(url + target for target in load.targets)
            program = str(self.workspace.program)
            self._start(stack, load.name, (program, "load", *load.options, *options, *urls))
        for mode in self.slow_modes:
            self._start(stack, f"slow {mode}", self._slow_clients(mode))
        self.abusive.start(changing)
        stack.callback(self.abusive.end)

    def _slow_clients(self, mode: str) -> tuple[str, ...]:
        """Return the command of the slow clients of a mode."""
        port = str(urllib.parse.urlsplit(self.running.url).port)
        count = str(SLOW_CLIENTS[self.over])
        arguments = (mode, port, HUGE[0], count, f"{2 * self.seconds + 60:.0f}")
        if self.over is Over.PLAIN:
            program = str(paths.program().parent / "bench/clients/slow_clients")
            return (program, *arguments, "reconnect")
        script = Path(__file__).with_name("slow_tls_clients.py")
        return (sys.executable, str(script), self.over.value, *arguments)

    def monitor(self) -> None:
        """Take samples until the end; raise ServerFailedError if a client exits early."""
        interval = min(max(self.seconds / 300, 0.5), 5.0)
        self.pauses = Pauses()
        while (passed := time.monotonic() - self.start_time) < self.seconds - 2 * interval:
            time.sleep(interval)
            self.pauses.tick(interval)
            self.samples.append(take_sample(self.running.pid, self.start_time))
            show_progress(self.samples[-1], self.seconds, passed, interval)
            for name, child in self.processes.items():
                if child.poll() is not None:
                    message = process.stderr_tail(self._file(name, "err"))
                    raise ServerFailedError(f"{name} exited early: {message}")

    def finish(self) -> None:
        """Wait for the loads, stop the slow clients, and wait until the server has closed them."""
        self.abusive.end()
        for load in LOADS:
            self.processes[load.name].wait(timeout=60)
        for mode in self.slow_modes:
            self.processes[f"slow {mode}"].terminate()
            self.processes[f"slow {mode}"].wait(timeout=10)
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while sockets(self.running.pid) > self.sockets_before and time.monotonic() < deadline:
            time.sleep(0.1)

    def report_of(self, name: str, kind: str) -> dict[str, Any]:
        """Return the report of a process."""
        report: dict[str, Any] = json.loads(self._file(name, kind).read_text())
        return report


def format_time(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def show_progress(last: Sample, seconds: float, previous_s: float, interval: float) -> None:
    """Show the progress: in one line on a terminal, otherwise with one line per minute."""
    text = f"{format_time(last.at_s)} of {format_time(seconds)}  {last.rss / 1024:.0f} KiB resident"
    text += f"  {last.descriptors} descriptors"
    if sys.stderr.isatty():
        print(f"\r  {text}   ", end="", file=sys.stderr, flush=True)
    elif last.at_s // 60 > previous_s // 60 or previous_s < interval:
        print(f"  {text}", file=sys.stderr, flush=True)


def slope(points: list[tuple[float, float]]) -> float:
    """Return the Theil-Sen estimator: the median of the slopes of all pairs."""
    found = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(points)
        for later in points[index + 1 :]
    ]
    return statistics.median(found) if found else 0.0


def evaluate_memory(results: Results, soak: Soak) -> None:
    """Add the growth of the memory to the results."""
    warm_up_s = max(soak.seconds * WARM_UP, min(WARM_UP_S, soak.seconds / 2))
    evaluated = [s for s in soak.samples if s.at_s >= warm_up_s]
    if len(evaluated) < 2:
        return
    level = statistics.median(s.rss for s in evaluated)
    growth = slope([(s.at_s, s.rss) for s in evaluated]) * soak.seconds
    results.add("growth of the memory", OURS, growth / 1024, "KiB")
    results.add("growth of the memory", ALLOWED, (GROWTH[0] * level + GROWTH[1]) / 1024, "KiB")
    for what in ("rss", "pss", "descriptors"):
        values = [getattr(s, what) for s in soak.samples]
        unit = 1 if what == "descriptors" else 1024
        print(
            f"{what:11} {min(values) // unit} to {max(values) // unit}{'' if unit == 1 else ' KiB'}"
        )


def evaluate_descriptors(results: Results, soak: Soak) -> None:
    """Add the number of descriptors after all clients have ended: the root, and cached files."""
    root = str(soak.workspace.site.root)
    files = sum(name.startswith(root) for name in open_files(soak.running.pid))
    results.add("sockets at the end", OURS, sockets(soak.running.pid), "")
    results.add("sockets at the end", ALLOWED, soak.sockets_before, "")
    results.add("files at the end", OURS, files, "")
    results.add("files at the end", ALLOWED, KEPT_OPEN + 1, "")


def evaluate_clients(results: Results, soak: Soak) -> None:
    """Add the reports of the clients; each error counts as an incorrect response."""
    pause_s = soak.pauses.longest_s if soak.pauses.is_long else 0.0
    results.add("longest pause of the machine", OURS, pause_s, "s")
    for load in LOADS:
        report = soak.report_of(load.name, "json")
        errors = {kind: count for kind, count in report["errors"].items() if count}
        if errors:
            results.skip(load.name, OURS, f"errors: {errors}")
        results.add(load.name, OURS, report["requests"], "correct responses")
        results.add(
            load.name, ALLOWED, report["requests"] + sum(errors.values()), "correct responses"
        )
    for mode in soak.slow_modes:
        report = soak.report_of(f"slow {mode}", "out")
        results.add(f"slow {mode}: closed", OURS, report["closed"], "clients")
        results.add(f"slow {mode}: last close", OURS, report["max_age_s"], "s")
        latest_s = SLOW_LIMIT_S[soak.over] + CLOSE_DELAY_S + pause_s
        results.add(f"slow {mode}: last close", ALLOWED, latest_s, "s")
        if report["failed"]:
            results.skip(f"slow {mode}", OURS, f"{report['failed']} could not connect")
    for name, count in soak.abusive.counts.items():
        results.add(name, OURS, count, "times")
    for failure in soak.abusive.failures:
        results.skip("abusive clients", OURS, failure)


def evaluate_summary(results: Results, output: str) -> None:
    """Add the summary that the server printed at its exit; no request may have failed."""
    ended = re.search(r"ended; (\d+) requests \((\d+) refused, (\d+) failed\)", output)
    if not ended:
        results.skip("summary", OURS, f"no summary: {output}")
    elif int(ended.group(3)):
        results.skip("summary", OURS, f"{ended.group(3)} requests failed in the server")
    else:
        results.add("total requests", OURS, int(ended.group(1)), "")


def set_limits(results: Results, over: Over) -> None:
    """Set the limits."""
    results.limit("growth of the memory", OURS, (ALLOWED,), 1.0)
    results.limit("sockets at the end", OURS, (ALLOWED,), 1.0)
    results.limit("files at the end", OURS, (ALLOWED,), 1.0)
    for load in LOADS:
        results.limit(load.name, ALLOWED, (OURS,), 1.0)
    for mode in SLOW_MODES[over]:
        results.limit(f"slow {mode}: last close", OURS, (ALLOWED,), 1.0)


def settings() -> argparse.Namespace:
    """Parse the options."""
    parser = options(__doc__ or "")
    parser.set_defaults(seconds=3600.0)
    kinds = [over.value for over in Over]
    parser.add_argument("--over", choices=kinds, default="plain", help="what the load is sent over")
    return parser.parse_args()


def with_tls(workspace: Workspace) -> Workspace:
    """Return the workspace of servers that speak TLS."""
    site = workspace.site
    return replace(workspace, site=replace(site, certificate=certificate(site.folder)))


def run(results: Results, seconds: float, over: Over) -> None:
    """Run the server and all loads, and evaluate the results."""
    with open_workspace(Experiment("soak", "", POINTS, (), ()), paths.program()) as opened:
        workspace = opened if over is Over.PLAIN else with_tls(opened)
        changing = write_files(workspace.site.root)
        launch = configure(workspace.program, workspace.site, over)
        server = Server(OURS, True, "", "this checkout", lambda _site: launch)
        with serving(server, workspace.site, workspace.server_core, (SMALL, 305)) as running:
            soak = Soak(workspace, running, seconds, over)
            with contextlib.ExitStack() as stack:
                soak.start(stack, changing)
                soak.monitor()
                soak.finish()
            print(file=sys.stderr)
            evaluate_memory(results, soak)
            evaluate_descriptors(results, soak)
            evaluate_clients(results, soak)
        evaluate_summary(results, process.stderr_tail(workspace.site.folder / f"{OURS}.err"))


def main() -> int:
    """Run the soak test; return 1 if a limit is not met or a part was skipped."""
    chosen = settings()
    over = Over(chosen.over)
    results = Results()
    try:
        run(results, chosen.seconds, over)
    except (ServerFailedError, subprocess.TimeoutExpired) as failure:
        results.skip("run", OURS, str(failure))
    set_limits(results, over)
    status = results.finish(chosen.json)
    return 1 if results.skipped else status


if __name__ == "__main__":
    sys.exit(main())
