"""Detection of pauses of a virtual machine, which invalidate a measurement."""

import time

LONG_S = 3.0
"""Other processes do not cause a longer delay."""


class Pauses:
    """Records the longest delay between two calls of ``tick``."""

    def __init__(self) -> None:
        """Start the measurement of delays."""
        self.last = time.monotonic()
        self.longest_s = 0.0

    def tick(self, expected_s: float) -> None:
        """Record a call; expected_s: planned time since the previous call."""
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.last - expected_s)
        self.last = now

    @property
    def is_long(self) -> bool:
        """Whether the machine was paused."""
        return self.longest_s > LONG_S
