"""The figures behind each chart: a table, and the same as CSV and JSON."""

import base64
import json
from dataclasses import dataclass
from typing import Any

import polars as pl

from gossamer_lab.experiment import Experiment
from gossamer_lab.store import Run


@dataclass(frozen=True)
class FigureTable:
    """A line for each place on the axis, a column for each subject."""

    x_title: str
    servers: list[str]
    lines: list[tuple[float, list[dict[str, Any] | None]]]
    fits: list[dict[str, Any] | None]
    """Of each subject; empty if nothing was fitted."""
    csv: str
    json: str
    """Links that hold their data."""


def link(data: bytes, kind: str) -> str:
    """Return a link that holds its own data."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _table(series: dict[str, Any], x_title: str) -> FigureTable:
    shown = series["shown"]
    servers = list(dict.fromkeys(at["server"] for at in shown))
    found = {(at["x"], at["server"]): at for at in shown}
    places = sorted({at["x"] for at in shown})
    fits = {fit["server"]: fit for fit in series["fits"]}
    return FigureTable(
        x_title=x_title,
        servers=servers,
        lines=[(x, [found.get((x, server)) for server in servers]) for x in places],
        fits=[fits.get(server) for server in servers] if fits else [],
        csv=link(pl.DataFrame(shown, infer_schema_length=None).write_csv().encode(), "text/csv"),
        json=link(json.dumps(series).encode(), "application/json"),
    )


def figure_tables(run: Run, experiment: Experiment) -> dict[str, FigureTable]:
    """Return the table of each drawing that has anything to show."""
    series = {found["key"]: found for found in run.results["series"]}
    return {
        drawing.key: _table(series[drawing.key], drawing.x_title)
        for drawing in experiment.drawings
        if series[drawing.key]["shown"]
    }
