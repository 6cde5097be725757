"""Empirical Bayes moderation of many variances, each estimated from a few values."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import polygamma, psi

_MIN_VARIANCE = 1e-8
"""Values that are all equal are not known to better than a hundredth of a percent."""
_DOF_LIMITS = (1e-3, 1e6)


@dataclass(frozen=True)
class Prior:
    """Prior distribution of the variances: its location, and its weight in degrees of freedom.

    After Smyth, "Linear models and empirical Bayes methods" (2004).
    """

    variance: float
    dof: float

    @classmethod
    def fit(cls, variances: np.ndarray, dofs: np.ndarray) -> "Prior":
        """Estimate the prior from variances with their degrees of freedom."""
        halves = dofs / 2
        logs = np.log(np.maximum(variances, _MIN_VARIANCE)) - psi(halves) + np.log(halves)
        # Variance of the logarithms beyond sampling error: how much the true variances differ.
        spread = float(logs.var(ddof=1) if len(logs) > 1 else 0.0)
        spread -= float(polygamma(1, halves).mean())
        low, high = _DOF_LIMITS
        if spread <= polygamma(1, high):
            return cls(math.exp(logs.mean()), 2 * high)
        if spread >= polygamma(1, low):
            return cls(math.exp(logs.mean()), 0.0)
        half = float(brentq(lambda x: float(polygamma(1, x)) - spread, low, high))
        return cls(math.exp(logs.mean() + psi(half) - math.log(half)), 2 * half)

    def moderated(self, variances: np.ndarray, dofs: np.ndarray) -> np.ndarray:
        """Return the variances, shrunk towards the prior."""
        kept = np.maximum(variances, _MIN_VARIANCE) * dofs
        shared: np.ndarray = (kept + self.variance * self.dof) / (dofs + self.dof)
        return shared
