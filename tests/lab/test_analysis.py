"""Means, ratios and marks, on known values."""

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import known_rows, make_run, report, row
from gossamer_lab.measuring.accounting import CpuTime
from gossamer_lab.measuring.measure import Row, load_metrics
from gossamer_lab.measuring.usage import Usage
from gossamer_lab.report.cells import Cell, cells
from gossamer_lab.store import load_run, raw_frame

POINTS = ["305-keep-16", "305-close-128"]
SERVERS = ["event", "nginx", "h2o"]


def first_point(rows: list[Row]) -> dict[str, Cell]:
    """Return the cells of the first point by server."""
    found = cells(raw_frame(rows), POINTS, SERVERS)
    return {cell.server: cell for cell in found if cell.point == POINTS[0]}


def test_cpu_time_per_request_is_total_time_over_all_requests() -> None:
    given = load_metrics(report(50_000, 2.0), Usage(CpuTime(0.1, 0.4), core_s=0.7, wall_s=2.0))
    assert given["server_cpu_us_per_request"] == pytest.approx(10.0)
    assert given["server_busy"] == pytest.approx(0.25)
    assert given["client_busy"] == pytest.approx(0.5)
    assert given["server_core_interference"] == pytest.approx(0.1)
    assert given["response_p99_us"] == 400.0
    assert given["errors"] == 0


def test_the_share_that_a_limited_server_got_is_of_the_time_that_it_and_the_limiter_had() -> None:
    used = Usage(CpuTime(0.1, 0.3), core_s=0.4, wall_s=2.0, limiter_s=1.2)
    limited = load_metrics(report(50_000, 2.0), used)
    assert limited["server_cpu_share_got"] == pytest.approx(0.25)
    assert limited["core_share_of_both"] == pytest.approx(0.8)
    alone = load_metrics(report(50_000, 2.0), replace(used, limiter_s=0.0))
    assert alone["server_cpu_share_got"] == pytest.approx(0.2)
    assert alone["core_share_of_both"] is None


def test_unfinished_requests_count_for_the_longest_wait() -> None:
    given = report(50_000, 2.0)
    given["waiting_to_connect"] = {"count": 850, "mean_us": 1_000_000.0, "longest_us": 1_990_000.0}
    found = load_metrics(given, Usage(CpuTime(0.1, 0.4), core_s=0.7, wall_s=2.0))
    assert (found["waiting_to_connect"], found["waiting_for_response"]) == (850, 16)
    assert (found["connect_max_us"], found["connect_max_wait_us"]) == (2000.0, 1_990_000.0)
    assert (found["response_max_us"], found["response_max_wait_us"]) == (2000.0, 2000.0)


def test_a_load_without_requests_has_no_cpu_time_per_request() -> None:
    given = load_metrics(report(0, 1.0, errors=5), Usage(CpuTime(0.1, 0.1), core_s=0.1, wall_s=1.0))
    assert given["server_cpu_us_per_request"] is None
    assert given["server_core_interference"] == 0.0
    assert (given["errors"], given["errors_by_kind"]) == (5, "timeout: 5")


def test_a_cell_is_the_geometric_mean_of_its_rounds() -> None:
    found = first_point(known_rows())
    costs = {server: cell.cpu_us for server, cell in found.items()}
    assert costs == pytest.approx({"event": 6.0, "nginx": 8.0, "h2o": 10.0})
    assert found["event"].throughput_per_s == pytest.approx(100_000)
    assert found["event"].rounds == 2


def test_ratios_are_relative_to_the_best_peer() -> None:
    ratios = {server: cell.ratio for server, cell in first_point(known_rows()).items()}
    assert ratios == pytest.approx({"event": 0.75, "nginx": 1.0, "h2o": 1.25})


def test_drift_between_rounds_does_not_change_ratios() -> None:
    place = [(number, POINTS[0], server) for number in (1, 2) for server in SERVERS]
    cost = {"event": 4.0, "nginx": 5.0, "h2o": 8.0}
    rows = [row(0, at, cost[at[2]] * (1.0 if at[0] == 1 else 1.7)) for at in place]
    ratios = {server: cell.ratio for server, cell in first_point(rows).items()}
    assert ratios == pytest.approx({"event": 0.8, "nginx": 1.0, "h2o": 1.6})


def test_only_the_minimum_cpu_time_is_marked() -> None:
    found = first_point(known_rows())
    assert [server for server, cell in found.items() if cell.is_best] == ["event"]


def test_a_server_with_errors_is_neither_best_nor_reference() -> None:
    rows = [
        row(0, (1, POINTS[0], "event"), 6.0),
        row(1, (1, POINTS[0], "nginx"), 3.0, errors=1),
        row(2, (1, POINTS[0], "h2o"), 12.0),
    ]
    found = first_point(rows)
    assert found["event"].is_best
    assert found["event"].ratio == pytest.approx(0.5)
    assert found["nginx"].errors == 1
    assert not found["nginx"].is_error_free


def test_a_failed_round_is_counted_and_the_others_are_averaged() -> None:
    failed = dict.fromkeys(row(0, (2, POINTS[0], "h2o"), 1.0))
    failed |= {"point": POINTS[0], "server": "h2o", "ours": False, "failure": "it died"}
    found = first_point([row(0, (1, POINTS[0], "h2o"), 7.0), failed])
    assert found["h2o"].failures == 1
    assert found["h2o"].cpu_us == pytest.approx(7.0)
    assert not found["h2o"].is_best


def test_without_peers_there_are_no_ratios() -> None:
    found = first_point([row(0, (1, POINTS[0], "event"), 6.0)])
    assert found["event"].ratio is None
    assert found["event"].is_best


def test_a_client_bound_server_is_marked() -> None:
    found = first_point(
        [row(0, (1, POINTS[0], "event"), 9.5), row(1, (1, POINTS[0], "nginx"), 8.0)]
    )
    assert not found["event"].is_client_bound
    assert found["nginx"].is_client_bound


def test_a_run_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    run = make_run(tmp_path / "kept", known_rows())
    run.save()
    again = load_run(str(tmp_path / "kept"))
    assert again.results == run.results
    assert again.raw.equals(run.raw)
