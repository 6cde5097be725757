"""Each example does what it says."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
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
