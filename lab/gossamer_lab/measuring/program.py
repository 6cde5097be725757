"""One measurement by a small program that measures itself and prints its results."""

import math
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Case, Program
from gossamer_lab.measuring import process

_LONGEST_S = 300.0
_VERSION_S = 60.0
_REALTIME = 1


class ProgramFailedError(Exception):
    """A program gave no results; the message says why."""


@dataclass(frozen=True)
class Runner:
    """How programs are run: their folder, the core, a folder for their output."""

    programs: Path
    core: int
    folder: Path
    is_realtime: bool
    tick: Callable[[], None]
    """Called a few times a second while a program runs."""


def may_be_realtime() -> bool:
    """Return whether processes may have real-time priority here."""
    child = os.fork()
    if not child:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_REALTIME))
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def available_memory() -> int:
    """Return the available memory in bytes."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def version_of(program: Program) -> str:
    """Return the version of the library that a program measures, as the system reports it."""
    if not program.package:
        return "this checkout"
    unpacked = paths.CHECKOUT / "peers/root/.unpacked" / program.package
    if unpacked.is_file():
        return f"{program.package} {unpacked.read_text().strip()}"
    try:
        result = subprocess.run(
            ("dpkg-query", "-W", "-f", "${Package} ${Version}", program.package),
            check=False,
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return result.stdout.strip() or "unknown"


def _once(argv: tuple[str, ...], runner: Runner) -> list[float]:
    """Run a program once; return the numbers that it prints."""
    output, errors = runner.folder / "program.out", runner.folder / "program.err"

    def become_realtime() -> None:
        if runner.is_realtime:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_REALTIME))

    with process.started(argv, runner.core, output, errors, become_realtime) as child:
        status = process.wait(child, _LONGEST_S, runner.tick)
    if status != 0:
        words = f"{process.ending(status)}: {process.stderr_tail(errors)}"
        raise ProgramFailedError(words.removesuffix(": "))
    try:
        return [float(word) for word in output.read_text().split()]
    except ValueError as error:
        raise ProgramFailedError(f"printed no numbers: {error}") from error


def run_program(
    program: Program, case: Case, runner: Runner, repeats: int
) -> dict[str, float | None]:
    """Return the minimum of each column over `repeats` runs of a program, and the rates.

    A column for which it prints "nan", because it cannot tell, is None.
    """
    argv = (str(runner.programs / program.file), *program.arguments, *case.arguments)
    minimum: dict[str, float | None] = dict.fromkeys(case.columns)
    for _ in range(repeats):
        numbers = _once(argv, runner)
        if len(numbers) < len(case.columns):
            raise ProgramFailedError(f"printed {len(numbers)} numbers of {len(case.columns)}")
        for name, number in zip(case.columns, numbers, strict=False):
            if not math.isnan(number):
                known = minimum[name]
                minimum[name] = number if known is None else min(known, number)
    costs = ((rate, minimum[cost]) for rate, cost in case.rates)
    return minimum | {rate: 1e9 / cost for rate, cost in costs if cost and cost > 0}
