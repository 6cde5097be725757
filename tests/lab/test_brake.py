"""The brake, and what it tells of its core."""

import os
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from gossamer_lab import brake, metronome, process
from gossamer_lab.service import SERVICE, with_service_times

_IS_SHARED = Path("/proc/self/autogroup").exists()
_LONGEST_S = 30.0
_LOOKS = 200_000


def test_a_smaller_share_of_a_core_takes_more_niceness() -> None:
    assert brake.niceness(0.5) == 0
    assert brake.niceness(0.25) == 5
    assert brake.niceness(0.1) == 10


def test_a_brake_that_is_not_wanted_uses_nothing(tmp_path: Path) -> None:
    with brake.put_on(1, None, 0, tmp_path) as held:
        assert held.used_s() == 0.0
        assert held.beats() == brake.Beats(0, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_trial_of_the_brake_leaves_no_process(tmp_path: Path) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    share = brake.trial(0.25, 0, tmp_path)
    assert share is None or 0 < share < 1
    assert children.read_text() == before


@pytest.mark.skipif(not _IS_SHARED, reason="the kernel does not share cores by session")
def test_a_brake_beats_as_long_as_it_is_on(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with (
        subprocess.Popen(("sleep", str(_LONGEST_S)), start_new_session=True) as braked,
        brake.put_on(braked.pid, 0.25, core, tmp_path) as held,
    ):
        ends = time.monotonic() + _LONGEST_S
        seen = [held.beats()]
        while len(seen) < 3 and time.monotonic() < ends:
            time.sleep(0.05)
            if held.beats().count > seen[-1].count:
                seen.append(held.beats())
        used_s = held.used_s()
        braked.kill()
    assert len(seen) == 3
    before, after = seen[1:]
    beat_ns = after.each_ns(before)
    assert beat_ns
    assert 100 < beat_ns < 1e6
    assert after.cpu_ns / 1e9 < used_s + 0.5
    assert before.each_ns(before) is None


def test_what_a_metronome_tells_is_whole_at_every_moment(tmp_path: Path) -> None:
    path = tmp_path / "beats"
    path.write_bytes(bytes(metronome.SIZE))
    told = metronome.told_in(path)
    argv = (sys.executable, "-S", metronome.__file__, str(path))
    core = max(os.sched_getaffinity(0))
    with process.started(argv, core, tmp_path / "out", tmp_path / "err"):
        ends = time.monotonic() + _LONGEST_S
        while not told[1] and time.monotonic() < ends:
            time.sleep(0.01)
        seen = [tuple(told) for _ in range(_LOOKS)]
    assert seen[0][1] > 0
    for each in zip(*seen, strict=True):
        assert list(each) == sorted(each)


def rows(**columns: list[float | None]) -> pl.DataFrame:
    """Return raw rows of three loads."""
    return pl.DataFrame({"response_mean_us": [100.0, 200.0, 300.0], **columns})


def test_service_times_are_those_of_a_core_of_the_usual_speed() -> None:
    told = with_service_times(rows(beat_ns=[1000.0, 4000.0, None]))
    # The usual beat takes 2000 ns, the geometric mean.
    assert told[SERVICE].to_list() == pytest.approx([200.0, 100.0, 300.0])


@pytest.mark.parametrize("beat", [0.0, -649.2, None])
def test_a_beat_that_cannot_be_says_nothing_of_any_load(beat: float | None) -> None:
    told = with_service_times(rows(beat_ns=[1000.0, 4000.0, beat]))
    assert told[SERVICE].to_list() == pytest.approx([200.0, 100.0, 300.0])


def test_without_beats_service_times_are_as_they_were_measured() -> None:
    for raw in (rows(), rows(beat_ns=[None, None, None])):
        assert with_service_times(raw)[SERVICE].to_list() == [100.0, 200.0, 300.0]


def test_a_load_without_answers_has_no_service_time() -> None:
    raw = rows(beat_ns=[1000.0, 1000.0, 1000.0]).with_columns(
        response_mean_us=pl.lit(None, pl.Float64)
    )
    assert with_service_times(raw)[SERVICE].to_list() == [None] * 3
