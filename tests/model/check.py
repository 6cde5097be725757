#!/usr/bin/env python3
"""Searches all states of the models in this folder with Spin.

The search of each model itself must find no error and be complete. The search of the model with
each of its deliberate faults must find an error, since a model that cannot fail proves nothing. A
model lists its faults in a line `Faults: ONE, TWO` of its first comment; FAULT_ONE is then
defined.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SKIPPED = 77
DEPTH = 100_000
MEMORY_MB = 1024


@dataclass(frozen=True)
class Run:
    """A model, and its deliberate fault, or none."""

    model: Path
    fault: str


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    run: Run
    states: int
    seconds: float
    problem: str  # empty: the result is as expected
    output: str


def faults_of(model: Path) -> list[str]:
    """Return the faults that the model lists."""
    named = re.search(r"Faults:((?:\s|\*|,|\w)+)", model.read_text())
    return re.findall(r"[A-Z]\w+", named[1]) if named else []


def call(command: list[str], folder: Path) -> str:
    """Run the command in the folder; return its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def search(run: Run, folder: Path) -> str:
    """Generate, compile and run the search; return the output of all commands."""
    defined = [f"-DFAULT_{run.fault}"] if run.fault else []
    shutil.copy(run.model, folder)
    printed = call(["spin", "-a", *defined, run.model.name], folder)
    if not (folder / "pan.c").exists():
        return printed
    flags = ["-DSAFETY", "-DNOFAIR", f"-DMEMLIM={MEMORY_MB}"]
    printed += call([os.environ.get("CC", "cc"), "-O0", "-w", *flags, "-o", "pan", "pan.c"], folder)
    if not (folder / "pan").exists():
        return printed
    printed += call(["./pan", f"-m{DEPTH}", "-w18"], folder)
    if "errors: 1" in printed and not run.fault:
        printed += call(["spin", "-t", "-p", *defined, run.model.name], folder)
    return printed


def problem_of(run: Run, printed: str) -> str:
    """Return what is wrong with the result of a search, or ""."""
    found = re.search(r"errors: (\d+)", printed)
    incomplete = re.search(r"max search depth too small|Search not completed", printed)
    errors = int(found[1]) if found else 0
    if not found:
        return "the search did not run"
    if run.fault:
        return "" if errors else "the fault was not noticed"
    if errors:
        return "an error was found"
    return "the search is not complete" if incomplete else ""


def run_search(run: Run) -> Outcome:
    """Search one model in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        printed = search(run, Path(folder))
        seconds = time.monotonic() - begun
    stored = re.search(r"(\d+) states, stored", printed)
    states = int(stored[1]) if stored else 0
    return Outcome(run, states, seconds, problem_of(run, printed), printed)


def show(outcome: Outcome, verbose: bool) -> None:
    """Print one line, and the output of the search if the result is not as expected."""
    run = outcome.run
    what = run.fault or "as it stands"
    reason = re.search(r"^pan:1: (.*) \(at depth", outcome.output, re.MULTILINE)
    noticed = f"noticed: {reason[1]}" if reason else "noticed"
    verdict = outcome.problem or (noticed if run.fault else "passed")
    spent = f"{outcome.states:9} states {outcome.seconds:6.1f} s"
    print(f"{run.model.stem:16} {what:20} {spent}  {verdict}", flush=True)
    if outcome.problem or verbose:
        print(outcome.output)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", help="names of models, as `park`; none: all")
    parser.add_argument("--fault", help="only this fault; `none`: only the models as they stand")
    parser.add_argument(
        "--jobs",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="searches at a time (default: as many as there are processors)",
    )
    parser.add_argument("--verbose", action="store_true", help="print all that a search prints")
    return parser.parse_args()


def runs_of(wanted: list[str], fault: str | None) -> list[Run]:
    """Return the requested runs."""
    models = [FOLDER / f"{name}.pml" for name in wanted] or sorted(FOLDER.glob("*.pml"))
    runs = [Run(model, each) for model in models for each in ("", *faults_of(model))]
    return [run for run in runs if fault is None or (run.fault or "none") == fault]


def main() -> int:
    """Run all requested searches; return the exit status."""
    options = arguments()
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return SKIPPED
    failed = passed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for outcome in pool.map(run_search, runs_of(options.models, options.fault)):
            show(outcome, options.verbose)
            failed += bool(outcome.problem)
            passed += not outcome.problem
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
