"""gossamer cc, where it is not all there: it says which package is missing."""

import os
import subprocess
from pathlib import Path

import pytest
from installation import PROGRAM, ROOT, cached, output

SOURCE = "int main(void) { return 0; }\n"


def refusal(folder: Path, *options: str, **variables: str) -> str:
    """Compile a program, which must fail; return the line that says why."""
    (folder / "program.c").write_text(SOURCE)
    done = subprocess.run(
        [PROGRAM, "cc", *options, "program.c", "-o", "program"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **variables},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert not (folder / "program").exists()
    return done.stderr


@pytest.fixture
def path_of_clang(tmp_path: Path) -> str:
    """Return a path with something of clang's name, which is not called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "clang-19").write_text("#!/bin/sh\nexit 99\n")
    (folder / "clang-19").chmod(0o755)
    return str(folder)


def test_without_clang_its_package_is_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, PATH=str(tmp_path))
    assert said == "gossamer cc: clang-19: not found; it is in the Debian package clang-19\n"


def test_without_the_plugin_the_package_that_it_needs_is_named(
    tmp_path: Path, path_of_clang: str
) -> None:
    said = refusal(tmp_path, PATH=path_of_clang, GOSSAMER_CC_HOME=str(tmp_path))
    assert said.startswith("gossamer cc: the plugin of clang is missing: ")
    assert "llvm-19-dev" in said
    assert "make install-cc" in said


def test_all_but_the_plugin_is_built_without_headers_of_llvm(tmp_path: Path) -> None:
    compiler = f"-DCMAKE_C_COMPILER={cached('CMAKE_C_COMPILER')}"
    words = [compiler, f"-DGS_LLVM_INCLUDE={tmp_path / 'none'}"]
    words += ["-DBUILD_TESTING=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON"]
    words += [f"-DGOSSAMER_BUILD_{part}=OFF" for part in ("BENCH", "COMPAT", "EXAMPLES")]
    said = output("cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", *words)
    assert "gossamer cc is built without the plugin of clang" in said
    targets = output("ninja", "-C", tmp_path / "build", "-t", "targets", "all")
    assert "\ngossamer: " in targets
    assert "libgossamer_cc_driver.a: " in targets
    assert "plugin.so" not in targets
    assert "libgossamer_cc.a" not in targets
