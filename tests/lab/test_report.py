"""The report, as a file and in a browser."""

import base64
import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import vl_convert as vlc
from hdrh.histogram import HdrHistogram
from rich.console import Console
from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

from browser import browser, programs, requests, show
from conftest import known_rows, make_run, row
from gossamer_lab.experiments.are_events_fast import ARE_EVENTS_FAST
from gossamer_lab.experiments.manifest import ChartSpec
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.experiments.sandstorm import SANDSTORM
from gossamer_lab.report.derived import with_derived
from gossamer_lab.report.line_charts import line_charts
from gossamer_lab.report.page import write_report
from gossamer_lab.report.table import show as show_table
from gossamer_lab.report.text import memory_size, method
from gossamer_lab.store import Run

_PATIENCE_S = 120
CHARTS = ("cpu", "response")


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    found = programs()
    if not found:
        pytest.skip("no chromium and chromedriver on this machine")
    with browser(*found) as running:
        yield running


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of the run with known values, which tests only read."""
    run = make_run(tmp_path_factory.mktemp("page") / "run", known_rows())
    write_report(run, QUICK)
    return run.report


def opened(chrome: webdriver.Chrome, page: Path, width: int, dark: bool = False) -> None:
    """Open a report and wait until its charts are drawn."""
    show(chrome, page, width, dark)
    WebDriverWait(chrome, _PATIENCE_S).until(
        lambda here: here.execute_script("return document.documentElement.dataset.drawn")
    )


FAINT = (
    "return [...document.querySelectorAll(arguments[0])]"
    ".filter(mark => Number(getComputedStyle(mark).opacity) < 0.5).length"
)


def toggle(chrome: webdriver.Chrome, key: str, name: str) -> None:
    """Click a name in the legend of a chart."""
    chrome.execute_script(
        "const label = [...document.querySelectorAll("
        "`#chart-${arguments[0]} svg .role-legend-label text`)]"
        ".find(text => text.textContent === arguments[1]);"
        "const at = label.getBoundingClientRect();"
        "for (const type of ['mousedown', 'mouseup', 'click']) label.dispatchEvent("
        "new MouseEvent(type, {bubbles: true, clientX: at.x + 2, clientY: at.y + 2}))",
        key,
        name,
    )


def linked(html: str, name: str) -> str:
    """Return the data of a download link."""
    found = re.search(rf'download="{name}" href="data:[a-z/]+;base64,([^"]+)"', html)
    assert found, f"no link to {name}"
    return base64.b64decode(found.group(1)).decode()


def right_of(chrome: webdriver.Chrome, shown: str) -> float:
    """Return where a part of the page ends."""
    place = f"document.querySelector('{shown}').getBoundingClientRect()"
    return float(chrome.execute_script(f"return {place}.right"))


@pytest.mark.parametrize("width", [390, 1200])
def test_every_chart_is_drawn_in_the_window_without_network_or_console_errors(
    chrome: webdriver.Chrome, page: Path, width: int
) -> None:
    requests(chrome)
    opened(chrome, page, width)
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
    for key in CHARTS:
        assert right_of(chrome, f"#chart-{key} svg") <= width
        marks = chrome.execute_script(
            "return document.querySelectorAll("
            f"'#chart-{key} svg .mark-rect.role-mark path, #chart-{key} svg .mark-symbol path')"
            ".length"
        )
        assert marks >= 6, f"{key}: a mark for each of three servers at two points"
    requested = [url for url in requests(chrome) if not url.startswith(("data:", "blob:"))]
    assert requested == [page.as_uri()]
    errors = [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


SHOWN = (
    "return [...document.querySelectorAll('figure .chart, figure .picture')]"
    ".filter(here => getComputedStyle(here).display !== 'none')"
    ".map(here => here.className.split(' ')[0])"
)


def test_the_legend_highlights_a_server_and_printed_charts_are_images(
    chrome: webdriver.Chrome, page: Path
) -> None:
    opened(chrome, page, 1200)
    bars = "#chart-cpu svg .mark-rect.role-mark path"
    assert chrome.execute_script(FAINT, bars) == 0
    toggle(chrome, "cpu", "nginx")
    WebDriverWait(chrome, _PATIENCE_S).until(lambda here: here.execute_script(FAINT, bars) == 4)
    assert chrome.execute_script(SHOWN) == ["chart"] * len(CHARTS)
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert chrome.execute_script(SHOWN) == ["picture"] * len(CHARTS)
    finally:
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def claims_run(folder: Path) -> Run:
    """Return a run with verdicts: two servers whose time grows with the load, four rounds."""
    loads = (16, 128, 400)
    rows = [
        row(0, (number, f"load-{load}", server), 6.0)
        | {"servicing_us": slope * load * noise, "measured_load": float(load), "invalid": None}
        for number, noise in enumerate((0.99, 1.0, 1.01, 1.0), 1)
        for load in loads
        for server, slope in (("event", 50.0), ("nginx", 80.0))
    ]
    points = [point.as_dict() for point in ARE_EVENTS_FAST.points]
    points = [point for point in points if point["connections"] in loads]
    run = make_run(folder, rows, experiment="are-events-fast", points=points)
    return with_derived(run, ARE_EVENTS_FAST)


def test_charts_of_claims_have_lines_fits_and_tables(
    chrome: webdriver.Chrome, tmp_path: Path
) -> None:
    run = claims_run(tmp_path / "run")
    write_report(run, ARE_EVENTS_FAST)
    requests(chrome)
    for width in (390, 1200):
        opened(chrome, run.report, width)
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
        drawn = {series["key"]: len(series["values"]) for series in run.results["series"]}
        assert drawn["service-time"] == drawn["measured-load"] == 6
        for key in (key for key, shown in drawn.items() if shown):
            marks = f"document.querySelectorAll('#chart-{key} svg .mark-symbol path')"
            assert chrome.execute_script(f"return {marks}.length") >= drawn[key]
    requested = [url for url in requests(chrome) if not url.startswith(("data:", "blob:"))]
    assert set(requested) == {run.report.as_uri()}
    assert [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"] == []
    lines = "return document.querySelectorAll('#chart-service-time svg .mark-line path').length"
    assert chrome.execute_script(lines) == 2
    html = run.report.read_text()
    assert "Are events fast?" in html
    assert linked(html, "service-time.csv").startswith("server,point,x,value,low,high,runs\n")
    fits = {fit["server"]: fit for fit in json.loads(linked(html, "service-time.json"))["fits"]}
    assert fits["event"]["slope"] == pytest.approx(50.0, rel=0.01)
    assert fits["nginx"]["slope_low"] < 80.0 < fits["nginx"]["slope_high"]


def test_charts_follow_the_colour_scheme_of_the_page(chrome: webdriver.Chrome, page: Path) -> None:
    label = (
        "return getComputedStyle(document.querySelector('#chart-cpu .role-axis-label text')).fill"
    )
    opened(chrome, page, 1200)
    light = chrome.execute_script(label)
    opened(chrome, page, 1200, dark=True)
    assert light == "rgb(29, 36, 48)"
    assert chrome.execute_script(label) == "rgb(227, 231, 238)"


def test_the_page_contains_the_raw_data(run: Run, page: Path) -> None:
    html = page.read_text()
    rows = list(csv.DictReader(io.StringIO(linked(html, "quick-raw.csv"))))
    assert [row["server"] for row in rows[:3]] == ["event", "nginx", "h2o"]
    assert [float(row["server_cpu_us_per_request"]) for row in rows[:3]] == [4.0, 8.0, 5.0]
    assert len(json.loads(linked(html, "quick-raw.json"))) == len(known_rows())
    assert json.loads(linked(html, "quick-results.json")) == run.results


def test_a_configuration_cannot_break_out_of_the_page(page: Path) -> None:
    html = page.read_text()
    assert 'server "' not in html
    assert "server &#34;nginx&#34; &lt;b&gt;&amp;amp;&lt;/b&gt; &lt;/script&gt;" in html


def test_charts_are_also_saved_as_images(page: Path) -> None:
    folder = page.parent / "charts"
    for key in CHARTS:
        assert (folder / f"{key}.svg").read_text().startswith("<svg")
        assert (folder / f"{key}.png").read_bytes().startswith(b"\x89PNG")
    assert "nginx" in (folder / "cpu.svg").read_text()


@pytest.mark.usefixtures("undrawn")
def test_skipped_subjects_are_reported(tmp_path: Path) -> None:
    skipped = [{"name": "lighttpd", "reason": "ended with status 1", "is_error": True}]
    rows = known_rows()[:-1]
    changes = {"skipped": skipped, "absent_peers": ["h2o"], "complete": False, "planned": 12}
    run = make_run(tmp_path, rows, **changes)
    write_report(run, QUICK)
    html = run.report.read_text()
    assert "Skipped: lighttpd: ended with status 1" in html
    assert "Not installed: h2o. To install: make peers" in html
    assert "Interrupted: 11 of 12 measurements were made." in html


@pytest.mark.usefixtures("undrawn")
def test_without_peers_nothing_is_compared(tmp_path: Path) -> None:
    rows = [row for row in known_rows() if row["ours"]]
    run = make_run(tmp_path, rows)
    write_report(run, QUICK)
    assert "best peer" not in run.report.read_text()


def sandstorm_run(folder: Path) -> Run:
    """Return a run with histograms: two rounds of two servers, 1000 clients."""
    rows = [
        row(order, (number, "clients-1000", server), 6.0)
        | {"invalid": None, "server_memory_kb": 2048, "histograms": f"histograms/{order:04}.hlog"}
        for order, (number, server) in enumerate((n, s) for n in (1, 2) for s in ("event", "nginx"))
    ]
    folder.mkdir()
    (folder / "histograms").mkdir()
    for given in rows:
        (folder / given["histograms"]).write_text(hdr_log(slow=given["server"] == "nginx"))
    points = [p.as_dict() for p in SANDSTORM.points if p.key == "clients-1000"]
    run = make_run(folder, rows, experiment="sandstorm", points=points)
    run.results["cross_check"] = CROSS_CHECK
    return with_derived(run, SANDSTORM)


@pytest.fixture(scope="module")
def sandstorm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of that run, which tests only read."""
    run = sandstorm_run(tmp_path_factory.mktemp("sandstorm") / "run")
    write_report(run, SANDSTORM)
    return run.report


def hdr_log(slow: bool) -> str:
    """Return a log of 1000 times of 2 ms, and one of 3 s for a slow server."""
    lines = ["#[Histogram log format version 1.3]"]
    for tag in ("connect", "response"):
        histogram = HdrHistogram(1, 3_600_000_000_000, 3)
        histogram.record_value(2_000_000, 1000)
        if slow:
            histogram.record_value(3_000_000_000)
        lines.append(f"Tag={tag},0.000,1.000,3000.000,{histogram.encode().decode()}")
    return "\n".join(lines) + "\n"


CROSS_CHECK = {
    "expected_ratio": [0.75, 1.4],
    "expected_time_ratio": [0.8, 1.25],
    "server": "nginx",
    "rounds": 2,
    "absent": [],
    "warnings": ["a request of ab cost the server 2.00 times as much as one of ours"],
    "clients": [
        {
            "name": name,
            "version": "1.0",
            "command": f"{name} URL",
            "throughput_per_s": 1000.0,
            "server_cpu_us_per_request": cost,
            "client_cpu_us_per_request": 5.0,
            "point": "305 B conn/request, 1000 conns",
            "seconds": 3,
            "mean_us": 1e4 * cost,
            "mean_ratio": cost / 5.0,
            "median_ratio": None,
            "server_cpu_ratio": cost / 6.0,
            "failure": None,
        }
        for name, cost in (("gossamer load", 6.0), ("ab", 12.0))
    ],
}


def test_histograms_are_drawn_and_their_legends_toggle(
    chrome: webdriver.Chrome, sandstorm: Path
) -> None:
    requests(chrome)
    for width in (390, 1200):
        opened(chrome, sandstorm, width)
        assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
    for key in ("connect-1000", "response-1000"):
        count = f"document.querySelectorAll('#chart-{key} svg .mark-line path').length"
        assert chrome.execute_script(f"return {count}") >= 2
        toggle(chrome, key, "nginx")
        WebDriverWait(chrome, _PATIENCE_S).until(
            lambda here, key=key: here.execute_script(FAINT, f"#chart-{key} svg .mark-line path")
        )
    requested = [url for url in requests(chrome) if not url.startswith(("data:", "blob:"))]
    assert set(requested) == {sandstorm.as_uri()}
    assert [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_histograms_contain_all_rounds_and_the_maximum(sandstorm: Path) -> None:
    html = sandstorm.read_text()
    bins = json.loads(linked(html, "connect-1000.json"))
    counts = {
        server: sorted(at["count"] for at in bins if at["server"] == server and at["count"])
        for server in ("event", "nginx")
    }
    assert counts == {"event": [2000], "nginx": [2, 2000]}
    (late,) = (at for at in bins if at["count"] == 2)
    assert late["from_ms"] <= 3000 <= late["to_ms"]


def test_resources_and_the_cross_check_are_shown_in_tables(sandstorm: Path) -> None:
    html = sandstorm.read_text()
    used = list(csv.DictReader(io.StringIO(linked(html, "resources.csv"))))
    assert [(at["server"], at["measurements"]) for at in used] == [("event", "2"), ("nginx", "2")]
    assert "a request of ab cost the server 2.00 times" in html
    for text in ("×2.00", "×2.40", "120 ms", "305 B conn/request, 1000 conns"):
        assert text in html
    clients = json.loads(linked(html, "cross-check.json"))
    assert [client["name"] for client in clients] == ["gossamer load", "ab"]


@pytest.mark.parametrize(
    ("longest", "expected"), [(2.5, "for 0.35 to 2.5 s,"), (0.35, "for 0.35 s,")]
)
def test_the_duration_of_loads_is_reported(run: Run, longest: float, expected: str) -> None:
    for point, seconds in zip(run.results["points"], (0.35, longest), strict=True):
        point["seconds"] = seconds
    assert any(expected in sentence for sentence in method(run.results))


@pytest.mark.usefixtures("undrawn")
def test_the_report_of_a_smoke_run_says_so_below_its_title(run: Run) -> None:
    write_report(run, QUICK)
    header = run.report.read_text().partition("</header>")[0]
    assert f"<b>{run.results['headline']}</b>" in header.partition("</h1>")[2]
    assert run.results["headline"].startswith("Smoke run: it only tests that everything works")
    run.results["headline"] = None
    write_report(run, QUICK)
    assert 'class="note' not in run.report.read_text().partition("</header>")[0]


def test_labels_of_axes_are_plain_numbers(tmp_path: Path) -> None:
    values = ((1e-3, 120.0), (1.0, 0.5), (1e3, 1_200_000.0), (1e6, 2e9))
    chart_spec = ChartSpec(
        *("k", "title", "caption", "connections", "v", "x", "y"), log_x=True, log_y=True
    )
    shown = [
        {"server": "event", "point": "p", "x": x, "value": y, "low": None, "high": None, "runs": 1}
        for x, y in values
    ]
    run = make_run(tmp_path / "run", known_rows())
    run.results["series"] = [{"key": "k", "values": shown, "fits": []}]
    (chart,) = line_charts(run, replace(SANDSTORM, charts=(chart_spec,)))
    labels = re.findall(r"<text[^>]*>([^<]+)</text>", vlc.vegalite_to_svg(chart.spec))
    numbers = [label for label in labels if re.match(r"\W?\d", label)]
    assert {"0.01", "1", "1,000,000"} <= set(numbers)
    assert not [label for label in numbers if re.search(r"[a-z]", label, re.IGNORECASE)]


def test_invalid_measurements_are_counted_by_kind_of_reason(tmp_path: Path) -> None:
    reasons = (
        "invalid: other processes used 37% of the server's core",
        "invalid: other processes used 6% of the server's core",
        "invalid: 782 requests failed (reset: 782, timeout: 3)",
        None,
    )
    rows = [row | {"invalid": why} for row, why in zip(known_rows(), reasons, strict=False)]
    run = make_run(tmp_path, rows)
    assert run.results["invalid"] == {
        "invalid: other processes used part of the server's core": 2,
        "invalid: requests failed (reset, timeout)": 1,
    }


def test_the_memory_of_the_machine_is_shown_in_units_that_people_read() -> None:
    assert memory_size("24684096 kB") == "23.5 GiB"
    assert memory_size("524288 kB") == "512 MiB"
    assert memory_size(None) == "unknown"


@pytest.mark.usefixtures("undrawn")
def test_a_verdict_stands_beside_that_without_the_correction(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", known_rows(), experiment="are-events-fast")
    decided = {"claim": "This is so", "section": "1", "rule": "holds if it is", "rounds": 4}
    decided |= {"published": "equal", "reading": "within a tenth", "reason": "expected: at most 1"}
    decided |= {"verdict": "holds", "quantity": "slope", "value": 0.5, "low": 0.4, "high": 0.6}
    other = {"quantity": "slope", "verdict": "does not hold"}
    other |= {"value": 1.25, "low": 1.125, "high": 1.5}
    run.results["verdicts"] = [decided | {"uncorrected": other}, decided | {"uncorrected": None}]
    plain = io.StringIO()
    show_table(run.results, Console(file=plain))
    assert "uncorrected: does" in " ".join(plain.getvalue().split())
    write_report(run, replace(ARE_EVENTS_FAST, charts=(), distributions=()))
    html = run.report.read_text()
    assert html.count("<small>uncorrected: does not hold, 1.250 (1.125 to 1.500)</small>") == 1
