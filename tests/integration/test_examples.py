"""Each example behaves as it documents; those that are servers: test_example_servers.py."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from installation import EXAMPLES, ROOT

SOURCES = sorted((ROOT / "examples").glob("*.c")) + sorted((ROOT / "examples").glob("*.cpp"))


def program_of(source: Path) -> str:
    """Return the name of the program: echo of echo.c, and echo_cpp of echo.cpp."""
    return source.name.removesuffix(".c").replace(".", "_")


# Whole programs, rather than examples of one thing.
PROGRAMS = ("reverse_proxy.c",)


@pytest.mark.parametrize("source", SOURCES, ids=program_of)
def test_an_example_is_short_and_has_a_test(source: Path) -> None:
    assert len(source.read_text().splitlines()) < (200 if source.name in PROGRAMS else 80)
    tests = "".join(file.read_text() for file in Path(__file__).parent.glob("test_example*.py"))
    assert f"\ndef test_{program_of(source)}_" in tests


def test_background_finds_primes_and_shows_how_far_it_is() -> None:
    search = [EXAMPLES / "background", "100000"]
    shown = subprocess.run(search, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[0].endswith(" of 100000")
    assert shown.stdout.splitlines()[-1] == "prime number 100000 is 1299709"


def test_background_ends_early_when_interrupted() -> None:
    search = [EXAMPLES / "background", "1000000000"]
    with subprocess.Popen(search, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline().endswith(" of 1000000000\n")
        program.send_signal(signal.SIGINT)
        assert program.stdout.read().splitlines()[-1].startswith("prime number ")
        assert program.wait(20) == 0


def test_reach_tells_whether_a_server_accepts_connections() -> None:
    def outcome(*arguments: str) -> tuple[int, str]:
        reach = [EXAMPLES / "reach", *arguments]
        done = subprocess.run(reach, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, (done.stdout or done.stderr).strip()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert outcome("127.0.0.1", port) == (0, "connected")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
        assert outcome("127.0.0.1", port) == (1, "Connection refused")
    assert outcome("nonsense", port) == (2, "usage: reach IPV4-ADDRESS PORT")


def test_reach_gives_up_when_nobody_answers() -> None:
    """The accept queue is full, so the kernel ignores further requests."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        reach = [EXAMPLES / "reach", "127.0.0.1", str(listener.getsockname()[1])]
        done = subprocess.run(reach, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (1, "Operation canceled\n")


@contextmanager
def rerunning(watched: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Run `rerun` on a file that contains "first"; stop it and its command at the end."""
    watched.write_text("first\n")
    arguments = [EXAMPLES / "rerun", watched, *command]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        try:
            yield program
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)


def change(watched: Path) -> None:
    """Replace the file atomically by one that contains "second"."""
    other = watched.with_name("other")
    other.write_text("second\n")
    other.replace(watched)


def test_rerun_runs_the_command_again_when_the_file_has_changed(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    with rerunning(watched, "cat", str(watched)) as program:
        assert program.stdout
        assert [program.stdout.readline() for _ in range(2)] == ["first\n", "status 0\n"]
        change(watched)
        assert [program.stdout.readline() for _ in range(2)] == ["second\n", "status 0\n"]
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0


def test_rerun_ends_a_command_that_still_runs(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    with rerunning(watched, "sh", "-c", f"cat {watched}; exec sleep 1000") as program:
        assert program.stdout
        assert program.stdout.readline() == "first\n"
        change(watched)
        assert [program.stdout.readline() for _ in range(2)] == ["signal 15\n", "second\n"]
        program.send_signal(signal.SIGINT)
        assert program.stdout.read().splitlines()[-1] == "signal 15"
        assert program.wait(60) == 0


@contextmanager
def listening(answer: bytes) -> Iterator[tuple[socket.socket, str]]:
    """Send the answer, if any, on each connection; yield the listener and its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.recv(1000)
                        client.sendall(answer)
            except OSError:
                return

        if answer:
            threading.Thread(target=serve, daemon=True).start()
        yield listener, f"127.0.0.1:{listener.getsockname()[1]}"
        if answer:
            listener.shutdown(socket.SHUT_RDWR)


def test_fetch_gets_all_pages_and_reports_errors() -> None:
    with listening(b"x" * 12345) as (_, page), socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = f"127.0.0.1:{unused.getsockname()[1]}/"
        pages = [f"{page}/{number}" for number in range(20)]
        fetch = [EXAMPLES / "fetch", "60", *pages, refused, "nonsense"]
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=100, check=False)
    expected = [f"{page}: complete, 12345 bytes" for page in pages]
    expected += [f"{refused}: Connection refused, 0 bytes", "nonsense: Invalid argument, 0 bytes"]
    assert sorted(done.stdout.splitlines()) == sorted(expected)
    assert done.returncode == 0


def test_get_prints_the_head_and_the_body() -> None:
    answer = b"HTTP/1.0 200 OK\r\nServer: test\r\n\r\nthe body\nwithout an end"
    with listening(answer) as (_, page):
        get = [EXAMPLES / "get", f"{page}/index.html"]
        done = subprocess.run(get, capture_output=True, timeout=100, check=True)
    assert done.stderr == b"HTTP/1.0 200 OK\nServer: test\n"
    assert done.stdout == b"the body\nwithout an end"


def test_get_reports_errors(tmp_path: Path) -> None:
    with listening(b"HTTP/1.0 200 OK\r\nServ") as (_, page):
        for address, message in (
            (page, f"HTTP/1.0 200 OK\n{page}: Protocol error\n"),
            ("nonsense", "nonsense: Invalid argument\n"),
            (f"unix:{tmp_path}/none", f"unix:{tmp_path}/none: No such file or directory\n"),
        ):
            get = [EXAMPLES / "get", address]
            done = subprocess.run(get, capture_output=True, text=True, timeout=100, check=False)
            assert done.stderr == message
            assert done.returncode == 1


def test_fetch_ends_at_its_deadline() -> None:
    with listening(b"") as (_, page):
        fetch = [EXAMPLES / "fetch", "1", *[f"{page}/{number}" for number in range(20)]]
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.count(": Connection timed out, 0 bytes\n") == 20


def test_fetch_gives_up_when_interrupted() -> None:
    with listening(b"") as (listener, page):
        fetch = [EXAMPLES / "fetch", "600", f"{page}/"]
        with subprocess.Popen(fetch, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout
            client, _ = listener.accept()
            with client:
                program.send_signal(signal.SIGINT)
                assert program.stdout.read() == f"{page}/: Operation canceled, 0 bytes\n"
                assert program.wait(20) == 0


def run_commands(seconds: int, *commands: str) -> list[str]:
    done = subprocess.run(
        [EXAMPLES / "commands", str(seconds), *commands],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_commands_prints_the_output_and_the_status_of_each() -> None:
    commands = [f"echo output {number}; exit {number}" for number in range(30)]
    lines = run_commands(1000, *commands)
    expected = [
        f"{command}: complete, status {i}: output {i}" for i, command in enumerate(commands)
    ]
    assert sorted(line for line in lines if line) == sorted(expected)


def test_commands_kills_what_takes_too_long_with_all_that_it_started(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    slow = f"exec 3>{fifo}; sleep 1000 & sleep 1000"
    silent = "exec >&-; sleep 1000"
    late = "Connection timed out, status -1: "
    with os.fdopen(reader, "rb") as left:
        assert sorted(run_commands(1, slow, silent)) == sorted(
            [f"{slow}: {late}", f"{silent}: {late}"]
        )
        os.set_blocking(reader, True)
        assert left.read() == b""  # no process has the other end


def test_sums_prints_the_checksum_of_each_file(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).write_bytes(b"%d" % number * 10000)
    paths = [str(path) for path in tmp_path.iterdir()]
    done = subprocess.run(
        [EXAMPLES / "sums", *paths], capture_output=True, text=True, timeout=60, check=True
    )

    def checksum(path: str) -> str:
        value = 0
        for byte in Path(path).read_bytes():
            value = (value >> 1) + (value << 15) + byte & 0xFFFF
        return f"{value:05} {path}"

    assert sorted(done.stdout.splitlines()) == sorted(map(checksum, paths))


def test_sums_reports_a_file_that_it_cannot_read(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    done = subprocess.run(
        [EXAMPLES / "sums", missing], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (1, f"{missing}: No such file or directory\n")


def run_pipe(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [EXAMPLES / "pipe", *words]
    return subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)


def test_pipe_feeds_a_command_and_prints_what_comes_back() -> None:
    text = b"0123456789" * 100000
    done = run_pipe("cat", given=text)
    assert (done.returncode, done.stdout, done.stderr) == (0, text, b"")
    assert run_pipe("tr", "a-z", "A-Z", given=b"hello").stdout == b"HELLO"


def test_pipe_ends_with_a_command_that_does_not_read_its_input() -> None:
    with subprocess.Popen([EXAMPLES / "pipe", "true"], stdin=subprocess.PIPE) as pipe:
        assert pipe.wait(timeout=60) == 0
    assert run_pipe("head", "-c", "1", given=b"x" * 1000000).stdout == b"x"


def test_pipe_fails_with_the_command_and_if_there_is_none() -> None:
    assert run_pipe("false").returncode == 1
    done = run_pipe("/no/such/command")
    assert (done.returncode, done.stderr) == (1, b"/no/such/command: No such file or directory\n")


def run_fastest(seconds: int, listeners: list[socket.socket]) -> str:
    ports = [str(listener.getsockname()[1]) for listener in listeners]
    done = subprocess.run(
        [EXAMPLES / "fastest", str(seconds), *ports],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_fastest_prints_the_first_answer_and_leaves_the_other_servers() -> None:
    def answer() -> None:
        connection, _ = listeners[1].accept()
        with connection:
            connection.sendall(b"hello")

    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    thread = threading.Thread(target=answer)
    thread.start()
    assert run_fastest(1000, listeners) == "hello\n"
    thread.join()
    for listener in listeners:
        listener.close()


def test_fastest_ends_at_the_deadline_and_if_no_server_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert run_fastest(0, [silent]) == "Connection timed out\n"
    with socket.create_server(("127.0.0.1", 0)) as closing:

        def close() -> None:
            connection, _ = closing.accept()
            connection.close()

        thread = threading.Thread(target=close)
        thread.start()
        assert run_fastest(1000, [closing]) == "Connection refused\n"
        thread.join()


def test_many_threads_wait_at_once_and_all_go_on() -> None:
    shown = subprocess.run(
        [EXAMPLES / "many", "2000"], capture_output=True, text=True, timeout=100, check=False
    )
    assert shown.returncode == 0
    first, last = shown.stdout.splitlines()
    assert first.startswith("2000 threads wait, using ")
    assert last.endswith(f" {2000 * 1999 // 2}")


def test_stages_handles_or_drops_each_word_of_its_input() -> None:
    words = [f"word{number}" for number in range(200)]
    done = subprocess.run(
        [EXAMPLES / "stages"],
        input=" ".join(words),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    *lines, last = done.stdout.splitlines()
    printed, dropped = (int(number) for number in re.findall(r"\d+", last))
    assert (len(lines), printed + dropped) == (printed, len(words))
    assert printed >= 20
    assert set(lines) <= {f"{len(word)} {word}" for word in words}
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize("name", ["docs/guide-threads.md", "docs/guide-loop.md", "README.md"])
def test_documents_quote_the_examples_as_they_are(name: str) -> None:
    guide = (ROOT / name).read_text()
    quotes = re.findall(r"```c(?:pp)?\n(.*?)```", guide, flags=re.DOTALL)
    assert quotes
    texts = [source.read_text() for source in SOURCES]
    for quote in quotes:
        assert any(quote in text for text in texts), quote
