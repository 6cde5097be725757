"""Signals end a run where it is safe, and nowhere else."""

import os
import signal

import pytest

from gossamer_lab import interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_obeyed_at_the_next_check_and_not_before(number: signal.Signals) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs these tests may have it ignored
    with interruption.obeyed():
        interruption.check()
        os.kill(os.getpid(), number)
        with pytest.raises(KeyboardInterrupt):
            interruption.check()


def test_handlers_are_put_back_and_a_notice_is_forgotten() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interruption.obeyed():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    with interruption.obeyed():
        interruption.check()


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruption.obeyed():
            os.kill(os.getpid(), signal.SIGHUP)
            interruption.check()
    finally:
        signal.signal(signal.SIGHUP, before)
