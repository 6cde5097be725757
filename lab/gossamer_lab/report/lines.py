"""Charts of an experiment's drawings: a line for each subject, its intervals, its fit."""

from typing import Any

import altair as alt

from gossamer_lab.experiment import Drawing, Experiment
from gossamer_lab.report.charts import Chart
from gossamer_lab.report.subjects import Subjects, axis
from gossamer_lab.store import Run

_HEIGHT = 340
_ROOM = 1.1
"""So much further than the largest mean a linear axis reaches, whatever the intervals do."""
_BESIDE = 1.4
"""The same for logarithmic axes, at both ends."""


def _ends(fit: dict[str, Any], xs: list[float]) -> list[dict[str, Any]]:
    """Return the two ends of a fitted line."""
    return [
        {"server": fit["server"], "x": x, "value": fit["intercept"] + fit["slope"] * x}
        for x in (min(xs), max(xs))
    ]


class _Lines:
    """One drawing of a run."""

    def __init__(self, drawing: Drawing, series: dict[str, Any], run: Run) -> None:
        self._drawing = drawing
        self._shown = series["shown"]
        self._fits = series["fits"]
        self._subjects = Subjects(run, {at["server"] for at in series["shown"]})
        self._encoding = {
            "x": self._across(),
            "color": self._subjects.colour(),
            "opacity": self._subjects.opacity(),
        }

    def _across(self) -> alt.X:
        places = [at["x"] for at in self._shown]
        if self._drawing.log_x:
            domain = [min(places) / _BESIDE, max(places) * _BESIDE]
            scale = alt.Scale(type="log", domain=domain, nice=False)
        else:
            scale = alt.Scale(domain=[0, max(places) * _ROOM or 1], nice=False)
        return alt.X("x:Q", title=self._drawing.x_title, scale=scale, axis=axis(places))

    def _height(self) -> alt.Y:
        values = [at["value"] for at in self._shown]
        if self._drawing.log_y:
            above = [value for value in values if value > 0] or [1.0]
            domain = [min(above) / _BESIDE, max(above) * _BESIDE]
            scale = alt.Scale(type="log", domain=domain, nice=False)
        else:
            scale = alt.Scale(domain=[0, max(values) * _ROOM or 1], nice=False)
        return alt.Y("value:Q", title=self._drawing.y_title, scale=scale, axis=axis(values))

    def _on(self, values: list[dict[str, Any]]) -> alt.Chart:
        return alt.Chart(alt.Data(values=values)).encode(**self._encoding)

    def _tooltip(self) -> list[alt.Tooltip]:
        figure = self._drawing.y_title
        return [
            alt.Tooltip("server:N", title="subject"),
            alt.Tooltip("x:Q", title=self._drawing.x_title, format=","),
            alt.Tooltip("value:Q", title=figure, format=",.4~g"),
            alt.Tooltip("low:Q", title="from", format=",.4~g"),
            alt.Tooltip("high:Q", title="to", format=",.4~g"),
            alt.Tooltip("runs:Q", title="rounds"),
        ]

    def _fitted(self) -> list[alt.Chart]:
        ends = []
        for fit in self._fits:
            xs = [at["x"] for at in self._shown if at["server"] == fit["server"]]
            ends += _ends(fit, xs)
        line = self._on(ends).mark_line(strokeWidth=1.5, clip=True).encode(y=self._height())
        return [line] if ends else []

    def _diagonal(self) -> list[alt.Chart]:
        if not self._drawing.has_diagonal:
            return []
        xs = [at["x"] for at in self._shown]
        ends = [{"x": x, "value": x} for x in (min(xs), max(xs))]
        line = alt.Chart(alt.Data(values=ends)).mark_line(strokeDash=[5, 4], strokeWidth=1.5)
        return [line.encode(x=self._encoding["x"], y=self._height(), color=alt.value("#888888"))]

    def spec(self) -> dict[str, Any]:
        """Return the chart's specification."""
        base = self._on(self._shown)
        values = [at["value"] for at in self._shown if at["value"] > 0]
        floor = min(values, default=1) / _BESIDE if self._drawing.log_y else 0
        roof = max(values, default=1) * (_BESIDE if self._drawing.log_y else _ROOM)
        limits = [
            at | {"low": max(at["low"], floor), "high": min(at["high"], roof)}
            for at in self._shown
            if at["low"] is not None and not self._drawing.is_over_time
        ]
        dots = base.mark_point(size=45, filled=True, clip=True)
        dots = dots.encode(y=self._height(), shape=self._subjects.shape(), tooltip=self._tooltip())
        bars = self._on(limits).mark_rule(strokeWidth=1.2, clip=True)
        bars = bars.encode(y=alt.Y("low:Q"), y2="high:Q")
        joined = base.mark_line(strokeWidth=1.5, clip=True).encode(y=self._height())
        lines = self._fitted() or [joined]
        chart = alt.layer(dots.add_params(self._subjects.pick), bars, *lines, *self._diagonal())
        spec: dict[str, Any] = chart.properties(width="container", height=_HEIGHT).to_dict()
        spec.pop("config", None)
        return spec


def line_charts(run: Run, experiment: Experiment) -> list[Chart]:
    """Return a chart for each drawing that has anything to show."""
    series = {found["key"]: found for found in run.results["series"]}
    return [
        Chart(
            drawing.key,
            drawing.title,
            drawing.caption,
            _Lines(drawing, series[drawing.key], run).spec(),
        )
        for drawing in experiment.drawings
        if series[drawing.key]["shown"]
    ]
