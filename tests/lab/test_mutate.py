"""tools/mutate: what it changes, which tests it chooses, and what it takes for a find."""

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from mutation import equivalent, mutants, stages
from mutation.stages import Stage

SOURCE = """static int take(struct box *box)
{
    spin_lock(&box->lock);
    if (box->is_full)
        box->count--;
    spin_unlock(&box->lock);
    spin_lock(&box->other);
    return box->count;
}

static void close(struct box *box)
{
    spin_unlock(&box->lock);
}""".splitlines()


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        (
            "    if (atomic_load_explicit(&box->n, memory_order_acquire))",
            "    if (atomic_load_explicit(&box->n, memory_order_relaxed))",
        ),
        (
            "    if (atomic_exchange(&box->n, f(1)))",
            "    if (atomic_exchange_explicit(&box->n, f(1), memory_order_relaxed))",
        ),
        ("    box->count = 0;", ""),
        ("    atomic_load_explicit(&mailbox->asleep, memory_order_acquire) ||", None),
        ("    int count = 0;", None),
        ("    gs_spin_pause();", None),
        ("    return f();", None),
        ("    spin_unlock(&box->lock);", None),
        ("    atomic_store(&box->n,", None),
    ],
)
def test_a_line_is_relaxed_or_left_out(line: str, changed: str | None) -> None:
    ways = [lines[1] for _, _, lines in mutants.of_line(["{", line], 1)]
    assert ways == ([] if changed is None else [changed])


def test_the_condition_of_a_statement_that_is_left_out_stays() -> None:
    assert [lines for _, _, lines in mutants.of_line(SOURCE, 4)] == [{4: "        ;"}]


def test_a_lock_is_left_out_with_its_releases_in_the_same_function() -> None:
    inside = mutants.functions_of(SOURCE)
    assert mutants.of_lock(SOURCE, 2, inside) == {2: ";", 5: ";"}
    assert not mutants.of_lock(SOURCE, 4, inside)


def test_a_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "FILES", ("src/base/pool.c", "src/base/no_such_*.c"))
    with pytest.raises(SystemExit, match="no_such"):
        mutants.files()


def _listing(**entry: object) -> str:
    properties = [
        {"name": "ENVIRONMENT", "value": ["GS_POLLER=poll", "FLAGS=a=b"]},
        {"name": "TIMEOUT", "value": 60.0},
    ]
    return json.dumps({"tests": [{"name": "loop.io.poll", "properties": properties, **entry}]})


def test_the_tests_are_those_of_the_build_with_their_environment() -> None:
    test = stages.Test("loop.io.poll", ["/b/io"], {"GS_POLLER": "poll", "FLAGS": "a=b"}, 60.0)
    assert stages.tests_of(_listing(command=["/b/io"])) == {"loop.io.poll": test}


def test_a_test_that_was_not_built_is_an_error() -> None:
    with pytest.raises(SystemExit, match=r"loop\.io\.poll"):
        stages.tests_of(_listing())


def test_a_line_is_run_not_run_or_no_code() -> None:
    report = "SF:tree/src/a.c\nFN:1,f\nDA:2,7\nDA:3,0\nend_of_record\nSF:tree/src/b.h\nDA:3,1\n"
    lines = {("src/a.c", 2): True, ("src/a.c", 3): False, ("src/b.h", 3): True}
    assert stages.lines_of(report) == lines


def _stage(folder: Path, scripts: dict[str, str], max_s: float = 30) -> Stage:
    stage = Stage("plain", (0,), "cc")
    for name, script in scripts.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\ncd {folder}\n{script}\n")
        program.chmod(0o755)
        stage.tests[name] = stages.Test(name, [str(program)], {}, max_s)
    return stage


def test_the_first_failure_is_told_and_stops_the_others(tmp_path: Path) -> None:
    stage = _stage(tmp_path, {"slow": "exec sleep 1000", "bad": "echo x is 1, expected 2; exit 1"})
    assert stage.first_failure(["slow", "bad"], (0,)) == "plain: bad fails: x is 1, expected 2"


def test_a_test_that_ends_when_it_is_repeated_is_no_find(tmp_path: Path) -> None:
    once = "test -e ran && exit 77; touch ran; exec sleep 1000"
    stage = _stage(tmp_path, {"once": once, "never": "exec sleep 1000"}, max_s=0.3)
    assert not stage.first_failure(["once"], (0,))
    assert stage.first_failure(["never"], (0,)) == "plain: never does not end"


def test_what_fails_twice_in_the_unchanged_tree_is_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = "test -e ran || { touch ran; exit 1; }"
    stage = _stage(tmp_path, {"good": ":", "once": once, "bad": "exit 3"})
    stage.measure(list(stage.tests))
    assert set(stage.seconds) == {"good", "once"}
    assert capsys.readouterr().out.startswith(
        "left out, since it fails in the unchanged tree: plain: bad fails: 3\n"
    )


def test_the_quickest_tests_whose_programs_have_changed_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = _stage(tmp_path, {"same": ":", "changed": ":"})
    stage.seconds = {"same": 1.0, "changed": 2.0}
    stage.originals = {name: stage.digest(name) for name in stage.tests}
    _stage(tmp_path, {"changed": "exit 4"})
    monkeypatch.setattr(stage, "builds", lambda targets: bool(list(targets)))
    monkeypatch.setattr(stage, "first_failure", lambda names, seeds: f"{names} {seeds}")
    stage.seeds = (5, 6)
    assert stage.judge({"same", "changed"}, 60) == "['changed'] (5,)"
    assert stage.judge({"same", "changed"}, 2) == "[] (5,)"
    assert stage.judge({"same", "left out", "changed"}, math.inf) == "['changed'] (5, 6)"


def test_each_equivalent_mutant_is_one_that_there_can_be() -> None:
    there = {
        (m.file, m.function, m.kind, equivalent.text_of(m.file, m.line))
        for m in mutants.all_mutants()
    }
    assert set(equivalent.read_equivalent()) <= there


def test_an_equivalent_mutant_whose_line_has_changed_is_an_error(tmp_path: Path) -> None:
    listed = tmp_path / "equivalent.toml"
    entry = {"file": "src/base/pool.c", "function": "work", "kind": "line", "text": "no such;"}
    told = "".join(f'{name} = "{value}"\n' for name, value in entry.items())
    listed.write_text(f'[[mutant]]\n{told}why = "a reason"\n')
    with pytest.raises(SystemExit, match="no such;"):
        equivalent.read_equivalent(listed)
