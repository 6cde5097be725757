"""HTTP/2 in all architectures: by prior knowledge and by ALPN, with curl as the client."""

import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, Starter
from metrics import PATH, read, value
from server import Server
from wire import Wire

from tls import listen_arguments

LARGE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def shared(
    shared_root: Path, configuration: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Return a server with and without TLS that the tests share."""
    starter = Starter(tmp_path_factory.mktemp("shared") / "servers", configuration)
    try:
        yield starter(
            shared_root, *listen_arguments(), "--listen", "127.0.0.1:0", "--metrics", PATH
        )
        starter.stop()
    finally:
        starter.clean()


def curl(server: Server, kind: str, target: str, *arguments: str) -> tuple[str, bytes]:
    """Return the version and status of the answer, and its body."""
    address = server.addresses[kind == "plain"]
    options = ["--http2-prior-knowledge"] if kind == "plain" else ["--insecure"]
    url = f"{'http' if kind == 'plain' else 'https'}://{address[0]}:{address[1]}{target}"
    result = subprocess.run(
        ["curl", "-sS", "-m20", "-w\n%{http_version} %{http_code}", *options, *arguments, url],
        capture_output=True,
        check=True,
    )
    body, _, status = result.stdout.rpartition(b"\n")
    return status.decode(), body


@pytest.mark.parametrize("kind", ["plain", "tls"])
def test_answers_are_those_of_http_1(shared: Server, kind: str) -> None:
    assert curl(shared, kind, "/") == ("2 200", SMALL)
    assert curl(shared, kind, "/large.bin") == ("2 200", LARGE)
    assert curl(shared, kind, "/nonesuch") == ("2 404", b"404 Not Found\n")
    assert curl(shared, kind, "/large.bin", "-r", "70000-900000") == ("2 206", LARGE[70000:900001])
    refused = ("2 405", b"405 Method Not Allowed\n")
    assert curl(shared, kind, "/", "--data", "x" * 100_000) == refused


def test_an_upgrade_is_ignored(shared: Server) -> None:
    with Wire(shared.addresses[1]) as wire:
        answer = wire.get("/", Upgrade="h2c", Connection="Upgrade, HTTP2-Settings")
        assert (answer.status, answer.body) == (200, SMALL)


def test_metrics_tell_of_http_2(shared: Server) -> None:
    before = value(read(shared), "http2_requests_total")
    curl(shared, "plain", "/")
    assert value(read(shared), "http2_requests_total") >= before + 1


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    header = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return header + stream.to_bytes(4, "big") + payload


def request(stream: int, path: bytes) -> bytes:
    block = b"\x82\x87\x04" + bytes([len(path)]) + path + b"\x01\x01a"
    return frame(1, 0x5, stream, block)


def frames_in(received: bytes) -> Iterator[tuple[int, int]]:
    """Yield the kind and stream of each complete frame."""
    while len(received) >= 9:
        n = int.from_bytes(received[:3], "big")
        if len(received) < 9 + n:
            return
        yield received[3], int.from_bytes(received[5:9], "big")
        received = received[9 + n :]


class Records:
    """A client of TLS that decides what it sends together."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=10)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.received = b""
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.send()
                self.incoming.write(self.socket.recv(65536))

    def send(self, *records: bytes) -> None:
        for record in records:
            self.tls.write(record)
        self.socket.sendall(self.outgoing.read())

    def wait_for(self, kind: int, stream: int) -> None:
        while (kind, stream) not in frames_in(self.received):
            received = self.socket.recv(65536)
            assert received, f"no frame {kind} of stream {stream}"
            self.incoming.write(received)
            try:
                while True:
                    self.received += self.tls.read(65536)
            except ssl.SSLWantReadError:
                pass


def test_what_was_received_with_a_request_that_was_reset_is_answered(shared: Server) -> None:
    client = Records(shared.addresses[0][:2])
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
    client.wait_for(4, 0)
    # The load starts before the reset is seen, and then nothing is answered when it is complete.
    unused = frame(2, 0, 9, b"\0\0\0\0\1") * 400
    reset = frame(3, 0, 1, b"\0\0\0\x08")
    client.send(request(1, b"/nonesuch") + unused + reset, request(3, b"/"))
    client.wait_for(1, 3)
    client.socket.close()


@pytest.mark.skipif("H2SPEC" not in os.environ, reason="H2SPEC names no program h2spec")
def test_h2spec_finds_no_fault(shared: Server) -> None:
    host, port = shared.addresses[0][:2]
    result = subprocess.run(
        [os.environ["H2SPEC"], "-S", "-t", "-k", "-h", host, "-p", str(port), "-o", "5"],
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout.decode()[-4000:]
