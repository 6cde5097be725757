"""The examples with TLS behave as they document, with Python's ssl on the other side."""

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from installation import EXAMPLES, HAS_TLS

from tls import make_certificate

pytestmark = pytest.mark.skipif(
    not HAS_TLS or not shutil.which("openssl"), reason="built without OpenSSL, or no openssl"
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a certificate for localhost; return it and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"), "localhost")


def connect(address: tuple[str, int], certificate: Path, version: ssl.TLSVersion) -> ssl.SSLSocket:
    context = ssl.create_default_context(cafile=certificate)
    context.minimum_version = context.maximum_version = version
    return context.wrap_socket(
        socket.create_connection(address, timeout=20), server_hostname="localhost"
    )


def check_echo(address: tuple[str, int], certificate: Path) -> None:
    """Several clients at once, with each version, and one that does not speak TLS."""
    text = bytes(range(256)) * 300
    versions = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3] * 5
    with socket.create_connection(address, timeout=20) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while stranger.recv(1000):
            pass
    clients = [connect(address, certificate, version) for version in versions]
    for client in clients:
        threading.Thread(target=client.sendall, args=[text]).start()
    for client in clients:
        with client, client.makefile("rb") as answers:
            assert answers.read(len(text)) == text


def test_tls_echo_returns_to_each_client_what_it_sent(pair: tuple[Path, Path]) -> None:
    command = [EXAMPLES / "tls_echo", *pair]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            check_echo(("127.0.0.1", int(server.stdout.readline().split()[-1])), pair[0])
        finally:
            server.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_tls_loop_returns_to_each_client_what_it_sent(pair: tuple[Path, Path]) -> None:
    address = "127.0.0.1", free_port()
    command = [EXAMPLES / "tls_loop", f"{address[0]}:{address[1]}", *pair]
    with subprocess.Popen(command) as server:
        try:
            while socket.socket().connect_ex(address):
                assert server.poll() is None
                time.sleep(0.01)
            check_echo(address, pair[0])
        finally:
            server.kill()


@contextmanager
def answering(pair: tuple[Path, Path], *, says_goodbye: bool) -> Iterator[int]:
    """Answer a request on localhost; yield the port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)

    def answer(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        try:
            secure = context.wrap_socket(plain, server_side=True)
        except ssl.SSLError:
            return
        request = secure.recv(1000).decode()
        secure.sendall(f"HTTP/1.0 200 OK\r\n\r\n{request.splitlines()[0]}\n".encode())
        if says_goodbye:
            secure.unwrap()
        secure.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=[listener])
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def get(port: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [EXAMPLES / "https_get", f"https://localhost:{port}/page", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_https_get_prints_a_page(pair: tuple[Path, Path]) -> None:
    with answering(pair, says_goodbye=True) as port:
        done = get(port, pair[0])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "GET /page HTTP/1.1\n"


def test_https_get_notices_that_a_page_may_be_incomplete(pair: tuple[Path, Path]) -> None:
    with answering(pair, says_goodbye=False) as port:
        done = get(port, pair[0])
    assert done.returncode == 1
    assert done.stdout == "GET /page HTTP/1.1\n"
    assert done.stderr.endswith("/page: Connection reset by peer\n")


def test_https_get_does_not_trust_an_unknown_server(pair: tuple[Path, Path]) -> None:
    with answering(pair, says_goodbye=True) as port:
        done = get(port)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not a trusted CA" in done.stderr
