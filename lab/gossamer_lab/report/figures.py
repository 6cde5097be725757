"""The figures behind each chart: a table, and the same as CSV and JSON."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from gossamer_lab.experiment import Experiment
from gossamer_lab.store import Run
from gossamer_lab.table import figure

Row = dict[str, Any]


def link(data: bytes, kind: str) -> str:
    """Return a link that holds its own data."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


@dataclass(frozen=True)
class Cell:
    """A figure in words, and what stands in small letters below it."""

    text: str
    below: str = ""


@dataclass(frozen=True)
class FigureTable:
    """A table with a line for each row; the first cell of each names it."""

    columns: Sequence[str]
    lines: Sequence[Sequence[Cell]]
    csv: str
    json: str
    """Links that hold their data."""


def table(
    columns: Sequence[str], lines: Sequence[Sequence[Cell]], rows: list[Row] | Row
) -> FigureTable:
    """Return a table with rows, or an object whose "shown" are rows, as the data behind it."""
    flat = rows["shown"] if isinstance(rows, dict) else rows
    csv = pl.DataFrame(flat, infer_schema_length=None).write_csv()
    data = json.dumps(rows, ensure_ascii=False)
    return FigureTable(
        columns, lines, link(csv.encode(), "text/csv"), link(data.encode(), "application/json")
    )


_NONE = Cell("-")


def _value(at: dict[str, Any] | None) -> Cell:
    if at is None:
        return _NONE
    below = "" if at["low"] is None else f"{figure(at['low'])} to {figure(at['high'])}"
    return Cell(figure(at["value"]), below)


def _slope(fit: dict[str, Any] | None) -> Cell:
    if fit is None:
        return _NONE
    below = f"{figure(fit['slope_low'])} to {figure(fit['slope_high'])}"
    return Cell(figure(fit["slope"]), below)


def _of_series(series: dict[str, Any], x_title: str) -> FigureTable:
    """Return a line for each place on the axis, a column for each subject, and the fits."""
    shown = series["shown"]
    servers = list(dict.fromkeys(at["server"] for at in shown))
    found = {(at["x"], at["server"]): at for at in shown}
    lines = [
        [Cell(f"{x:,}"), *(_value(found.get((x, server))) for server in servers)]
        for x in sorted({at["x"] for at in shown})
    ]
    fits = {fit["server"]: fit for fit in series["fits"]}
    if fits:
        of_all = [fits.get(server) for server in servers]
        correlations = [Cell(figure(fit["correlation"])) if fit else _NONE for fit in of_all]
        lines += [[Cell("slope of the fit"), *map(_slope, of_all)]]
        lines += [[Cell("correlation"), *correlations]]
    return table([x_title, *servers], lines, series)


def figure_tables(run: Run, experiment: Experiment) -> dict[str, FigureTable]:
    """Return the table of each drawing that has anything to show."""
    series = {found["key"]: found for found in run.results["series"]}
    return {
        drawing.key: _of_series(series[drawing.key], drawing.x_title)
        for drawing in experiment.drawings
        if series[drawing.key]["shown"]
    }
