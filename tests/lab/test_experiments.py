"""Every experiment from start to end, with programs whose output is known and with real ones."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from conftest import FAKE
from gossamer_lab import cli, paths
from gossamer_lab.experiments import EXPERIMENTS
from gossamer_lab.experiments.libevent_vs_libev import LIBEVENT_VS_LIBEV
from gossamer_lab.experiments.manifest import Case, Experiment, Point
from gossamer_lab.report import page
from gossamer_lab.report.charts import Chart

_TIMEOUT_S = 600
_VERDICTS = {"holds", "does not hold", "inconclusive"}

# What a program prints: total, setup and poll time, without and with timeouts.
_LATER = " 1 1 1 "
_LIBEV = (f"100 20 80{_LATER}1", f"110 25 85{_LATER}1")
_LIBEVENT = (f"190 110 82{_LATER}2", f"200 120 85{_LATER}2")
_EMULATED = (f"105 22 80{_LATER}1", f"176 40 90{_LATER}1")


def program(name: str, figures: tuple[str, str], tail: str = "") -> None:
    """Install a benchmark program that prints known numbers."""
    path = Path(os.environ["GOSSAMER_BENCH"]) / "loops" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    plain, timed = figures
    path.write_text(f'#!/bin/sh\n{tail}\n[ "$5" = 1 ] && echo "{timed}" || echo "{plain}"\n')
    path.chmod(0o755)


@pytest.fixture
def programs(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the programs by scripts, and images of charts by nothing."""
    assert fake == FAKE
    monkeypatch.setattr(page, "_pictures", lambda chart: dict.fromkeys(_images(chart), _NO_IMAGE))
    monkeypatch.setattr(page.vlc, "javascript_bundle", str)
    monkeypatch.setenv("GOSSAMER_BENCH", str(tmp_path / "bench"))
    # The limits of this machine must not matter: one size is too large, and all others are
    # possible.
    cases = tuple(
        replace(case, descriptors=10**9 if case.key.startswith("100000-") else 0)
        for case in LIBEVENT_VS_LIBEV.points
        if isinstance(case, Case)
    )
    known = replace(LIBEVENT_VS_LIBEV, points=cases)
    monkeypatch.setitem(cli.EXPERIMENTS, known.name, known)
    printed = {"libev": _LIBEV, "libevent": _LIBEVENT, "ours": _LIBEV}
    for name, figures in {**printed, "libev_emulation": _EMULATED}.items():
        program(name, figures)


_NO_IMAGE = (b"", "image/svg+xml")


def _images(chart: Chart) -> tuple[str, str]:
    return f"{chart.key}.svg", f"{chart.key}.png"


def run_known(folder: Path) -> tuple[int, dict[str, Any]]:
    """Run libevent-vs-libev; return its exit status and results."""
    arguments = ["run", "libevent-vs-libev", "--scale", "smoke", "--json", "--out", str(folder)]
    result = CliRunner().invoke(cli.app, arguments)
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.usefixtures("programs")
def test_verdicts_and_the_report_follow_from_what_programs_print(tmp_path: Path) -> None:
    status, results = run_known(tmp_path / "out")
    assert status == 0
    verdicts = {known["key"]: known for known in results["verdicts"]}
    assert verdicts["twice-at-both-numbers-of-clients"]["verdict"] == "holds"
    assert verdicts["twice-at-both-numbers-of-clients"]["value"] == pytest.approx(1.9)
    assert verdicts["libevent-calls-the-kernel-twice"]["value"] == pytest.approx(2.0)
    assert verdicts["timeouts-are-cheap-in-libev"]["value"] == pytest.approx(1.1)
    assert verdicts["at-100000"]["verdict"] == "inconclusive"
    assert "1,000,000,000 descriptors are needed" in verdicts["at-100000"]["reason"]
    assert verdicts["emulation-is-cheap"]["value"] == pytest.approx(1.05)
    # Two equal rounds are not certain enough for values so close to the limits.
    assert verdicts["emulation-is-cheap"]["verdict"] == "inconclusive"
    assert verdicts["native-is-faster-with-timeouts"]["value"] == pytest.approx(1.6)
    assert verdicts["emulation-beats-libevent"]["verdict"] == "does not hold"
    series = {found["key"]: found["values"] for found in results["series"]}
    totals = {at["server"]: at["value"] for at in series["total-100-plain"] if at["x"] == 1000}
    assert totals["libevent"] == pytest.approx(190.0)
    skipped = {one["name"]: one for one in results["skipped"]}
    assert skipped["libuv"]["reason"] == "loops/libuv is not built: it needs libuv1-dev"
    assert not skipped["libuv"]["is_error"]
    # The table of verdicts and the report agree.
    result = CliRunner().invoke(cli.app, ["report", str(tmp_path / "out")])
    output = " ".join(result.output.split())
    assert "1.900 (" in output
    html = (tmp_path / "out" / "report.html").read_text()
    assert "22 claims; holds:" in html
    assert "1.900 (" in html
    assert "Benchmarking libevent against libev" in html
    for chart_spec in EXPERIMENTS["libevent-vs-libev"].charts:
        assert f'id="chart-{chart_spec.key}"' in html
        assert f'download="{chart_spec.key}.csv"' in html


@pytest.mark.usefixtures("programs", "undrawn")
def test_a_run_tells_which_programs_fail_and_what_others_cannot_tell(tmp_path: Path) -> None:
    program("ours", _LIBEV, tail='echo "no memory" >&2; exit 1')
    program("libevent", ("190", "much"))
    program("libev_emulation", (f"105 22 80{_LATER}nan", f"176 40 90{_LATER}nan"))
    status, results = run_known(tmp_path / "out")
    # One of ours fails.
    assert status == 1
    raw = pl.read_parquet(tmp_path / "out" / "raw.parquet")
    reasons = {str(name): set(part["failure"]) for (name,), part in raw.group_by("server")}
    assert reasons["gossamer"] == reasons["gossamer, kept"] == {"exited with status 1: no memory"}
    assert reasons["libevent"] == {
        "printed 1 numbers of 7",
        "printed no numbers: could not convert string to float: 'much'",
    }
    verdicts = {known["key"]: known for known in results["verdicts"]}
    assert (
        verdicts["twice-at-both-numbers-of-clients"]["reason"] == "libevent: printed 1 numbers of 7"
    )
    # A number that is missing is no failure.
    calls = {str(name): set(part["epoll_ctl"]) for (name,), part in raw.group_by("server")}
    assert reasons["libev, emulated"] == reasons["libev"] == {None}
    assert calls["libev, emulated"] == {None}
    assert calls["libev"] == {1.0}


@pytest.mark.parametrize(
    ("file", "calls"), [("libevent", 2.0), ("libev", 1.0), ("libev_emulation", 1.0)]
)
def test_the_programs_of_the_loops_count_calls_of_epoll_ctl(file: str, calls: float) -> None:
    path = paths.programs() / "loops" / file
    if not path.is_file():
        pytest.skip(f"{path} is not built: its library is not on this machine")
    # 100 socket pairs, 100 active clients, with timeouts.
    argv = (path, "pairs", "set", "100", "100", "1")
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    numbers = dict(zip(LIBEVENT_VS_LIBEV.points[0].columns, done.stdout.split(), strict=True))
    assert float(numbers["epoll_ctl"]) == calls


def _has_charted_points(experiment: Experiment, results: dict[str, Any], keys: set[str]) -> bool:
    points = {point["key"]: point for point in results["points"] if point["key"] in keys}
    return any(
        all(
            point.get(name) in (wanted if isinstance(wanted, tuple) else (wanted,))
            for name, wanted in chart.where
        )
        for chart in experiment.charts
        for point in points.values()
    )


_WITH_INTERVALS = {"quick", "libevent-vs-libev", "overload", "unchanged-binaries"}
"""Experiments with two rounds, as an interval needs them. In the others everything is measured
once: their rules are tried out in test_rules.py."""


_MAX_HOSTS = 3
"""Each is a process that takes a second to start, and does what the others do."""


def shortened(experiment: Experiment) -> Experiment:
    """Return the experiment with few hosts, and loads so short that their numbers say nothing."""
    smoke = experiment.scale("smoke")
    times = {"budget_s": 1.0, "max_load_s": 0.1, "program_s": 0.05}
    times |= {"load_s": min(smoke.load_s, 0.1), "warmup_s": min(smoke.warmup_s, 0.02)}
    rounds = 2 if experiment.name in _WITH_INTERVALS else 1
    points = tuple(
        replace(point, hosts=min(point.hosts, _MAX_HOSTS)) if isinstance(point, Point) else point
        for point in experiment.points
    )
    scales = (replace(smoke, rounds=rounds, **times),)
    return replace(experiment, points=points, scales=scales, links=experiment.links[:_MAX_HOSTS])


@pytest.mark.skipif(not paths.program().is_file(), reason="the program is not built")
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_runs_completely(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    monkeypatch.setitem(cli.EXPERIMENTS, name, shortened(EXPERIMENTS[name]))
    # Each chart is drawn, but not for a second time as PNG or by a browser: test_report.py.
    monkeypatch.setattr(page.vlc, "svg_to_png", lambda _svg, scale: bytes(scale))
    monkeypatch.setattr(page.vlc, "javascript_bundle", str)
    arguments = ["run", name, "--scale", "smoke", "--json", "--seed", "1", "--out", str(out)]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 0, done.stderr
    results = json.loads(done.stdout)
    experiment = EXPERIMENTS[name]
    assert results["complete"]
    assert [known["key"] for known in results["verdicts"]] == [c.key for c in experiment.claims]
    assert {known["verdict"] for known in results["verdicts"]} <= _VERDICTS
    raw = pl.read_parquet(out / "raw.parquet")
    assert raw.height == results["planned"]
    drawn = {path.stem for path in (out / "charts").glob("*.svg")}
    shown = {series["key"] for series in results["series"] if series["values"]}
    assert drawn >= shown or not experiment.charts
    # On a busy machine every measurement may be invalid, and without other projects' servers only
    # points may be measured that are in no chart: then there is nothing to draw.
    is_invalid = sum(results["invalid"].values()) == results["measured"]
    assert drawn or is_invalid or not _has_charted_points(experiment, results, set(raw["point"]))
    html = (out / "report.html").read_text()
    assert {key for key in drawn if f'id="chart-{key}"' not in html} == set()
