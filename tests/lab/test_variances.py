"""Moderation of variances, on data with known answers."""

import numpy as np
import pytest

from gossamer_lab.statistics.variances import Prior

_COUNT, _DOF = 4000, 6.0


def sampled(rng: np.random.Generator, truths: np.ndarray) -> np.ndarray:
    """Return an estimate with `_DOF` degrees of freedom for each true variance."""
    found: np.ndarray = truths * rng.chisquare(_DOF, len(truths)) / _DOF
    return found


def test_the_prior_of_simulated_variances_is_recovered() -> None:
    rng = np.random.default_rng(3)
    truths = 0.0004 * 10.0 / rng.chisquare(10.0, _COUNT)
    prior = Prior.fit(sampled(rng, truths), np.full(_COUNT, _DOF))
    assert prior.variance == pytest.approx(0.0004, rel=0.05)
    assert prior.dof == pytest.approx(10.0, rel=0.2)


def test_equal_true_variances_are_pooled() -> None:
    rng = np.random.default_rng(4)
    dofs = np.full(50, _DOF)
    variances = sampled(rng, np.full(50, 2.0))
    prior = Prior.fit(variances, dofs)
    assert prior.dof > 50
    assert prior.moderated(variances, dofs) == pytest.approx(np.full(50, 2.0), rel=0.3)


def test_moderation_reduces_the_error_of_variances() -> None:
    rng = np.random.default_rng(5)
    truths = 10.0 / rng.chisquare(10.0, _COUNT)
    plain, dofs = sampled(rng, truths), np.full(_COUNT, _DOF)
    drawn = Prior.fit(plain, dofs).moderated(plain, dofs)
    far, near = (np.abs(np.log(found / truths)).mean() for found in (plain, drawn))
    assert near < 0.8 * far


def test_one_variance_or_zero_variances_are_not_moderated() -> None:
    one, dof = np.array([0.25]), np.array([3.0])
    assert Prior.fit(one, dof).moderated(one, dof)[0] > 0
    none, dofs = np.zeros(5), np.full(5, 3.0)
    assert Prior.fit(none, dofs).moderated(none, dofs) == pytest.approx(np.zeros(5), abs=1e-6)
