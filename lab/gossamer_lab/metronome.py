"""Spins for as long as it is let, and tells how fast its core is meanwhile.

``metronome.py FILE``: a beat is always the same work, of the kinds that a server does: a message
through the kernel, places in memory that the nearest cache has no room for, arithmetic. FILE has
SIZE bytes and holds two numbers: beats so far, and the nanoseconds of CPU time that they took.
"""

import mmap
import socket
import sys
import time
from pathlib import Path

SIZE = 16
_MESSAGE = bytes(305)
_MEMORY = 1 << 18
_STRIDE = 4096 + 64
_PLACES = 10
_BETWEEN = 16
"""Beats between two looks at the clock."""


def told_in(path: Path) -> memoryview:
    """Map the two numbers that are told in a file.

    They change under their reader. A view of native numbers loads and stores each as a whole; the
    struct module, which clears the place first, lets a reader see half of one.
    """
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), SIZE)).cast("q")


def main() -> None:
    """Beat until somebody ends it."""
    told = told_in(Path(sys.argv[1]))
    one, other = socket.socketpair()
    memory = bytearray(_MEMORY + _PLACES * _STRIDE)
    beats = at = 0
    began = time.process_time_ns()
    while True:
        for _ in range(_BETWEEN):
            one.send(_MESSAGE)
            other.recv(len(_MESSAGE))
            at = (at * 69069 + 12345) % _MEMORY
            sum(memory[at : at + _PLACES * _STRIDE : _STRIDE])
        beats += _BETWEEN
        told[0], told[1] = beats, time.process_time_ns() - began


if __name__ == "__main__":
    main()
