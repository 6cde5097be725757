"""Repeats a fixed amount of work, and publishes how fast its core executes it.

``calibration_loop.py FILE``: an iteration is always the same work, of the kinds that a server does:
a message through the kernel, reads of memory that exceeds the first-level cache, arithmetic. FILE
has SIZE bytes and holds two numbers: iterations so far, and the nanoseconds of CPU time that they
took.
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
_READS = 10
_CLOCK_INTERVAL = 16
"""Iterations between two readings of the clock."""


def map_counters(path: Path) -> memoryview:
    """Map the two numbers of a file.

    They change while they are read. A view of native numbers loads and stores each atomically; the
    struct module clears the destination first, so a reader could see a torn value.
    """
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), SIZE)).cast("q")


def main() -> None:
    """Iterate until the process is killed."""
    counters = map_counters(Path(sys.argv[1]))
    one, other = socket.socketpair()
    memory = bytearray(_MEMORY + _READS * _STRIDE)
    iterations = at = 0
    began = time.process_time_ns()
    while True:
        for _ in range(_CLOCK_INTERVAL):
            one.send(_MESSAGE)
            other.recv(len(_MESSAGE))
            at = (at * 69069 + 12345) % _MEMORY
            sum(memory[at : at + _READS * _STRIDE : _STRIDE])
        iterations += _CLOCK_INTERVAL
        counters[0], counters[1] = iterations, time.process_time_ns() - began


if __name__ == "__main__":
    main()
