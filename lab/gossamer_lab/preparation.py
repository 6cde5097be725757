"""Prepares the checkout for an experiment: builds and installs what it needs beside our program.

`make run` neither builds the programs of ``bench/`` nor installs the Python packages of several
client hosts, because its own experiment needs neither.
"""

import importlib.util
import subprocess
from collections.abc import Callable, Sequence

from gossamer_lab import paths
from gossamer_lab.experiments.manifest import Experiment
from gossamer_lab.hosts.network import RELAY


class PreparationError(Exception):
    """Something could not be built or installed; the message says what."""


def _run(command: Sequence[str], what: str) -> None:
    done = subprocess.run(command, cwd=paths.CHECKOUT, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stdout + done.stderr).strip()
        raise PreparationError(f"{what}: `{' '.join(command)}` failed:\n{words}")


def _unbuilt(experiment: Experiment) -> list[str]:
    """Return the programs that a compiler is enough for, and that are not built."""
    files = [known.file for known in (*experiment.programs, *experiment.toys) if not known.needs]
    files += [RELAY] if any(point.is_wan for point in experiment.loads) else []
    return [file for file in files if not (paths.programs() / file).is_file()]


def _build_programs(experiment: Experiment, say: Callable[[str], None]) -> None:
    """Build the programs in the build of our program, if it is one of this checkout."""
    build = paths.programs().parent
    if not _unbuilt(experiment) or not (build / "build.ninja").is_file():
        return
    say("building the programs that the experiment measures")
    _run(["cmake", "--build", str(build), "--target", "bench/all"], "the programs of bench/")


def _install_packages(needs_hosts: bool, say: Callable[[str], None]) -> None:
    script = paths.CHECKOUT / "tools" / "bootstrap"
    is_there = importlib.util.find_spec("distributed") is not None
    if not needs_hosts or is_there or not script.is_file():
        return
    say("installing the Python packages of client hosts (lab/requirements-hosts.txt)")
    _run([str(script), "hosts"], "the Python packages of client hosts")
    importlib.invalidate_caches()


def prepare(experiment: Experiment, cluster: str, say: Callable[[str], None]) -> None:
    """Build and install what is missing, and say so; PreparationError."""
    _build_programs(experiment, say)
    several = any(point.hosts > 1 for point in experiment.loads)
    _install_packages(several or bool(cluster), say)
