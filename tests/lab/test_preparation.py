"""What an experiment needs beside our program is built and installed, and nothing twice."""

import importlib.util
from pathlib import Path

import pytest

from gossamer_lab import paths, preparation
from gossamer_lab.experiments.manifest import Experiment, Point, Program
from gossamer_lab.hosts.network import RELAY

_OURS = Program("ours", "loops/ours", (), "a program of ours")
_LIBRARY = Program(
    "theirs", "loops/theirs", (), "one that needs a library", package="libtheirs-dev"
)
_LOADS = Experiment("loads", "", (Point("one", 305, 1, 0),), ())
_PROGRAMS = Experiment("programs", "", (), (), programs=(_OURS, _LIBRARY))
_WAN = Experiment("wan", "", (Point("far", 305, 3, 0, hosts=3, is_wan=True),), ())


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout, configured and not built, whose commands are noted in a file."""
    bench = tmp_path / "build" / "bench"
    (bench / "loops").mkdir(parents=True)
    (tmp_path / "build" / "build.ninja").touch()
    (tmp_path / "tools").mkdir()
    for script in (tmp_path / "tools" / "bootstrap", tmp_path / "cmake"):
        script.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>{tmp_path}/commands\n')
        script.chmod(0o755)
    monkeypatch.setattr(paths, "CHECKOUT", tmp_path)
    monkeypatch.setenv("GOSSAMER_BENCH", str(bench))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    return tmp_path


def commands(checkout: Path, experiment: Experiment, cluster: str = "") -> list[str]:
    """Prepare for an experiment; return the commands that were run, each of them announced."""
    said: list[str] = []
    preparation.prepare(experiment, cluster, said.append)
    found = checkout / "commands"
    run = found.read_text().splitlines() if found.exists() else []
    assert len(run) == len(said)
    return run


@pytest.mark.parametrize(
    ("experiment", "cluster", "builds", "installs"),
    [
        (_LOADS, "", False, False),
        (_LOADS, "tcp://scheduler:1", False, True),
        (_PROGRAMS, "", True, False),
        (_WAN, "", True, True),
    ],
)
def test_what_is_missing_is_built_and_installed(
    checkout: Path, experiment: Experiment, cluster: str, builds: bool, installs: bool
) -> None:
    build = [f"cmake --build {checkout}/build --target bench/all"] if builds else []
    install = ["bootstrap hosts"] if installs else []
    assert commands(checkout, experiment, cluster) == build + install


def test_what_is_there_is_not_built_or_installed_again(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (_OURS.file, RELAY):
        (paths.programs() / file).parent.mkdir(exist_ok=True)
        (paths.programs() / file).touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: object())
    assert commands(checkout, _PROGRAMS) == commands(checkout, _WAN) == []


def test_a_program_outside_a_build_is_left_as_it_is(checkout: Path) -> None:
    (checkout / "build" / "build.ninja").unlink()
    assert commands(checkout, _PROGRAMS) == []


def test_a_build_that_fails_is_an_error_with_its_output(checkout: Path) -> None:
    (checkout / "cmake").write_text("#!/bin/sh\necho no space; echo left >&2; exit 1\n")
    with pytest.raises(preparation.PreparationError, match=r"cmake .*failed:\nno space\nleft$"):
        commands(checkout, _PROGRAMS)
