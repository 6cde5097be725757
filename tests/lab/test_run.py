"""Whole runs through the command line, with fakes for our program and for peers."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from conftest import FAKE, RUN, known_rows, make_run, servers_left
from gossamer_lab import cli
from gossamer_lab.servers import server
from gossamer_lab.store import Run, load_run

pytestmark = pytest.mark.usefixtures("short")


def peer(name: str, script: str) -> None:
    """Install a peer of that name."""
    path = Path(os.environ["GOSSAMER_PEERS"]) / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)


def test_a_run_without_peers_measures_ours_and_explains_how_to_add_them(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "Not installed: nginx, lighttpd, h2o. To install: make peers" in result.output
    assert f"Report: {tmp_path / 'out' / 'report.html'}" in result.output
    assert "[2/2, 0:00 left] event: " in result.output
    raw = pl.read_parquet(tmp_path / "out" / "raw.parquet")
    assert raw.height == 2
    assert raw["requests"].min() > 0
    assert raw["failure"].null_count() == 2
    assert servers_left(tmp_path) == []
    # The histograms of every load are stored.
    assert raw["histograms"].to_list() == ["histograms/0000.hlog", "histograms/0001.hlog"]
    for name in raw["histograms"]:
        assert (tmp_path / "out" / name).read_text().startswith("#[Histogram log")
    # The report is regenerated from the stored run.
    kept = (tmp_path / "out" / "results.json").read_text()
    (tmp_path / "out" / "report.html").unlink()
    result = CliRunner().invoke(cli.app, ["report", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "report.html").exists()
    assert (tmp_path / "out" / "results.json").read_text() == kept


def test_with_json_standard_output_is_only_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out"), "--json"])
    printed = json.loads(result.stdout)
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert printed.pop("report") == str(tmp_path / "out" / "report.html")
    assert printed == kept
    assert kept["complete"]
    assert kept["headline"].startswith("Smoke run: ")
    assert [cell["server"] for cell in kept["cells"]] == ["event"]
    assert kept["method"]["seed"] == 1
    assert kept["machine"]["sysctls"]["net.core.somaxconn"].isdigit()
    assert len(kept["machine"]["source"]["program_sha256"]) == 64


def test_every_architecture_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ARCHS", "event threads")
    CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [(known["name"], known["summary"]) for known in kept["servers"]] == [
        ("event", "a fake of event"),
        ("threads", "a fake of threads"),
    ]


def test_a_peer_that_fails_is_reported_with_its_error_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_READY_S", 5.0)
    peer("nginx", 'echo "nginx: [emerg] unknown directive" >&2\nexit 1\n')
    peer("h2o", '[ "$1" = -v ] || { sleep 60 & exec sleep 60; }\n')
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    reasons = {skipped["name"]: skipped["reason"] for skipped in kept["skipped"]}
    assert reasons["nginx"] == (
        "exited with status 1 before its first response\nnginx: [emerg] unknown directive"
    )
    assert reasons["h2o"] == "no response within 5 s"
    assert [known["name"] for known in kept["servers"]] == ["event"]
    assert kept["absent_peers"] == ["lighttpd"]
    assert "unknown directive" in (tmp_path / "out" / "report.html").read_text()


def test_a_peer_is_measured_beside_ours(tmp_path: Path) -> None:
    peer(
        "lighttpd",
        f'[ "$1" = -v ] && echo lighttpd/9.9 && exit\n'
        'port=$(sed -n "s/server.port = //p" "$3")\n'
        """root=$(sed -n 's/server.document-root = "\\(.*\\)"/\\1/p' "$3")\n"""
        f'exec {sys.executable} -m http.server -b 127.0.0.1 -d "$root" "$port"\n',
    )
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    theirs = kept["servers"][1]
    assert (theirs["name"], theirs["version"]) == ("lighttpd", "lighttpd/9.9")
    assert 'server.event-handler = "linux-sysepoll"' in theirs["config"]
    assert theirs["command"].split()[1:3] == ["-D", "-f"]
    assert len(kept["cells"]) == 2


def test_our_architecture_that_does_not_start_fails_the_run_after_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ARCHS", "event threads")
    monkeypatch.setenv("FAKE_BROKEN", "threads")
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "fake: cannot listen: no such luck" in result.output
    assert (tmp_path / "out" / "report.html").exists()


def test_errors_of_the_load_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ERRORS", "3")
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert "6 errors!" in result.output
    raw = pl.read_parquet(tmp_path / "out" / "raw.parquet")
    assert raw["errors_by_kind"].to_list() == ["timeout: 3"] * 2


def test_a_load_without_a_report_is_a_failed_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MUTE", str(tmp_path))
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "2 failed!" in result.output
    raw = pl.read_parquet(tmp_path / "out" / "raw.parquet")
    assert raw["failure"][0] == "load exited with status 1 and left no report: fake: nothing to say"
    assert servers_left(tmp_path) == []


def test_an_invalid_load_is_a_failed_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VOID", "the client was the limit")
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 1
    raw = pl.read_parquet(tmp_path / "out" / "raw.parquet")
    assert raw["failure"][0] == "load is invalid: the client was the limit"


def test_a_gossamer_older_than_the_lab_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OLD", "waiting_to_connect waiting_for_response")
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 1
    raw = pl.read_parquet(tmp_path / "out" / "raw.parquet")
    reason = "load reports no waiting_to_connect: this gossamer is older than the lab; rebuild it"
    assert raw["failure"][0] == reason


def interrupted_run(folder: Path, *options: str) -> Path:
    """Run, then remove the last measurement, as if the run had been interrupted before it."""
    CliRunner().invoke(cli.app, [*RUN, str(folder), *options])
    run = load_run(str(folder))
    Run(folder, run.results | {"complete": False, "measured": 1}, run.raw.head(1)).save()
    return folder


def test_a_resumed_run_measures_the_rest_and_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ARCHS", "event threads")
    folder = interrupted_run(tmp_path / "out", "--only", "event")
    before = load_run(str(folder)).raw
    result = CliRunner().invoke(cli.app, ["run", "--resume", str(folder)])
    assert result.exit_code == 0, result.output
    assert "1 of 2 measured before" in " ".join(result.output.split())
    after = load_run(str(folder))
    assert after.results["complete"]
    assert after.results["resumed"]
    assert after.results["method"]["seed"] == 1
    assert after.raw["order"].to_list() == [0, 1]
    assert set(after.raw["server"]) == {"event"}
    assert after.raw.head(1).equals(before)


def test_a_run_of_another_program_is_not_resumed(tmp_path: Path) -> None:
    folder = interrupted_run(tmp_path / "out")
    run = load_run(str(folder))
    run.results["machine"]["source"]["program_sha256"] = "00"
    run.save()
    result = CliRunner().invoke(cli.app, ["run", "--resume", str(folder)])
    assert result.exit_code == 2
    assert "the program differs from the one that was measured" in result.stderr
    assert load_run(str(folder)).raw.height == 1


def test_a_run_with_other_servers_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = interrupted_run(tmp_path / "out")
    monkeypatch.setenv("FAKE_ARCHS", "threads")
    result = CliRunner().invoke(cli.app, ["run", "--resume", str(folder)])
    assert result.exit_code == 2
    assert "the servers or the limits of this machine have changed" in result.stderr


def test_an_incomplete_run_can_be_compared(tmp_path: Path) -> None:
    CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    run = load_run(str(tmp_path / "out"))
    derived = (
        "cells",
        "interference",
        "steal",
        "precision",
        "invalid",
        "hosts_died",
        "verdicts",
        "series",
    )
    bare = {name: value for name, value in run.results.items() if name not in derived}
    (tmp_path / "broken").mkdir()
    Run(tmp_path / "broken", bare | {"complete": False}, run.raw).save()
    arguments = ["compare", str(tmp_path / "out"), str(tmp_path / "broken"), "--json"]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    changes = json.loads(result.output)["changes"]
    assert [change["ratio"] for change in changes] == [1.0] * len(changes)


def test_a_complete_run_is_not_resumed(tmp_path: Path) -> None:
    make_run(tmp_path / "out", known_rows()).save()
    result = CliRunner().invoke(cli.app, ["run", "--resume", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "is complete" in result.stderr


def test_two_runs_are_compared(tmp_path: Path) -> None:
    make_run(tmp_path / "one", known_rows()).save()
    slower = [row | {"server_cpu_us_per_request": 1e6} for row in known_rows()]
    steady = [
        row if row["server"] != "event" else other
        for row, other in zip(
            [known | {"server_cpu_us_per_request": 5.0} for known in known_rows()],
            slower,
            strict=True,
        )
    ]
    make_run(tmp_path / "other", steady).save()
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    alike = CliRunner().invoke(cli.app, ["compare", one, one])
    assert alike.exit_code == 0, alike.output
    assert "0 of 6 metrics changed significantly" in " ".join(alike.output.split())
    result = CliRunner().invoke(cli.app, ["compare", one, other, "--json"])
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert {change["server"] for change in found["changes"] if change["significant"]} == {"event"}
    assert found["claims"] == []


def test_doctor_reports_what_is_missing() -> None:
    result = CliRunner().invoke(cli.app, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    found = {finding["name"]: finding for finding in json.loads(result.stdout)}
    assert found["nginx"]["state"] == "missing"
    assert found["nginx"]["detail"] == "to install: make peers"
    assert found["gossamer"] == {"name": "gossamer", "state": "ok", "detail": str(FAKE)}
    assert {"noise", "cores", "open files", "accept queue", "CPU limit"} <= set(found)
    assert "missing" in CliRunner().invoke(cli.app, ["doctor"]).output


_SHORT_LAB = f"""
import sys
sys.path.insert(0, {str(FAKE.parent)!r})
import conftest, pytest
conftest.cli.EXPERIMENTS["quick"] = conftest.SHORT
conftest.draw_nothing(pytest.MonkeyPatch())
conftest.cli.main()
"""


@contextlib.contextmanager
def running_lab(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the lab as a process; yield it during its second measurement, which does not end."""
    errors = folder / "err"
    with errors.open("wb") as err:
        lab = subprocess.Popen(
            (sys.executable, "-c", _SHORT_LAB, *RUN, str(folder / "out")),
            env=os.environ | {"FAKE_HELD": str(folder / "held")},
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            # A shell may have started these tests in the background, with SIGINT ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
    try:
        deadline = time.monotonic() + 60
        while b"[1/" not in errors.read_bytes():
            assert time.monotonic() < deadline, errors.read_text()
            time.sleep(0.02)
        yield lab
    finally:
        lab.kill()
        lab.wait()


# Other signals are alike: test_interruption.py.
def test_an_interrupted_run_leaves_no_process_and_stores_its_data(tmp_path: Path) -> None:
    with running_lab(tmp_path) as lab:
        lab.send_signal(signal.SIGINT)
        output = lab.communicate(timeout=60)[0]
    assert lab.returncode == 130
    assert "Interrupted: " in output
    kept = json.loads((tmp_path / "out" / "results.json").read_text())
    assert not kept["complete"]
    assert pl.read_parquet(tmp_path / "out" / "raw.parquet").height == kept["measured"] >= 1
    assert servers_left(tmp_path) == []


def test_a_killed_run_loses_no_data_and_is_resumed(tmp_path: Path) -> None:
    with running_lab(tmp_path) as lab:
        lab.kill()
        lab.wait()
    before = load_run(str(tmp_path / "out"))
    # The rows are written first; the process may have been killed before it wrote the count.
    assert before.raw.height - before.results["measured"] in {0, 1}
    assert before.results["measured"] >= 1
    done = CliRunner().invoke(cli.app, ["run", "--resume", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    after = load_run(str(tmp_path / "out"))
    assert after.results["complete"]
    assert after.raw.head(before.raw.height).equals(before.raw)
    assert servers_left(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "slow"], "no experiment 'slow'; there are: quick"),
        (["run", "quick", "--scale", "huge"], "no scale 'huge' of quick; there are: smoke"),
        (
            ["run", "quick", "--inject-overhead", "event"],
            "--inject-overhead takes NAME=PERCENT%, not 'event'",
        ),
        (["run"], "run takes either the name of an experiment or --resume RUN"),
        (["run", "--resume", "nothing-of-that-name"], "no run 'nothing-of-that-name'"),
        (["compare", "nothing-of-that-name", "latest"], "no run 'nothing-of-that-name'"),
        (["report", "nothing-of-that-name"], "no run 'nothing-of-that-name'"),
    ],
)
def test_a_wrong_command_gives_one_line_and_status_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"gossamer lab: {message}")
    assert result.stderr.count("\n") == 1


def test_a_missing_program_gives_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSSAMER_PROGRAM", str(tmp_path / "absent"))
    result = CliRunner().invoke(cli.app, ["run", "quick", "--scale", "smoke"])
    assert result.exit_code == 2
    assert "build it, or set GOSSAMER_PROGRAM" in result.stderr


def test_experiments_are_listed() -> None:
    assert "quick" in CliRunner().invoke(cli.app, ["list"]).stdout
    listed = json.loads(CliRunner().invoke(cli.app, ["list", "--json"]).stdout)
    assert listed[0]["name"] == "quick"
