"""Spins for as long as it is let, and tells how fast its core is meanwhile.

``metronome.py FILE``: a beat is always the same work, of the kinds that a server does: a message
through the kernel, places in memory that the nearest cache has no room for, arithmetic. FILE holds
two numbers of eight bytes, as this machine writes them: beats so far, and the nanoseconds of CPU
time that they took.
"""

import mmap
import socket
import struct
import sys
import time
from pathlib import Path

LAYOUT = struct.Struct("=qq")
_MESSAGE = bytes(305)
_MEMORY = 1 << 18
_STRIDE = 4096 + 64
_PLACES = 10
_BETWEEN = 16
"""Beats between two looks at the clock."""


def main() -> None:
    """Beat until somebody ends it."""
    with Path(sys.argv[1]).open("r+b") as file:
        told = mmap.mmap(file.fileno(), LAYOUT.size)
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
        LAYOUT.pack_into(told, 0, beats, time.process_time_ns() - began)


if __name__ == "__main__":
    main()
