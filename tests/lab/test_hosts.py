"""Loads by many hosts, with a fake for our program: their start, and the death of a host."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from conftest import FAKE
from gossamer_lab import cli
from gossamer_lab.experiments.manifest import Point
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.hosts import pool
from gossamer_lab.measuring.load import Generator, HostsDiedError, Load, LoadFailedError
from gossamer_lab.measuring.workspace import paths_of
from gossamer_lab.servers.ours import our_servers
from gossamer_lab.servers.server import Site, serving

_HOSTS = 3
_POINT = Point("many", 305, 7, 0, hosts=_HOSTS)
_TIMEOUT_S = 120.0
_RUN = ["run", "quick", "--scale", "smoke", "--seed", "1", "--out"]


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of the processes whose TMPDIR is this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            works_here = f"TMPDIR={folder}".encode() in (entry / "environ").read_bytes().split(
                b"\0"
            )
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if works_here and line:
            found.append(line)
    return found


def await_none(folder: Path) -> None:
    """Wait until no process uses the folder."""
    deadline = time.monotonic() + _TIMEOUT_S
    while processes_of(folder):
        assert time.monotonic() < deadline, processes_of(folder)
        time.sleep(0.05)


@pytest.fixture
def home(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the TMPDIR of all processes of a test."""
    assert fake == FAKE
    monkeypatch.setenv("FAKE_DEADLY", str(tmp_path / "deadly"))
    monkeypatch.setenv("FAKE_MUTE", str(tmp_path / "mute"))
    (tmp_path / "deadly").mkdir()
    return tmp_path


def let_die(home: Path, loads: int) -> None:
    """Make this many loads kill the host that they run on."""
    for i in range(loads):
        (home / "deadly" / str(i)).touch()


@contextlib.contextmanager
def three_hosts(home: Path) -> Iterator[tuple[Generator, Load]]:
    """Yield a generator with three hosts, and a load for a running server."""
    site = Site(home / "site", home, 1000)
    site.root.mkdir()
    (site.root / "page-305.html").write_bytes(b"x" * 305)
    core = min(os.sched_getaffinity(0))
    with pool.open_pool(_HOSTS, "", home) as hosts:
        generator = Generator(FAKE, core, home, lambda: None, paths_of, hosts)
        with serving(our_servers(FAKE)[0], site, core, (_POINT.path, _POINT.size)) as server:
            yield generator, Load(server.url, _POINT, 0.3, keeps_histograms=True)
    await_none(home)


def check_merged(report: dict[str, Any]) -> None:
    """Check the report of a load that three hosts have shared."""
    rows = report["hosts"]
    assert [row["host"] for row in rows] == ["host-01", "host-02", "host-03"]
    assert [row["offered_load"] for row in rows] == [3, 2, 2]
    assert min(row["began_s"] for row in rows) >= 0
    assert report["offered_load"] == 7
    assert report["requests"] == sum(row["requests"] for row in rows) > 0


def test_hosts_begin_after_the_common_start_and_those_that_fail_are_named(home: Path) -> None:
    with three_hosts(home) as (generator, load):
        assert generator.hosts
        before_s = generator.hosts.cpu_s()
        report = generator.run(load)
        # The start of the hosts' processes counts as well; the kernel reports whole ticks.
        assert generator.hosts.cpu_s() - before_s >= report["client_cpu_s"] - 0.05
        check_merged(report)
        assert generator.histograms.read_text().count("Tag=") == 4
        # A load that fails on a host is reported with its error.
        (home / "mute").touch()
        with pytest.raises(LoadFailedError, match=r"^host-01: load .* fake: nothing to say$"):
            generator.run(load)
        (home / "mute").unlink()
        # A host that dies is replaced for the next load.
        let_die(home, 1)
        with pytest.raises(HostsDiedError, match=r"^host-0[123]$"):
            generator.run(replace(load, seconds=1.0))
        assert len(generator.run(load)["hosts"]) == _HOSTS


def test_hosts_of_an_unreachable_cluster_are_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")
    result = CliRunner().invoke(
        cli.app, [*_RUN, str(home / "out"), "--cluster", "tcp://127.0.0.1:1"]
    )
    assert result.exit_code == 1, result.output
    assert "no client hosts" in result.stderr
    await_none(home)


@pytest.fixture
def many(home: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the experiment a load by two hosts, and its report quick."""
    assert undrawn is None
    point = replace(QUICK.points[0], hosts=2)
    scale = replace(QUICK.scale("smoke"), budget_s=1.0, warmup_s=0.0, points=())
    short = replace(QUICK, points=(point,), scales=(scale,), architectures=None)
    monkeypatch.setitem(cli.EXPERIMENTS, "quick", short)
    return home


def test_a_measurement_is_repeated_and_reported_when_a_host_dies(many: Path) -> None:
    let_die(many, 1)
    result = CliRunner().invoke(cli.app, [*_RUN, str(many / "out")])
    assert result.exit_code == 0, result.output
    raw = pl.read_parquet(many / "out" / "raw.parquet")
    died = raw["hosts_died"].to_list()
    assert died[0] in {"host-01", "host-02"}
    assert died[1:] == [None]
    assert raw["requests"].min() > 0
    assert f"1 measurement had to be repeated: {died[0]}" in " ".join(result.output.split())
    hosts = pl.read_parquet(many / "out" / "hosts.parquet")
    assert hosts.select("order", "host").rows() == [
        (order, host) for order in (0, 1) for host in ("host-01", "host-02")
    ]
    assert hosts["response_p90_us"].min() > 0
    await_none(many)


def test_a_measurement_is_invalid_when_hosts_die_each_time(many: Path) -> None:
    let_die(many, 6)
    result = CliRunner().invoke(cli.app, [*_RUN, str(many / "out")])
    assert result.exit_code == 0, result.output
    raw = pl.read_parquet(many / "out" / "raw.parquet")
    assert raw["invalid"][0] == "invalid: client hosts died in each of 3 attempts"
    assert raw["requests"][0] is None
    assert raw["failure"].null_count() == 2
    kept = json.loads((many / "out" / "results.json").read_text())
    assert kept["invalid"]["invalid: client hosts died in each of 3 attempts"] >= 1
    await_none(many)


_LAB = """
import time
from pathlib import Path
from gossamer_lab.measuring import interruption
from gossamer_lab.hosts import pool
with interruption.deferred(), pool.open_pool(2, "", Path({folder!r})):
    Path({folder!r}, "up").touch()
    while True:
        time.sleep(0.02)
        interruption.check()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_hosts_exit_with_the_lab_for_whatever_reason(home: Path, number: signal.Signals) -> None:
    lab = subprocess.Popen((sys.executable, "-c", _LAB.format(folder=str(home))), stderr=-3)
    try:
        deadline = time.monotonic() + _TIMEOUT_S
        while not (home / "up").exists():
            assert lab.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(processes_of(home)) > 3
        lab.send_signal(number)
        lab.wait(_TIMEOUT_S)
    finally:
        lab.kill()
        lab.wait()
    await_none(home)


@contextlib.contextmanager
def cluster(home: Path) -> Iterator[str]:
    """Run a scheduler with two workers; yield its address."""
    scheduler_file, log = home / "scheduler.json", home / "cluster.err"
    python = (sys.executable, "-m")
    quiet = ("--scheduler-file", str(scheduler_file), "--no-dashboard")
    worker = (*python, "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", *quiet)
    commands = (
        (*python, "distributed.cli.dask_scheduler", "--port", "0", *quiet),
        *(worker, worker),
    )
    running = []
    try:
        for command in commands:
            with log.open("ab") as err:
                running.append(subprocess.Popen(command, stdout=err, stderr=err))
        deadline = time.monotonic() + _TIMEOUT_S
        while log.read_text().count("Registered to") < 2:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield json.loads(scheduler_file.read_text())["address"]
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(_TIMEOUT_S)


def test_the_loads_of_any_experiment_are_spread_over_the_hosts_of_a_cluster(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = cli.EXPERIMENTS["quick"]
    point = replace(alone.points[0], hosts=1)
    monkeypatch.setitem(cli.EXPERIMENTS, "quick", replace(alone, points=(point,)))
    with cluster(many) as address:
        arguments = [*_RUN, str(many / "out"), "--cluster", address, "--json"]
        result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["method"]["cluster"] == address
    hosts = pl.read_parquet(many / "out" / "hosts.parquet")
    assert set(hosts["host"]) == {"host-01", "host-02"}
    await_none(many)
