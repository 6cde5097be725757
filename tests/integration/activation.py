"""Socket activation as systemd does it: run a command with descriptors from 3 on.

Usage: activation.py NAMES DESCRIPTOR,... COMMAND...
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path


def prefix(names: str, descriptors: Iterable[int]) -> tuple[str, ...]:
    """Return a command that executes a server with these inheritable descriptors."""
    listed = ",".join(str(fd) for fd in descriptors)
    return (sys.executable, str(Path(__file__).resolve()), names, listed)


def main() -> None:
    """Move the descriptors, describe them in the environment, and execute the command."""
    names, listed, *command = sys.argv[1:]
    numbers = [int(word) for word in listed.split(",")]
    high = [os.dup2(fd, 100 + i) for i, fd in enumerate(numbers)]
    for i, fd in enumerate(high):
        os.dup2(fd, 3 + i, inheritable=True)
        os.close(fd)
    os.closerange(3 + len(high), 100)
    os.environ |= {
        "LISTEN_PID": str(os.getpid()),
        "LISTEN_FDS": str(len(high)),
        "LISTEN_FDNAMES": names,
    }
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
