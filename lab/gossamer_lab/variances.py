"""Many variances, each of a few values: they say together what each alone says badly."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import polygamma, psi

_LEAST = 1e-8
"""Of a variance: figures that are all the same are not known beyond a hundredth of a percent."""
_FREEDOM_LIMITS = (1e-3, 1e6)


@dataclass(frozen=True)
class Prior:
    """What all variances say of each one: a variance, and how many degrees of freedom it is worth.

    After Smyth, "Linear models and empirical Bayes methods" (2004).
    """

    variance: float
    freedom: float

    @classmethod
    def of(cls, variances: np.ndarray, freedoms: np.ndarray) -> "Prior":
        """Learn it from variances with their degrees of freedom."""
        halves = freedoms / 2
        logs = np.log(np.maximum(variances, _LEAST)) - psi(halves) + np.log(halves)
        # What their logarithms vary by beyond chance is how much the true variances differ.
        spread = float(logs.var(ddof=1) if len(logs) > 1 else 0.0)
        spread -= float(polygamma(1, halves).mean())
        low, high = _FREEDOM_LIMITS
        if spread <= polygamma(1, high):
            return cls(math.exp(logs.mean()), 2 * high)
        if spread >= polygamma(1, low):
            return cls(math.exp(logs.mean()), 0.0)
        half = float(brentq(lambda x: float(polygamma(1, x)) - spread, low, high))
        return cls(math.exp(logs.mean() + psi(half) - math.log(half)), 2 * half)

    def moderated(self, variances: np.ndarray, freedoms: np.ndarray) -> np.ndarray:
        """Return the variances, drawn towards what all say."""
        kept = np.maximum(variances, _LEAST) * freedoms
        shared: np.ndarray = (kept + self.variance * self.freedom) / (freedoms + self.freedom)
        return shared
