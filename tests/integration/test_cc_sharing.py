"""What `gossamer cc` finds out about data and locks that threads share."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from installation import PROGRAM, ROOT, needs_plugin

SOURCES = ROOT / "tests/compiler/sharing"
LEVELS = ("-O0", "-O2")

pytestmark = needs_plugin


def examine(folder: Path, name: str, *options: str) -> tuple[dict[str, Any], str]:
    """Compile and run a program; return its report, and the warnings."""
    command = [PROGRAM, "cc", "-g", "-pthread", f"--report={folder / 'r.json'}", *options]
    done = subprocess.run(
        [*command, name, "-o", folder / "program"],
        capture_output=True,
        text=True,
        cwd=SOURCES,
        check=True,
    )
    subprocess.run([folder / "program"], check=True, timeout=60)
    return json.loads((folder / "r.json").read_text()), done.stderr


def names_of(report: dict[str, Any]) -> set[str]:
    """Return all data that is warned of, without what contains it."""
    names = [name for race in report["races"] for name in (race["name"], *race["others"])]
    return {re.sub(r"^.*\.|\[\]$", "", name) for name in names}


@pytest.mark.parametrize("level", LEVELS)
def test_all_data_without_a_common_lock_is_found_and_nothing_else(
    tmp_path: Path, level: str
) -> None:
    report, said = examine(tmp_path, "warned.c", level, "-Wgossamer-races")
    expected = set(re.findall(r"\bbad_\w+", (SOURCES / "warned.c").read_text()))
    assert names_of(report) == expected
    assert said.count(": warning: ") == len(report["races"])


@pytest.mark.parametrize("level", LEVELS)
def test_both_places_are_named_with_their_calls_and_locks(tmp_path: Path, level: str) -> None:
    report, _ = examine(tmp_path, "warned.c", level)
    races = {race["name"]: race for race in report["races"]}
    two = races["bad_other_lock"]
    assert (two["first"]["locks"], two["second"]["locks"]) in ((["a"], ["b"]), (["b"], ["a"]))
    assert {two["first"]["thread"], two["second"]["thread"]} == {"work", "main"}
    passed = races["bad_passed"]["first"]
    assert (passed["chain"], passed["several"], passed["write"]) == ("work -> add", True, True)
    assert re.fullmatch(r"warned.c:\d+", passed["place"])
    assert races["bad_flag"]["volatile"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_program_with_locks_and_order_is_not_warned_of(tmp_path: Path, level: str) -> None:
    report, said = examine(tmp_path, "quiet.c", level, "-Wgossamer-races")
    assert (report["races"], report["inversions"], said) == ([], [], "")


def test_without_the_option_there_are_no_warnings(tmp_path: Path) -> None:
    _, said = examine(tmp_path, "warned.c", "-O1")
    assert said == ""


@pytest.mark.parametrize("level", LEVELS)
def test_which_critical_sections_may_run_together(tmp_path: Path, level: str) -> None:
    report, _ = examine(tmp_path, "sections.c", level)
    locks = {lock["name"]: lock for lock in report["locks"]}
    accounts = {one["function"]: one["threads"] for one in locks["accounts"]["sections"]}
    assert accounts["pay"] == ["customer"]
    assert set(accounts["read_balance"]) == {"auditor", "main"}
    assert {one["function"] for one in locks["left"]["sections"]} == {"left_first", "right_first"}
    assert locks["inner"]["inside"] == ["accounts"]
    assert "accounts" not in locks["inner"]["together"]
    assert {"log_lock", "lonely"} <= set(locks["accounts"]["together"])
    assert [one for one, lock in locks.items() if lock["one_thread"]] == ["lonely"]


def test_locks_that_are_taken_in_both_orders_are_named(tmp_path: Path) -> None:
    report, said = examine(tmp_path, "sections.c", "-O1", "-Wgossamer-races")
    (found,) = report["inversions"]
    assert {found["first"], found["second"]} == {"left", "right"}
    assert {found["first_inside"]["thread"], found["second_inside"]["thread"]} == {
        "customer",
        "auditor",
    }
    assert "left and right are taken in both orders" in said
