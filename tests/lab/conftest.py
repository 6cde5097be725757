"""Fixtures of the lab's tests: runs with known values, and a fake of our program."""

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gossamer_lab import cli
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.measuring.accounting import CpuTime
from gossamer_lab.measuring.measure import Row, load_metrics
from gossamer_lab.measuring.usage import Usage
from gossamer_lab.report import page
from gossamer_lab.report.derived import with_derived
from gossamer_lab.store import FORMAT, Run, raw_frame

RUN = ["run", "quick", "--scale", "smoke", "--seed", "1", "--out"]
"""Arguments of a short run, except its folder."""

FAKE = Path(__file__).with_name("fake_gossamer.py")

POINTS = (("305-keep-16", 16, 0), ("305-close-128", 128, 1))
SERVERS = (("event", True), ("nginx", False), ("h2o", False))

METHOD: dict[str, Any] = {
    "scale": "smoke",
    "rounds": 2,
    "seconds": 1.0,
    "warmup_s": 0.1,
    "drop": 0,
    "repeats": 1,
    "realtime": True,
    "seed": 7,
    "injected_overhead": {},
    "exact_cpu": True,
    "server_core": 0,
    "client_core": 1,
    "shared_core": False,
    "load_command": "gossamer load URL",
}

MACHINE: dict[str, Any] = {
    "processor": "A processor",
    "cores": 2,
    "cores_allowed": [0, 1],
    "virtual": True,
    "governor": None,
    "memory": "1000 kB",
    "kernel": "Linux 6.1 x86_64",
    "system": "Debian",
    "load_average": [0.1, 0.2, 0.3],
    "sysctls": {"net.core.somaxconn": "4096"},
    "limits": {"open files": "1024 / 20000"},
    "source": {"commit": "0123456789abcdef", "dirty": True, "program_sha256": "ab" * 32},
}


def report(requests: int, seconds: float, errors: int = 0) -> dict[str, Any]:
    """Return a report of the load generator, with a median of 100 µs."""
    times = {"mean": 120.0, "p50": 100.0, "p75": 150.0, "p90": 200.0}
    times |= {"p99": 400.0, "p999": 900.0, "max": 2000.0}
    return {
        "requests": requests,
        "errors": {"timeout": errors, "status": 0},
        "seconds": seconds,
        "throughput_per_s": requests / seconds,
        "bytes_per_s": 500.0 * requests / seconds,
        "offered_load": 16,
        "measured_load": 15.9,
        "response_us": times,
        "connect_us": times,
        "first_byte_us": times,
        "total_us": times | {"count": requests},
        "waiting_to_connect": {"count": 0, "mean_us": 0.0, "longest_us": 0.0},
        "waiting_for_response": {"count": 16, "mean_us": 45.0, "longest_us": 90.0},
        "client_cpu_s": 0.5 * seconds,
    }


def row(order: int, place: tuple[int, str, str], cpu_us: float, errors: int = 0) -> Row:
    """Return a raw row of 100,000 requests in a second; `place` is round, point and server."""
    cpu = CpuTime(user_s=cpu_us * 0.02, system_s=cpu_us * 0.08)
    number, point, server = place
    head = {
        "order": order,
        "round": number,
        "point": point,
        "server": server,
        "ours": dict(SERVERS)[server],
        "started": "2026-01-02T03:04:05.000+00:00",
        "failure": None,
    }
    return head | load_metrics(
        report(100_000, 1.0, errors), Usage(cpu, core_s=cpu.total_s, wall_s=1.0)
    )


def make_run(folder: Path, rows: list[Row], **changes: object) -> Run:
    """Return a run with these rows and otherwise realistic results."""
    results: dict[str, Any] = {
        "format": FORMAT,
        "experiment": "quick",
        "summary": "What is measured",
        "started": "2026-01-02T03:04:05+00:00",
        "resumed": None,
        "finished": "2026-01-02T03:05:05+00:00",
        "measured": len(rows),
        "planned": len(rows),
        "complete": True,
        "method": dict(METHOD),
        "points": [
            {
                "key": key,
                "size": 305,
                "connections": connections,
                "requests_per_connection": each,
                "kind": "305 B conn/request" if each else "305 B keep-alive",
                "label": f"305 B {'conn/request' if each else 'keep-alive'}, {connections} conns",
            }
            for key, connections, each in POINTS
        ],
        "servers": [
            {
                "name": name,
                "ours": ours,
                "summary": f"what {name} is",
                "version": "1.0",
                "command": f"{name} -c file",
                "config": f'server "{name}" <b>&amp;</b> </script>',
            }
            for name, ours in SERVERS
        ],
        "skipped_points": [],
        "skipped": [],
        "absent_peers": [],
        "has_loads": True,
        "has_programs": False,
        "cpu_limit": {"target": None, "measured": None, "is_active": False},
        "machine": MACHINE,
    }
    return with_derived(Run(folder, results | changes, raw_frame(rows)), QUICK)


def known_rows() -> list[Row]:
    """Return two rounds: event needs 4 and 9 µs at the first point, nginx 8 and 8, h2o 5 and 20."""
    costs = {"event": (4.0, 9.0), "nginx": (8.0, 8.0), "h2o": (5.0, 20.0)}
    return [
        row(0, (number, point, server), costs[server][number - 1])
        for number in (1, 2)
        for point, _, _ in POINTS
        for server, _ in SERVERS
    ]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run with known values."""
    return make_run(tmp_path / "run", known_rows())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Replace our program by a fake, with no peers installed."""
    monkeypatch.setenv("GOSSAMER_PROGRAM", str(FAKE))
    # `env python3` may find a script that looks for a Python, which takes longer than the fake.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    peers = tmp_path / "peers"
    peers.mkdir()
    monkeypatch.setenv("GOSSAMER_PEERS", str(peers))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return FAKE


SHORT = replace(
    QUICK,
    points=(QUICK.points[0],),
    scales=(replace(QUICK.scale("smoke"), budget_s=1.0, warmup_s=0.0, points=()),),
    architectures=None,
)


def draw_nothing(patch: pytest.MonkeyPatch) -> None:
    """Leave the charts out of reports: they take seconds, most of them for a browser's engine."""
    patch.setattr(page, "_charts_and_tables", lambda _run, _experiment: ([], {}))
    patch.setattr(page.vlc, "javascript_bundle", str)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the charts out of the reports of a test that does not look at them."""
    draw_nothing(monkeypatch)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, fake: Path, undrawn: None) -> None:
    """Make the experiment short, with fakes of all programs, and its report quick."""
    assert (fake, undrawn) == (FAKE, None)
    monkeypatch.setenv("FAKE_MAX_S", "0.1")
    monkeypatch.setitem(cli.EXPERIMENTS, "quick", SHORT)


def servers_left(folder: Path) -> list[str]:
    """Return the command lines of processes that still use files of that folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(FAKE) in line and str(folder) in line:
            found.append(line)
    return found
