"""The precision of a run's costs, and extra rounds until it is reached."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import RUN
from gossamer_lab import cli, rounds
from gossamer_lab.notes import notes
from gossamer_lab.precision import precision
from gossamer_lab.report.text import method
from gossamer_lab.rounds import TARGET_PRECISION, required
from gossamer_lab.store import Run, load_run
from simulated import POINTS, QUIET, ROUNDS, SERVERS, Machine, frame
from test_progress import a_plan

MAX_ROUNDS = 2 * ROUNDS
PER_ROUND = len(POINTS) * len(SERVERS)
NOISY = Machine(round_=0.1)


def required_measurements(machine: Machine, rounds_done: int, extra: int = 0) -> int:
    """Return how many measurements are required after this many rounds and `extra` measurements."""
    steps = a_plan().steps * (PER_ROUND * MAX_ROUNDS // 4)
    scale = replace(a_plan().scale, rounds=ROUNDS, max_rounds=MAX_ROUNDS)
    rows = frame(replace(machine, rounds=MAX_ROUNDS), 1, 1).sort("round").to_dicts()
    return required(
        replace(a_plan(), steps=steps, scale=scale), rows[: rounds_done * PER_ROUND + extra]
    )


def test_precision_is_the_standard_deviation_of_costs_between_equal_runs() -> None:
    machine = Machine(round_=0.03, drift=0.05)
    runs = [frame(machine, 1, part) for part in range(60)]
    logs = np.array([run["server_cpu_us_per_request"].log().to_numpy() for run in runs])
    logs = logs.reshape(len(runs), len(POINTS), len(SERVERS), ROUNDS)
    beside = logs - logs.mean(axis=(0, 3), keepdims=True)
    # A deviation that all servers share is not an error of any of them.
    beside = np.sort(beside - np.median(beside, axis=2, keepdims=True), axis=3)
    costs = beside[:, :, :, 1:-1].mean(axis=(1, 3))
    deviation = float(np.median(costs.std(axis=0, ddof=1)))
    estimates = [precision(run) or 0.0 for run in runs[:20]]
    assert np.mean(estimates) == pytest.approx(deviation, rel=0.25)


def test_precision_needs_several_points() -> None:
    assert precision(frame(QUIET, 1, 1).head(PER_ROUND // len(POINTS) * ROUNDS)) is None
    assert precision(frame(QUIET, 1, 1).drop("server_cpu_us_per_request")) is None


def test_a_quiet_machine_needs_the_minimum_number_of_rounds() -> None:
    assert (precision(frame(QUIET, 1, 1)) or 1.0) < TARGET_PRECISION
    assert required_measurements(QUIET, 0) == ROUNDS * PER_ROUND
    assert required_measurements(QUIET, ROUNDS, -1) == ROUNDS * PER_ROUND
    assert required_measurements(QUIET, ROUNDS) == ROUNDS * PER_ROUND


def test_a_noisy_machine_is_measured_in_complete_rounds_up_to_the_maximum() -> None:
    assert (precision(frame(NOISY, 1, 1)) or 0.0) > TARGET_PRECISION
    assert required_measurements(NOISY, 1) == ROUNDS * PER_ROUND
    assert required_measurements(NOISY, ROUNDS) == (ROUNDS + 1) * PER_ROUND
    assert required_measurements(NOISY, ROUNDS, 1) == (ROUNDS + 1) * PER_ROUND
    assert required_measurements(NOISY, MAX_ROUNDS - 1) == MAX_ROUNDS * PER_ROUND
    assert required_measurements(NOISY, MAX_ROUNDS) == MAX_ROUNDS * PER_ROUND


@pytest.fixture
def noisy(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a short run of two to four rounds that needs three."""
    assert short is None
    quick = cli.EXPERIMENTS["quick"]
    scale = replace(quick.scale("smoke"), rounds=2, max_rounds=4)
    monkeypatch.setitem(cli.EXPERIMENTS, "quick", replace(quick, scales=(scale,)))
    monkeypatch.setattr(rounds, "precision", lambda raw: TARGET_PRECISION * 2.5 / raw.height)


@pytest.mark.usefixtures("noisy")
def test_a_run_continues_until_its_target_precision_is_reached(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("precision below target: adding a round") == 1
    run = load_run(str(tmp_path / "out"))
    assert run.raw["round"].to_list() == [1, 2, 3]
    assert run.results["complete"]
    assert (run.results["planned"], run.results["method"]["rounds"]) == (3, 3)


@pytest.mark.usefixtures("noisy")
def test_a_run_is_resumed_in_an_extra_round(tmp_path: Path) -> None:
    CliRunner().invoke(cli.app, [*RUN, str(tmp_path / "out")])
    run = load_run(str(tmp_path / "out"))
    Run(run.folder, run.results | {"complete": False, "measured": 2}, run.raw.head(2)).save()
    result = CliRunner().invoke(cli.app, ["run", "--resume", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "2 of 3 measured before" in " ".join(result.output.split())
    assert load_run(str(tmp_path / "out")).raw["round"].to_list() == [1, 2, 3]


@pytest.mark.usefixtures("short")
def test_more_rounds_may_be_requested(tmp_path: Path) -> None:
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


def test_steal_time_and_precision_are_reported(run: Run) -> None:
    extra = run.results["method"] | {"min_rounds": 5, "max_rounds": 10}
    noisy = {"steal": {"mean": 0.025, "max": 0.4}, "precision": 0.009, "method": extra}
    texts = [note.text for note in notes(run.results | noisy)]
    steal = "steal time was 2.5% of the time of both cores (at most 40%)"
    assert f"Noisy host: {steal}." in texts
    reached = "the standard error is 0.9% for the median subject, not 0.6%"
    assert f"The target precision was not reached: {reached}." in texts
    assert any("Rounds are added, up to 10" in sentence for sentence in method(run.results | noisy))
    quiet = noisy | {"steal": {"mean": 0.002, "max": 0.4}, "precision": 0.004}
    fixed = noisy | {"method": extra | {"min_rounds": 10}}
    for changes, word in ((quiet, "Noisy host"), (quiet, "precision"), (fixed, "precision")):
        assert not any(word in note.text for note in notes(run.results | changes))
    assert not any("Rounds are added" in sentence for sentence in method(run.results | fixed))
