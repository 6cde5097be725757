"""The program's front: help, version, and the handing over to commands."""

import contextlib
import http.client
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GOSSAMER_PROGRAM") or str(ROOT / "build/dev/gossamer")


def gossamer(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [PROGRAM, *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_names_every_command(word: str) -> None:
    done = gossamer(word)
    assert done.returncode == 0
    assert done.stderr == ""
    for command in ("serve", "load", "lab"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("words", [["--version"], ["-V"], ["serve", "--version"], ["load", "-V"]])
def test_version_is_the_same_everywhere(words: list[str]) -> None:
    version = (ROOT / "CMakeLists.txt").read_text().split("VERSION ", 2)[2].split()[0]
    done = gossamer(*words)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"gossamer {version}\n", "")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([], "no command"),
        (["sevre"], '"sevre"'),
        (["--frobnicate"], '"--frobnicate"'),
        (["serve", "--frobnicate"], '"--frobnicate"'),
        (["serve", "--workers", "many", "."], '"many"'),
        (["load", "--duration", "-1", "http://127.0.0.1/"], '"-1"'),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(words: list[str], named: str) -> None:
    done = gossamer(*words)
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


PAGES = sorted((ROOT / "docs/man").glob("gossamer-*.1"))


# Of the lab, each command has options of its own.
COMMANDS = {
    "gossamer-lab": [["lab", name] for name in ("list", "run", "report", "compare", "doctor")]
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_manual_page_has_exactly_the_options_of_help(page: Path) -> None:
    commands = COMMANDS.get(page.stem, [[page.stem.removeprefix("gossamer-")]])
    helps = [gossamer(*words, "--help").stdout for words in commands]
    lines = [line.lstrip("│") for text in helps for line in text.splitlines()]
    in_help = {line.split("--")[1].split()[0] for line in lines if is_option(line)}
    macros = [line.split() for line in page.read_text().splitlines() if line.startswith(".It Fl")]
    in_page = {word.removeprefix("-") for words in macros for word in words if is_long(word)}
    assert in_page == in_help - {"help", "version"}  # of every command: gossamer.1


def is_option(line: str) -> bool:
    return line.startswith(" ") and line.lstrip().startswith("-") and "--" in line[:12]


def is_long(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def test_lab_gets_its_words_and_the_path_of_the_program(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$GOSSAMER_PROGRAM" "$@"\nexit 7\n')
    python.chmod(0o755)
    done = gossamer("lab", "run", "two words", "--x", GOSSAMER_PYTHON=str(python))
    assert done.returncode == 7
    path, *words = done.stdout.splitlines()
    assert Path(path).samefile(PROGRAM)
    assert words == ["-m", "gossamer_lab", "run", "two words", "--x"]


def test_lab_without_its_python_says_how_to_get_it(tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    done = gossamer("lab", GOSSAMER_PYTHON=missing)
    assert done.returncode == 2
    assert missing in done.stderr
    assert "make setup" in done.stderr
    assert done.stderr.count("\n") == 1


def test_closed_standard_streams_are_not_taken_by_sockets(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("here")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [PROGRAM, "serve", "--listen", f"127.0.0.1:{port}", str(tmp_path)]
    server = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words])
    try:
        assert body_when_ready(port) == b"here"
        streams = [str(Path(f"/proc/{server.pid}/fd/{fd}").readlink()) for fd in range(3)]
        assert streams == ["/dev/null"] * 3
    finally:
        server.terminate()
        assert server.wait(30) == 0


def body_when_ready(port: int) -> bytes:
    """Ask until somebody listens."""
    for _ in range(200):
        with contextlib.suppress(ConnectionRefusedError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", "/")
            return connection.getresponse().read()
        time.sleep(0.05)
    raise AssertionError("nobody listens")
