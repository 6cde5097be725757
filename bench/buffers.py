"""Cost of operations on buffers with libevent's interface, of our library and of libevent.

Both run the same program, in turn. Adding, draining, searching and pulling up must not cost more
than with libevent; the others are printed without a limit.
"""

import subprocess
import sys
from pathlib import Path

from results import Results, options

LIMITED = (
    *("add-16", "add-128", "add-16384", "add-and-drain", "drain-16", "drain-4096", "remove-128"),
    *("search-rare", "search-common", "search-eol", "readln"),
    *("pullup-all", "pullup-head", "pullup-same"),
)
OTHERS = ("move", "echo")
HERE = Path(__file__).resolve().parent
CORE = "1"


def measure(results: Results, program: Path, figure: str) -> None:
    """Measure one figure of one library."""
    command = ["taskset", "-c", CORE, str(program), figure]
    if not program.is_file():
        results.skip(figure, program.name, f"{program} is not built")
        return
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        results.skip(figure, program.name, f"status {done.returncode}: {done.stderr[:200].strip()}")
        return
    results.add_cost(figure, program.name, float(done.stdout), "ns")


def main() -> int:
    """Measure both libraries, interleaved."""
    parser = options(__doc__ or "")
    parser.add_argument(
        "--programs",
        type=Path,
        metavar="FOLDER",
        default=HERE.parent / "build/release/bench/buffer",
        help="the folder of the built bench/buffer/buffers.c",
    )
    found = parser.parse_args()
    results = Results()
    for figure in (*LIMITED, *OTHERS):
        if found.only not in figure:
            continue
        for _ in range(found.rounds):
            for name in ("ours", "libevent"):
                measure(results, found.programs / name, figure)
        if figure in LIMITED:
            results.limit(figure, "ours", ("libevent",), 1.0)
    return results.finish(found.json)


if __name__ == "__main__":
    sys.exit(main())
