"""The data behind each chart: as a table, as CSV and as JSON."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gossamer_lab.experiments.manifest import Experiment
from gossamer_lab.report.table import number
from gossamer_lab.store import Run

Row = dict[str, Any]


def link(data: bytes, kind: str) -> str:
    """Return a data URL."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True)
class Cell:
    """The text of a table cell, with a second line in small letters."""

    text: str
    below: str = ""


@dataclass(frozen=True)
class DataTable:
    """A table; the first cell of each line is its name."""

    columns: Sequence[str]
    lines: Sequence[Sequence[Cell]]
    csv: str
    json: str
    """CSV and JSON are data URLs."""


def table(
    columns: Sequence[str], lines: Sequence[Sequence[Cell]], rows: list[Row] | Row
) -> DataTable:
    """Return a table with its data: rows, or an object whose "values" are rows."""
    flat = rows["values"] if isinstance(rows, dict) else rows
    csv = pl.DataFrame(flat, infer_schema_length=None).write_csv()
    data = json.dumps(rows, ensure_ascii=False)
    return DataTable(
        columns, lines, link(csv.encode(), "text/csv"), link(data.encode(), "application/json")
    )


_NONE = Cell("-")


def _value(at: dict[str, Any] | None) -> Cell:
    if at is None:
        return _NONE
    below = "" if at["low"] is None else f"{number(at['low'])} to {number(at['high'])}"
    return Cell(number(at["value"]), below)


def _slope(fit: dict[str, Any] | None) -> Cell:
    if fit is None:
        return _NONE
    below = f"{number(fit['slope_low'])} to {number(fit['slope_high'])}"
    return Cell(number(fit["slope"]), below)


def _series_table(series: dict[str, Any], x_title: str) -> DataTable:
    """Return a line for each x value, a column for each subject, and the fits."""
    values = series["values"]
    servers = list(dict.fromkeys(at["server"] for at in values))
    found = {(at["x"], at["server"]): at for at in values}
    lines = [
        [Cell(f"{x:,}"), *(_value(found.get((x, server))) for server in servers)]
        for x in sorted({at["x"] for at in values})
    ]
    fits = {fit["server"]: fit for fit in series["fits"]}
    if fits:
        of_all = [fits.get(server) for server in servers]
        correlations = [Cell(number(fit["correlation"])) if fit else _NONE for fit in of_all]
        lines += [[Cell("slope of the fit"), *map(_slope, of_all)]]
        lines += [[Cell("correlation"), *correlations]]
    return table([x_title, *servers], lines, series)


def chart_tables(run: Run, experiment: Experiment) -> dict[str, DataTable]:
    """Return the table of each chart that has data."""
    series = {found["key"]: found for found in run.results["series"]}
    return {
        chart_spec.key: _series_table(series[chart_spec.key], chart_spec.x_title)
        for chart_spec in experiment.charts
        if series[chart_spec.key]["values"]
    }
