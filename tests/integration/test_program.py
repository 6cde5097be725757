"""The main program: help, version, and dispatch to commands."""

import contextlib
import http.client
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from manual import options_of_help, options_of_page
from server import unassigned_port

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GOSSAMER_PROGRAM") or str(ROOT / "build/dev/gossamer")


def gossamer(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [PROGRAM, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(option: str) -> None:
    done = gossamer(option)
    assert done.returncode == 0
    assert done.stderr == ""
    for command in ("serve", "load", "run", "cc", "lab"):
        assert f"\n  {command} " in done.stdout


def test_the_command_help_works_like_the_option() -> None:
    assert gossamer("help").stdout == gossamer("--help").stdout
    for command in ("serve", "load", "run", "cc"):
        done = gossamer("help", command)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == gossamer(command, "--help").stdout


@pytest.mark.parametrize(
    "arguments", [["--version"], ["-V"], ["serve", "--version"], ["load", "-V"]]
)
def test_version_is_the_same_everywhere(arguments: list[str]) -> None:
    header = (ROOT / "include/gossamer/version.h").read_text()
    version = ".".join(re.findall(r"^#define GOSSAMER_VERSION_\w+ (\d+)$", header, re.MULTILINE))
    done = gossamer(*arguments)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[0], done.stderr) == (0, f"gossamer {version}", "")
    has_plugin = (Path(PROGRAM).parent / "compiler/home/plugin.so").is_file()
    lacks = ["without the plugin of clang: gossamer cc compiles nothing"]
    assert lines[1:] == (lacks if arguments[0][0] == "-" and not has_plugin else [])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "no command"),
        (["sevre"], '"sevre" (did you mean serve?)'),
        (["serv"], '"serv" (did you mean serve?)'),
        (["--versoin"], '"--versoin" (did you mean --version?)'),
        (["--frobnicate"], '"--frobnicate" (try gossamer --help)'),
        (["help", "lod"], '"lod" (did you mean load?)'),
        (["serve", "--frobnicate"], '"--frobnicate" (try gossamer serve --help)'),
        (["serve", "--listn", "8080"], '"--listn" (did you mean --listen?)'),
        (["load", "--rte=5"], '"--rte=5" (did you mean --rate?)'),
        (["serve", "--workers", "many", "."], '"many"'),
        (["load", "--duration", "-1", "http://127.0.0.1/"], '"-1"'),
    ],
)
def test_an_error_prints_one_line_and_exits_with_status_2(arguments: list[str], named: str) -> None:
    done = gossamer(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("gossamer")
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["serve", "load"])
def test_help_of_a_command_fits_a_terminal_and_shows_defaults(command: str) -> None:
    done = gossamer(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: gossamer {command} ")
    assert "(default" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


# That of the lab is compared in tests/lab.
PAGES = sorted(set((ROOT / "docs/man").glob("gossamer-*.1")) - {ROOT / "docs/man/gossamer-lab.1"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_manual_page_has_exactly_the_options_of_help(page: Path) -> None:
    shown = gossamer(page.stem.removeprefix("gossamer-"), "--help").stdout
    assert options_of_page(page) == options_of_help(shown)


def test_lab_receives_its_arguments_and_the_path_of_the_program(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$GOSSAMER_PROGRAM" "$@"\nexit 7\n')
    python.chmod(0o755)
    done = gossamer("lab", "run", "two words", "--x", GOSSAMER_PYTHON=str(python))
    assert done.returncode == 7
    path, *arguments = done.stdout.splitlines()
    assert Path(path).samefile(PROGRAM)
    assert arguments == ["-m", "gossamer_lab", "run", "two words", "--x"]


def test_help_of_the_lab_receives_its_arguments(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    done = gossamer("help", "lab", "run", GOSSAMER_PYTHON=str(python))
    assert done.stdout.splitlines() == ["-m", "gossamer_lab", "run", "--help"]


def test_lab_finds_the_interpreter_of_its_checkout(tmp_path: Path) -> None:
    program = tmp_path / "build/some/gossamer"
    python = tmp_path / ".venv/bin/python"
    for folder in (program.parent, python.parent, tmp_path / "lab/gossamer_lab"):
        folder.mkdir(parents=True)
    shutil.copy(PROGRAM, program)
    python.write_text('#!/bin/sh\necho "$0 $*"\n')
    python.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "GOSSAMER_PYTHON"}
    said = subprocess.run(
        [program, "lab", "list"], capture_output=True, text=True, env=environment, check=True
    )
    assert said.stdout == f"{python} -m gossamer_lab list\n"


def test_lab_without_python_reports_how_to_install_it(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    done = gossamer("lab", GOSSAMER_PYTHON=missing)
    assert done.returncode == 2
    assert missing in done.stderr
    assert "tools/bootstrap lab" in done.stderr
    assert done.stderr.count("\n") == 1


def test_sockets_do_not_get_the_descriptors_of_closed_standard_streams(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("here")
    port = unassigned_port()
    command = [PROGRAM, "serve", "--listen", f"127.0.0.1:{port}", str(tmp_path)]
    server = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command])
    try:
        assert body_when_ready(port) == b"here"
        streams = [str(Path(f"/proc/{server.pid}/fd/{fd}").readlink()) for fd in range(3)]
        assert streams == ["/dev/null"] * 3
    finally:
        server.terminate()
        assert server.wait(30) == 0


def body_when_ready(port: int) -> bytes:
    """Send requests until the server listens."""
    for _ in range(200):
        with contextlib.suppress(ConnectionRefusedError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/")
            return connection.getresponse().read()
        time.sleep(0.05)
    raise AssertionError("the server does not listen")
