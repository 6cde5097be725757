"""The report, as a file and as a browser shows it."""

import base64
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.support.wait import WebDriverWait

from browser import browser, programs, requests, show
from conftest import known_rows, make_run, row
from gossamer_lab.derived import with_derived
from gossamer_lab.experiments.are_events_fast import ARE_EVENTS_FAST
from gossamer_lab.experiments.quick import QUICK
from gossamer_lab.report.page import write_report
from gossamer_lab.store import Run

CHARTS = ("cpu", "ratio", "throughput", "response")


@pytest.fixture(scope="module")
def chrome() -> Iterator[webdriver.Chrome]:
    found = programs()
    if not found:
        pytest.skip("no chromium and chromedriver on this machine")
    with browser(*found) as running:
        yield running


@pytest.fixture
def page(run: Run) -> Path:
    write_report(run, QUICK)
    return run.report


def opened(chrome: webdriver.Chrome, page: Path, width: int, dark: bool = False) -> None:
    """Open a report and wait until its charts are drawn."""
    show(chrome, page, width, dark)
    WebDriverWait(chrome, 20).until(
        lambda here: here.execute_script("return document.documentElement.dataset.drawn")
    )


def linked(html: str, name: str) -> str:
    """Return the data of a download link."""
    found = re.search(rf'download="{name}" href="data:[a-z/]+;base64,([^"]+)"', html)
    assert found, f"no link to {name}"
    return base64.b64decode(found.group(1)).decode()


def test_every_chart_is_drawn_without_network_or_console_errors(
    chrome: webdriver.Chrome, page: Path
) -> None:
    requests(chrome)
    opened(chrome, page, 1200)
    for key in CHARTS:
        marks = chrome.execute_script(
            "return document.querySelectorAll("
            f"'#chart-{key} svg .mark-rect.role-mark path, #chart-{key} svg .mark-symbol path')"
            ".length"
        )
        assert marks >= 6, f"{key}: a mark for each of three servers at two points"
    asked = [url for url in requests(chrome) if not url.startswith(("data:", "blob:"))]
    assert asked == [page.as_uri()]
    errors = [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


def test_the_legend_brings_a_server_out(chrome: webdriver.Chrome, page: Path) -> None:
    opened(chrome, page, 1200)
    faint = (
        "return [...document.querySelectorAll('#chart-cpu svg .mark-rect.role-mark path')]"
        ".filter(bar => Number(getComputedStyle(bar).opacity) < 0.5).length"
    )
    assert chrome.execute_script(faint) == 0
    chrome.execute_script(
        "const label = [...document.querySelectorAll('#chart-cpu svg .role-legend-label text')]"
        ".find(text => text.textContent === 'nginx');"
        "const at = label.getBoundingClientRect();"
        "for (const type of ['mousedown', 'mouseup', 'click']) label.dispatchEvent("
        "new MouseEvent(type, {bubbles: true, clientX: at.x + 2, clientY: at.y + 2}))"
    )
    WebDriverWait(chrome, 5).until(lambda here: here.execute_script(faint) == 4)


def claims_run(folder: Path) -> Run:
    """Return a run with verdicts: two servers whose time grows with the load, four rounds."""
    loads = (16, 128, 500)
    rows = [
        row(0, (number, f"load-{load}", server), 6.0)
        | {"response_mean_us": slope * load * noise, "measured_load": float(load), "void": None}
        for number, noise in enumerate((0.99, 1.0, 1.01, 1.0), 1)
        for load in loads
        for server, slope in (("event", 50.0), ("nginx", 80.0))
    ]
    points = [point.described() for point in ARE_EVENTS_FAST.points]
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
        for drawing in ARE_EVENTS_FAST.drawings:
            marks = f"document.querySelectorAll('#chart-{drawing.key} svg .mark-symbol path')"
            assert chrome.execute_script(f"return {marks}.length") >= 6
    asked = [url for url in requests(chrome) if not url.startswith(("data:", "blob:"))]
    assert set(asked) == {run.report.as_uri()}
    assert [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"] == []
    lines = "return document.querySelectorAll('#chart-service-time svg .mark-line path').length"
    assert chrome.execute_script(lines) == 2
    html = run.report.read_text()
    assert "Are events fast?" in html
    assert linked(html, "service-time.csv").startswith("server,point,x,value,low,high,runs\n")
    fits = {fit["server"]: fit for fit in json.loads(linked(html, "service-time.json"))["fits"]}
    assert fits["event"]["slope"] == pytest.approx(50.0, rel=0.01)
    assert fits["nginx"]["slope_low"] < 80.0 < fits["nginx"]["slope_high"]


@pytest.mark.parametrize("width", [390, 1200])
def test_the_page_is_never_wider_than_the_window(
    chrome: webdriver.Chrome, page: Path, width: int
) -> None:
    opened(chrome, page, width)
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= width
    for key in CHARTS:
        assert (
            chrome.execute_script(
                f"return document.querySelector('#chart-{key} svg').getBoundingClientRect().right"
            )
            <= width
        )


def test_on_paper_the_charts_are_pictures(chrome: webdriver.Chrome, page: Path) -> None:
    shown = (
        "return [...document.querySelectorAll('figure .chart, figure .picture')]"
        ".filter(here => getComputedStyle(here).display !== 'none')"
        ".map(here => here.className.split(' ')[0])"
    )
    opened(chrome, page, 1200)
    assert chrome.execute_script(shown) == ["chart"] * len(CHARTS)
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert chrome.execute_script(shown) == ["picture"] * len(CHARTS)
    finally:
        chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_charts_follow_the_colours_of_the_page(chrome: webdriver.Chrome, page: Path) -> None:
    label = (
        "return getComputedStyle(document.querySelector('#chart-cpu .role-axis-label text')).fill"
    )
    opened(chrome, page, 1200)
    light = chrome.execute_script(label)
    opened(chrome, page, 1200, dark=True)
    assert light == "rgb(29, 36, 48)"
    assert chrome.execute_script(label) == "rgb(227, 231, 238)"


def test_the_page_holds_the_raw_data(run: Run, page: Path) -> None:
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


def test_charts_are_also_pictures(run: Run, page: Path) -> None:
    folder = page.parent / "charts"
    for key in CHARTS:
        assert (folder / f"{key}.svg").read_text().startswith("<svg")
        assert (folder / f"{key}.png").read_bytes().startswith(b"\x89PNG")
    assert "nginx" in (folder / "cpu.svg").read_text()
    assert run.report == page


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    left_out = [{"name": "lighttpd", "reason": "ended with status 1", "is_fault": True}]
    rows = known_rows()[:-1]
    changes = {"left_out": left_out, "absent_peers": ["h2o"], "complete": False, "planned": 12}
    run = make_run(tmp_path, rows, **changes)
    write_report(run, QUICK)
    html = run.report.read_text()
    assert "Left out: lighttpd: ended with status 1" in html
    assert "Not on this machine: h2o. To add them: make peers" in html
    assert "Interrupted: 11 of 12 measurements were made." in html


def test_without_peers_nothing_is_compared(tmp_path: Path) -> None:
    rows = [row for row in known_rows() if row["ours"]]
    run = make_run(tmp_path, rows)
    write_report(run, QUICK)
    html = run.report.read_text()
    assert "chart-cpu" in html
    assert "chart-ratio" not in html
    assert "best peer" not in html
