"""Cost of threads that `gossamer cc` compiles into events, beside POSIX threads by clang.

All compile the same program, whose figures are measured in turn: a yield, creating and joining a
thread (by another one, and by the first, which has a stack), calling a function that may wait and
does not, and the resident memory of a blocked thread two calls deep, of 10,000, without the
kernel's part.
"""

import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

from results import Results, options

UNITS = {
    "yield": "ns",
    "create-and-join": "ns",
    "first-create-and-join": "ns",
    "call": "ns",
    "memory": "bytes",
}
SOURCE = Path(__file__).resolve().parent / "compiled/figures.c"
PROGRAM = SOURCE.parents[2] / "build/release/gossamer"
FLAGS = ("-O2", "-pthread", str(SOURCE), "-o")
CORE = "1"


def compiled(folder: Path) -> dict[str, Path]:
    """Compile the program in each way."""
    gossamer = os.environ.get("GOSSAMER_PROGRAM") or str(PROGRAM)
    compilers = {
        "pthreads": ["clang-19"],
        "compiled": [gossamer, "cc"],
    }
    for name, compiler in compilers.items():
        subprocess.run([*compiler, *FLAGS, folder / name], check=True)
    return {name: folder / name for name in compilers}


def measure(results: Results, name: str, program: Path, figure: str) -> None:
    """Measure one figure of one program."""
    command = ["taskset", "-c", CORE, str(program), figure]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        results.skip(figure, name, f"status {done.returncode}: {done.stderr[:200].strip()}")
        return
    results.add_cost(figure, name, float(done.stdout), UNITS[figure])


def main() -> int:
    """Measure all figures in turn."""
    chosen = options(__doc__.splitlines()[0]).parse_args()
    results = Results()
    figures = [figure for figure in UNITS if chosen.only in figure]
    with tempfile.TemporaryDirectory() as folder:
        programs = compiled(Path(folder))
        turns = product(range(chosen.rounds), figures, programs.items())
        for _, figure, (name, program) in turns:
            measure(results, name, program, figure)
    if "call" in figures:
        results.limit("call", "compiled", ("pthreads",), 1.8)
    return results.finish(chosen.json)


if __name__ == "__main__":
    sys.exit(main())
