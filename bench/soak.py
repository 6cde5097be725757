"""The web server under full load of every kind for an hour: its memory must not grow.

Samples memory and descriptors every few seconds, and judges the robust slope after a warm-up.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import Figures, options
from pauses import Pauses
from rough import Rough

from gossamer_lab import paths, process
from gossamer_lab.experiment import Experiment, Point
from gossamer_lab.servers.server import Launch, Running, Server, ServerFailedError, Site, serving
from gossamer_lab.workshop import Workshop, page, workshop

OURS = "event"
ALLOWED = "allowed"
POINTS = (Point("305", 305, 1, 0), Point("8192", 8192, 1, 0))
SMALL = POINTS[0].path
HUGE = ("/huge", 64 << 20)
MANY = 400
"""Small files: more than the page cache holds, which is made small."""
LARGE = 64
"""Files that are sent from their descriptors: more than are kept open."""
KEPT_OPEN = 32
OTHER_DESCRIPTORS = 69
"""That the server sets aside, for other things than connections and files."""

SLOW_CLIENTS = 100
SLOW_LIMIT_S = 3.0
LATE_S = 4.0

WARM_UP = 0.2
"""Part of the run that is not judged."""
GROWTH = (0.01, 256 << 10)
"""What the memory may grow by: a part of it, and bytes."""
QUIET_S = 15.0
PATIENCE_S = 600
"""What a load waits for an answer: the machine may stand still meanwhile."""


@dataclass(frozen=True)
class Sample:
    """What the server has at one moment."""

    at_s: float
    rss: int
    pss: int
    descriptors: int


@dataclass(frozen=True)
class Load:
    """One kind of load, made by a process of its own."""

    name: str
    words: tuple[str, ...]
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
SLOW_MODES = ("header", "blank", "body", "read")


def fill(root: Path) -> tuple[Path, ...]:
    """Write the files to serve; return those that are to change."""
    for number in range(MANY):
        (root / f"many-{number}").write_bytes(page(4096 + number))
    for number in range(LARGE):
        (root / f"large-{number}").write_bytes(page((128 << 10) + number))
    (root / "changing").write_bytes(page(2000))
    with (root / HUGE[0].lstrip("/")).open("wb") as huge:
        huge.truncate(HUGE[1])
    return root / "changing", root / "large-0"


def configure(program: Path, site: Site) -> Launch:
    """Serve with small caches and short limits, so that both are met all the time."""
    room = site.open_files - OTHER_DESCRIPTORS - KEPT_OPEN
    limits = f"{SLOW_LIMIT_S:g}s"
    words = (
        *("--arch", OURS, "--workers", "1", "--listen", "127.0.0.1:0"),
        *("--access-log", "/dev/null", "--page-cache", "1m", "--max-connections", str(room)),
        *("--header-timeout", limits, "--rate-grace", limits, "--rate", "4k"),
    )
    return Launch((str(program), "serve", *words, str(site.root)))


def open_files(pid: int) -> list[str]:
    """Return what each descriptor of a process names."""
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return found


def sockets(pid: int) -> int:
    """Return how many sockets a process has."""
    return sum(name.startswith("socket:") for name in open_files(pid))


def sample(pid: int, began: float) -> Sample:
    """Look at the server."""
    kib: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value, _unit = line.split()
        kib[name] = int(value)
    return Sample(
        time.monotonic() - began, kib["Rss:"] << 10, kib["Pss:"] << 10, len(open_files(pid))
    )


class Soak:
    """One run: its processes, and what was seen."""

    def __init__(self, shop: Workshop, running: Running, seconds: float) -> None:
        """Nothing is started yet."""
        self.shop = shop
        self.running = running
        self.seconds = seconds
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.rough = Rough(running.url, SMALL, HUGE[0])
        self.samples: list[Sample] = []
        self.began = 0.0
        self.pauses = Pauses()
        self.sockets_before = sockets(running.pid)

    def _file(self, name: str, kind: str) -> Path:
        return self.shop.site.folder / f"{name.replace(' ', '-')}.{kind}"

    def _start(self, stack: contextlib.ExitStack, name: str, argv: tuple[str, ...]) -> None:
        output, errors = self._file(name, "out"), self._file(name, "err")
        started = process.started(argv, self.shop.client_core, output, errors)
        self.processes[name] = stack.enter_context(started)

    def start(self, stack: contextlib.ExitStack, changing: tuple[Path, ...]) -> None:
        """Start every kind of client. The threads come last: processes are started from one."""
        url = self.running.url
        self.began = time.monotonic()
        for load in LOADS:
            words = ("-d", f"{self.seconds:g}", "--timeout", str(PATIENCE_S))
            words += ("--json", str(self._file(load.name, "json")))
            urls = tuple(url + target for target in load.targets)
            program = str(self.shop.program)
            self._start(stack, load.name, (program, "load", *load.words, *words, *urls))
        program = str(paths.program().parent / "bench/clients/slow_clients")
        port = str(urllib.parse.urlsplit(url).port)
        for mode in SLOW_MODES:
            words = (mode, port, HUGE[0], str(SLOW_CLIENTS), f"{2 * self.seconds + 60:.0f}")
            self._start(stack, f"slow {mode}", (program, *words, "again"))
        self.rough.start(changing)
        stack.callback(self.rough.end)

    def watch(self) -> None:
        """Take samples until the time is up; ServerFailedError if a client ended by itself."""
        interval = min(max(self.seconds / 300, 0.5), 5.0)
        self.pauses = Pauses()
        while (passed := time.monotonic() - self.began) < self.seconds - 2 * interval:
            time.sleep(interval)
            self.pauses.tick(interval)
            self.samples.append(sample(self.running.pid, self.began))
            tell(self.samples[-1], self.seconds, passed, interval)
            for name, child in self.processes.items():
                if child.poll() is not None:
                    words = process.last_words(self._file(name, "err"))
                    raise ServerFailedError(f"{name} ended before its time: {words}")

    def finish(self) -> None:
        """Wait for the loads, end the slow clients, and wait until the server has only itself."""
        self.rough.end()
        for load in LOADS:
            self.processes[load.name].wait(timeout=60)
        for mode in SLOW_MODES:
            self.processes[f"slow {mode}"].terminate()
            self.processes[f"slow {mode}"].wait(timeout=10)
        deadline = time.monotonic() + QUIET_S
        while sockets(self.running.pid) > self.sockets_before and time.monotonic() < deadline:
            time.sleep(0.1)

    def report_of(self, name: str, kind: str) -> dict[str, Any]:
        """Return what a process has reported."""
        report: dict[str, Any] = json.loads(self._file(name, kind).read_text())
        return report


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def tell(last: Sample, seconds: float, before_s: float, interval: float) -> None:
    """Show how the run gets on: a line that stays in place, or one every minute."""
    text = f"{clock(last.at_s)} of {clock(seconds)}  {last.rss / 1024:.0f} KiB resident"
    text += f"  {last.descriptors} descriptors"
    if sys.stderr.isatty():
        print(f"\r  {text}   ", end="", file=sys.stderr, flush=True)
    elif last.at_s // 60 > before_s // 60 or before_s < interval:
        print(f"  {text}", file=sys.stderr, flush=True)


def slope(points: list[tuple[float, float]]) -> float:
    """Return the median of the slopes of all pairs, after Theil and Sen."""
    found = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(points)
        for later in points[index + 1 :]
    ]
    return statistics.median(found) if found else 0.0


def curve(values: list[int], width: int = 60) -> str:
    """Draw values in one line of text, from their least to their most."""
    least, most = min(values), max(values)
    height = max(most - least, 1)
    count = min(width, len(values))
    parts = [
        values[column * len(values) // count : (column + 1) * len(values) // count]
        for column in range(count)
    ]
    return "".join("▁▂▃▄▅▆▇█"[int((statistics.fmean(p) - least) / height * 7.99)] for p in parts)


def judge_memory(figures: Figures, soak: Soak) -> None:
    """Add the curve in tenths, and what the memory grew by."""
    seconds = soak.seconds
    for tenth in range(10):
        part = [s for s in soak.samples if int(s.at_s / seconds * 10) == tenth]
        if part:
            name = f"to {clock(seconds * (tenth + 1) / 10)}:"
            for what, unit in (("rss", "KiB"), ("pss", "KiB"), ("descriptors", "")):
                found = statistics.median(getattr(s, what) for s in part)
                figures.add(f"{name} {what}", OURS, found / (1024 if unit else 1), unit)
    judged = [s for s in soak.samples if s.at_s >= seconds * WARM_UP]
    if len(judged) < 2:
        return
    level = statistics.median(s.rss for s in judged)
    growth = slope([(s.at_s, s.rss) for s in judged]) * seconds
    figures.add("growth of the memory", OURS, growth / 1024, "KiB")
    figures.add("growth of the memory", ALLOWED, (GROWTH[0] * level + GROWTH[1]) / 1024, "KiB")
    for what in ("rss", "pss", "descriptors"):
        values = [getattr(s, what) for s in soak.samples]
        unit = 1 if what == "descriptors" else 1024
        ends = f"{min(values) // unit} to {max(values) // unit}"
        print(f"{what:11} {curve(values)} {ends}{'' if unit == 1 else ' KiB'}")


def judge_descriptors(figures: Figures, soak: Soak) -> None:
    """Add what is still open now that all clients are gone: the root, and what the cache keeps."""
    root = str(soak.shop.site.root)
    files = sum(name.startswith(root) for name in open_files(soak.running.pid))
    figures.add("sockets at the end", OURS, sockets(soak.running.pid), "")
    figures.add("sockets at the end", ALLOWED, soak.sockets_before, "")
    figures.add("files at the end", OURS, files, "")
    figures.add("files at the end", ALLOWED, KEPT_OPEN + 1, "")


def judge_clients(figures: Figures, soak: Soak) -> None:
    """Add what the clients saw; errors count as answers that were not right."""
    pause_s = soak.pauses.longest_s if soak.pauses.is_long else 0.0
    figures.add("longest pause of the machine", OURS, pause_s, "s")
    for load in LOADS:
        report = soak.report_of(load.name, "json")
        errors = {kind: count for kind, count in report["errors"].items() if count}
        if errors:
            figures.miss(load.name, OURS, f"errors: {errors}")
        figures.add(load.name, OURS, report["requests"], "right answers")
        figures.add(load.name, ALLOWED, report["requests"] + sum(errors.values()), "right answers")
    for mode in SLOW_MODES:
        report = soak.report_of(f"slow {mode}", "out")
        figures.add(f"slow {mode}: closed", OURS, report["closed"], "clients")
        figures.add(f"slow {mode}: last close", OURS, report["slowest_s"], "s")
        latest_s = SLOW_LIMIT_S + LATE_S + pause_s
        figures.add(f"slow {mode}: last close", ALLOWED, latest_s, "s")
        if report["failed"]:
            figures.miss(f"slow {mode}", OURS, f"{report['failed']} could not connect")
    for name, count in soak.rough.done.items():
        figures.add(name, OURS, count, "times")
    for complaint in soak.rough.complaints:
        figures.miss("rough clients", OURS, complaint)


def judge_end(figures: Figures, words: str) -> None:
    """Add what the server said when it ended: it failed to answer nothing."""
    ended = re.search(r"ended; (\d+) requests \((\d+) refused, (\d+) failed\)", words)
    if not ended:
        figures.miss("the end", OURS, f"no account: {words}")
    elif int(ended.group(3)):
        figures.miss("the end", OURS, f"{ended.group(3)} answers were failures of the server")
    else:
        figures.add("requests in all", OURS, int(ended.group(1)), "")


def set_limits(figures: Figures) -> None:
    """State what is to be reached."""
    figures.limit("growth of the memory", OURS, (ALLOWED,), 1.0)
    figures.limit("sockets at the end", OURS, (ALLOWED,), 1.0)
    figures.limit("files at the end", OURS, (ALLOWED,), 1.0)
    for load in LOADS:
        figures.limit(load.name, ALLOWED, (OURS,), 1.0)
    for mode in SLOW_MODES:
        figures.limit(f"slow {mode}: last close", OURS, (ALLOWED,), 1.0)


def settings() -> argparse.Namespace:
    """Read the options."""
    parser = options(__doc__ or "")
    parser.set_defaults(seconds=3600.0)
    return parser.parse_args()


def run(figures: Figures, seconds: float) -> None:
    """Serve, put under load, and judge."""
    with workshop(Experiment("soak", "", POINTS, (), ()), paths.program()) as shop:
        changing = fill(shop.site.root)
        launch = configure(shop.program, shop.site)
        server = Server(OURS, True, "", "this checkout", lambda _site: launch)
        with serving(server, shop.site, shop.server_core, (SMALL, 305)) as running:
            soak = Soak(shop, running, seconds)
            with contextlib.ExitStack() as stack:
                soak.start(stack, changing)
                soak.watch()
                soak.finish()
            print(file=sys.stderr)
            judge_memory(figures, soak)
            judge_descriptors(figures, soak)
            judge_clients(figures, soak)
        judge_end(figures, process.last_words(shop.site.folder / f"{OURS}.err"))


def main() -> int:
    """Soak; 1 if a limit is not kept or anything was not as it should be."""
    chosen = settings()
    figures = Figures()
    try:
        run(figures, chosen.seconds)
    except (ServerFailedError, subprocess.TimeoutExpired) as failure:
        figures.miss("the run", OURS, str(failure))
    set_limits(figures)
    status = figures.finish(chosen.json)
    return 1 if figures.absent else status


if __name__ == "__main__":
    sys.exit(main())
