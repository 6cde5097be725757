"""Histograms of times, merged from the logs of all rounds of a load, with a line per server."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl
from hdrh.histogram import HdrHistogram

from gossamer_lab.experiments.manifest import Distribution, Experiment
from gossamer_lab.hosts.histograms import read, recorded
from gossamer_lab.report.charts import Chart
from gossamer_lab.report.data_tables import Cell, DataTable, table
from gossamer_lab.report.subjects import Subjects, axis
from gossamer_lab.report.table import duration
from gossamer_lab.store import Run

_HEIGHT = 300
_BINS_A_DECADE = 20
_QUANTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class _MergedHistogram:
    """All times of one kind of a server under a load."""

    server: str
    histogram: HdrHistogram
    max_us: float

    def bins(self) -> list[dict[str, Any]]:
        """Return the share of requests in each bin, including empty bins in between."""
        counts: Counter[int] = Counter()
        for time_ns, count in recorded(self.histogram):
            us = max(time_ns / 1000, 0.001)
            counts[math.floor(math.log10(us) * _BINS_A_DECADE)] += count
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


def _merge_histograms(run: Run, distribution: Distribution) -> list[_MergedHistogram]:
    """Merge the logs of all valid rounds of each server."""
    if "histograms" not in run.raw.columns:
        return []
    kept = run.raw.filter(pl.col("histograms").is_not_null(), pl.col("point") == distribution.point)
    if "invalid" in kept.columns:
        kept = kept.filter(pl.col("invalid").is_null())
    found: dict[str, _MergedHistogram] = {}
    for row in kept.iter_rows(named=True):
        histogram = read((run.folder / row["histograms"]).read_text()).get(distribution.kind)
        max_us = row[f"{distribution.kind}_max_us"]
        if histogram is None or max_us is None:
            continue
        if before := found.get(row["server"]):
            histogram.add(before.histogram)
            max_us = max(max_us, before.max_us)
        found[row["server"]] = _MergedHistogram(row["server"], histogram, max_us)
    return [one for one in found.values() if one.histogram.get_total_count()]


def _spec(run: Run, distribution: Distribution, merged: list[_MergedHistogram]) -> dict[str, Any]:
    """Return the chart: a step line for each server, and a triangle at its maximum."""
    subjects = Subjects(run, {one.server for one in merged})
    bins = [at for one in merged for at in one.bins()]
    floor = min(at["share"] for at in bins if at["share"] > 0) / 2
    steps = [at | {"height": max(at["share"], floor)} for at in bins]
    longest = [
        {"server": one.server, "max_ms": max(one.max_us / 1000, 1e-6), "height": floor}
        for one in merged
    ]
    x_scale = alt.Scale(type="log", nice=False)
    y_scale = alt.Scale(type="log", domain=[floor, 1], nice=False)
    share = alt.Y(
        "height:Q",
        title="share of requests (logarithmic)",
        scale=y_scale,
        axis=alt.Axis(format="~%", grid=True, tickCount=5),
    )
    time = f"{distribution.words}, ms (logarithmic)"
    x = alt.X("from_ms:Q", title=time, scale=x_scale, axis=axis())
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
    maxima = alt.Chart(alt.Data(values=longest)).mark_point(
        shape="triangle-down", size=110, filled=True, yOffset=-7
    )
    max_tooltip = alt.Tooltip("max_ms:Q", title="maximum, ms", format=",.4~g")
    maxima = maxima.encode(
        x=alt.X("max_ms:Q"), y=share, tooltip=[tooltip[0], max_tooltip], **shared
    )
    chart = alt.layer(line.add_params(subjects.pick), dots, maxima)
    spec: dict[str, Any] = chart.properties(width="container", height=_HEIGHT).to_dict()
    spec.pop("config", None)
    return spec


def _table(distribution: Distribution, merged: list[_MergedHistogram]) -> DataTable:
    quantiles = [f"{quantile:g} %" for quantile in _QUANTILES]
    columns = [distribution.words, "requests", *quantiles, "maximum"]
    bins = [at for one in merged for at in one.bins()]
    return table(columns, [one.line() for one in merged], bins)


def distribution_charts(run: Run, experiment: Experiment) -> list[tuple[Chart, DataTable]]:
    """Return a chart with its table for each distribution that has data."""
    found = []
    for distribution in experiment.distributions:
        if merged := _merge_histograms(run, distribution):
            chart = Chart(
                distribution.key,
                distribution.title,
                distribution.caption,
                _spec(run, distribution, merged),
            )
            found.append((chart, _table(distribution, merged)))
    return found
