"""Each example that is a server behaves as it documents."""

import http.client
import json
import random
import resource
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from installation import EXAMPLES


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    with subprocess.Popen([EXAMPLES / "echo"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        yield "127.0.0.1", int(server.stdout.readline().split()[-1])
        server.kill()


def test_echo_returns_to_each_client_what_it_sent(echo: tuple[str, int]) -> None:
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


def test_echo_threads_returns_to_each_client_what_it_sent() -> None:
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
def running(name: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], tuple[str, int]]]:
    """Run an example server; yield it and its address."""
    command = [EXAMPLES / name, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        try:
            yield server, ("127.0.0.1", int(server.stdout.readline().split()[-1]))
        finally:
            server.kill()


def receive(client: socket.socket, size: int) -> bytes:
    """Receive n bytes, or fewer if the connection ends."""
    received = b""
    while len(received) < size and (piece := client.recv(size - len(received))):
        received += piece
    return received


def open_descriptors(program: subprocess.Popen[str]) -> int:
    """Return how many descriptors the program has."""
    return len(list(Path(f"/proc/{program.pid}/fd").iterdir()))


def echoes(client: socket.socket, timeout_s: float) -> bool:
    """Return whether sent data is echoed before the timeout."""
    client.settimeout(timeout_s)
    try:
        client.sendall(b"echo")
        return receive(client, 4) == b"echo"
    except TimeoutError:
        return False


def accepts(address: tuple[str, int]) -> bool:
    """Return whether a server listens at this address."""
    try:
        with suppress(ConnectionResetError):  # the server closes the listener just now
            socket.create_connection(address, timeout=20).close()
    except ConnectionRefusedError:
        return False
    return True


Echo = tuple[subprocess.Popen[str], tuple[str, int]]


@contextmanager
def running_if_built(name: str) -> Iterator[Echo]:
    if not (EXAMPLES / name).exists():
        pytest.skip("built without a C++ compiler")
    with running(name) as started:
        yield started


@pytest.fixture
def echo_cpp() -> Iterator[Echo]:
    with running_if_built("echo_cpp") as started:
        yield started


@pytest.fixture
def echo_coroutine_cpp() -> Iterator[Echo]:
    with running_if_built("echo_coroutine_cpp") as started:
        yield started


def test_echo_cpp_gives_back_to_each_client_what_it_sent(echo_cpp: Echo) -> None:
    serves_many(echo_cpp)


def test_echo_coroutine_cpp_gives_back_to_each_client_what_it_sent(
    echo_coroutine_cpp: Echo,
) -> None:
    serves_many(echo_coroutine_cpp)


def test_echo_cpp_survives_a_client_that_resets_and_ends_when_interrupted(echo_cpp: Echo) -> None:
    survives_and_ends(echo_cpp)


def test_echo_coroutine_cpp_survives_a_client_that_resets_and_ends_when_interrupted(
    echo_coroutine_cpp: Echo,
) -> None:
    survives_and_ends(echo_coroutine_cpp)


def serves_many(echo: Echo) -> None:
    """Send to many clients of the server at once, and get it back."""
    clients = [socket.create_connection(echo[1], timeout=20) for _ in range(50)]
    for number, client in enumerate(clients):
        client.sendall(b"%d" % number * 1000)
    for number, client in enumerate(clients):
        expected = b"%d" % number * 1000
        with client:
            assert receive(client, len(expected)) == expected


def survives_and_ends(echo: Echo) -> None:
    """Reset a connection, use another, and interrupt the server."""
    server, address = echo
    with socket.create_connection(address, timeout=20) as client:
        assert echoes(client, 20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with socket.create_connection(address, timeout=20) as client:
        assert echoes(client, 20)
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        assert client.recv(1) == b""


def test_server_serves_a_limited_number_of_clients() -> None:
    with running("server") as (_, address):
        clients = [socket.create_connection(address, timeout=20) for _ in range(101)]
        assert all(echoes(client, 20) for client in clients[:100])
        assert not echoes(clients[100], 0.2)
        clients[0].close()
        clients[100].settimeout(20)
        assert receive(clients[100], 4) == b"echo"
        for client in clients[1:]:
            client.close()


def test_server_continues_when_no_descriptor_is_free() -> None:
    with running("server") as (server, address):
        first = socket.create_connection(address, timeout=20)
        assert echoes(first, 20)
        used = open_descriptors(server)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (used + 1, used + 1))
        second, third = (socket.create_connection(address, timeout=20) for _ in range(2))
        assert echoes(second, 20)
        assert not echoes(third, 0.2)
        first.close()
        third.settimeout(20)
        assert receive(third, 4) == b"echo"
        second.close()
        third.close()


def test_server_ends_when_its_clients_have_disconnected() -> None:
    with running("server") as (server, address):
        client = socket.create_connection(address, timeout=20)
        assert echoes(client, 20)
        server.terminate()
        while accepts(address):
            pass
        assert echoes(client, 20)
        client.close()
        assert server.wait(20) == 0


def test_server_ends_though_a_client_stays() -> None:
    with running("server") as (server, address):
        client = socket.create_connection(address, timeout=20)
        assert echoes(client, 20)
        server.terminate()
        assert receive(client, 1) == b""
        assert server.wait(20) == 0
        client.close()


def test_chat_sends_each_message_to_the_other_clients() -> None:
    with running("chat") as (_, address):
        clients = [socket.create_connection(address, timeout=20) for _ in range(5)]
        for sender, message in (
            (clients[-1], b"the last one is seated"),
            (clients[0], b"and all are"),
        ):
            sender.sendall(message)
            for client in clients:
                assert client is sender or receive(client, len(message)) == message
        for client in clients:
            client.close()


def test_chat_continues_when_a_client_disconnects_and_ends_when_interrupted() -> None:
    with running("chat") as (server, address):
        clients = [socket.create_connection(address, timeout=20) for _ in range(3)]
        clients[2].sendall(b"goodbye")
        assert receive(clients[0], 7) == receive(clients[1], 7) == b"goodbye"
        clients[2].close()
        clients[0].sendall(b"hello")
        assert receive(clients[1], 5) == b"hello"
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        for client in clients[:2]:
            with client:
                assert client.recv(1) == b""


def pass_on(messages: bytes, talker: socket.socket, listener: socket.socket) -> None:
    """Send messages of 200 bytes, one by one, to a client that reads them."""
    for start in range(0, len(messages), 200):
        talker.sendall(messages[start : start + 200])
        assert receive(listener, 200) == messages[start : start + 200]


def test_chat_drops_a_client_that_does_not_read_and_delays_no_other() -> None:
    with running("chat", "1") as (server, address), socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(address)
        with (
            socket.create_connection(address, timeout=20) as listener,
            socket.create_connection(address, timeout=20) as talker,  # the last one is seated
        ):
            message, end_s, before = b"x" * 200, time.monotonic() + 120, 0
            while open_descriptors(server) >= before:
                assert time.monotonic() < end_s
                pass_on(message * 100, talker, listener)
                before = before or open_descriptors(server)


@contextmanager
def proxying(
    folder: Path, server: tuple[str, int], *arguments: str
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], socket.socket]]]:
    """Run the proxy before a server; yield it and a function that connects to it."""
    path = folder / "proxy"
    command = [EXAMPLES / "proxy", f"unix:{path}", f"{server[0]}:{server[1]}", *arguments]

    def connect() -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(str(path))
        return client

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout
        try:
            assert proxy.stdout.readline() == "proxying\n"
            yield proxy, connect
        finally:
            proxy.kill()


def test_proxy_forwards_both_directions_to_the_end_and_ends_when_interrupted(
    echo: tuple[str, int], tmp_path: Path
) -> None:
    with proxying(tmp_path, echo) as (proxy, connect):
        clients = [connect() for _ in range(20)]
        for number, client in enumerate(clients):
            client.sendall(b"%d" % number * 10000)
            client.shutdown(socket.SHUT_WR)
        for number, client in enumerate(clients):
            expected = b"%d" % number * 10000
            with client:
                assert receive(client, len(expected) + 1) == expected
        with connect() as client:
            client.sendall(b"still there")
            assert receive(client, 11) == b"still there"
            proxy.send_signal(signal.SIGINT)
            assert proxy.wait(20) == 0
            assert client.recv(1) == b""


def test_proxy_closes_to_a_client_for_which_there_is_no_server(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with (
            proxying(tmp_path, unused.getsockname()) as (_, connect),
            connect() as client,
        ):
            assert client.recv(1) == b""


@contextmanager
def through_proxy(folder: Path, idle_s: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection through a proxy with this limit."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        proxying(folder, listener.getsockname(), str(idle_s)) as (_, connect),
        connect() as client,
    ):
        listener.settimeout(60)
        server, _ = listener.accept()
        server.settimeout(60)
        with server:
            yield client, server


def test_proxy_passes_on_the_end_of_each_direction_alone(tmp_path: Path) -> None:
    with through_proxy(tmp_path, 60) as (client, server):
        client.sendall(b"question")
        client.shutdown(socket.SHUT_WR)
        assert receive(server, 100) == b"question"
        server.sendall(b"first")
        assert receive(client, 5) == b"first"
        server.sendall(b"second")
        assert receive(client, 6) == b"second"
        server.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_proxy_closes_a_connection_that_is_idle_in_both_directions(tmp_path: Path) -> None:
    with through_proxy(tmp_path, 1) as (client, server):
        assert client.recv(1) == b""
        assert server.recv(1) == b""


def test_proxy_loses_nothing_of_a_direction_that_is_stuck_while_the_other_goes_on(
    tmp_path: Path,
) -> None:
    with through_proxy(tmp_path, 2) as (client, server), ThreadPoolExecutor() as pool:
        data = random.Random(1).randbytes(32 << 20)
        sending = pool.submit(client.sendall, data)
        for _ in range(40):  # for longer than the limit
            server.sendall(b".")
            assert client.recv(1) == b"."
            time.sleep(0.1)
        assert not sending.done()
        assert receive(server, len(data)) == data
        sending.result()
        client.shutdown(socket.SHUT_WR)
        assert server.recv(1) == b""


@contextmanager
def serving_notes() -> Iterator[tuple[subprocess.Popen[str], http.client.HTTPConnection]]:
    """Run the JSON API, with a connection to it."""
    program = EXAMPLES / "json_api"
    if not program.exists():
        pytest.skip("built without SQLite")
    with subprocess.Popen([program], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        address = server.stdout.readline().split("/")[2]
        yield server, http.client.HTTPConnection(address, timeout=20)
        server.kill()


def ask(api: http.client.HTTPConnection, method: str, path: str, body: str = "") -> tuple[int, str]:
    api.request(method, path, body.encode() or None)
    response = api.getresponse()
    return response.status, response.read().decode()


def test_json_api_stores_and_finds_notes() -> None:
    with serving_notes() as (_, api):
        assert ask(api, "POST", "/notes", 'say "a + b"') == (201, '{"id":1}\n')
        assert ask(api, "POST", "/notes", "'); DROP TABLE notes; --") == (201, '{"id":2}\n')
        assert ask(api, "GET", "/notes?word=a+%2B") == (200, '["say \\"a + b\\""]\n')
        status, text = ask(api, "GET", "/notes")
        assert (status, len(json.loads(text))) == (200, 2)
        assert ask(api, "GET", "/other")[0] == 404
        assert ask(api, "POST", "/notes", "x" * 1000)[0] == 500
        assert ask(api, "POST", "/notes", "x" * 2000000)[0] == 413


def test_json_api_ends_by_sigterm_also_with_an_open_connection() -> None:
    with serving_notes() as (server, api):
        assert ask(api, "GET", "/notes") == (200, "[]\n")
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) == 0
