"""Published rows, and the page of findings that is written from them."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from conftest import METHOD, known_rows, make_run
from gossamer_lab import cli, paths
from gossamer_lab.experiments.sandstorm import SANDSTORM
from gossamer_lab.report import findings
from gossamer_lab.report.derived import DERIVED, with_derived
from gossamer_lab.report.publish import NotPublishableError, publish, published
from gossamer_lab.store import Run

_NORMAL = METHOD | {"scale": "normal", "only": [], "cluster": ""}


def sandstorm(folder: Path, pool_us: float = 2e6, **changes: object) -> Run:
    """Return a run of two servers with some numbers of clients; pool's longest connect is given."""
    clients = (100, 1000)
    rows = []
    for order, (number, count, server) in enumerate(
        (n, c, s) for n in (1, 2, 3) for c in clients for s in ("events", "pool")
    ):
        longest = pool_us if (server, count) == ("pool", 1000) else 1e5
        row = known_rows()[0] | {"order": order, "round": number, "server": server}
        row |= {"point": f"clients-{count}", "histograms": f"histograms/{order}.hlog"}
        row |= {"connect_max_wait_us": longest * (1 + 0.001 * number), "invalid": None}
        row |= {"seconds": 240.0}
        rows.append(row)
    servers = [
        {
            "name": name,
            "ours": True,
            "summary": "",
            "version": "1.0",
            "command": "/home/somebody/gossamer/build/release/gossamer serve /tmp/gossamer-x1/site",
            "config": "",
        }
        for name in ("events", "pool")
    ]
    points = [
        one.as_dict() for one in SANDSTORM.points if one.key in {f"clients-{c}" for c in clients}
    ]
    run = make_run(folder, rows, experiment="sandstorm", method=dict(_NORMAL))
    run = Run(folder, run.results | {"servers": servers, "points": points} | changes, run.raw)
    return with_derived(run, SANDSTORM)


def test_published_rows_give_the_verdicts_of_the_run(tmp_path: Path) -> None:
    run = sandstorm(tmp_path / "run")
    publish([run], tmp_path / "rows")
    kept = published(tmp_path / "rows", "sandstorm")
    assert kept
    assert [one["verdict"] for one in kept.results["verdicts"]] == [
        one["verdict"] for one in run.results["verdicts"]
    ]
    same = run.raw.drop("histograms")
    assert_frame_equal(kept.raw, same.select(kept.raw.columns), rel_tol=1e-6)
    stored = json.loads((tmp_path / "rows" / "sandstorm" / "results.json").read_text())
    assert not stored.keys() & set(DERIVED)


def test_published_rows_name_no_folder_of_the_machine(tmp_path: Path) -> None:
    publish([sandstorm(tmp_path / "run")], tmp_path / "rows")
    stored = json.loads((tmp_path / "rows" / "sandstorm" / "results.json").read_text())
    command = stored["servers"][0]["command"]
    assert command == "build/release/gossamer serve FOLDER/site"


def test_only_complete_runs_of_all_subjects_are_published(tmp_path: Path) -> None:
    for changes, words in (
        ({"complete": False}, "is not complete"),
        ({"method": _NORMAL | {"only": ["pool"]}}, "only some subjects"),
        ({"method": _NORMAL | {"injected_overhead": {"pool": 0.1}}}, "injected overhead"),
    ):
        with pytest.raises(NotPublishableError, match=words):
            publish([sandstorm(tmp_path / "run", **changes)], tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_a_document_has_a_line_for_what_holds_and_what_does_not(tmp_path: Path) -> None:
    publish([sandstorm(tmp_path / "run")], tmp_path / "rows")
    page = findings.page_of(tmp_path / "rows", "## The end\n")
    part = page.split("### SandStorm HTTP server results")[1].split("###")[0]
    lines = [line for line in part.splitlines() if line.startswith("- ")]
    assert [line.split("**")[1] for line in lines] == [
        *("It says:", "Holds:", "Does not hold:", "Undecided:", "Different here:")
    ]
    assert "With 1000 clients some wait far longer to connect to the pool" in lines[1]
    verdicts = published(tmp_path / "rows", "sandstorm").results["verdicts"]  # type: ignore[union-attr]
    for line, word in zip(lines[1:4], findings.WORDS, strict=True):
        keys = {one["key"] for one in verdicts if one["verdict"] == word}
        count = len(keys - set(SANDSTORM.document.main_claims))  # type: ignore[union-attr]
        others = len(verdicts) - len(SANDSTORM.document.main_claims)  # type: ignore[union-attr]
        ends = {0: f"none of the {others}", others: f"all {others}"}
        assert line.endswith(f"; {ends.get(count, f'{count} of the {others}')} other claims.")
    assert "![Longest time to connect against clients](findings/sandstorm.svg)" in part
    assert page.endswith("\n## The end\n")


def test_counts_names_published_text_and_our_rule_are_in_tables(tmp_path: Path) -> None:
    publish([sandstorm(tmp_path / "run")], tmp_path / "rows")
    page = findings.page_of(tmp_path / "rows", "")
    verdicts = published(tmp_path / "rows", "sandstorm").results["verdicts"]  # type: ignore[union-attr]
    counts = [sum(v["verdict"] == w for v in verdicts) for w in findings.WORDS]
    assert f"| sandstorm | {' | '.join(map(str, counts))} | - |" in page
    assert "| sandstorm | pool | our architecture pool: 150 threads" in page
    assert "| claim | published text | our rule | verdict |" in page
    assert "| 183,340 ms against 3116 ms (connect time) | at least ten times as long" in page
    assert "**Not published yet**" in page.split("### Are events fast?")[1].split("###")[0]


def test_our_own_claims_stand_apart(tmp_path: Path) -> None:
    run = sandstorm(tmp_path / "run", experiment="overload")
    publish([replace(run, results=run.results | {"servers": [], "points": []})], tmp_path / "rows")
    page = findings.page_of(tmp_path / "rows", "").split("## overload")[1]
    assert "**Our own claims**" in page
    assert "| claim | our rule | verdict |" in page
    assert "published text" not in page


def test_a_second_run_is_compared_with_the_first(tmp_path: Path) -> None:
    first, second = (sandstorm(tmp_path / name, us) for name, us in (("a", 2e6), ("b", 2e5)))
    publish([first, second], tmp_path / "rows")
    again = findings.page_of(tmp_path / "rows", "").split("## Reproducibility")[1]
    assert "- `sandstorm`: 0 of " in again
    assert "Verdicts that differ: With 1000 clients some wait far longer to connect" in again
    # The rows of a single new run are not compared with an old repetition.
    publish([first], tmp_path / "rows")
    assert "Reproducibility" not in findings.page_of(tmp_path / "rows", "")


@pytest.mark.usefixtures("undrawn")
def test_the_command_writes_the_page_and_report_rebuilds_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandstorm(tmp_path / "run").save()
    (tmp_path / "docs" / "findings").mkdir(parents=True)
    (tmp_path / "docs" / "findings" / "method.md").write_text("## Changes\n")
    monkeypatch.setattr(paths, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(paths, "RUNS", tmp_path / "runs")
    into = ["--into", str(tmp_path / "docs")]
    result = CliRunner().invoke(cli.app, ["publish", str(tmp_path / "run"), *into])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "docs" / "findings.md").read_text()
    assert page.endswith("\n## Changes\n")
    assert (tmp_path / "docs" / "findings" / "sandstorm.svg").read_text().startswith("<svg")
    report = CliRunner().invoke(cli.app, ["report", "sandstorm", "--json"])
    assert report.exit_code == 0, report.output
    assert len(json.loads(report.output)["verdicts"]) == len(SANDSTORM.claims)
    assert (tmp_path / "runs" / "published-sandstorm" / "report.html").is_file()
    rows = sorted(path.name for path in (tmp_path / "docs/findings/sandstorm").iterdir())
    assert rows == ["raw.parquet", "results.json"]
    missing = CliRunner().invoke(cli.app, ["report", "quick"])
    assert missing.exit_code == 2
    assert "no published run of quick" in missing.stderr


def test_the_page_of_this_checkout_is_what_its_rows_give() -> None:
    rows = paths.DOCS / findings.ROWS
    page = findings.page_of(rows, (rows / findings.METHOD).read_text())
    assert (paths.DOCS / findings.PAGE).read_text() == page


_RECORD = """\
#!/bin/sh
echo "$*" >>"$LOG"
for last; do :; done
[ "$2" = run ] || exit 0
mkdir -p "$last"
if [ "$3" = --resume ] || [ -z "$INTERRUPTED" ]; then done=true; else done=false; fi
printf '{\\n "complete": %s\\n}\\n' $done >"$last/results.json"
[ $done = true ] || exit 130
"""


def test_the_series_is_measured_once_resumed_and_then_published(tmp_path: Path) -> None:
    program, log, runs = tmp_path / "gossamer", tmp_path / "log", tmp_path / "runs"
    program.write_text(_RECORD)
    program.chmod(0o755)
    known = {"GOSSAMER_PROGRAM": str(program), "LOG": str(log), "RUNS": str(runs)}

    def series(**more: str) -> tuple[int, list[str]]:
        log.write_text("")
        script = [paths.CHECKOUT / "tools" / "findings", "--scale", "smoke", "--into", tmp_path]
        done = subprocess.run(
            [*script, "quick", "sandstorm"], env=os.environ | known | more, check=False
        )
        return done.returncode, log.read_text().replace(str(runs), "RUNS").splitlines()

    assert series(INTERRUPTED="1") == (130, ["lab run quick --scale smoke --out RUNS/quick"])
    publishing = f"lab publish RUNS/quick RUNS/quick-again RUNS/sandstorm --into {tmp_path}"
    assert series() == (
        0,
        [
            "lab run --resume RUNS/quick",
            "lab run quick --scale smoke --out RUNS/quick-again",
            "lab run sandstorm --scale smoke --out RUNS/sandstorm",
            publishing,
        ],
    )
    assert series() == (0, [publishing])


def test_a_smoke_run_is_not_published_among_the_docs() -> None:
    script = paths.CHECKOUT / "tools" / "findings"
    done = subprocess.run([script, "--scale", "smoke"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "a smoke run decides nothing" in done.stderr
