"""Derives results from the raw rows: the table's cells, the charts' series, the verdicts."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from gossamer_lab.claims.quantities import Correlation, Round, Slope, UntestableError
from gossamer_lab.claims.verdict import chance, estimate, rounds_of, verdicts
from gossamer_lab.experiments.manifest import ChartSpec, Experiment
from gossamer_lab.measuring.validity import judged_anew
from gossamer_lab.report.cells import cells, mean_and_max
from gossamer_lab.report.notes import headline
from gossamer_lab.statistics.intervals import mean_interval, proportional_fit
from gossamer_lab.statistics.service_time import with_service_times
from gossamer_lab.store import Run

Json = dict[str, Any]

_SHARE = re.compile(r"\b\d+% of")
_NUMBERS = re.compile(r"(?<=: )\d+ (?=requests failed)|(?<=[a-z]): \d+(?=[,)])")

DERIVED = (
    *("headline", "cells", "interference", "steal", "invalid", "hosts_died"),
    *("verdicts", "chance", "series", "report"),
)
"""Keys of the results that are derived from the raw rows."""


def _measured(chart_spec: ChartSpec, rounds: Sequence[Round], key: tuple[str, str]) -> list[float]:
    """Return the values of a column in all rounds where it is valid."""
    rows = [round_.rows.get(key) for round_ in rounds]
    return [float(row[chart_spec.y]) for row in rows if row and row.get(chart_spec.y) is not None]


def _point_of(values: Sequence[float]) -> Json:
    """Return the mean of values with its confidence interval, geometric if all are positive."""
    if len(values) == 1:
        return {"value": values[0], "low": None, "high": None, "runs": 1}
    if min(values) > 0:
        logs = mean_interval([math.log(value) for value in values])
        low, value, high = (math.exp(x) for x in (logs.low, logs.value, logs.high))
    else:
        plain = mean_interval(values)
        low, value, high = plain.low, plain.value, plain.high
    return {"value": value, "low": low, "high": high, "runs": len(values)}


def _over_time(chart_spec: ChartSpec, rounds: Sequence[Round], key: tuple[str, str]) -> list[Json]:
    """Return the time series of a subject: means over the rounds."""
    found: dict[float, list[float]] = {}
    for round_ in rounds:
        row = round_.rows.get(key)
        for at in json.loads(row.get("timeline") or "[]") if row else []:
            if at.get(chart_spec.y) is not None:
                found.setdefault(at[chart_spec.x], []).append(float(at[chart_spec.y]))
    return [{"x": x} | _point_of(values) for x, values in sorted(found.items())]


def _at_point(
    chart_spec: ChartSpec, rounds: Sequence[Round], point: Mapping[str, Any], server: str
) -> list[Json]:
    """Return the chart's values of a subject at a point."""
    key = (point["key"], server)
    head = {"server": server, "point": point["key"]}
    if chart_spec.is_over_time:
        return [head | at for at in _over_time(chart_spec, rounds, key)]
    values = _measured(chart_spec, rounds, key)
    return [head | {"x": point[chart_spec.x]} | _point_of(values)] if values else []


def _fit_of(chart_spec: ChartSpec, rounds: Sequence[Round], server: str) -> Json | None:
    """Return the fit of a subject: its slope and correlation over the rounds, with the interval."""
    try:
        one = estimate(Slope(server, chart_spec.x, chart_spec.y, chart_spec.where), rounds)
        other = estimate(Correlation(server, chart_spec.x, chart_spec.y, chart_spec.where), rounds)
    except UntestableError:
        return None
    return {
        "server": server,
        "slope": one.value,
        "slope_low": one.low,
        "slope_high": one.high,
        "correlation": other.value,
        "rounds": one.runs,
    }


def _series_of(chart_spec: ChartSpec, results: Json, rounds: Sequence[Round]) -> Json:
    """Return the data of a chart."""
    try:
        wanted = set(rounds[0].matching_points(dict(chart_spec.where))) if rounds else set()
    except UntestableError:
        wanted = set()
    points = [
        point
        for point in results["points"]
        if point["key"] in wanted
        and (chart_spec.is_over_time or point.get(chart_spec.x) is not None)
    ]
    shown, fits = [], []
    names = [server["name"] for server in results["servers"]]
    for server in (
        name for name in names if not chart_spec.subjects or name in chart_spec.subjects
    ):
        line = [at for point in points for at in _at_point(chart_spec, rounds, point, server)]
        shown += line
        fit = _fit_of(chart_spec, rounds, server) if chart_spec.has_fits else None
        if fit and len(line) > 2:
            through = proportional_fit([at["x"] for at in line], [at["value"] for at in line])
            fits.append(fit | {"intercept": through.intercept})
    titles = {name: getattr(chart_spec, name) for name in ("title", "x_title", "y_title")}
    return {"key": chart_spec.key, "values": shown, "fits": fits} | titles


def _kind(reason: str) -> str:
    """Return a reason without its numbers, which differ from one measurement to the next."""
    return _NUMBERS.sub("", _SHARE.sub("part of", reason))


def _invalid_counts(raw: pl.DataFrame) -> Json:
    """Return the number of invalid measurements, by kind of reason."""
    if "invalid" not in raw.columns:
        return {}
    return dict(Counter(map(_kind, raw["invalid"].drop_nulls())).most_common())


def _died(raw: pl.DataFrame) -> list[str]:
    """Return the client hosts that died during a measurement, which was then repeated."""
    return raw["hosts_died"].drop_nulls().to_list() if "hosts_died" in raw.columns else []


def _absent(results: Mapping[str, Any]) -> dict[str, str]:
    """Return why subjects and points are missing from a run."""
    reasons = {skipped["name"]: skipped["reason"] for skipped in results["skipped"]}
    absent = {name: f"{name}: {reason}" for name, reason in reasons.items()}
    absent |= {
        point["key"]: f"{point['label']}: {reasons[point['label']]}"
        for point in results["skipped_points"]
        if point["label"] in reasons
    }
    return absent | {name: f"{name} is not installed" for name in results["absent_peers"]}


def with_derived(run: Run, experiment: Experiment) -> Run:
    """Return the run with all derived results recomputed from the raw rows.

    Which rows are valid is derived, too: a rule may have changed since they were measured.
    """
    run = replace(run, raw=judged_anew(run.raw, experiment))
    results = run.results
    points = [point["key"] for point in results["points"]]
    servers = [server["name"] for server in results["servers"]]
    every = [*results["points"], *results["skipped_points"]]
    absent = _absent(results)
    rounds = rounds_of(with_service_times(run.raw), every, absent)
    uncorrected = rounds_of(with_service_times(run.raw, is_corrected=False), every, absent)
    judged = verdicts(experiment.claims, rounds, uncorrected)
    is_table = not experiment.charts
    derived: Json = {
        "headline": headline(results),
        "cells": [c.as_dict() for c in cells(run.raw, points, servers)] if is_table else [],
        "interference": mean_and_max(run.raw, "server_core_interference")
        | {"matters": not experiment.is_of_memory},
        "steal": mean_and_max(run.raw, "steal"),
        "invalid": _invalid_counts(run.raw),
        "hosts_died": _died(run.raw),
        "verdicts": judged,
        "chance": chance(judged),
        "series": [_series_of(chart_spec, results, rounds) for chart_spec in experiment.charts],
    }
    return replace(run, results=results | derived)
