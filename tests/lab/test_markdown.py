"""The verdicts of a run as a Markdown table."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from conftest import known_rows, make_run
from gossamer_lab import cli
from gossamer_lab.experiments.are_events_fast import ARE_EVENTS_FAST
from gossamer_lab.report.markdown import verdict_table
from gossamer_lab.report.page import write_report
from gossamer_lab.report.table import show

_DECIDED = {
    "claim": "This | is so",
    "section": "section 1",
    "rule": "holds if it is",
    "rounds": 4,
    "published": "about\nequal",
    "reading": "within a tenth",
    "uncorrected": None,
    "verdict": "holds",
    "reason": "expected: at most 1",
    "quantity": "slope of a / slope of b",
    "value": 0.5,
    "low": 0.4,
    "high": 0.6,
}


def test_each_claim_is_a_row_with_its_value_or_the_reason_for_none(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", known_rows(), experiment="are-events-fast")
    no_value = {"value": None, "verdict": "inconclusive", "reason": "b is not here"}
    run.results["verdicts"] = [_DECIDED, _DECIDED | no_value]
    headline, above, intro, empty, _head, line, first, second, _empty, misses = verdict_table(
        run.results, ARE_EVENTS_FAST
    ).split("\n")
    assert headline.startswith("**Smoke run: it only tests that everything works")
    assert above == ""
    assert intro.startswith("`gossamer lab run are-events-fast --scale ")
    assert "Kerneis" in intro
    assert (empty, line) == ("", "|---|---|---|---|---|")
    assert first == (
        "| This \\| is so | about equal | within a tenth | **holds** | "
        "slope of a / slope of b: 0.5000 (0.4000 to 0.6000); expected: at most 1 |"
    )
    assert misses.startswith("About ")
    assert second.endswith("| **inconclusive** | b is not here |")


def test_the_command_prints_the_table_and_regenerates_the_report(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", known_rows(), experiment="are-events-fast")
    run.save()
    result = CliRunner().invoke(cli.app, ["report", str(run.folder), "--markdown"])
    assert result.exit_code == 0
    assert result.output.count("\n| ") == len(ARE_EVENTS_FAST.claims) + 1
    assert run.report.stat().st_size > 100_000


@pytest.mark.parametrize(
    ("experiment", "options", "message"),
    [
        ("are-events-fast", ["--markdown", "--json"], "--json and --markdown exclude each other"),
        ("quick", ["--markdown"], "quick has no claims"),
    ],
)
def test_experiments_without_claims_have_no_such_table(
    tmp_path: Path, experiment: str, options: list[str], message: str
) -> None:
    run = make_run(tmp_path / "run", known_rows(), experiment=experiment)
    run.save()
    result = CliRunner().invoke(cli.app, ["report", str(run.folder), *options])
    assert result.exit_code == 2
    assert message in result.stderr
    assert not run.report.exists()


def test_a_verdict_stands_beside_that_without_the_correction(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", known_rows(), experiment="are-events-fast")
    other = {
        "quantity": _DECIDED["quantity"],
        "verdict": "does not hold",
        "value": 1.25,
        "low": 1.125,
        "high": 1.5,
    }
    run.results["verdicts"] = [_DECIDED | {"uncorrected": other}, _DECIDED]
    *_, first, second, _empty, _misses = verdict_table(run.results, ARE_EVENTS_FAST).split("\n")
    assert first.endswith("; uncorrected: does not hold, 1.250 (1.125 to 1.500) |")
    assert "uncorrected" not in second
    plain = StringIO()
    show(run.results | {"verdicts": [_DECIDED | {"uncorrected": other}]}, Console(file=plain))
    words = " ".join(plain.getvalue().split())
    assert "uncorrected: does" in words
    write_report(run, replace(ARE_EVENTS_FAST, charts=(), distributions=()))
    html = run.report.read_text()
    assert html.count("<small>uncorrected: does not hold, 1.250 (1.125 to 1.500)</small>") == 1
