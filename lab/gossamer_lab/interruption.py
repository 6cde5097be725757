"""Ctrl-C, SIGTERM and SIGHUP: noted at once, obeyed at the next place where it is safe.

An exception raised by a signal handler may strike between the start of a process and the note of
its id, or be swallowed by a hook that Python runs around a fork. So the handler only sets a flag.
"""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Notice:
    """Whether the end has been asked for."""

    is_given = False


@contextlib.contextmanager
def obeyed() -> Iterator[None]:
    """Turn those signals into notices for the length of a ``with`` block.

    A signal that is ignored already, as in the background of a shell, stays so.
    """
    _Notice.is_given = False

    def note(_number: int, _frame: FrameType | None) -> None:
        _Notice.is_given = True

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    heeded = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    try:
        for number in heeded:
            signal.signal(number, note)
        yield
    finally:
        for number, old in heeded.items():
            signal.signal(number, old)


def check() -> None:
    """Raise KeyboardInterrupt if the end has been asked for."""
    if _Notice.is_given:
        raise KeyboardInterrupt
