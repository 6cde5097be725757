"""Options of a run: injected overhead, a subset of the subjects."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import RUN, known_rows, make_run, servers_left
from gossamer_lab import cli, paths
from gossamer_lab.measuring import cgroup
from gossamer_lab.store import load_run
from manual import options_of_help, options_of_page

pytestmark = pytest.mark.usefixtures("short")


def test_injected_overhead_is_reported(tmp_path: Path) -> None:
    if not cgroup.are_permitted():
        pytest.skip("control groups are not permitted here")
    result = CliRunner().invoke(
        cli.app, [*RUN, str(tmp_path / "out"), "--inject-overhead", "event=10%"]
    )
    assert result.exit_code == 0, result.output
    assert "Injected overhead: event was made to use 10% more CPU time." in result.output
    kept = load_run(str(tmp_path / "out")).results
    assert kept["method"]["injected_overhead"] == {"event": 0.1}
    assert "spinner.py 0.1" in kept["servers"][0]["command"]
    assert servers_left(tmp_path) == []


def test_overhead_for_an_unknown_server_is_refused(tmp_path: Path) -> None:
    if not cgroup.are_permitted():
        pytest.skip("control groups are not permitted here")
    result = CliRunner().invoke(
        cli.app, [*RUN, str(tmp_path / "out"), "--inject-overhead", "evnt=10%"]
    )
    assert result.exit_code == 2
    assert result.stderr.startswith(
        "gossamer lab: --inject-overhead: no server 'evnt'; there are: event"
    )


def test_only_the_requested_subjects_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_ARCHS", "event threads")
    out = tmp_path / "out"
    # A folder without a run is used.
    out.mkdir()
    result = CliRunner().invoke(cli.app, [*RUN, str(out), "--only", "threads"])
    assert result.exit_code == 0, result.output
    assert "measuring threads: 1 point, " in result.output
    kept = load_run(str(out)).results
    assert kept["complete"]
    assert kept["method"]["only"] == ["threads"]
    assert [point["seconds"] for point in kept["points"]] == [kept["method"]["seconds"]]
    assert [known["name"] for known in kept["servers"]] == ["threads"]
    assert kept["absent_peers"] == []


def test_an_unknown_subject_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out"), "--only", "evnt"])
    assert result.exit_code == 2
    assert "no subject 'evnt'; there are: event, " in result.stderr


def test_a_folder_with_a_finished_run_is_refused_and_unchanged(tmp_path: Path) -> None:
    before = make_run(tmp_path / "out", known_rows())
    before.save()
    result = CliRunner().invoke(cli.app, [*RUN, str(before.folder)])
    assert result.exit_code == 2
    assert result.stderr == (
        f"gossamer lab: {before.folder} contains a finished run: choose another folder, or "
        "delete it\n"
    )
    assert load_run(str(before.folder)).raw.equals(before.raw)


def test_a_folder_with_an_unfinished_run_is_refused_and_can_be_resumed(tmp_path: Path) -> None:
    before = make_run(tmp_path / "out", known_rows(), complete=False)
    before.save()
    result = CliRunner().invoke(cli.app, [*RUN, str(before.folder)])
    assert result.exit_code == 2
    assert f"unfinished run: resume it with --resume {before.folder}, or choose" in result.stderr
    assert load_run(str(before.folder)).raw.equals(before.raw)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 2
    assert f"{tmp_path / 'out'} is not a folder" in result.stderr


def test_the_manual_page_has_exactly_the_options_of_help() -> None:
    commands = ("list", "run", "report", "compare", "publish", "doctor")
    shown = [CliRunner().invoke(cli.app, [name, "--help"]).stdout for name in commands]
    page = paths.DOCS / "man" / "gossamer-lab.1"
    assert options_of_page(page) == set().union(*map(options_of_help, shown))
