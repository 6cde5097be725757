"""The charts of the table: one specification for the page and for the images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from gossamer_lab.report.subjects import PLAIN
from gossamer_lab.store import Run

_OURS = ("#0072b2", "#00a0c6", "#5b5fc7", "#2f4b7c", "#7a9ff0", "#0f7d80")
_PEERS = ("#d55e00", "#e69f00", "#009e73", "#cc79a7", "#a0785a", "#8f9c2f", "#999999", "#b04a5a")
_BAR_STEP = 13


@dataclass(frozen=True)
class Chart:
    """A chart with its title and caption."""

    key: str
    title: str
    caption: str
    spec: dict[str, Any]


def colours(servers: Sequence[dict[str, Any]]) -> list[str]:
    """Return a colour for each server: cool colours for ours, warm ones for peers."""
    counts = {True: 0, False: 0}
    found = []
    for server in servers:
        palette = _OURS if server["ours"] else _PEERS
        found.append(palette[counts[server["ours"]] % len(palette)])
        counts[server["ours"]] += 1
    return found


class _ChartBuilder:
    """What all charts of a run share: data, axes, colours."""

    def __init__(self, run: Run) -> None:
        labels = {point["key"]: point["label"] for point in run.results["points"]}
        servers = run.results["servers"]
        names = [server["name"] for server in servers]
        self.cells = [cell | {"label": labels[cell["point"]]} for cell in run.results["cells"]]
        self.rounds = [
            row | {"label": labels[row["point"]]}
            for row in run.raw.filter(pl.col("failure").is_null())
            .select("round", "point", "server", "server_cpu_us_per_request")
            .iter_rows(named=True)
        ]
        self._pick = alt.selection_point(name="pick", fields=["server"], bind="legend")
        self._encoding = {
            "y": alt.Y(
                "label:N",
                sort=list(labels.values()),
                title=None,
                axis=alt.Axis(
                    labelExpr="split(datum.label, ', ')", ticks=False, domain=False, labelPadding=8
                ),
                scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1),
            ),
            "yOffset": alt.YOffset("server:N", sort=names),
            "color": alt.Color(
                "server:N",
                sort=names,
                scale=alt.Scale(domain=names, range=colours(servers)),
                legend=alt.Legend(title=None, orient="top", symbolType="square"),
            ),
            "opacity": alt.condition(self._pick, alt.value(1), alt.value(0.12)),
        }

    def _on(self, values: list[dict[str, Any]]) -> alt.Chart:
        return alt.Chart(alt.Data(values=values)).encode(**self._encoding)

    def _tooltip(self, *fields: tuple[str, str, str]) -> list[alt.Tooltip]:
        named = [alt.Tooltip("server:N", title="server"), alt.Tooltip("label:N", title="load")]
        return named + [alt.Tooltip(f"{field}:Q", title=t, format=f) for field, t, f in fields]

    def _spec(self, *layers: alt.Chart) -> dict[str, Any]:
        first, *others = layers
        chart = alt.layer(first.add_params(self._pick), *others)
        chart = chart.properties(width="container", height=alt.Step(_BAR_STEP, **{"for": "offset"}))
        spec: dict[str, Any] = chart.to_dict()
        spec.pop("config", None)
        return spec

    def cpu_time(self) -> dict[str, Any]:
        """Bars of the means, with a dot for each round."""
        title = "µs of CPU per request"
        bar = (
            self._on(self.cells)
            .mark_bar()
            .encode(
                x=alt.X("cpu_us:Q", title=title, axis=alt.Axis(format=PLAIN)),
                tooltip=self._tooltip(("cpu_us", title, ".2f")),
            )
        )
        dots = (
            self._on(self.rounds)
            .mark_circle(size=24, stroke="white", strokeWidth=1)
            .encode(
                x=alt.X("server_cpu_us_per_request:Q"),
                color=alt.value("#333333"),
                tooltip=self._tooltip(
                    ("round", "round", "d"), ("server_cpu_us_per_request", title, ".2f")
                ),
            )
        )
        return self._spec(bar, dots)

    def response_times(self) -> dict[str, Any]:
        """A line from the median to the 99th percentile, with a dot and a tick at its ends."""
        axis = alt.X(
            "p50_us:Q",
            title="response time, µs (logarithmic)",
            scale=alt.Scale(type="log", nice=True),
            axis=alt.Axis(format=PLAIN),
        )
        tooltip = self._tooltip(
            ("p50_us", "median, µs", ",.0f"),
            ("p90_us", "90 %, µs", ",.0f"),
            ("p99_us", "99 %, µs", ",.0f"),
            ("p999_us", "99.9 %, µs", ",.0f"),
        )
        timed = [cell for cell in self.cells if cell["p50_us"] is not None]
        base = self._on(timed).encode(tooltip=tooltip)
        rule = base.mark_rule(strokeWidth=2).encode(x=axis, x2="p99_us:Q")
        dot = base.mark_circle(size=45).encode(x=axis)
        tick = base.mark_tick(thickness=3, size=9).encode(x="p99_us:Q")
        return self._spec(rule, dot, tick)


def charts(run: Run) -> list[Chart]:
    """Return the charts of a run, in the order of the report."""
    builder = _ChartBuilder(run)
    return [
        Chart(
            "cpu",
            "CPU time per request",
            "User and system time of all processes of the server. Shorter is better. "
            "Bars are means, dots are rounds.",
            builder.cpu_time(),
        ),
        Chart(
            "response",
            "Response time",
            "From the median (dot) to the 99th percentile (tick). Left is better.",
            builder.response_times(),
        ),
    ]
