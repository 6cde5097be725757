"""Assembles a report in one file: page, charts, images and data."""

import json
from importlib import resources
from typing import Any

import jinja2
import vl_convert as vlc

from gossamer_lab.experiments.manifest import Experiment
from gossamer_lab.report import text
from gossamer_lab.report.charts import Chart, charts
from gossamer_lab.report.data_tables import DataTable, chart_tables, link
from gossamer_lab.report.distributions import distribution_charts
from gossamer_lab.report.line_charts import line_charts
from gossamer_lab.report.notes import notes
from gossamer_lab.report.table import cost, duration, number, problems, rate, span, uncorrected
from gossamer_lab.report.tables import report_tables
from gossamer_lab.store import Run

_PICTURE_WIDTH = 720
_FONT = "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def _theme(text: str, dim: str, line: str) -> dict[str, Any]:
    """Return the configuration of all charts for a colour scheme."""
    return {
        "background": "transparent",
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": text,
            "titleColor": dim,
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 200,
            "labelSeparation": 8,
        },
        "axisY": {"grid": False},
        "legend": {"labelColor": text, "labelFontSize": 13, "symbolSize": 120, "columns": 6},
    }


_LIGHT = _theme("#1d2430", "#5b6572", "#d9dee5")
_DARK = _theme("#e3e7ee", "#9aa5b4", "#323a46")


def _inline(value: object) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


_PICTURE = _LIGHT | {"background": "white"}
"""Configuration of charts as images."""


def svg(chart: Chart) -> str:
    """Return the chart as an image."""
    drawn: str = vlc.vegalite_to_svg(chart.spec | {"width": _PICTURE_WIDTH}, config=_PICTURE)
    return drawn


def _pictures(chart: Chart) -> dict[str, tuple[bytes, str]]:
    """Return the chart as images, by file name, with their media types."""
    drawn = svg(chart)
    png: bytes = vlc.svg_to_png(drawn, scale=2)
    return {
        f"{chart.key}.svg": (drawn.encode(), "image/svg+xml"),
        f"{chart.key}.png": (png, "image/png"),
    }


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gossamer_lab.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"rate": rate, "duration": duration, "cost": cost, "problems": problems}
    environment.filters |= {"number": number, "span": span, "uncorrected": uncorrected}
    return environment.get_template("page.html.j2")


def _data_links(run: Run) -> dict[str, str]:
    """Return data URLs of the run's data."""
    return {
        "csv": link(run.raw.write_csv().encode(), "text/csv"),
        "json": link(run.raw.write_json().encode(), "application/json"),
        "results": link(_inline(run.results).encode(), "application/json"),
    }


def _charts_and_tables(
    run: Run, experiment: Experiment
) -> tuple[list[Chart], dict[str, DataTable]]:
    """Return the experiment's charts, or those of the table, and the tables behind them."""
    if not experiment.charts:
        return charts(run), {}
    more = distribution_charts(run, experiment)
    tables = chart_tables(run, experiment) | {chart.key: shown for chart, shown in more}
    return line_charts(run, experiment) + [chart for chart, _ in more], tables


def write_report(run: Run, experiment: Experiment) -> None:
    """Write report.html into the run's folder, and each chart as SVG and PNG beside it."""
    drawn, tables = _charts_and_tables(run, experiment)
    links = _data_links(run)
    folder = run.folder / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    for chart in drawn:
        for name, (data, kind) in _pictures(chart).items():
            (folder / name).write_bytes(data)
            links[name] = link(data, kind)
    files = resources.files("gossamer_lab.report")
    results = run.results
    html = _template().render(
        results=results,
        cells={(cell["point"], cell["server"]): cell for cell in results["cells"]},
        has_ratios=any(cell["ratio"] is not None for cell in results["cells"]),
        peer_comparison=text.peer_comparison(results),
        notes=notes(results),
        verdict_counts=text.verdict_counts(results),
        method=text.method(results),
        differences=experiment.notes,
        document=experiment.document,
        tables=tables,
        report_tables=report_tables(run),
        facts=text.facts(results),
        charts=drawn,
        links=links,
        specs=_inline({chart.key: chart.spec for chart in drawn}),
        themes=_inline({"light": _LIGHT, "dark": _DARK}),
        style=(files / "page.css").read_text(),
        script=(files / "page.js").read_text(),
        library=vlc.javascript_bundle(),
    )
    run.report.write_text(html)
