"""Histograms of times, whole: from the logs of all rounds of a load, a line for each server."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl
from hdrh.histogram import HdrHistogram

from gossamer_lab.experiment import Distribution, Experiment
from gossamer_lab.hosts.histograms import read
from gossamer_lab.report.charts import Chart
from gossamer_lab.report.figures import Cell, FigureTable, table
from gossamer_lab.report.subjects import Subjects
from gossamer_lab.store import Run
from gossamer_lab.table import duration

_HEIGHT = 300
_BINS_A_DECADE = 20
_QUANTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class _Whole:
    """All times of one kind of a server at a load."""

    server: str
    histogram: HdrHistogram
    max_us: float

    def bins(self) -> list[dict[str, Any]]:
        """Return the share of requests in each bin, the empty ones between others too."""
        counts: Counter[int] = Counter()
        for step in self.histogram.get_recorded_iterator():
            us = max(step.value_iterated_to / 1000, 0.001)
            counts[math.floor(math.log10(us) * _BINS_A_DECADE)] += step.count_at_value_iterated_to
        total = self.histogram.get_total_count()
        return [
            {
                "server": self.server,
                "from_ms": 10 ** (place / _BINS_A_DECADE) / 1000,
                "to_ms": 10 ** ((place + 1) / _BINS_A_DECADE) / 1000,
                "count": counts[place],
                "share": counts[place] / total,
            }
            for place in range(min(counts) - 1, max(counts) + 2)
        ]

    def line(self) -> list[Cell]:
        """Return its line of the table."""
        found = self.histogram.get_percentile_to_value_dict(list(_QUANTILES))
        times = [found[quantile] / 1000 for quantile in _QUANTILES]
        shown = [Cell(duration(us)) for us in (*times, self.max_us)]
        return [Cell(self.server), Cell(f"{self.histogram.get_total_count():,}"), *shown]


def _wholes(run: Run, drawn: Distribution) -> list[_Whole]:
    """Add up the logs of all sound rounds of each server."""
    if "histograms" not in run.raw.columns:
        return []
    kept = run.raw.filter(pl.col("histograms").is_not_null(), pl.col("point") == drawn.point)
    if "void" in kept.columns:
        kept = kept.filter(pl.col("void").is_null())
    found: dict[str, _Whole] = {}
    for row in kept.iter_rows(named=True):
        histogram = read((run.folder / row["histograms"]).read_text()).get(drawn.kind)
        max_us = row[f"{drawn.kind}_max_us"]
        if histogram is None or max_us is None:
            continue
        if before := found.get(row["server"]):
            histogram.add(before.histogram)
            max_us = max(max_us, before.max_us)
        found[row["server"]] = _Whole(row["server"], histogram, max_us)
    return [whole for whole in found.values() if whole.histogram.get_total_count()]


def _spec(run: Run, drawn: Distribution, wholes: list[_Whole]) -> dict[str, Any]:
    """Return the chart: a line of steps for each server, and a triangle at its longest time."""
    subjects = Subjects(run, {whole.server for whole in wholes})
    bins = [at for whole in wholes for at in whole.bins()]
    floor = min(at["share"] for at in bins if at["share"] > 0) / 2
    steps = [at | {"height": max(at["share"], floor)} for at in bins]
    longest = [
        {"server": whole.server, "max_ms": max(whole.max_us / 1000, 1e-6), "height": floor}
        for whole in wholes
    ]
    across = alt.Scale(type="log", nice=False)
    up = alt.Scale(type="log", domain=[floor, 1], nice=False)
    share = alt.Y(
        "height:Q",
        title="share of requests (logarithmic)",
        scale=up,
        axis=alt.Axis(format="~%", grid=True, tickCount=5),
    )
    time = f"{drawn.words}, ms (logarithmic)"
    axis = alt.Axis(format="~g", grid=True, tickCount=6)
    x = alt.X("from_ms:Q", title=time, scale=across, axis=axis)
    tooltip = [
        alt.Tooltip("server:N", title="server"),
        alt.Tooltip("from_ms:Q", title="from, ms", format=",.3~g"),
        alt.Tooltip("to_ms:Q", title="to, ms", format=",.3~g"),
        alt.Tooltip("share:Q", title="share", format=".3~%"),
        alt.Tooltip("count:Q", title="requests", format=","),
    ]
    shared = {"color": subjects.colour(), "opacity": subjects.opacity()}
    base = alt.Chart(alt.Data(values=steps)).encode(x=x, y=share, **shared)
    line = base.mark_line(interpolate="step-after", strokeWidth=1.5)
    full = [at for at in steps if at["count"]]
    dots = alt.Chart(alt.Data(values=full)).mark_point(size=60, filled=True)
    dots = dots.encode(x=x, y=share, color=subjects.colour(), tooltip=tooltip)
    dots = dots.encode(opacity=alt.value(0))
    most = alt.Chart(alt.Data(values=longest)).mark_point(
        shape="triangle-down", size=110, filled=True, yOffset=-7
    )
    told = alt.Tooltip("max_ms:Q", title="longest, ms", format=",.4~g")
    most = most.encode(x=alt.X("max_ms:Q"), y=share, tooltip=[tooltip[0], told], **shared)
    chart = alt.layer(line.add_params(subjects.pick), dots, most)
    spec: dict[str, Any] = chart.properties(width="container", height=_HEIGHT).to_dict()
    spec.pop("config", None)
    return spec


def _table(drawn: Distribution, wholes: list[_Whole]) -> FigureTable:
    quantiles = [f"{quantile:g} %" for quantile in _QUANTILES]
    columns = [drawn.words, "requests", *quantiles, "longest"]
    bins = [at for whole in wholes for at in whole.bins()]
    return table(columns, [whole.line() for whole in wholes], bins)


def distribution_charts(run: Run, experiment: Experiment) -> list[tuple[Chart, FigureTable]]:
    """Return a chart for each distribution of which anything was measured, with its table."""
    found = []
    for drawn in experiment.distributions:
        if wholes := _wholes(run, drawn):
            chart = Chart(drawn.key, drawn.title, drawn.caption, _spec(run, drawn, wholes))
            found.append((chart, _table(drawn, wholes)))
    return found
