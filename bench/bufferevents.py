"""Processor time of an echo server with bufferevents, of our library and of libevent.

Both run the same program, in turn: 1000 connections, messages of 128 bytes.
"""

import subprocess
import sys
from pathlib import Path

from results import Results, options

NAME = "echo, 1000 connections"
HERE = Path(__file__).resolve().parent


def main() -> int:
    """Measure both libraries, interleaved."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--programs",
        type=Path,
        metavar="FOLDER",
        default=HERE.parent / "build/release/bench/echo",
        help="the folder of the built bench/echo/echo.c",
    )
    found = parser.parse_args()
    results = Results()
    for _ in range(found.rounds):
        for name in ("ours", "libevent"):
            program = found.programs / name
            if not program.is_file():
                results.skip(NAME, name, f"{program} is not built")
                continue
            done = subprocess.run([program], capture_output=True, text=True, check=False)
            if done.returncode:
                results.skip(NAME, name, f"status {done.returncode}: {done.stderr[:200].strip()}")
                continue
            results.add_cost(NAME, name, float(done.stdout), "ns")
    results.limit(NAME, "ours", ("libevent",), 0.95)
    return results.finish(found.json)


if __name__ == "__main__":
    sys.exit(main())
