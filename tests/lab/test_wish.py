"""What a run may be asked for, beside its experiment: handicaps, and some subjects alone."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import RUN, servers_left
from gossamer_lab import cgroup, cli
from gossamer_lab.store import load_run

pytestmark = pytest.mark.usefixtures("short")


def test_a_server_with_a_handicap_is_said_to_have_one(tmp_path: Path) -> None:
    if not cgroup.are_permitted():
        pytest.skip("control groups are not permitted here")
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out"), "--handicap", "event=10%"])
    assert result.exit_code == 0, result.output
    assert "Handicap: event was made to need 10% more CPU time than it does." in result.output
    kept = load_run(str(tmp_path / "out")).results
    assert kept["method"]["handicaps"] == {"event": 0.1}
    assert "spinner.py 0.1" in kept["servers"][0]["command"]
    assert servers_left(tmp_path) == []


def test_a_handicap_for_nobody_is_refused(tmp_path: Path) -> None:
    if not cgroup.are_permitted():
        pytest.skip("control groups are not permitted here")
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out"), "--handicap", "evnt=10%"])
    assert result.exit_code == 2
    assert result.stderr.startswith("gossamer lab: no server 'evnt' takes part here: event")


def test_who_is_wanted_alone_is_measured_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ARCHS", "event threads")
    out = tmp_path / "out"
    result = CliRunner().invoke(cli.app, [*RUN, str(out), "--only", "threads"])
    assert result.exit_code == 0, result.output
    assert "measuring threads: 1 point, " in result.output
    kept = load_run(str(out)).results
    assert kept["method"]["only"] == ["threads"]
    assert [point["seconds"] for point in kept["points"]] == [kept["method"]["seconds"]]
    assert [known["name"] for known in kept["servers"]] == ["threads"]
    assert kept["absent_peers"] == []


def test_nobody_known_is_refused_by_name(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out"), "--only", "evnt"])
    assert result.exit_code == 2
    assert "no subject 'evnt' here: event, " in result.stderr
