"""Cost of programs with libevent's interface, of our library and of libevent.

Both run the same programs, in turn: operations on buffers, and a server that echoes messages of 128
bytes on 1000 connections.
"""

import subprocess
import sys
from pathlib import Path

from results import Results, options

BUFFERS = (
    *("add-16", "add-128", "add-16384", "add-and-drain", "drain-16", "drain-4096", "remove-128"),
    *("search-rare", "search-common", "search-eol", "readln"),
    *("pullup-all", "pullup-head", "pullup-same"),
)
ECHO = "echo, 1000 connections"
PROGRAMS = Path(__file__).resolve().parent.parent / "build/release/bench/libevent"
CORE = ("taskset", "-c", "1")


def command_of(programs: Path, figure: str, library: str) -> tuple[str, ...]:
    """Return the command that measures a figure with a library."""
    if figure == ECHO:  # its client needs the other core
        return (str(programs / "echo" / library),)
    return (*CORE, str(programs / "buffers" / library), figure)


def measure(results: Results, programs: Path, figure: str, library: str) -> None:
    """Measure one figure of one library."""
    command = command_of(programs, figure, library)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        results.skip(figure, library, f"status {done.returncode}: {done.stderr[:200].strip()}")
        return
    results.add_cost(figure, library, float(done.stdout), "ns")


def main() -> int:
    """Measure both libraries, interleaved."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--programs", type=Path, metavar="FOLDER", default=PROGRAMS, help="the built bench/libevent"
    )
    found = parser.parse_args()
    results = Results()
    libraries = [
        name for name in ("ours", "libevent") if (found.programs / "echo" / name).is_file()
    ]
    for figure in (*BUFFERS, ECHO):
        if found.only not in figure:
            continue
        for _ in range(found.rounds):
            for library in libraries:
                measure(results, found.programs, figure, library)
        results.limit(figure, "ours", ("libevent",), 0.95 if figure == ECHO else 1.0)
    return results.finish(found.json)


if __name__ == "__main__":
    sys.exit(main())
