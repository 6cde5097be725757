"""Defers SIGINT, SIGTERM and SIGHUP to the next place where an interruption is safe.

An exception raised by a signal handler could occur between the start of a process and the storing
of its id, or be swallowed by a hook that Python runs around a fork. So the handler only sets a
flag.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _State:
    """Whether an interruption has been requested."""

    is_requested = False


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Defer those signals for the duration of a ``with`` block.

    A signal that is already ignored, as in the background of a shell, stays ignored.
    """

    def set_flag(_number: int, _frame: FrameType | None) -> None:
        _State.is_requested = True

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    try:
        for number in handled:
            signal.signal(number, set_flag)
        yield
    finally:
        _State.is_requested = False
        for number, old in handled.items():
            signal.signal(number, old)


def check() -> None:
    """Raise KeyboardInterrupt if an interruption has been requested."""
    if _State.is_requested:
        raise KeyboardInterrupt
