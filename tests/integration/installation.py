"""What the build under test installs, and programs that are built with it alone."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("GOSSAMER_PROGRAM") or ROOT / "build/dev/gossamer").resolve()
BUILD = PROGRAM.parent
EXAMPLES = BUILD / "examples"
needs_plugin = pytest.mark.skipif(
    not (BUILD / "compiler/home/plugin.so").is_file(),
    reason="the plugin of clang is not built in this preset",
)


def output(*command: str | Path, cwd: Path | None = None, **variables: str) -> str:
    """Run a command that must succeed; return what it says."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=cwd, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cached(name: str) -> str:
    """Return a variable of the build's configuration."""
    text = (BUILD / "CMakeCache.txt").read_text()
    found = re.search(rf"^{name}:\w+=(.*)$", text, re.MULTILINE)
    return found.group(1) if found else ""


SANITIZERS = cached("GS_SANITIZE")


CXX = cached("CMAKE_CXX_COMPILER")
HAS_CXX = bool(CXX) and not CXX.endswith("NOTFOUND")


def write_compilers(folder: Path) -> None:
    """Put cc and c++ in the folder: the compilers of the build, with its sanitizers."""
    flags = f"-fsanitize={SANITIZERS}" if SANITIZERS else ""
    folder.mkdir(parents=True, exist_ok=True)
    for name, compiler in ("cc", cached("CMAKE_C_COMPILER")), ("c++", CXX):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {compiler} {flags} "$@"\n')
        script.chmod(0o755)


def environment(installed: Path, folder: Path) -> dict[str, str]:
    """Return what commands find the installation and cc with; cc is put in the folder."""
    (found,) = installed.rglob("gossamer.pc")
    write_compilers(folder / "bin")
    return {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PKG_CONFIG_PATH": str(found.parent),
        "LD_LIBRARY_PATH": str(found.parent.parent),
        "CMAKE_PREFIX_PATH": str(installed),
        "CC": "cc",
        "CXX": "c++",
    }


def shell(command: str, installed: Path, folder: Path, **variables: str) -> str:
    """Run a line of a document in the folder, as a reader would; return what it says."""
    found = environment(installed, folder)
    return output("sh", "-ec", command, cwd=folder, **{**found, **variables})


def libraries_needed(file: Path) -> list[str]:
    """Return the shared libraries that a program or library is linked with."""
    listed = output("readelf", "--dynamic", "--wide", file)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", listed)


HEADERS = ROOT / "include/gossamer"
TLS_HEADERS = [HEADERS / name for name in ("tls.h", "tls_context.h", "tls_engine.h")]
# Whether OpenSSL was found.
HAS_TLS = (BUILD / "gossamer-tls.pc").exists()


def functions_and_objects(library: str = "gossamer") -> set[str]:
    """Return the names of what the public headers of a library declare as exported."""
    others = set(HEADERS.glob("*.h")) - set(HEADERS.glob("tls*.h"))
    names: set[str] = set()
    for header in TLS_HEADERS if library == "gossamer-tls" else others:
        code = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)
        declared = re.findall(r"^(?:extern )?GS_API\b[^;{]*?\b(gs_\w+)(?:\(|;)", code, re.MULTILINE)
        assert len(declared) == code.count("GS_API") - code.count("#define GS_API"), header
        names.update(declared)
    return names
