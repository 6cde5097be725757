"""When a measurement says nothing of the server; what its clients ask for."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gossamer_lab import fileset
from gossamer_lab.experiment import Point, Soundness
from gossamer_lab.soundness import load_share, void_reason

POINT = Point("load-500", 305, 500, 1)
RULE = Soundness(spared=("thread-128",))


def row(**changes: object) -> dict[str, Any]:
    sound = {
        "server": "event",
        "seconds": 2.0,
        "response_mean_us": 50_000.0,
        "measured_load": 490.0,
        "errors": 0,
        "errors_by_kind": "",
        "client_busy": 0.5,
    }
    return sound | changes


def test_a_sound_measurement_is_not_void() -> None:
    assert void_reason(row(), POINT, RULE) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"client_busy": 0.99}, "the client was the limit"),
        ({"measured_load": 130.0}, "the measured load fell short"),
        ({"errors": 3, "errors_by_kind": "timeout: 3"}, r"3 requests failed \(timeout: 3\)"),
        ({"response_mean_us": None}, "too few requests"),
    ],
)
def test_a_measurement_that_says_nothing_of_the_server_is_void(
    changes: dict[str, Any], words: str
) -> None:
    assert re.search(words, str(void_reason(row(**changes), POINT, RULE)))
    assert void_reason(row(**changes), POINT, None) is None


def test_failed_requests_may_be_what_is_looked_at() -> None:
    forgiving = Soundness(forgives_errors=True)
    assert void_reason(row(errors=3, errors_by_kind="timeout: 3"), POINT, forgiving) is None


def test_a_server_whose_load_is_looked_at_may_fall_short() -> None:
    assert void_reason(row(server="thread-128", measured_load=130.0), POINT, RULE) is None


def test_requests_that_the_end_cuts_off_do_not_count_against_a_short_run() -> None:
    # 500 connections for 1 s at 0.2 s each: of 2500 requests 500 are cut off, half done.
    assert load_share(
        row(seconds=1.0, response_mean_us=200_000.0, measured_load=450.0), 500
    ) == pytest.approx(1.0)


def test_the_file_set_has_four_classes_of_nine_sizes_in_every_directory(tmp_path: Path) -> None:
    fileset.make(tmp_path, 3)
    sizes = sorted(path.stat().st_size for path in (tmp_path / "dir00002").iterdir())
    assert len(sizes) == 36
    assert (sizes[0], sizes[-1]) == (102, 921_600)
    assert (tmp_path / "dir00002" / "class3_9").stat().st_nlink == 3


def test_files_are_asked_for_by_their_classes_and_favour(tmp_path: Path) -> None:
    asked = fileset.requests(25)
    assert asked == fileset.requests(25)
    kinds = Counter(path.split("class")[1][0] for path in asked)
    assert [kinds[kind] / len(asked) for kind in "0123"] == pytest.approx(
        [0.35, 0.50, 0.14, 0.01], abs=0.04
    )
    assert Counter(path.split("_")[1] for path in asked).most_common(1)[0][0] == "5"
    assert Counter(path.split("/")[1] for path in asked).most_common(1)[0][0] == "dir00000"
    fileset.make(tmp_path, 25)
    assert all((tmp_path / path.lstrip("/")).is_file() for path in asked)
