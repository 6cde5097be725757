"""Virtual machines stand still now and then; what was measured meanwhile says nothing."""

import time

LONG_S = 3.0
"""More than this is not the work of other processes."""


class Pauses:
    """Told the time again and again, notes the longest time in which it was not told."""

    def __init__(self) -> None:
        """Begin now."""
        self.last = time.monotonic()
        self.longest_s = 0.0

    def tick(self, expected_s: float) -> None:
        """So much time should have passed since the last call."""
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self.last - expected_s)
        self.last = now

    @property
    def is_long(self) -> bool:
        """Whether the whole machine must have stood still."""
        return self.longest_s > LONG_S
