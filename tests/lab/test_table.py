"""The table on the terminal."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from conftest import METHOD, known_rows, make_run, row
from gossamer_lab.experiments.idle_connections import IDLE_CONNECTIONS
from gossamer_lab.report.derived import with_derived
from gossamer_lab.report.table import duration, show
from gossamer_lab.store import Run


def printed(run: Run, width: int) -> str:
    """Return the output for a run on a console of that width."""
    text = io.StringIO()
    show(run.results, Console(file=text, width=width))
    return text.getvalue()


def test_each_server_has_a_row_at_each_point(run: Run) -> None:
    lines = [line.split() for line in printed(run, 100).splitlines()]
    for server, cost, ratio in (
        ("event", "*6.00", "×0.75"),
        ("nginx", "8.00", "×1.00"),
        ("h2o", "10.0", "×1.25"),
    ):
        rows = [line[line.index(server) + 1 :] for line in lines if server in line]
        assert [row[0].lstrip("~") for row in rows] == ["100,000/s"] * 2
        assert [row[1:] for row in rows] == [[cost, "µs", ratio, "400", "µs"]] * 2


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_console(run: Run, width: int) -> None:
    text = printed(run, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "*6.00 µs ×0.75" in text


def test_errors_and_failures_are_marked(tmp_path: Path) -> None:
    rows = [
        row(0, (1, "305-keep-16", "event"), 6.0, errors=1234),
        row(1, (1, "305-keep-16", "nginx"), 7.0),
        dict.fromkeys(row(0, (1, "305-keep-16", "h2o"), 1.0))
        | {"point": "305-keep-16", "server": "h2o", "ours": False, "failure": "it died"},
    ]
    text = printed(make_run(tmp_path, rows), 80)
    assert "1,234 errors!" in text
    assert "1 failed!" in text
    assert "*7.00 µs ×1.00" in text
    assert "excluded as best and as reference" in text


def test_marks_are_explained_only_where_they_occur(tmp_path: Path) -> None:
    busy = [row(0, (1, "305-keep-16", "event"), 9.9)]
    assert "~" not in printed(make_run(tmp_path, busy), 100)
    idle = [row(0, (1, "305-keep-16", "event"), 5.0)]
    assert "~: limited by the load generator" in printed(make_run(tmp_path, idle), 100)


def test_missing_peers_and_skipped_servers_are_reported(tmp_path: Path) -> None:
    changes = {
        "absent_peers": ["nginx", "h2o"],
        "skipped": [{"name": "lighttpd", "reason": "no [such] luck", "is_error": True}],
    }
    text = printed(make_run(tmp_path, known_rows(), **changes), 100)
    assert "Not installed: nginx, h2o. To install: make peers" in text
    assert "Skipped: lighttpd: no [such] luck" in text


def test_a_shared_core_is_reported(tmp_path: Path) -> None:
    run = make_run(tmp_path, known_rows())
    run.results["method"] |= {"client_core": 0, "shared_core": True}
    text = printed(run, 100)
    assert "Only one core is available" in text
    assert "server and load generator share core 0" in text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "-"),
        (0.4, "0.4 µs"),
        (99.94, "99.9 µs"),
        (640.4, "640 µs"),
        (1500.0, "1.5 ms"),
        (250_000.0, "250 ms"),
        (2_500_000.0, "2.50 s"),
    ],
)
def test_durations_have_a_suitable_unit(us: float | None, text: str) -> None:
    assert duration(us) == text


def test_interference_on_the_servers_core_is_reported(tmp_path: Path) -> None:
    rows = known_rows()
    assert "Interference" not in printed(make_run(tmp_path, rows), 100)
    disturbed = [row | {"server_core_interference": 0.1} for row in rows]
    disturbed[0]["server_core_interference"] = 0.22
    text = printed(make_run(tmp_path, disturbed), 120)
    assert "Interference: other processes used 11% of the server's core (at most 22%)." in text
    assert "Repeat the run" in text
    of_memory = with_derived(make_run(tmp_path, disturbed), IDLE_CONNECTIONS)
    text = " ".join(printed(of_memory, 120).split())
    assert "(at most 22%), on which the memory of connections does not depend." in text
    assert "Repeat the run" not in text


def test_a_run_without_claims_shows_its_charts_as_tables(run: Run) -> None:
    shown = (("user", 100, 4100.0), ("user", 1000, 4200.0), ("event", 100, 350.0))
    values = [{"server": server, "x": x, "value": value} for server, x, value in shown]
    titles = {"title": "Memory", "x_title": "connections", "y_title": "bytes each"}
    run.results["series"] = [{"key": "memory", "values": values, "fits": []} | titles]
    _headline, *lines = printed(run, 80).splitlines()
    assert lines[0].strip() == "Memory: bytes each"
    rows = [line.split() for line in lines if line.strip()[:1].isalpha()]
    assert rows[1:4] == [
        ["connections", "100.0", "1,000"],
        ["user", "4,100", "4,200"],
        ["event", "350.0", "-"],
    ]


SMOKE = "Smoke run: it only tests that everything works; its results decide nothing."


def test_a_smoke_run_begins_with_what_it_is(run: Run) -> None:
    assert printed(run, 80).splitlines()[0] == SMOKE
    run.results["series"] = [
        {"title": "t", "x_title": "x", "y_title": "y", "fits": [], "key": "k", "values": []}
    ]
    assert printed(run, 80).splitlines()[0] == SMOKE
    run.results["verdicts"] = [
        {"claim": "c", "verdict": "holds", "reason": "r", "quantity": "q", "value": None}
        | {"uncorrected": None}
    ]
    assert printed(run, 80).splitlines()[0] == SMOKE


def test_a_run_of_another_scale_has_no_headline(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", known_rows(), method=METHOD | {"scale": "normal"})
    assert run.results["headline"] is None
    assert "Smoke run" not in printed(run, 80)
