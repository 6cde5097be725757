"""How well a run knows its costs, and that it goes on for as long as that takes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import RUN
from gossamer_lab import cli, rounds
from gossamer_lab.notes import notes
from gossamer_lab.precision import precision
from gossamer_lab.report.words import method
from gossamer_lab.rounds import PRECISE, needed
from gossamer_lab.store import Run, load_run
from simulated import POINTS, QUIET, ROUNDS, SERVERS, Machine, frame
from test_progress import a_plan

MOST = 2 * ROUNDS
EACH = len(POINTS) * len(SERVERS)
RESTLESS = Machine(round_=0.1)


def measured(machine: Machine, of_rounds: int, further: int = 0) -> int:
    """Return how many measurements a run needs after some rounds, and some more measurements."""
    steps = a_plan().steps * (EACH * MOST // 4)
    scale = replace(a_plan().scale, rounds=ROUNDS, most_rounds=MOST)
    rows = frame(replace(machine, rounds=MOST), 1, 1).sort("round").to_dicts()
    return needed(replace(a_plan(), steps=steps, scale=scale), rows[: of_rounds * EACH + further])


def test_precision_is_how_far_the_costs_of_runs_that_are_alike_lie_apart() -> None:
    machine = Machine(round_=0.03, drift=0.05)
    runs = [frame(machine, 1, part) for part in range(60)]
    logs = np.array([run["server_cpu_us_per_request"].log().to_numpy() for run in runs])
    logs = logs.reshape(len(runs), len(POINTS), len(SERVERS), ROUNDS)
    beside = logs - logs.mean(axis=(0, 3), keepdims=True)
    # What all have in common is no error of any of them.
    beside = np.sort(beside - np.median(beside, axis=2, keepdims=True), axis=3)
    costs = beside[:, :, :, 1:-1].mean(axis=(1, 3))
    apart = float(np.median(costs.std(axis=0, ddof=1)))
    told = [precision(run) or 0.0 for run in runs[:20]]
    assert np.mean(told) == pytest.approx(apart, rel=0.25)


def test_precision_needs_several_points() -> None:
    assert precision(frame(QUIET, 1, 1).head(EACH // len(POINTS) * ROUNDS)) is None
    assert precision(frame(QUIET, 1, 1).drop("server_cpu_us_per_request")) is None


def test_a_quiet_machine_is_measured_in_the_least_rounds() -> None:
    assert (precision(frame(QUIET, 1, 1)) or 1.0) < PRECISE
    assert measured(QUIET, 0) == ROUNDS * EACH
    assert measured(QUIET, ROUNDS, -1) == ROUNDS * EACH
    assert measured(QUIET, ROUNDS) == ROUNDS * EACH


def test_a_restless_machine_is_measured_in_whole_rounds_up_to_the_most() -> None:
    assert (precision(frame(RESTLESS, 1, 1)) or 0.0) > PRECISE
    assert measured(RESTLESS, 1) == ROUNDS * EACH
    assert measured(RESTLESS, ROUNDS) == (ROUNDS + 1) * EACH
    assert measured(RESTLESS, ROUNDS, 1) == (ROUNDS + 1) * EACH
    assert measured(RESTLESS, MOST - 1) == MOST * EACH
    assert measured(RESTLESS, MOST) == MOST * EACH


@pytest.fixture
def restless(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a short run have up to four rounds, and three to be enough."""
    assert short is None
    quick = cli.EXPERIMENTS["quick"]
    scale = replace(quick.scale("smoke"), rounds=2, most_rounds=4)
    monkeypatch.setitem(cli.EXPERIMENTS, "quick", replace(quick, scales=(scale,)))
    monkeypatch.setattr(rounds, "precision", lambda raw: PRECISE * 2.5 / raw.height)


@pytest.mark.usefixtures("restless")
def test_a_run_goes_on_until_costs_are_known_well_enough(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("figures vary more than they should: one more round") == 1
    run = load_run(str(tmp_path / "out"))
    assert run.raw["round"].to_list() == [1, 2, 3]
    assert run.results["complete"]
    assert (run.results["planned"], run.results["method"]["rounds"]) == (3, 3)


@pytest.mark.usefixtures("restless")
def test_a_run_is_resumed_in_a_further_round(tmp_path: Path) -> None:
    CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    run = load_run(str(tmp_path / "out"))
    Run(run.folder, run.results | {"complete": False, "measured": 2}, run.raw.head(2)).save()
    result = CliRunner().invoke(cli.app, ["run", "--resume", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "2 of 3 measured before" in " ".join(result.output.split())
    assert load_run(str(tmp_path / "out")).raw["round"].to_list() == [1, 2, 3]


@pytest.mark.usefixtures("short")
def test_more_rounds_may_be_asked_for(tmp_path: Path) -> None:
    plain, more = tmp_path / "plain", tmp_path / "more"
    CliRunner().invoke(cli.app, [*RUN, str(plain)])
    result = CliRunner().invoke(cli.app, [*RUN, str(more), "--rounds", "3"])
    assert result.exit_code == 0, result.output
    run = load_run(str(more))
    assert run.raw["round"].to_list() == [1, 2, 3]
    assert run.results["method"]["rounds"] == 3
    assert run.results["method"]["seconds"] == load_run(str(plain)).results["method"]["seconds"]
    Run(run.folder, run.results | {"complete": False, "measured": 2}, run.raw.head(2)).save()
    assert CliRunner().invoke(cli.app, ["run", "--resume", str(more)]).exit_code == 0
    assert load_run(str(more)).raw.height == 3


@pytest.mark.usefixtures("short")
def test_one_round_is_too_few(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out"), "--rounds", "1"])
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_what_the_host_took_and_how_well_costs_are_known_is_said(run: Run) -> None:
    further = run.results["method"] | {"least_rounds": 5, "most_rounds": 10}
    restless = {"stolen": {"mean": 0.025, "max": 0.4}, "precision": 0.009, "method": further}
    said = [note.text for note in notes(run.results | restless)]
    took = "the host of this virtual machine took 2.5% of the time of its cores (at worst 40%)"
    assert f"Restless: {took}." in said
    known = "to 0.9% in the median subject, not 0.6%"
    assert f"Costs are known less well than they should be: {known}." in said
    assert any(
        "As many rounds, up to 10" in sentence for sentence in method(run.results | restless)
    )
    quiet = restless | {"stolen": {"mean": 0.002, "max": 0.4}, "precision": 0.004}
    fixed = restless | {"method": further | {"least_rounds": 10}}
    for changes, word in ((quiet, "Restless"), (quiet, "less well"), (fixed, "less well")):
        assert not any(word in note.text for note in notes(run.results | changes))
    assert not any("As many" in sentence for sentence in method(run.results | fixed))
