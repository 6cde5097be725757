"""Charts of each client host, for loads by many hosts."""

from typing import Any

import altair as alt
import polars as pl

from gossamer_lab.report.charts import Chart
from gossamer_lab.report.data_tables import Cell, DataTable, table
from gossamer_lab.report.subjects import Subjects, axis
from gossamer_lab.report.table import duration
from gossamer_lab.store import Run, host_rows

_HEIGHT = 320
_KINDS = (
    ("mean", "Mean"),
    ("p50", "Median"),
    ("p75", "75th percentile of the"),
    ("p90", "90th percentile of the"),
)


def _sound(run: Run, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of valid measurements: of WAN hosts if there are any, else of all."""
    valid = run.raw.filter(pl.col("failure").is_null())
    if "invalid" in valid.columns:
        valid = valid.filter(pl.col("invalid").is_null())
    kept = rows.filter(pl.col("order").is_in(valid["order"].to_list()))
    away = [point["key"] for point in run.results["points"] if point.get("is_wan")]
    far = kept.filter(pl.col("point").is_in(away))
    return kept if far.is_empty() else far


def _means(run: Run, rows: pl.DataFrame, column: str) -> list[dict[str, Any]]:
    """Return a column for each host and load: the geometric mean over its rounds."""
    loads = {point["key"]: point["connections"] for point in run.results["points"]}
    found = (
        rows.filter(pl.col(column) > 0)
        .group_by("server", "point", "host", maintain_order=True)
        .agg((pl.col(column).log().mean().exp() / 1000).alias("ms"))
    )
    return [row | {"clients": loads[row["point"]]} for row in found.to_dicts()]


def _spec(run: Run, means: list[dict[str, Any]], title: str) -> dict[str, Any]:
    """Return the chart: a line for each host and server, in the server's colour."""
    subjects = Subjects(run, {mean["server"] for mean in means})
    base = alt.Chart(alt.Data(values=means)).encode(
        x=alt.X("clients:Q", title="clients of all hosts", axis=axis()),
        y=alt.Y("ms:Q", title=f"{title} response time, ms", axis=axis()),
        color=subjects.colour(),
        detail="host:N",
        opacity=alt.condition(subjects.pick, alt.value(0.7), alt.value(0.05)),
        tooltip=[
            alt.Tooltip("server:N", title="server"),
            alt.Tooltip("host:N", title="client host"),
            alt.Tooltip("clients:Q", title="clients", format=","),
            alt.Tooltip("ms:Q", title="ms", format=",.4~g"),
        ],
    )
    line = base.mark_line(strokeWidth=1.2)
    dots = base.mark_point(size=22, filled=True)
    chart = alt.layer(line.add_params(subjects.pick), dots)
    spec: dict[str, Any] = chart.properties(width="container", height=_HEIGHT).to_dict()
    spec.pop("config", None)
    return spec


def _table(means: list[dict[str, Any]]) -> DataTable:
    """Return a line for each host: its minimum and maximum over all loads, by server."""
    servers = list(dict.fromkeys(mean["server"] for mean in means))
    hosts = list(dict.fromkeys(mean["host"] for mean in means))

    def cell(host: str, server: str) -> Cell:
        times = [
            mean["ms"] * 1000 for mean in means if (mean["host"], mean["server"]) == (host, server)
        ]
        return Cell(f"{duration(min(times))} to {duration(max(times))}") if times else Cell("-")

    lines = [[Cell(str(host)), *(cell(host, server) for server in servers)] for host in hosts]
    return table(["client host", *servers], lines, means)


def host_charts(run: Run) -> list[tuple[Chart, DataTable]]:
    """Return the charts of the hosts with their tables; none if there was only one host."""
    rows = host_rows(run.folder)
    if rows is None:
        return []
    rows, found = _sound(run, rows), []
    for key, title in _KINDS:
        if means := _means(run, rows, f"response_{key}_us"):
            caption = (
                "A line for each client host, in the colour of the server, over all requests of "
                "the host under a load."
            )
            heading = f"{title} response time of each client host"
            chart = Chart(f"hosts-{key}", heading, caption, _spec(run, means, title))
            found.append((chart, _table(means)))
    return found
