"""Listening sockets that a service manager has opened (LISTEN_FDS)."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from activation import prefix
from conftest import Serve, at_once
from server import Server
from wire import Wire, get

from tls import make_certificate


@contextlib.contextmanager
def listening(count: int, address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[list[int]]:
    """Open sockets that share an address, and yield their descriptors."""
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            one.bind(address)
            one.listen(64)
            address = one.getsockname()
            sockets.append(one)
        yield [one.fileno() for one in sockets]


def address_of(fd: int) -> tuple[str, int]:
    """Return the address at which a descriptor listens."""
    with socket.socket(fileno=socket.dup(fd)) as one:
        host, port = one.getsockname()
        return host, port


def activate(serve: Serve, root: Path, names: str, fds: list[int], *arguments: str) -> Server:
    """Start a server that inherits the descriptors."""
    command = prefix(names, fds)
    return serve(root, *arguments, prefix=command, inherits=tuple(fds))


@at_once
def test_more_and_fewer_sockets_than_workers_are_all_served(serve: Serve, root: Path) -> None:
    for sockets, workers in ((1, "3"), (5, "2")):
        with listening(sockets) as fds:
            arguments = ("--workers", workers, "--access-log", "/dev/null")
            server = activate(serve, root, "", fds, *arguments)
            assert server.address == address_of(fds[0])
            for _ in range(30):
                assert get(server.address, "/a.txt").body == b"hello\n"
            assert server.stop()["requests"] == 30
            # They still listen, for the next server.
            with Wire(address_of(fds[0])):
                pass
            second = activate(serve, root, "", fds, "--workers", workers)
            assert get(second.address, "/a.txt").body == b"hello\n"
            second.stop()


def test_addresses_that_are_named_take_inherited_sockets(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    with listening(2) as fds, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(path))
        local.listen()
        host, port = address_of(fds[0])
        all_fds = [*fds, local.fileno()]
        arguments = ("--listen", f"{host}:{port}", f"--listen=unix:{path}")
        server = activate(serve, root, "a:b", all_fds, *arguments, "--workers", "2")
        assert get((host, port), "/a.txt").body == b"hello\n"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(b"GET /a.txt HTTP/1.0\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        server.stop()
        assert path.exists()


def test_the_name_of_a_socket_or_its_word_says_whether_it_has_tls(
    serve: Serve, root: Path, tmp_path: Path
) -> None:
    chain, key = make_certificate(tmp_path, "site")
    options = ("--certificate", str(chain), "--key", str(key))
    context = ssl.create_default_context(cafile=str(chain))
    for by_name in (True, False):
        with listening(1) as plain, listening(1) as tls:
            words = () if by_name else ("https://{}:{}".format(*address_of(tls[0])),)
            words += () if by_name else ("{}:{}".format(*address_of(plain[0])),)
            arguments = [f"--listen={word}" for word in words]
            names = "web:https" if by_name else "https:web"
            fds = [*plain, *tls]
            server = activate(serve, root, names, fds, *arguments, *options)
            assert get(address_of(plain[0]), "/a.txt").body == b"hello\n"
            with (
                socket.create_connection(address_of(tls[0])) as raw,
                context.wrap_socket(raw, server_hostname="localhost") as client,
            ):
                client.sendall(b"GET /a.txt HTTP/1.0\r\n\r\n")
                assert client.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
            server.stop()


def test_a_socket_that_no_address_names_is_reported(serve: Serve, root: Path) -> None:
    with listening(1) as fds:
        server = activate(serve, root, "", fds, "--listen", "127.0.0.2:0", "--workers", "1")
        server.expect(r"LISTEN_FDS: no --listen names 127\.0\.0\.1:\d+, where nobody serves")
        assert server.address != address_of(fds[0])
        server.stop()
