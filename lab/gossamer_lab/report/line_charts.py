"""Line charts of an experiment: a line for each subject, with intervals and fits."""

from typing import Any

import altair as alt

from gossamer_lab.experiments.manifest import ChartSpec, Experiment
from gossamer_lab.report.charts import Chart
from gossamer_lab.report.subjects import Subjects, axis
from gossamer_lab.store import Run

_HEIGHT = 340
_LINEAR_MARGIN = 1.1
"""Upper limit of a linear axis relative to the maximum mean; intervals may be clipped."""
_LOG_MARGIN = 1.4
"""The same for both ends of logarithmic axes."""


def _ends(fit: dict[str, Any], xs: list[float]) -> list[dict[str, Any]]:
    """Return the two ends of a fitted line."""
    return [
        {"server": fit["server"], "x": x, "value": fit["intercept"] + fit["slope"] * x}
        for x in (min(xs), max(xs))
    ]


class _Lines:
    """The chart of one specification."""

    def __init__(self, chart_spec: ChartSpec, series: dict[str, Any], run: Run) -> None:
        self._chart_spec = chart_spec
        self._shown = series["values"]
        self._fits = series["fits"]
        self._subjects = Subjects(run, {at["server"] for at in series["values"]})
        self._encoding = {
            "x": self._x(),
            "color": self._subjects.colour(),
            "opacity": self._subjects.opacity(),
        }

    def _x(self) -> alt.X:
        places = [at["x"] for at in self._shown]
        if self._chart_spec.log_x:
            domain = [min(places) / _LOG_MARGIN, max(places) * _LOG_MARGIN]
            scale = alt.Scale(type="log", domain=domain, nice=False)
        else:
            scale = alt.Scale(domain=[0, max(places) * _LINEAR_MARGIN or 1], nice=False)
        return alt.X("x:Q", title=self._chart_spec.x_title, scale=scale, axis=axis())

    def _y(self) -> alt.Y:
        values = [at["value"] for at in self._shown]
        if self._chart_spec.log_y:
            above = [value for value in values if value > 0] or [1.0]
            domain = [min(above) / _LOG_MARGIN, max(above) * _LOG_MARGIN]
            scale = alt.Scale(type="log", domain=domain, nice=False)
        else:
            scale = alt.Scale(domain=[0, max(values) * _LINEAR_MARGIN or 1], nice=False)
        return alt.Y("value:Q", title=self._chart_spec.y_title, scale=scale, axis=axis())

    def _on(self, values: list[dict[str, Any]]) -> alt.Chart:
        return alt.Chart(alt.Data(values=values)).encode(**self._encoding)

    def _tooltip(self) -> list[alt.Tooltip]:
        title = self._chart_spec.y_title
        return [
            alt.Tooltip("server:N", title="subject"),
            alt.Tooltip("x:Q", title=self._chart_spec.x_title, format=","),
            alt.Tooltip("value:Q", title=title, format=",.4~g"),
            alt.Tooltip("low:Q", title="from", format=",.4~g"),
            alt.Tooltip("high:Q", title="to", format=",.4~g"),
            alt.Tooltip("runs:Q", title="rounds"),
        ]

    def _fitted(self) -> list[alt.Chart]:
        ends = []
        for fit in self._fits:
            xs = [at["x"] for at in self._shown if at["server"] == fit["server"]]
            ends += _ends(fit, xs)
        line = self._on(ends).mark_line(strokeWidth=1.5, clip=True).encode(y=self._y())
        return [line] if ends else []

    def _diagonal(self) -> list[alt.Chart]:
        if not self._chart_spec.has_diagonal:
            return []
        xs = [at["x"] for at in self._shown]
        ends = [{"x": x, "value": x} for x in (min(xs), max(xs))]
        line = alt.Chart(alt.Data(values=ends)).mark_line(strokeDash=[5, 4], strokeWidth=1.5)
        return [line.encode(x=self._encoding["x"], y=self._y(), color=alt.value("#888888"))]

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification."""
        base = self._on(self._shown)
        values = [at["value"] for at in self._shown if at["value"] > 0]
        floor = min(values, default=1) / _LOG_MARGIN if self._chart_spec.log_y else 0
        ceiling = max(values, default=1) * (
            _LOG_MARGIN if self._chart_spec.log_y else _LINEAR_MARGIN
        )
        limits = [
            at | {"low": max(at["low"], floor), "high": min(at["high"], ceiling)}
            for at in self._shown
            if at["low"] is not None and not self._chart_spec.is_over_time
        ]
        dots = base.mark_point(size=45, filled=True, clip=True)
        dots = dots.encode(y=self._y(), shape=self._subjects.shape(), tooltip=self._tooltip())
        bars = self._on(limits).mark_rule(strokeWidth=1.2, clip=True)
        bars = bars.encode(y=alt.Y("low:Q"), y2="high:Q")
        connected = base.mark_line(strokeWidth=1.5, clip=True).encode(y=self._y())
        lines = self._fitted() or [connected]
        chart = alt.layer(dots.add_params(self._subjects.pick), bars, *lines, *self._diagonal())
        spec: dict[str, Any] = chart.properties(width="container", height=_HEIGHT).to_dict()
        spec.pop("config", None)
        return spec


def line_charts(run: Run, experiment: Experiment) -> list[Chart]:
    """Return a chart for each specification that has data."""
    series = {found["key"]: found for found in run.results["series"]}
    return [
        Chart(
            chart_spec.key,
            chart_spec.title,
            chart_spec.caption,
            _Lines(chart_spec, series[chart_spec.key], run).spec(),
        )
        for chart_spec in experiment.charts
        if series[chart_spec.key]["values"]
    ]
