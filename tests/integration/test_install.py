"""What is installed is whole: programs are built with it alone, and its manual is found."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("GOSSAMER_PROGRAM") or ROOT / "build/dev/gossamer").resolve()


def output(*command: str | Path, **variables: str) -> str:
    """Run a command that must succeed; return what it says."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cached(name: str) -> str:
    """Return a variable of the build's configuration."""
    text = (PROGRAM.parent / "CMakeCache.txt").read_text()
    found = re.search(rf"^{name}:\w+=(.*)$", text, re.MULTILINE)
    return found.group(1) if found else ""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that everything was installed in, and then moved to."""
    folder = tmp_path_factory.mktemp("installed")
    output("cmake", "--install", PROGRAM.parent, "--prefix", folder / "before")
    return (folder / "before").rename(folder / "after")


def test_a_program_is_built_with_what_pkg_config_says(installed: Path, tmp_path: Path) -> None:
    (found,) = installed.rglob("gossamer.pc")
    words = ("pkg-config", "--cflags", "--libs", "gossamer")
    flags = output(*words, PKG_CONFIG_PATH=str(found.parent)).split()
    sanitizers = cached("GS_SANITIZE")
    extra = [f"-fsanitize={sanitizers}"] if sanitizers else []
    source, program = ROOT / "examples/many.c", tmp_path / "many"
    output(cached("CMAKE_C_COMPILER"), "-D_GNU_SOURCE", *extra, source, "-o", program, *flags)
    said = output(program, "1000")
    assert said.splitlines()[-1] == f"all have gone on: the sum of their numbers is {999 * 500}"


def test_the_program_works_where_it_is_installed(installed: Path) -> None:
    assert output(installed / "bin/gossamer", "--version").startswith("gossamer ")


def test_the_manual_has_a_page_for_the_program_and_its_commands(installed: Path) -> None:
    pages = {page.name for page in (installed / "share/man/man1").iterdir()}
    assert pages >= {"gossamer.1", "gossamer-serve.1", "gossamer-load.1"}
    assert (installed / "share/man/man7/gossamer-thread.7").is_file()
