"""How well a run knows what its subjects cost."""

import math

import numpy as np
import polars as pl

from gossamer_lab.samples import FEWEST_POINTS, FIGURES, settled, standard_errors


def precision(raw: pl.DataFrame) -> float | None:
    """Return how well a subject's cost is known: its relative standard error, of the median one.

    The cost is that of `compare`, in the plain mean of its points; None if they are too few.
    """
    for figure in FIGURES:
        places, runs = settled([raw], figure)
        if places:
            break
    else:
        return None
    sigmas, _ = standard_errors(runs[0].variance, runs[0].freedom)
    named = np.array([place[1] for place in places])
    found = [
        math.sqrt(float((sigmas[named == name] ** 2).sum())) / int((named == name).sum())
        for name in dict.fromkeys(named)
        if (named == name).sum() >= FEWEST_POINTS
    ]
    return float(np.median(found)) if found else None
