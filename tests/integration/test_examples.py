"""Each example does what it says."""

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("GOSSAMER_PROGRAM") or str(ROOT / "build/dev/gossamer")
EXAMPLES = Path(PROGRAM).resolve().parent / "examples"
SOURCES = sorted((ROOT / "examples").glob("*.c"))


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    with subprocess.Popen([EXAMPLES / "echo"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield "127.0.0.1", int(server.stdout.readline().split()[-1])
        server.kill()


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_an_example_is_under_80_lines_and_has_a_test(source: Path) -> None:
    assert len(source.read_text().splitlines()) < 80
    assert any(name.startswith(f"test_{source.stem}_") for name in globals())


def test_echo_gives_back_to_each_client_what_it_sent(echo: tuple[str, int]) -> None:
    clients = [socket.create_connection(echo, timeout=20) for _ in range(50)]
    for number, client in enumerate(clients):
        client.sendall(b"%d" % number * 1000)
    for number, client in enumerate(clients):
        expected = b"%d" % number * 1000
        with client, client.makefile("rb") as answers:
            assert answers.read(len(expected)) == expected


def test_echo_holds_back_a_client_that_does_not_read(echo: tuple[str, int]) -> None:
    with socket.create_connection(echo, timeout=20) as client:
        client.setblocking(False)
        sent, text = 0, b"0123456789" * 1000
        for _ in range(10000):
            try:
                sent += client.send(text)
            except BlockingIOError:
                break
        else:
            pytest.fail("everything was taken from a client that does not read")
        client.settimeout(20)
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answers:
            assert len(answers.read()) == sent


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


@contextmanager
def rerunning(watched: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Run `rerun` on a file that says "first"; end it and what it runs."""
    watched.write_text("first\n")
    words = [EXAMPLES / "rerun", watched, *command]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as program:
        try:
            yield program
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)


def change(watched: Path) -> None:
    """Have the file say "second", in one step."""
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


def test_echo_threads_gives_back_to_each_client_what_it_sent() -> None:
    with subprocess.Popen([EXAMPLES / "echo_threads"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        address = "127.0.0.1", int(server.stdout.readline().split()[-1])
        clients = [socket.create_connection(address, timeout=20) for _ in range(50)]
        for number, client in enumerate(clients):
            client.sendall(b"%d" % number * 1000)
        for number, client in enumerate(clients):
            expected = b"%d" % number * 1000
            with client, client.makefile("rb") as answers:
                assert answers.read(len(expected)) == expected
        server.kill()


@contextmanager
def running(name: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    """Run an example that serves; yield it and its address."""
    command = [EXAMPLES / name, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server, ("127.0.0.1", int(server.stdout.readline().split()[-1]))
        finally:
            server.kill()


def receive(client: socket.socket, size: int) -> bytes:
    """Receive so many bytes, or what came before the end."""
    received = b""
    while len(received) < size and (piece := client.recv(size - len(received))):
        received += piece
    return received


def test_chat_tells_each_guest_what_the_others_say() -> None:
    with running("chat") as (_, address):
        guests = [socket.create_connection(address, timeout=20) for _ in range(5)]
        for speaker, words in (guests[-1], b"the last one is seated"), (guests[0], b"and all are"):
            speaker.sendall(words)
            for guest in guests:
                assert guest is speaker or receive(guest, len(words)) == words
        for guest in guests:
            guest.close()


def test_chat_goes_on_when_a_guest_leaves_and_ends_when_interrupted() -> None:
    with running("chat") as (server, address):
        guests = [socket.create_connection(address, timeout=20) for _ in range(3)]
        guests[2].sendall(b"goodbye")
        assert receive(guests[0], 7) == receive(guests[1], 7) == b"goodbye"
        guests[2].close()
        guests[0].sendall(b"hello")
        assert receive(guests[1], 5) == b"hello"
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        for guest in guests[:2]:
            with guest:
                assert guest.recv(1) == b""


@contextmanager
def listening(answer: bytes) -> Iterator[tuple[socket.socket, str]]:
    """Give the answer to each connection, if there is one; yield the listener and its address."""
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


def test_fetch_gets_all_pages_and_says_what_went_wrong() -> None:
    with listening(b"x" * 12345) as (_, page), socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        refused = f"127.0.0.1:{unused.getsockname()[1]}/"
        pages = [f"{page}/{number}" for number in range(20)]
        fetch = [EXAMPLES / "fetch", "60", *pages, refused, "nonsense"]
        done = subprocess.run(fetch, capture_output=True, text=True, timeout=100, check=False)
    expected = [f"{page}: all there, 12345 bytes" for page in pages]
    expected += [f"{refused}: Connection refused, 0 bytes", "nonsense: Invalid argument, 0 bytes"]
    assert sorted(done.stdout.splitlines()) == sorted(expected)
    assert done.returncode == 0


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


def test_proxy_passes_on_both_ways_to_the_end_and_ends_when_interrupted(
    echo: tuple[str, int],
) -> None:
    with running("proxy", echo[0], str(echo[1])) as (server, address):
        clients = [socket.create_connection(address, timeout=20) for _ in range(20)]
        for number, client in enumerate(clients):
            client.sendall(b"%d" % number * 10000)
            client.shutdown(socket.SHUT_WR)
        for number, client in enumerate(clients):
            expected = b"%d" % number * 10000
            with client:
                assert receive(client, len(expected) + 1) == expected
        with socket.create_connection(address, timeout=20) as client:
            client.sendall(b"still there")
            assert receive(client, 11) == b"still there"
            server.send_signal(signal.SIGINT)
            assert server.wait(20) == 0
            assert client.recv(1) == b""


def test_proxy_closes_to_a_client_for_which_there_is_no_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
        with (
            running("proxy", "127.0.0.1", port) as (_, address),
            socket.create_connection(address, timeout=20) as client,
        ):
            assert client.recv(1) == b""


def test_many_threads_wait_at_once_and_all_go_on() -> None:
    shown = subprocess.run(
        [EXAMPLES / "many", "2000"], capture_output=True, text=True, timeout=100, check=False
    )
    assert shown.returncode == 0
    first, last = shown.stdout.splitlines()
    assert first.startswith("2000 threads wait, with ")
    assert last.endswith(f" {2000 * 1999 // 2}")


def test_stages_handles_or_drops_each_word_it_is_given() -> None:
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


@pytest.mark.parametrize("name", ["guide-threads.md", "guide-loop.md"])
def test_the_guide_quotes_the_examples_as_they_are(name: str) -> None:
    guide = (ROOT / "docs" / name).read_text()
    quotes = re.findall(r"```c\n(.*?)```", guide, flags=re.DOTALL)
    assert quotes
    texts = [source.read_text() for source in SOURCES]
    for quote in quotes:
        assert any(quote in text for text in texts), quote
