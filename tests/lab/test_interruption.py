"""Signals interrupt a run only where that is safe."""

import os
import signal

import pytest

from gossamer_lab.measuring import interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_deferred_to_the_next_check(number: signal.Signals) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(
        signal.SIGHUP, signal.SIG_DFL
    )  # it may be ignored in the environment of these tests
    with interruption.deferred():
        interruption.check()
        os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            interruption.check()


def test_handlers_are_restored_and_a_pending_request_is_cleared() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruption.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    interruption.check()


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption.deferred():
            os.kill(os.getpid(), signal.SIGHUP)
            interruption.check()
    finally:
        signal.signal(signal.SIGHUP, before)
