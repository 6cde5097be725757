"""How precisely a run knows what its subjects cost."""

import math

import numpy as np
import polars as pl

from gossamer_lab.estimates import METRICS, MIN_POINTS, estimate, standard_errors


def precision(raw: pl.DataFrame) -> float | None:
    """Return the relative standard error of a subject's cost, for the median subject.

    The cost is that of `compare`, in the unweighted mean over its points; None if a subject has too
    few points.
    """
    for metric in METRICS:
        keys, runs = estimate([raw], metric)
        if keys:
            break
    else:
        return None
    sigmas, _ = standard_errors(runs[0].variance, runs[0].dof)
    named = np.array([key[1] for key in keys])
    found = [
        math.sqrt(float((sigmas[named == name] ** 2).sum())) / int((named == name).sum())
        for name in dict.fromkeys(named)
        if (named == name).sum() >= MIN_POINTS
    ]
    return float(np.median(found)) if found else None
