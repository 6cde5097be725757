"""The CPU limit, and the calibration loop."""

import os
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from gossamer_lab.measuring import calibration_loop, cpu_limit, process
from gossamer_lab.statistics.service_time import SERVICE, with_service_times

_IS_SHARED = Path("/proc/self/autogroup").exists()
_TIMEOUT_S = 30.0
_READINGS = 200_000


def test_a_smaller_share_of_a_core_needs_a_higher_niceness() -> None:
    assert cpu_limit.niceness(0.5) == 0
    assert cpu_limit.niceness(0.25) == 5
    assert cpu_limit.niceness(0.1) == 10


def test_without_a_limit_no_process_is_started(tmp_path: Path) -> None:
    with cpu_limit.applied(1, None, 0, tmp_path) as limiter:
        assert limiter.used_s() == 0.0
        assert limiter.iterations() == cpu_limit.LoopCount(0, 0)
    assert list(tmp_path.iterdir()) == []


def test_measuring_the_share_leaves_no_process(tmp_path: Path) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text()
    share = cpu_limit.measured_share(0.25, 0, tmp_path)
    assert share is None or 0 < share < 1
    assert children.read_text() == before


@pytest.mark.skipif(not _IS_SHARED, reason="the kernel does not share cores by session")
def test_the_calibration_loop_iterates_while_the_limit_is_applied(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with (
        subprocess.Popen(("sleep", str(_TIMEOUT_S)), start_new_session=True) as limited,
        cpu_limit.applied(limited.pid, 0.25, core, tmp_path) as limiter,
    ):
        ends = time.monotonic() + _TIMEOUT_S
        seen = [limiter.iterations()]
        while len(seen) < 3 and time.monotonic() < ends:
            time.sleep(0.05)
            if limiter.iterations().count > seen[-1].count:
                seen.append(limiter.iterations())
        used_s = limiter.used_s()
        limited.kill()
    assert len(seen) == 3
    before, after = seen[1:]
    calibration_ns = after.ns_per_iteration(before)
    assert calibration_ns
    assert 100 < calibration_ns < 1e6
    assert after.cpu_ns / 1e9 < used_s + 0.5
    assert before.ns_per_iteration(before) is None


def test_the_counters_of_the_calibration_loop_are_never_torn(tmp_path: Path) -> None:
    path = tmp_path / "iterations"
    path.write_bytes(bytes(calibration_loop.SIZE))
    counters = calibration_loop.map_counters(path)
    argv = (sys.executable, "-S", calibration_loop.__file__, str(path))
    core = max(os.sched_getaffinity(0))
    with process.started(argv, core, tmp_path / "out", tmp_path / "err"):
        ends = time.monotonic() + _TIMEOUT_S
        while not counters[1] and time.monotonic() < ends:
            time.sleep(0.01)
        seen = [tuple(counters) for _ in range(_READINGS)]
    assert seen[0][1] > 0
    for each in zip(*seen, strict=True):
        assert list(each) == sorted(each)


def rows(**columns: list[float | None]) -> pl.DataFrame:
    """Return raw rows of three loads."""
    return pl.DataFrame({"servicing_us": [100.0, 200.0, 300.0], **columns})


def test_service_times_are_normalized_to_the_average_speed() -> None:
    counters = with_service_times(rows(calibration_ns=[1000.0, 4000.0, None]))
    # The geometric mean of the calibration is 2000 ns.
    assert counters[SERVICE].to_list() == pytest.approx([200.0, 100.0, 300.0])


@pytest.mark.parametrize("calibration_ns", [0.0, -649.2, None])
def test_an_invalid_calibration_is_ignored(calibration_ns: float | None) -> None:
    counters = with_service_times(rows(calibration_ns=[1000.0, 4000.0, calibration_ns]))
    assert counters[SERVICE].to_list() == pytest.approx([200.0, 100.0, 300.0])


def test_without_calibration_service_times_are_servicing_times() -> None:
    for raw in (rows(), rows(calibration_ns=[None, None, None])):
        assert with_service_times(raw)[SERVICE].to_list() == [100.0, 200.0, 300.0]


def test_service_times_can_be_had_without_the_correction() -> None:
    counters = with_service_times(rows(calibration_ns=[1000.0, 4000.0, None]), is_corrected=False)
    assert counters[SERVICE].to_list() == [100.0, 200.0, 300.0]


def test_a_load_without_answers_has_no_service_time() -> None:
    raw = rows(calibration_ns=[1000.0, 1000.0, 1000.0]).with_columns(
        servicing_us=pl.lit(None, pl.Float64)
    )
    assert with_service_times(raw)[SERVICE].to_list() == [None] * 3
