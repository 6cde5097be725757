"""The reports of many hosts are merged into one."""

import json
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from gossamer_lab.hosts import histograms, merge
from gossamer_lab.hosts.pool import split_evenly

_KINDS = ("connect", "first_byte", "response", "total")
_LONGEST_NS = 3600 * 10**9


def histogram(values_us: list[int]) -> HdrHistogram:
    found = HdrHistogram(1, _LONGEST_NS, 3)
    for us in values_us:
        found.record_value(us * 1000)
    return found


def log_of(values_us: list[int]) -> str:
    encoded = histogram(values_us).encode().decode()
    lines = [f"Tag={kind},0.000,1.000,1.000,{encoded}" for kind in _KINDS]
    return "\n".join(["#[Histogram log format version 1.3]", *lines]) + "\n"


def result(host: str, values_us: list[int], **changes: object) -> dict[str, Any]:
    times = {"count": len(values_us), "mean": sum(values_us) / len(values_us)}
    times |= {"min": min(values_us), "max": max(values_us)}
    report = {
        "requests": len(values_us),
        "seconds": 1.0,
        "throughput_per_s": float(len(values_us)),
        "bytes_per_s": 10.0,
        "offered_load": 4,
        "measured_load": 3.5,
        "errors": {"timeout": 1, "reset": 0},
        "waiting_to_connect": {"count": 2, "mean_us": 4e5, "longest_us": 5e5},
        "waiting_for_response": {"count": 1, "mean_us": 70.0, "longest_us": 70.0},
        **{f"{kind}_us": times for kind in _KINDS},
    }
    return {"host": host, "began_s": 0.0, "report": report | changes, "log": log_of(values_us)}


def test_counts_and_rates_are_summed_and_errors_by_kind() -> None:
    hosts = [result("a", [100, 200]), result("b", [300], seconds=2.0, errors={"timeout": 2})]
    report, _ = merge.merged(hosts)
    assert report["requests"] == 3
    assert report["throughput_per_s"] == 3.0
    assert report["offered_load"] == 8
    assert report["measured_load"] == 7.0
    assert report["seconds"] == 2.0
    assert report["errors"] == {"timeout": 3, "reset": 0}


def test_unfinished_requests_are_summed_and_the_longest_wait_is_kept() -> None:
    late = {"count": 7, "mean_us": 4e5, "longest_us": 9e5}
    hosts = [result("a", [100]), result("b", [300], waiting_to_connect=late)]
    report, _ = merge.merged(hosts)
    assert report["waiting_to_connect"] == {"count": 9, "mean_us": 4e5, "longest_us": 9e5}
    assert report["waiting_for_response"] == {"count": 2, "mean_us": 70.0, "longest_us": 70.0}


def test_quantiles_are_those_of_all_requests_not_means_of_the_hosts() -> None:
    quick, slow = [100] * 90, [10_000] * 10
    report, log = merge.merged([result("quick", quick), result("slow", slow)])
    times = report["response_us"]
    assert times["p50"] == pytest.approx(100, rel=0.001)
    assert times["p90"] == pytest.approx(100, rel=0.001)
    assert times["p99"] == pytest.approx(10_000, rel=0.001)
    assert times["mean"] == pytest.approx(1090)
    assert times["max"] == 10_000
    whole = histogram(quick + slow)
    for tag, merged in histograms.read(log).items():
        assert tag in _KINDS
        assert merged.get_total_count() == 100
        assert merged.equals(whole)


def test_a_host_without_responses_changes_nothing() -> None:
    nothing = {"count": 0, "mean": 0.0, "min": 0.0, "max": 0.0}
    silent = result("silent", [100]) | {"log": log_of([])}
    silent["report"] |= {f"{kind}_us": nothing for kind in _KINDS} | {"requests": 0}
    report, _ = merge.merged([silent, result("other", [100, 300])])
    assert report["response_us"]["count"] == 2
    assert report["response_us"]["mean"] == pytest.approx(200)


def test_each_host_has_its_own_metrics() -> None:
    report, _ = merge.merged([result("a", [100]), result("b", [300, 500])])
    rows = {row["host"]: row for row in report["hosts"]}
    assert rows["a"]["response_mean_us"] == 100
    assert rows["b"]["response_mean_us"] == 400
    assert rows["b"]["requests"] == 2
    assert rows["b"]["errors"] == 1


def test_a_missing_report_is_none() -> None:
    assert merge.parsed({"report": "", "host": "a"})["report"] is None
    assert merge.parsed({"report": json.dumps({"x": 1})})["report"] == {"x": 1}


@pytest.mark.parametrize(
    ("connections", "hosts", "expected"),
    [(20, 20, [1] * 20), (7, 3, [3, 2, 2]), (2, 5, [1, 1]), (1200, 20, [60] * 20)],
)
def test_connections_are_split_evenly(connections: int, hosts: int, expected: list[int]) -> None:
    assert split_evenly(connections, hosts) == expected


def test_the_quantiles_of_a_load_without_responses_are_zero() -> None:
    empty = HdrHistogram(1, 10**9, 3)
    assert set(histograms.quantiles_us(empty).values()) == {0.0}


@pytest.mark.parametrize("values_us", [[], [1], [1, 1, 1500, 10**6, 3 * 10**9]])
def test_recorded_values_are_those_of_the_library(values_us: list[int]) -> None:
    decoded = HdrHistogram.decode(histogram(values_us).encode())
    steps = [
        (step.value_iterated_to, step.count_at_value_iterated_to)
        for step in decoded.get_recorded_iterator()
    ]
    assert histograms.recorded(decoded) == steps
