"""Estimates what a subject costs in a run, adjusted for the machine's speed, with standard errors.

All values are logarithms. Three adjustments are made. First, regression on covariates that show the
machine's speed, which busy neighbours on the host reduce: the calibration loop of the CPU limiter,
and the CPU time of the load generator. Second, drift: what the subjects of a point, which are
measured directly one after another, have in common in a round (their median); if a point has too
few subjects, that of the whole round. Third, outliers: the most extreme rounds are trimmed, equally
many at either end (Yuen 1974). Variances are estimated from a metric's rounds, moderated by those
of all metrics because a few rounds give poor estimates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from gossamer_lab.statistics.variances import Prior

_MIN_FOR_DRIFT = 3
_MIN_ROUNDS = 2
MIN_POINTS = 4
"""Points needed to estimate the cost of a subject as a whole."""
_TRIM_FRACTION = 0.3
"""Share of a metric's rounds that is trimmed at either end."""
_MEDIAN_VARIANCE_FACTOR = math.pi / 2
"""Variance of a median, relative to that of a mean."""
METRICS = ("server_cpu_us_per_request", "total_us", "request_ns")
"""The metric that is analysed is the first of these that a point has."""

Key = tuple[str, str]
"""A point and a subject."""
_Samples = dict[Key, dict[int, list[float]]]
"""A metric and its covariates, for each key in each round."""


@dataclass(frozen=True)
class Estimates:
    """Estimates of a metric at each key, relative to the mean of the runs; all are logarithms."""

    value: np.ndarray
    variance: np.ndarray
    """Of the estimate."""
    dof: np.ndarray
    """Degrees of freedom of the variance."""


def _covariates(runs: Sequence[pl.DataFrame]) -> list[pl.Expr]:
    """Return the logarithms of the covariates that all runs have.

    A missing value is replaced by the subject's mean at that point. A program that measures itself
    has no covariates.
    """
    known = {
        "calibration_ns": pl.col("calibration_ns").cast(pl.Float64),
        "client_cpu_s": pl.col("client_cpu_s") / pl.col("requests"),
    }
    logs = [
        pl.when(covariate > 0).then(covariate.log())
        for name, covariate in known.items()
        if all(name in raw.columns for raw in runs)
    ]
    return [
        covariate.fill_null(covariate.mean().over("point", "server")).fill_null(0.0)
        for covariate in logs
    ]


def _samples(raw: pl.DataFrame, figure: str, covariates: Sequence[pl.Expr]) -> _Samples:
    """Return a metric of valid measurements and its covariates, by round, as logarithms."""
    if figure not in raw.columns:
        return {}
    invalid = pl.col("invalid") if "invalid" in raw.columns else pl.lit(None)
    valid = raw.filter(pl.col("failure").is_null(), invalid.is_null(), pl.col(figure) > 0)
    named = [covariate.alias(f"covariate {i}") for i, covariate in enumerate(covariates)]
    valid = valid.select("point", "server", "round", pl.col(figure).log(), *named)
    found: _Samples = {}
    for point, server, number, *values in valid.iter_rows():
        found.setdefault((point, server), {})[number] = values
    return {key: values for key, values in found.items() if len(values) >= _MIN_ROUNDS}


def _matrices(samples: _Samples, keys: Sequence[Key], count: int) -> np.ndarray:
    """Return a matrix for the metric and each covariate: keys by rounds, NaN where missing."""
    rounds = sorted({number for key in keys for number in samples[key]})
    nothing = [np.nan] * count
    matrix = [[samples[key].get(number, nothing) for number in rounds] for key in keys]
    return np.moveaxis(np.array(matrix), 2, 0)


def _drift_within_rounds(matrix: np.ndarray, keys: Sequence[Key]) -> np.ndarray:
    """Return what the keys of each point have in common in each round, relative to the run."""
    relative = matrix - np.nanmean(matrix, axis=1, keepdims=True)
    few = len({key[1] for key in keys}) < _MIN_FOR_DRIFT
    overall = np.zeros(matrix.shape[1]) if few else np.nanmedian(relative, axis=0)
    named = np.array([key[0] for key in keys])
    found = np.tile(overall, (len(matrix), 1))
    for point in dict.fromkeys(named):
        here = named == point
        enough = np.isfinite(relative[here]).sum(axis=0) >= _MIN_FOR_DRIFT
        found[np.ix_(here, enough)] = np.nanmedian(relative[np.ix_(here, enough)], axis=0)
    return found


def drift_between_runs(
    changes: np.ndarray, variance: np.ndarray, keys: Sequence[Key]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the median change of the other subjects at each key's point, with its variance.

    A subject does not contribute to its own baseline: that would hide a part of its change.
    """
    points = np.array([key[0] for key in keys])
    subjects = np.array([key[1] for key in keys])
    common, error = np.zeros(len(changes)), np.zeros(len(changes))
    for i, (point, subject) in enumerate(keys):
        others = subjects != subject
        for here in (others & (points == point), others):
            if len(set(subjects[here])) >= _MIN_FOR_DRIFT - 1:
                common[i] = np.median(changes[here])
                error[i] = _MEDIAN_VARIANCE_FACTOR * variance[here].mean() / here.sum()
                break
    return common, error


def _coefficients(matrices: Sequence[np.ndarray], keys: Sequence[Key]) -> np.ndarray:
    """Return the regression coefficients of the covariates (least squares), limited to 0 to 1."""
    relative = [
        np.array([part - _drift_within_rounds(part, keys) for part in matrix])
        for matrix in (matrix - np.nanmean(matrix, axis=2, keepdims=True) for matrix in matrices)
    ]
    all_of = np.concatenate([matrix.reshape(len(matrix), -1) for matrix in relative], axis=1)
    figure, *covariates = all_of[:, np.isfinite(all_of[0])]
    coefficients = np.linalg.lstsq(np.array(covariates).T, figure)[0] if covariates else np.zeros(0)
    return np.clip(coefficients, 0.0, 1.0)


def _trimmed_means(matrix: np.ndarray, keys: Sequence[Key]) -> Estimates:
    """Return the trimmed means after removal of the drift, with their variances."""
    values, variances, dofs = [], [], []
    for line in matrix - _drift_within_rounds(matrix, keys):
        found = np.sort(line[np.isfinite(line)])
        trimmed = int(_TRIM_FRACTION * len(found))
        kept = len(found) - 2 * trimmed
        # Winsorized variance: trimmed values count as the most extreme that are kept (Yuen 1974).
        spread = np.clip(found, found[trimmed], found[-trimmed - 1]).var(ddof=1)
        values.append(found[trimmed : trimmed + kept].mean())
        variances.append(spread * (len(found) - 1) / (kept * (kept - 1)))
        dofs.append(kept - 1)
    return Estimates(np.array(values), np.array(variances), np.array(dofs))


def estimate(runs: Sequence[pl.DataFrame], figure: str) -> tuple[list[Key], list[Estimates]]:
    """Return the keys at which all these runs have a metric, and the estimates of each run."""
    covariates = _covariates(runs)
    samples = [_samples(raw, figure, covariates) for raw in runs]
    keys = [key for key in samples[0] if all(key in others for others in samples)]
    if not keys:
        return [], []
    matrices = [_matrices(found, keys, 1 + len(covariates)) for found in samples]
    centre = sum(np.nanmean(matrix, axis=2) for matrix in matrices) / len(matrices)
    relative = [matrix - centre[:, :, None] for matrix in matrices]
    coefficients = _coefficients(matrices, keys)
    return keys, [
        _trimmed_means(part[0] - np.tensordot(coefficients, part[1:], 1), keys) for part in relative
    ]


def standard_errors(variances: np.ndarray, dofs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return standard errors with their degrees of freedom, from variances with theirs."""
    prior = Prior.fit(variances, dofs)
    return np.sqrt(prior.moderated(variances, dofs)), dofs + prior.dof
