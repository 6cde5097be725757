"""All that is worked out from the raw rows: the table's cells, the charts' series, the verdicts."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from gossamer_lab.analysis import cells, mean_and_max
from gossamer_lab.claims import Correlation, Round, Slope, UntestableError
from gossamer_lab.experiment import Drawing, Experiment
from gossamer_lab.precision import precision
from gossamer_lab.service import with_service_times
from gossamer_lab.statistics import mean_interval, proportional_fit
from gossamer_lab.store import Run
from gossamer_lab.verdict import interval_of, rounds_of, verdicts

Json = dict[str, Any]


def _measured(drawing: Drawing, rounds: Sequence[Round], place: tuple[str, str]) -> list[float]:
    """Return a figure in every round where it was sound."""
    rows = [round_.rows.get(place) for round_ in rounds]
    return [float(row[drawing.y]) for row in rows if row and row.get(drawing.y) is not None]


def _point_of(values: Sequence[float]) -> Json:
    """Return the mean of values with its interval, geometric if it can be; one value as it is."""
    if len(values) == 1:
        return {"value": values[0], "low": None, "high": None, "runs": 1}
    if min(values) > 0:
        logs = mean_interval([math.log(value) for value in values])
        low, value, high = (math.exp(x) for x in (logs.low, logs.value, logs.high))
    else:
        plain = mean_interval(values)
        low, value, high = plain.low, plain.value, plain.high
    return {"value": value, "low": low, "high": high, "runs": len(values)}


def _over_time(drawing: Drawing, rounds: Sequence[Round], place: tuple[str, str]) -> list[Json]:
    """Return the line of a subject over time: means over the rounds that tell of a time."""
    found: dict[float, list[float]] = {}
    for round_ in rounds:
        row = round_.rows.get(place)
        for at in json.loads(row.get("timeline") or "[]") if row else []:
            if at.get(drawing.y) is not None:
                found.setdefault(at[drawing.x], []).append(float(at[drawing.y]))
    return [{"x": x} | _point_of(values) for x, values in sorted(found.items())]


def _at_point(
    drawing: Drawing, rounds: Sequence[Round], point: Mapping[str, Any], server: str
) -> list[Json]:
    """Return what a chart shows of a subject at a point."""
    place = (point["key"], server)
    head = {"server": server, "point": point["key"]}
    if drawing.is_over_time:
        return [head | at for at in _over_time(drawing, rounds, place)]
    values = _measured(drawing, rounds, place)
    return [head | {"x": point[drawing.x]} | _point_of(values)] if values else []


def _fit_of(drawing: Drawing, rounds: Sequence[Round], server: str) -> Json | None:
    """Return the line of a subject: slopes and correlations of the rounds, with their interval."""
    slope = Slope(server, drawing.x, drawing.y, drawing.where)
    correlation = Correlation(server, drawing.x, drawing.y, drawing.where)
    slopes, correlations = [], []
    for round_ in rounds:
        try:
            slopes.append(slope.of(round_))
            correlations.append(correlation.of(round_))
        except UntestableError:
            continue
    if len(slopes) < 2:
        return None
    one, other = interval_of(slope, slopes), interval_of(correlation, correlations)
    return {
        "server": server,
        "slope": one.value,
        "slope_low": one.low,
        "slope_high": one.high,
        "correlation": other.value,
        "rounds": one.runs,
    }


def _series_of(drawing: Drawing, results: Json, rounds: Sequence[Round]) -> Json:
    """Return what a chart shows."""
    wanted = set(rounds[0].chosen(dict(drawing.where))) if rounds else set()
    points = [
        point
        for point in results["points"]
        if point["key"] in wanted and (drawing.is_over_time or point.get(drawing.x) is not None)
    ]
    shown, fits = [], []
    names = [server["name"] for server in results["servers"]]
    for server in (name for name in names if not drawing.subjects or name in drawing.subjects):
        line = [at for point in points for at in _at_point(drawing, rounds, point, server)]
        shown += line
        fit = _fit_of(drawing, rounds, server) if drawing.has_fits else None
        if fit and len(line) > 2:
            through = proportional_fit([at["x"] for at in line], [at["value"] for at in line])
            fits.append(fit | {"intercept": through.intercept})
    return {"key": drawing.key, "shown": shown, "fits": fits}


def _void(raw: pl.DataFrame) -> Json:
    """Return how many measurements are void, by reason."""
    if "void" not in raw.columns:
        return {}
    return dict(Counter(raw["void"].drop_nulls().to_list()).most_common())


def _died(raw: pl.DataFrame) -> list[str]:
    """Return the client hosts that died in the middle of a measurement, which was repeated."""
    return raw["hosts_died"].drop_nulls().to_list() if "hosts_died" in raw.columns else []


def _absent(results: Mapping[str, Any]) -> dict[str, str]:
    """Return why subjects and points are missing from a run."""
    reasons = {left["name"]: left["reason"] for left in results["left_out"]}
    told = {name: f"{name}: {reason}" for name, reason in reasons.items()}
    told |= {
        point["key"]: f"{point['label']}: {reasons[point['label']]}"
        for point in results["points_left_out"]
        if point["label"] in reasons
    }
    return told | {name: f"{name} is not on this machine" for name in results["absent_peers"]}


def with_derived(run: Run, experiment: Experiment) -> Run:
    """Return the run with all that is derived computed afresh from the raw rows."""
    results = run.results
    points = [point["key"] for point in results["points"]]
    servers = [server["name"] for server in results["servers"]]
    every = [*results["points"], *results["points_left_out"]]
    absent = _absent(results)
    told = with_service_times(run.raw)
    rounds = rounds_of(told, every, absent)
    is_table = not experiment.drawings
    derived: Json = {
        "cells": [c.as_dict() for c in cells(run.raw, points, servers)] if is_table else [],
        "lost": mean_and_max(run.raw, "server_core_lost"),
        "stolen": mean_and_max(run.raw, "stolen"),
        "precision": precision(run.raw),
        "void": _void(run.raw),
        "hosts_died": _died(run.raw),
        "verdicts": verdicts(experiment.claims, told, every, absent),
        "series": [_series_of(drawing, results, rounds) for drawing in experiment.drawings],
    }
    return Run(run.folder, results | derived, run.raw)
