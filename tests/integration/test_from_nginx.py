"""`serve --from-nginx`: configurations in the style of common ones, and what becomes of each.

NAME.yaml is what NAME.conf becomes, with what is left out as comments at its end; to write these
files again: GOSSAMER_WRITE=1.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from server import ROOT, has_yaml, is_built_with, program, run_serve

FOLDER = ROOT / "tests/integration/nginx"
NAMES = sorted(path.stem for path in FOLDER.glob("*.conf"))


def convert(file: Path) -> tuple[int, str, list[str]]:
    """Convert the file. Returns the exit status, the YAML, and the lines about the rest."""
    done = run_serve("--from-nginx", str(file))
    return done.returncode, done.stdout, done.stderr.replace(f"{FOLDER}/", "").splitlines()


def test_there_are_ten() -> None:
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_becomes_what_is_expected(name: str) -> None:
    status, text, left = convert(FOLDER / f"{name}.conf")
    assert status == 0
    actual = text + "".join(f"# {line}\n" for line in left)
    expected = FOLDER / f"{name}.yaml"
    if "GOSSAMER_WRITE" in os.environ:
        expected.write_text(actual)
    assert actual == expected.read_text()


@pytest.mark.skipif(not has_yaml(), reason="built without libyaml")
@pytest.mark.parametrize("name", NAMES)
def test_what_it_becomes_is_accepted(name: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.yaml").read_text()
    (tmp_path / "pem").write_text("")
    text = re.sub(r'\broot: "[^\n]*"', f'root: "{tmp_path}"', text)
    text = re.sub(r'\b(certificate|key): "[^\n]*"', rf'\1: "{tmp_path}/pem"', text)
    file = tmp_path / "site.yaml"
    file.write_text(text)
    done = run_serve("--config", str(file), "--print-config")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    is_built_with("address") or is_built_with("thread"), reason="sanitizers take terabytes"
)
def test_files_that_do_not_exist_take_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text("http {" + "a b;" * 4096 + "include none*;" * 4000 + "}")
    command = ["prlimit", f"--as={600 << 20}", program(), "serve", "--from-nginx", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.count("nginx.conf:1: a b: left out") == 4096
    assert "memory" not in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("http {", "the file ends within a block: add }"),
        ("http { server { root x }", "there is no directive before this: remove it, or add ;"),
        ("server { root 'x; }", "a quotation mark is not closed: add it"),
        ("root", "the file ends within a directive: add ; or }"),
        ("}", "there is no directive before this: remove it, or add ;"),
        ("http {}", "there is no server with a root: name the main file of nginx"),
        ("include site.conf;", "the file can't be read: Too many levels of symbolic links"),
        ("a {" * 17, "blocks are too deep in each other: at most 16"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "site.conf"
    file.write_text(text)
    done = run_serve("--from-nginx", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith(f": {problem}")
