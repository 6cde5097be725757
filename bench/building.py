"""Builds peers whose compilers are installed; one that fails to build is absent."""

import os
import shutil
import subprocess
from pathlib import Path


def build_go(source: Path, program: Path, *options: str) -> None:
    """Build the package in a folder; without options, its only file, which needs no module."""
    if go := shutil.which("go"):
        environment = os.environ if options else {**os.environ, "GO111MODULE": "off"}
        command = [go, "build", *options, "-o", str(program), "." if options else "main.go"]
        subprocess.run(command, cwd=source, env=environment, check=False)


def build_cargo(source: Path, program: Path) -> None:
    """Build the locked package in a folder, whose program has the name of the folder's parent."""
    if cargo := shutil.which("cargo"):
        target = program.parent / "cargo"
        command = [cargo, "build", "--release", "--locked", "--target-dir", str(target)]
        if not subprocess.run(command, cwd=source, check=False).returncode:
            shutil.copy(target / "release" / source.parent.name, program)
