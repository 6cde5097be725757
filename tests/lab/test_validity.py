"""When a measurement is invalid; which files clients request."""

import os
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import report
from gossamer_lab.experiments.manifest import Point, ValidityRules
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.experiments.sandstorm import SANDSTORM
from gossamer_lab.experiments.thread_pool_server import THREAD_POOL_SERVER
from gossamer_lab.hosts.pool import HostPool
from gossamer_lab.measuring import fileset
from gossamer_lab.measuring.accounting import CpuTime
from gossamer_lab.measuring.cpu_limit import CpuLimiter
from gossamer_lab.measuring.load import Generator
from gossamer_lab.measuring.measure import load_metrics
from gossamer_lab.measuring.usage import Counters, Usage
from gossamer_lab.measuring.validity import invalid_reason, judged_anew, load_share
from gossamer_lab.store import raw_frame

POINT = Point("load-500", 305, 500, 1)
RULE = ValidityRules(exempt=("thread-128",))


def row(**changes: object) -> dict[str, Any]:
    valid = {
        "server": "event",
        "seconds": 2.0,
        "response_mean_us": 50_000.0,
        "measured_load": 490.0,
        "errors": 0,
        "errors_by_kind": "",
        "client_busy": 0.5,
    }
    return valid | changes


def test_a_measurement_within_the_limits_is_valid() -> None:
    assert invalid_reason(row(), POINT, RULE) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"client_busy": 0.99}, "the client was the limit"),
        ({"measured_load": 130.0}, "the measured load fell short"),
        ({"errors": 3, "errors_by_kind": "timeout: 3"}, r"3 requests failed \(timeout: 3\)"),
        ({"response_mean_us": None}, "too few responses"),
    ],
)
def test_a_measurement_not_limited_by_the_server_is_invalid(
    changes: dict[str, Any], reason: str
) -> None:
    assert re.search(reason, str(invalid_reason(row(**changes), POINT, RULE)))
    assert invalid_reason(row(**changes), POINT, None) is None


def test_failed_requests_may_be_tolerated() -> None:
    forgiving = ValidityRules(may_fail=("event",))
    assert invalid_reason(row(errors=3, errors_by_kind="timeout: 3"), POINT, forgiving) is None


def test_stored_rows_are_judged_by_the_present_rules() -> None:
    """The pool's clients are reset by a kernel whose accept queue is full: a subject of claims."""
    failed = {"errors": 21, "errors_by_kind": "reset: 21", "requests": 40_000, "failure": None}
    stored = {"point": "clients-1000", "invalid": "invalid: 21 requests failed (reset: 21)"}
    rows = [
        row(server="pool", **failed, **stored),
        row(server="events", **failed, **stored | {"invalid": None}),
        row(server="events", client_busy=None, **failed | {"requests": None}, **stored),
        row(server="events", **failed | {"failure": "it ended"}, **stored | {"invalid": None}),
    ]
    found = judged_anew(raw_frame(rows), SANDSTORM)
    assert found["invalid"].to_list() == [None, stored["invalid"], stored["invalid"], None]
    assert judged_anew(raw_frame(rows), QUICK)["invalid"].to_list() == [
        one["invalid"] for one in rows
    ]


@pytest.mark.parametrize("server", ["event", "thread-128"])
def test_a_limited_server_must_be_able_to_get_its_share_of_the_core(server: str) -> None:
    limited = row(server=server, server_cpu_share=0.25, server_cpu_share_got=0.1)
    assert invalid_reason(limited | {"core_share_of_both": 0.96}, POINT, RULE) is None
    found = invalid_reason(limited | {"core_share_of_both": 0.9}, POINT, RULE)
    assert found == "invalid: other processes used 10% of the server's core"
    assert invalid_reason(limited | {"core_share_of_both": None}, POINT, RULE) is None


@pytest.mark.parametrize("server", ["event", "thread-128"])
def test_others_may_not_use_the_core_of_a_server_without_a_limit(server: str) -> None:
    free = row(server=server, core_share_of_both=None)
    assert invalid_reason(free | {"server_core_interference": 0.04}, POINT, RULE) is None
    found = invalid_reason(free | {"server_core_interference": 0.2}, POINT, RULE)
    assert found == "invalid: other processes used 20% of the server's core"
    assert invalid_reason(free | {"server_core_interference": None}, POINT, RULE) is None


def test_a_client_that_is_the_limit_makes_every_measurement_invalid() -> None:
    thinks = Point("thinks", 305, 500, 1, think_ms=20)
    assert invalid_reason(row(client_busy=0.96), thinks, RULE) is not None
    assert invalid_reason(row(client_busy=0.96, server="thread-128"), POINT, RULE) is not None


def test_nothing_limits_connections_that_only_wait() -> None:
    """Programs that a tunnel needs use the client's core while it opens its connections."""
    waits = Point("idle", 305, 500, 1, think_ms=60_000)
    busy = row(client_busy=0.96, client_core_interference=0.9, measured_load=3.0)
    assert invalid_reason(busy, waits, RULE) is None
    assert invalid_reason(busy | {"seconds": 61.0}, waits, RULE) is not None
    failed = busy | {"errors": 3, "errors_by_kind": "timeout: 3"}
    assert invalid_reason(failed, waits, RULE) is not None


@pytest.mark.parametrize("server", ["event", "thread-128"])
def test_a_client_whose_core_others_use_is_the_limit_although_it_is_hardly_busy(
    server: str,
) -> None:
    busy = row(server=server, client_busy=0.2)
    assert invalid_reason(busy | {"client_core_interference": 0.7}, POINT, RULE) is None
    found = invalid_reason(busy | {"client_core_interference": 0.78}, POINT, RULE)
    assert found == "invalid: the client was the limit: other processes used 78% of its core"
    assert invalid_reason(busy | {"client_core_interference": None}, POINT, RULE) is None


def used(**changes: float) -> Usage:
    given: dict[str, float] = {"core_s": 0.5, "wall_s": 1.0, **changes}
    return Usage(CpuTime(0.2, 0.3), **given)


def test_the_client_is_as_busy_as_its_load_however_long_it_takes_to_start() -> None:
    # 0.5 s of load that use the whole core, and half a second until the generator has started.
    found = load_metrics(report(1000, 0.5) | {"client_cpu_s": 0.5}, used())
    assert found["client_busy"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("core_s", "process_s", "others"),
    [
        (1.0, 0.95, 0.05),  # the generator keeps the core awake: that is not another process
        (1.0, 0.2, 0.8),
        (0.2, 0.21, 0.0),
        (0.0, 0.3, 0.0),  # one core for both
    ],
)
def test_the_share_of_others_on_the_clients_core_is_what_the_generator_did_not_use(
    core_s: float, process_s: float, others: float
) -> None:
    usage = used(client_core_s=core_s, load_process_s=process_s)
    found = load_metrics(report(1000, 1.0) | {"client_cpu_s": 0.2}, usage)
    assert found["client_core_interference"] == pytest.approx(others)


def test_the_measured_load_of_an_exempt_server_may_fall_short() -> None:
    assert invalid_reason(row(server="thread-128", measured_load=130.0), POINT, RULE) is None


def test_waits_for_the_stock_limits_of_apache_are_apaches() -> None:
    point = next(one for one in THREAD_POOL_SERVER.points if one.key == "clients-600")
    rule = THREAD_POOL_SERVER.validity_rules
    short = {"measured_load": 300.0, "seconds": 2.0}
    assert isinstance(point, Point)
    assert invalid_reason(row(server="apache-event, stock", **short), point, rule) is None
    assert invalid_reason(row(server="queue", **short), point, rule) is not None


def test_requests_cut_off_by_the_end_do_not_invalidate_a_short_run() -> None:
    # 500 connections for 1 s at 0.2 s per response: 500 of 2500 requests are cut off halfway.
    assert load_share(
        row(seconds=1.0, response_mean_us=200_000.0, measured_load=450.0), 500
    ) == pytest.approx(1.0)


def test_the_file_set_has_four_classes_of_nine_sizes_in_every_directory(tmp_path: Path) -> None:
    fileset.make(tmp_path, 3)
    sizes = sorted(path.stat().st_size for path in (tmp_path / "dir00002").iterdir())
    assert len(sizes) == 36
    assert (sizes[0], sizes[-1]) == (102, 921_600)
    assert (tmp_path / "dir00002" / "class3_9").stat().st_nlink == 3


def test_files_are_requested_by_class_and_popularity(tmp_path: Path) -> None:
    requested = fileset.requests(25)
    assert requested == fileset.requests(25)
    kinds = Counter(path.split("class")[1][0] for path in requested)
    assert [kinds[kind] / len(requested) for kind in "0123"] == pytest.approx(
        [0.35, 0.50, 0.14, 0.01], abs=0.04
    )
    assert Counter(path.split("_")[1] for path in requested).most_common(1)[0][0] == "5"
    assert Counter(path.split("/")[1] for path in requested).most_common(1)[0][0] == "dir00000"
    fileset.make(tmp_path, 25)
    assert all((tmp_path / path.lstrip("/")).is_file() for path in requested)


@pytest.mark.parametrize(("core", "cluster"), [(0, ""), (1, "tcp://scheduler:8786")])
def test_a_client_core_that_is_the_servers_or_of_another_machine_is_not_observed(
    core: int, cluster: str, tmp_path: Path
) -> None:
    with socket.socket() as channel:
        hosts = HostPool(channel, 1, cluster, coordinator=os.getpid()) if cluster else None
        generator = Generator(tmp_path, core, tmp_path, lambda: None, lambda _: (), hosts)
        counters = Counters.read(CpuTime(0.0, 0.0), 0, CpuLimiter(), generator)
    assert counters.client_core_s == 0
