"""What many variances say together, on data with known answers."""

import numpy as np
import pytest

from gossamer_lab.variances import Prior

_COUNT, _FREEDOM = 4000, 6.0


def sampled(dice: np.random.Generator, truths: np.ndarray) -> np.ndarray:
    """Return a variance of so many degrees of freedom for each true one."""
    found: np.ndarray = truths * dice.chisquare(_FREEDOM, len(truths)) / _FREEDOM
    return found


def test_the_prior_is_found_that_variances_were_drawn_with() -> None:
    dice = np.random.default_rng(3)
    truths = 0.0004 * 10.0 / dice.chisquare(10.0, _COUNT)
    prior = Prior.of(sampled(dice, truths), np.full(_COUNT, _FREEDOM))
    assert prior.variance == pytest.approx(0.0004, rel=0.05)
    assert prior.freedom == pytest.approx(10.0, rel=0.2)


def test_variances_that_are_all_alike_in_truth_are_as_good_as_one() -> None:
    dice = np.random.default_rng(4)
    freedoms = np.full(50, _FREEDOM)
    variances = sampled(dice, np.full(50, 2.0))
    prior = Prior.of(variances, freedoms)
    assert prior.freedom > 50
    assert prior.moderated(variances, freedoms) == pytest.approx(np.full(50, 2.0), rel=0.3)


def test_moderated_variances_are_nearer_to_the_truth() -> None:
    dice = np.random.default_rng(5)
    truths = 10.0 / dice.chisquare(10.0, _COUNT)
    plain, freedoms = sampled(dice, truths), np.full(_COUNT, _FREEDOM)
    drawn = Prior.of(plain, freedoms).moderated(plain, freedoms)
    far, near = (np.abs(np.log(found / truths)).mean() for found in (plain, drawn))
    assert near < 0.8 * far


def test_one_variance_and_variances_of_nothing_are_taken_as_they_are() -> None:
    one, freedom = np.array([0.25]), np.array([3.0])
    assert Prior.of(one, freedom).moderated(one, freedom)[0] > 0
    none, freedoms = np.zeros(5), np.full(5, 3.0)
    assert Prior.of(none, freedoms).moderated(none, freedoms) == pytest.approx(
        np.zeros(5), abs=1e-6
    )
