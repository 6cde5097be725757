"""The description of one experiment: claims, rules, durations, and what cannot be tested here."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conftest import FAKE
from gossamer_lab import cli
from gossamer_lab.experiments.libevent_vs_libev import LIBEVENT_VS_LIBEV
from gossamer_lab.experiments.manifest import Case, Experiment, Point, Program, Scale, Variant
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.experiments.sandstorm import SANDSTORM
from gossamer_lab.measuring import task_limit
from gossamer_lab.report.description import duration, expected_seconds, untestable


def listed(*arguments: str) -> str:
    """Return the output of ``list``, with single spaces."""
    result = CliRunner().invoke(cli.app, ["list", *arguments])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_claims_are_listed_with_their_text_rule_and_durations(fake: Path) -> None:
    assert fake == FAKE
    text = listed("sandstorm")
    assert "sandstorm, after Matt Welsh 2000" in text
    normal = SANDSTORM.scale("normal")
    assert f"normal 5 {duration(expected_seconds(SANDSTORM, normal))}" in text
    for words in ("183,340 ms", "at least ten times", "holds if the whole 95 % interval"):
        assert words in text


def test_what_cannot_be_measured_is_listed_with_the_reason(
    fake: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert fake == FAKE
    monkeypatch.setenv("GOSSAMER_BENCH", str(tmp_path / "none"))
    large = replace(LIBEVENT_VS_LIBEV.points[0], key="large", label="large", descriptors=10**9)
    monkeypatch.setitem(
        cli.EXPERIMENTS, "libevent-vs-libev", replace(LIBEVENT_VS_LIBEV, points=(large,))
    )
    text = listed("libevent-vs-libev")
    assert "Not measured on this machine: - libev: loops/libev is not built" in text
    assert "- large: 1,000,000,000 descriptors are needed, the limit is" in text
    found = json.loads(listed("libevent-vs-libev", "--json"))
    assert len(found) == 1
    assert found[0]["untestable"][-1].startswith("large: 1,000,000,000 descriptors")
    assert list(found[0]["expected_seconds"]) == ["smoke", "normal", "paper"]


def test_peers_and_limits_that_are_absent_are_listed(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fake == FAKE
    monkeypatch.setattr(task_limit, "is_permitted", lambda: False)
    assert untestable(SANDSTORM) == ["forking: the number of its threads cannot be limited"]
    assert untestable(QUICK) == [f"{name} is not installed" for name in QUICK.peers]


def test_an_unknown_experiment_is_an_error() -> None:
    result = CliRunner().invoke(cli.app, ["list", "nothing"])
    assert result.exit_code == 2
    assert "no experiment 'nothing'; there are: quick, " in result.stderr


def test_the_expected_duration_is_that_of_all_loads_and_programs() -> None:
    scale = Scale("s", 0.0, 0.2, 9.0, rounds=3, load_s=1.5, program_s=2.0, slow_servers=(("b", 2),))
    loads = (Point("short", 305, 1, 0), Point("long", 305, 1, 0, servers=("b",), min_s=4.0))
    case = Case("case", "", (), (), ("p", "q"), ())
    experiment = Experiment(
        *("name", "summary", (*loads, case), (scale,)),
        architectures=(Variant("a", "a"), Variant("b", "b")),
        programs=(Program("p", "p", (), ""), Program("q", "q", (), "")),
    )
    # Each load has a warm-up of 0.2 s and 0.3 s for its server's start and end.
    loads_s = 2 * (1.5 + 0.5) + 8.0 + 0.5
    assert expected_seconds(experiment, scale) == pytest.approx(3 * (loads_s + 2 * 2.0))


@pytest.mark.parametrize(
    ("seconds", "words"), [(33.6, "about 34 s"), (900, "about 15 min"), (14_400, "about 4.0 h")]
)
def test_durations_are_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
