"""The mean servicing time: from connecting to the end of the response, with who still waits."""

from typing import Any

import pytest

from gossamer_lab.measuring.measure import servicing_us

Waits = dict[str, float]
_NOBODY: Waits = {"count": 0, "mean_us": 0.0}


def load(
    count: int, mean_us: float, connecting: Waits = _NOBODY, answering: Waits = _NOBODY
) -> dict[str, Any]:
    """Return the part of a load's report that matters; without requests there are no times."""
    return {
        "total_us": {"count": count, "mean": mean_us} if count else None,
        "waiting_to_connect": connecting,
        "waiting_for_response": answering,
    }


def waiting(count: int, mean_us: float) -> Waits:
    """Return clients that still wait at the end, with the mean of their waits so far."""
    return {"count": count, "mean_us": mean_us}


def test_it_is_the_time_with_the_connect_when_nobody_waits() -> None:
    assert servicing_us(load(100, 250.0)) == 250.0


def test_clients_that_still_wait_to_connect_count_with_their_wait() -> None:
    found = servicing_us(load(90, 1000.0, connecting=waiting(10, 101_000.0)))
    assert found == pytest.approx(11_000.0)


def test_waits_for_a_connection_and_for_a_response_count_alike() -> None:
    report = load(60, 100.0, waiting(20, 1000.0), waiting(20, 2000.0))
    assert servicing_us(report) == pytest.approx((60 * 100 + 20 * 1000 + 20 * 2000) / 100)


def test_requests_that_have_just_begun_do_not_lower_the_mean() -> None:
    assert servicing_us(load(100, 500.0, answering=waiting(100, 5.0))) == 500.0


def test_without_a_response_it_is_the_mean_wait() -> None:
    report = load(0, 0.0, waiting(3, 4000.0), waiting(1, 8000.0))
    assert servicing_us(report) == pytest.approx(5000.0)


def test_it_is_unknown_if_nobody_was_served_or_waits() -> None:
    assert servicing_us(load(0, 0.0)) is None
