"""Our load generator compared with others: their output, the comparison, the warnings."""

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment, Point
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.measuring import crosscheck
from gossamer_lab.measuring.accounting import CpuTime
from gossamer_lab.measuring.crosscheck import (
    AB,
    CLIENTS,
    H2LOAD,
    WRK,
    Client,
    ClientFailedError,
    cross_check,
    warnings,
)
from gossamer_lab.measuring.load import Generator
from gossamer_lab.measuring.measure import Row
from gossamer_lab.measuring.plan import Plan, RunOptions
from gossamer_lab.measuring.run import RunRequest, run_experiment
from gossamer_lab.measuring.workspace import Workspace, open_workspace, paths_of
from gossamer_lab.report.notes import notes
from gossamer_lab.servers import peers
from gossamer_lab.store import Run, load_run

OUTPUT_OF_WRK = """\
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.75ms  620.11us  12.30ms   93.02%
    Req/Sec    84.40k     2.11k   88.00k    80.00%
  Latency Distribution
     50%  705.00us
     75%    1.02ms
  84819 requests in 1.01s, 40.85MB read
Requests/sec:  83979.35
"""
OUTPUT_OF_AB = """\
Concurrency Level:      64
Time taken for tests:   1.250 seconds
Complete requests:      50000
Failed requests:        0
Time per request:       1.600 [ms] (mean)

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    2   0.9      2       9
Processing:     1   66   8.0     67     130
Waiting:        1   65   8.0     66     129
Total:         10   68   7.1     69     132
"""
OUTPUT_OF_H2LOAD = """\
finished in 1.02s, 17530.00 req/s, 5.62MB/s
requests: 17530 total, 17690 started, 17530 done, 17530 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 17530 2xx, 0 3xx, 0 4xx, 0 5xx
                     min         max         mean         sd        +/- sd
time for request:       45us     55.46ms      8.46ms      8.34ms    79.56%
time for connect:    24.35ms     82.36ms     44.57ms     22.93ms    87.50%
"""

_SEND_REQUESTS = """\
import socket, sys, time
host, _, path = sys.argv[-1].removeprefix("http://").partition("/")
name, _, port = host.partition(":")
began, count = time.monotonic(), 0
while time.monotonic() < began + 0.1:
    with socket.create_connection((name, int(port))) as connection:
        head = f"GET /{path} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n"
        connection.sendall(head.encode())
        while connection.recv(65536):
            pass
    count += 1
seconds = time.monotonic() - began
"""


def client(folder: Path, name: str, output: str) -> None:
    """Install a client that sends requests for a while, and prints its result."""
    path = folder / "peers" / name
    path.write_text(f"#!{sys.executable} -IS\n{_SEND_REQUESTS}print({output})\n")
    path.chmod(0o755)


@pytest.fixture
def clients(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install fakes of wrk and ab beside the fake of ours; a load costs the server 50 ms."""
    used = itertools.count()
    monkeypatch.setenv("FAKE_MAX_S", "0.1")
    monkeypatch.setattr(crosscheck, "tree_cpu", lambda _pid: CpuTime(0.05 * next(used), 0.0))
    client(tmp_path, "wrk", 'f"  {count} requests in {seconds:.2f}s, 1MB read"')
    client(
        tmp_path, "ab", 'f"Time taken for tests: {seconds} seconds\\nComplete requests: {count}"'
    )
    return fake


def checked(program: Path, rounds: int = 1) -> dict[str, Any]:
    """Run a cross-check in a workspace of its own."""
    point = Point("page", 305, 1, 0)
    with open_workspace(Experiment("check", "", (point,), ()), program) as workspace:
        return cross_check((8192, 305), rounds, workspace, generator(workspace))


def generator(workspace: Workspace) -> Generator:
    """Return the load generator for a workspace."""
    folder, core = workspace.site.folder, workspace.client_core
    return Generator(workspace.program, core, folder, lambda: None, paths_of)


def test_the_output_of_other_clients_is_parsed() -> None:
    wrk, ab = WRK.parse(OUTPUT_OF_WRK), AB.parse(OUTPUT_OF_AB)
    h2load = H2LOAD.parse(OUTPUT_OF_H2LOAD)
    assert (wrk.requests, wrk.seconds) == (84819, 1.01)
    assert (ab.requests, ab.seconds) == (50000, 1.25)
    assert (h2load.requests, h2load.seconds) == (17530, 1.02)


def test_times_of_other_clients_have_their_kind_and_are_microseconds() -> None:
    assert WRK.parse(OUTPUT_OF_WRK).times_us == {
        "response_mean_us": 1750.0,
        "response_p50_us": 705.0,
    }
    assert H2LOAD.parse(OUTPUT_OF_H2LOAD).times_us == {"response_mean_us": 8460.0}
    assert AB.parse(OUTPUT_OF_AB).times_us == {"total_mean_us": 68_000.0, "total_p50_us": 69_000.0}


@pytest.mark.parametrize(
    ("known", "text", "reason"),
    [
        (WRK, OUTPUT_OF_WRK + "  Socket errors: connect 0, read 3, write 0, timeout 0\n", "read 3"),
        (WRK, OUTPUT_OF_WRK + "  Non-2xx or 3xx responses: 12\n", "responses: 12"),
        (AB, OUTPUT_OF_AB.replace("requests:        0", "requests:        7"), "requests: 7"),
        (AB, OUTPUT_OF_AB + "Non-2xx responses:      50000\n", "responses: 50000"),
        (H2LOAD, OUTPUT_OF_H2LOAD.replace(" 0 failed", " 10 failed"), "10 failed"),
        (H2LOAD, OUTPUT_OF_H2LOAD.replace(" 0 errored", " 9 errored"), "9 errored"),
        (AB, "Benchmarking 127.0.0.1 (be patient)...", "its output has no result"),
    ],
)
def test_a_client_whose_requests_fail_has_no_result(known: Client, text: str, reason: str) -> None:
    with pytest.raises(ClientFailedError, match=reason):
        known.parse(text)


def test_every_client_is_measured_in_every_round_and_compared_with_ours(clients: Path) -> None:
    found = checked(clients, rounds=2)
    names = ["gossamer load", "wrk", "ab"]
    assert [one["name"] for one in found["clients"]] == 2 * names
    assert [(row["point"], row["round"], row["client"]) for row in found["rows"]] == [
        (f"cross-check-{load}", number, name)
        for load in ("keep", "close")
        for number, order in ((1, names), (2, names[::-1]))
        for name in order
    ]
    ours, wrk, ab, *closing = found["clients"]
    assert ours["server_cpu_ratio"] == pytest.approx(1.0)
    for one in (wrk, ab):
        assert one["failure"] is None
        assert one["throughput_per_s"] > 0
        assert one["client_cpu_us_per_request"] > 0
        cost = one["server_cpu_us_per_request"] / ours["server_cpu_us_per_request"]
        assert one["server_cpu_ratio"] == pytest.approx(cost)
    assert wrk["command"].endswith("wrk -t1 -d1s --latency -c 64 URL/page-305.html")
    assert closing[1]["command"].endswith(
        "wrk -t1 -d3s --latency -H Connection: close -c 1000 URL/page-305.html"
    )
    assert " -k " in ab["command"]
    assert " -k " not in closing[2]["command"]
    assert ours["command"].split()[1:3] == ["load", "URL/page-305.html"]
    assert (found["server"], ours["point"]) == ("event", "305 B keep-alive, 64 conns")
    assert closing[0]["point"] == "305 B conn/request, 1000 conns"
    assert found["absent"] == ["h2load"]
    json.dumps(found)


def test_a_client_that_fails_is_a_warning_and_the_others_are_compared(
    clients: Path, tmp_path: Path
) -> None:
    path = tmp_path / "peers" / "wrk"
    path.write_text("#!/bin/sh\necho 'no such option' >&2\nexit 3\n")
    found = checked(clients)
    assert found["clients"][1]["failure"] == "exited with status 3: no such option"
    assert "wrk failed: exited with status 3: no such option" in found["warnings"]
    assert found["clients"][2]["server_cpu_ratio"] > 0


def test_a_server_that_does_not_start_is_a_warning(
    clients: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_BROKEN", "event")
    found = checked(clients)
    assert found["clients"] == []
    (warning,) = found["warnings"]
    assert warning.startswith("the cross-check failed: event: exited with status 2")
    assert "fake: cannot listen: no such luck" in warning


def test_our_own_failure_is_a_warning(clients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ERRORS", "3")
    found = checked(clients)
    assert found["warnings"] == ["the cross-check failed: event: 3 requests failed"]


def test_without_other_clients_nothing_is_measured(fake: Path) -> None:
    found = checked(fake)
    assert found["absent"] == ["wrk", "ab", "h2load"]
    assert (found["clients"], found["rows"], found["warnings"]) == ([], [], [])


def client_row(name: str, ratio: float | None, failure: str | None = None) -> dict[str, Any]:
    """Return the summary of a client."""
    keep = {"connections": 64, "is_keep_alive": True, "is_limited": False}
    times = {"mean_ratio": 3.0, "median_ratio": 3.0}
    return {"name": name, "server_cpu_ratio": ratio, "failure": failure} | keep | times


def test_only_unexpected_ratios_are_warnings() -> None:
    low, high = crosscheck.EXPECTED_RATIO
    fine = [client_row("gossamer load", 1.0), client_row("wrk", low), client_row("ab", high)]
    assert warnings(fine) == []
    assert warnings([client_row("wrk", 2.0), client_row("ab", 0.5)]) == [
        "a request of wrk cost the server 2.00 times as much as one of ours; "
        "from 0.75 to 1.4 is expected",
        "a request of ab cost the server 0.50 times as much as one of ours; "
        "from 0.75 to 1.4 is expected",
    ]
    assert warnings([client_row("ab", None, "killed")]) == ["ab failed: killed"]
    assert warnings([client_row("ab", None)]) == ["ab cannot be compared with ours, which failed"]


def test_times_count_where_a_limit_makes_the_server_the_bottleneck() -> None:
    close = {"connections": 1000, "is_keep_alive": False, "is_limited": True}
    low, high = crosscheck.EXPECTED_TIME_RATIO
    alike = client_row("wrk", 3.0) | close | {"mean_ratio": low, "median_ratio": high}
    assert warnings([alike, alike | {"median_ratio": None}]) == []
    assert warnings([alike | {"median_ratio": 1.5}]) == [
        "wrk's median time is 1.50 times ours, with 1000 connections; from 0.8 to 1.25 is expected"
    ]
    assert warnings([alike | {"mean_ratio": 0.5, "is_limited": False}]) == []


class SilentObserver:
    """Ignores the progress of a run."""

    def begin(self, _plan: Plan, _done: int) -> None:
        """Ignore it."""

    def start(self) -> None:
        """Ignore it."""

    def tick(self) -> None:
        """Ignore it."""

    def done(self, _row: Row) -> None:
        """Ignore it."""


def test_a_run_stores_its_cross_check_and_a_resumed_one_does_not_repeat_it(
    clients: Path, tmp_path: Path
) -> None:
    scale = replace(QUICK.scale("smoke"), budget_s=1.0, warmup_s=0.0, points=())
    short = replace(QUICK, points=(QUICK.points[0],), scales=(scale,), architectures=None)
    request = RunRequest(short, scale, clients, tmp_path / "out", RunOptions(1))
    run = run_experiment(request, SilentObserver())
    kept = run.results["cross_check"]
    assert len(kept["rows"]) == 6
    Run(run.folder, run.results | {"complete": False, "measured": 1}, run.raw.head(1)).save()
    resumed = run_experiment(
        replace(request, resumed_run=load_run(str(run.folder))), SilentObserver()
    )
    assert resumed.results["complete"]
    assert resumed.results["cross_check"] == kept


def test_the_notes_of_a_run_name_warnings_and_absent_clients(run: Run) -> None:
    check = {"warnings": ["ab failed: killed"], "absent": ["wrk"]}
    texts = [note.text for note in notes(run.results | {"cross_check": check})]
    assert "Cross-check: ab failed: killed." in texts
    assert "The load generator was not checked against wrk. To install: make peers" in texts
    assert not any("checked" in note.text for note in notes(run.results))


@pytest.mark.skipif(not paths.program().is_file(), reason="the program is not built")
def test_the_real_clients_agree_that_requests_were_answered() -> None:
    if not any(paths.peer(known.name) for known in CLIENTS):
        pytest.skip("none of the other clients is installed")
    found = checked(paths.program())
    clients = [(known.name, known is H2LOAD) for known in CLIENTS if paths.peer(known.name)]
    http1 = [name for name, is_http2 in clients if not is_http2]
    http2 = [name for name, is_http2 in clients if is_http2]
    names = [name for group in (http1, http1, http2) if group for name in ("gossamer load", *group)]
    assert [one["name"] for one in found["clients"]] == names
    assert {one["failure"] for one in found["clients"]} == {None}
    assert all(row["requests"] > 0 for row in found["rows"])
    nginx = peers.peer_program("nginx")
    assert found["server"] == ("nginx" if nginx else "event")
