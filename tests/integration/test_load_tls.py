"""The load generator over TLS, against servers of Python's ssl module."""

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from server import TIMEOUT_S, program

from tls import TlsSocket, needs_tls

RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
PIECES = (1, 16_384, 5, 70_000, 16_385, 3, 40_000)
"""Lengths of the chunks of a response, which are records of all sizes."""
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nthe end comes with the connection"
BODY = 3_000_000


pytestmark = needs_tls

Connection = ssl.SSLSocket
Action = Callable[[Connection], None]


def read_request(connection: Connection, length: int = 0) -> bool:
    """Read a request with a body of this length; return False at the end of the connection."""
    text = b""
    while (end := text.find(b"\r\n\r\n")) < 0 or len(text) < end + 4 + length:
        received = connection.recv(65536)
        if not received:
            return False
        text += received
    return True


def respond(connection: Connection) -> None:
    """Respond to each request, and take leave of the client."""
    while read_request(connection):
        connection.sendall(RESPONSE)


def respond_in_pieces(connection: Connection) -> None:
    """Respond with chunks of all sizes."""
    while read_request(connection):
        connection.sendall(CHUNKED)
        for n in PIECES:
            connection.sendall(b"%x\r\n" % n + b"x" * n + b"\r\n")
        connection.sendall(b"0\r\n\r\n")


def respond_to_body(connection: Connection) -> None:
    """Respond to each request after its whole body."""
    while read_request(connection, BODY):
        connection.sendall(RESPONSE)


def respond_and_cut(connection: Connection) -> None:
    """Respond without a length, and close the connection without an end of TLS."""
    if read_request(connection):
        connection.sendall(UNTIL_CLOSED)


def respond_and_end(connection: Connection) -> None:
    """Respond without a length, and end TLS."""
    respond_and_cut(connection)
    with contextlib.suppress(ssl.SSLError):
        connection.unwrap()


def respond_once_and_cut(connection: Connection) -> None:
    """Respond with a length, and close the connection without an end of TLS."""
    if read_request(connection):
        connection.sendall(RESPONSE)


def send_garbage(connection: Connection) -> None:
    """Respond with bytes that are not TLS."""
    if read_request(connection):
        socket.socket.sendall(connection, b"x" * 100)
        connection.recv(1)


@dataclass
class TlsServer:
    """A server that counts the handshakes, and leaves each connection to an action."""

    context: ssl.SSLContext
    action: Action = respond
    full: int = 0
    resumed: int = 0
    names: set[str | None] = field(default_factory=set)
    protocols: set[str | None] = field(default_factory=set)
    listener: socket.socket = field(
        default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=1024)
    )
    lock: threading.Condition = field(default_factory=threading.Condition)
    awaited: int = 0
    """No connection is served before there have been so many."""

    @property
    def port(self) -> int:
        """Return the port of the server."""
        return int(self.listener.getsockname()[1])

    def count(self, connection: Connection) -> None:
        """Count a handshake, and wait for those that are awaited."""
        with self.lock:
            self.resumed += bool(connection.session_reused)
            self.full += not connection.session_reused
            self.protocols.add(connection.selected_alpn_protocol())
            self.lock.notify_all()
            self.lock.wait_for(lambda: self.full + self.resumed >= self.awaited, TIMEOUT_S)

    def serve(self, plain: socket.socket) -> None:
        """Make the handshake and serve the connection."""
        with plain, contextlib.suppress(OSError):
            plain.settimeout(TIMEOUT_S)
            with self.context.wrap_socket(plain, server_side=True) as connection:
                self.count(connection)
                self.action(connection)

    def run(self) -> None:
        """Accept connections until the listener is closed."""

        def remember(_socket: object, name: str | None, _context: object) -> None:
            self.names.add(name)

        self.context.sni_callback = remember
        self.context.set_alpn_protocols(["http/1.1"])
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self.listener.accept()
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self.serve, args=(plain,), daemon=True).start()


class Halves(TlsSocket):
    """A server's connection, whose records are sent in two halves: the client has to wait."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        """Make the handshake."""
        self.plain = plain
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.lock = threading.Lock()
        self.run(self.tls.do_handshake)

    def flush(self) -> None:
        """Send what is encrypted."""
        data = self.outgoing.read()
        for part in (data[: len(data) // 2], data[len(data) // 2 :]):
            self.plain.sendall(part)
            time.sleep(0.002)

    def serve(self) -> None:
        """Respond to each request."""
        with contextlib.suppress(ssl.SSLError):
            while self.run(lambda: self.tls.read(4096)):
                self.run(lambda: self.tls.write(RESPONSE))


class HalvesServer(TlsServer):
    """A server whose records arrive in two halves."""

    def serve(self, plain: socket.socket) -> None:
        """Serve a connection."""
        with plain, contextlib.suppress(OSError):
            Halves(plain, self.context).serve()


@dataclass
class PlainServer:
    """A server without TLS, which sends the same bytes after the first that it has received."""

    response: bytes
    listener: socket.socket = field(
        default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=1024)
    )

    def run(self) -> None:
        """Serve one connection after another."""
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(self.response)


S = TypeVar("S", bound="TlsServer | PlainServer")


@contextlib.contextmanager
def running(server: S) -> Iterator[S]:
    """Run a server for the duration of a ``with`` block."""
    threading.Thread(target=server.run, daemon=True).start()
    try:
        yield server
    finally:
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()


@dataclass
class Certificates:
    """Files of a CA, of a server's certificate for localhost that it signed, and of another CA."""

    folder: Path

    def make(self) -> None:
        """Make them."""
        for name in ("ca", "other"):
            self.run("req", "-x509", *self.key(name), "-subj", f"/CN={name}", "-out", f"{name}.pem")
        self.run("req", *self.key("server"), "-subj", "/CN=s", "-out", "server.csr")
        (self.folder / "names").write_text("subjectAltName=DNS:localhost\n")
        signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        self.run("x509", "-req", "-in", "server.csr", *signing, "-out", "server.pem")

    def run(self, *arguments: str) -> None:
        """Run openssl."""
        subprocess.run(["openssl", *arguments], cwd=self.folder, check=True, capture_output=True)

    def key(self, name: str) -> tuple[str, ...]:
        """Return the arguments for a new key."""
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*kind, "-keyout", f"{name}.key")

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return str(self.folder / name)

    def server(self) -> ssl.SSLContext:
        """Return a context of a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path("server.pem"), self.path("server.key"))
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Make certificates."""
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make()
    return made


@dataclass(frozen=True)
class Outcome:
    """What a run has left."""

    status: int
    text: str
    stderr: str
    report: dict[str, Any]

    def errors(self) -> dict[str, int]:
        """Return the kinds of errors that occurred, with their numbers."""
        return {kind: n for kind, n in self.report["errors"].items() if n}


def load(folder: Path, port: int, *arguments: str, host: str = "localhost") -> Outcome:
    """Run the load generator."""
    report = folder / "load.json"
    url = f"https://{host}:{port}/"
    done = subprocess.run(
        [program(), "load", *arguments, "--json", str(report), url],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    result = json.loads(report.read_text()) if report.exists() else {}
    return Outcome(done.returncode, done.stdout, done.stderr, result)


@pytest.mark.parametrize(
    ("version", "arguments", "counts"),
    [
        ("TLSv1_2", "-c 3", (3, 0)),
        ("TLSv1_2", "-c 1 -k 3 --resume", (8, 7)),
        ("TLSv1_3", "-c 3", (3, 0)),
        ("TLSv1_3", "-c 3 --think 1", (3, 0)),
        ("TLSv1_3", "-c 4 --rate 500 --max-send-delay 1h", (4, 0)),
        ("TLSv1_3", "-c 4 --workers 2 --processes 2", (4, 0)),
        ("TLSv1_3", "-c 2 -k 1", (24, 0)),
        ("TLSv1_3", "-c 1 -k 3 --resume", (8, 7)),
        ("TLSv1_3", "-c 2 -k 1 --resume --rate 500 --max-send-delay 1h", (24, 22)),
        ("TLSv1_3", "-c 2 -k 1 --resume --processes 2", (24, 22)),
    ],
)
def test_requests_and_handshakes_are_counted_as_by_the_server(
    tmp_path: Path,
    certificates: Certificates,
    version: str,
    arguments: str,
    counts: tuple[int, int],
) -> None:
    connections, resumed = counts
    context = certificates.server()
    context.maximum_version = ssl.TLSVersion[version]
    awaited = int(arguments.split()[1])  # otherwise a few connections might take all requests
    with running(TlsServer(context, awaited=awaited)) as server:
        found = load(tmp_path, server.port, "-n", "24", *arguments.split())
    assert (found.status, found.stderr, found.errors()) == (0, "", {})
    report = found.report
    assert report["requests"] == 24
    assert (server.full, server.resumed) == (connections - resumed, resumed)
    is_opened_before = "--rate" in arguments and "-k" not in arguments
    assert is_opened_before or report["connections_opened"] == connections
    assert report["connections_resumed"] == resumed
    assert report["tls"].startswith(version.replace("_", ".") + ", ")
    assert report["tls"] in found.text
    assert server.protocols == {"http/1.1"}
    assert server.names == {"localhost"}
    handshake, connect = report["handshake_us"], report["connect_us"]
    assert handshake["count"] == connect["count"] == connections
    assert 0 < handshake["mean"] <= connect["mean"]
    assert "\nhandshake " in found.text


@pytest.mark.parametrize(
    ("host", "options", "reason"),
    [
        ("localhost", (), None),
        ("127.0.0.1", (), None),
        ("localhost", ("--insecure",), None),
        ("localhost", ("--ca", "ca.pem"), None),
        ("127.0.0.1", ("--ca", "ca.pem"), "127.0.0.1"),
        ("localhost", ("--ca", "other.pem"), "not a trusted CA"),
    ],
)
def test_certificates_are_verified_if_a_ca_is_given(
    tmp_path: Path,
    certificates: Certificates,
    host: str,
    options: tuple[str, ...],
    reason: str | None,
) -> None:
    files = [certificates.path(word) if word.endswith(".pem") else word for word in options]
    with running(TlsServer(certificates.server())) as server:
        found = load(tmp_path, server.port, "-c", "1", "-n", "3", *files, host=host)
    assert found.errors() == ({"certificate": 3} if reason else {})
    assert found.status == (1 if reason else 0)
    if reason:
        assert reason in found.report["tls_reason"]
        assert found.report["tls_reason"] in found.text
    else:
        assert found.report["tls_reason"] is None


def test_certificates_are_verified_unless_the_address_is_a_loopback_address(
    tmp_path: Path, certificates: Certificates
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("there is no address but the loopback address")
        host = probe.getsockname()[0]
    listener = socket.create_server((host, 0))
    with running(TlsServer(certificates.server(), listener=listener)) as server:
        found = load(tmp_path, server.port, "-c", "1", "-n", "2", host=host)
        assert found.errors() == {"certificate": 2}
        found = load(tmp_path, server.port, "-c", "1", "-n", "2", "--insecure", host=host)
        assert found.errors() == {}


@pytest.mark.parametrize(
    ("action", "arguments", "errors"),
    [
        (respond_in_pieces, (), {}),
        (respond_to_body, ("--body", "@"), {}),
        (respond_and_end, (), {}),
        (respond_and_cut, (), {"truncated": 6}),
        (respond_once_and_cut, (), {}),
        (send_garbage, (), {"tls": 6}),
    ],
)
def test_responses_may_come_in_any_records_but_must_end(
    tmp_path: Path,
    certificates: Certificates,
    action: Action,
    arguments: tuple[str, ...],
    errors: dict[str, int],
) -> None:
    if arguments:
        (tmp_path / "body").write_bytes(b"x" * BODY)
        arguments = (arguments[0], f"@{tmp_path}/body")
    with running(TlsServer(certificates.server(), action)) as server:
        found = load(tmp_path, server.port, "-c", "2", "-n", "6", *arguments)
    assert found.errors() == errors
    assert found.report["requests"] == 6 - sum(errors.values())


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_records_may_arrive_in_parts(
    tmp_path: Path, certificates: Certificates, version: str
) -> None:
    context = certificates.server()
    context.maximum_version = ssl.TLSVersion[version]
    with running(HalvesServer(context)) as server:
        found = load(tmp_path, server.port, "-c", "2", "-n", "20")
    assert (found.status, found.errors(), found.report["requests"]) == (0, {}, 20)


@pytest.mark.parametrize("has_one", [True, False])
def test_a_client_shows_its_certificate_to_a_server_that_asks(
    tmp_path: Path, certificates: Certificates, has_one: bool
) -> None:
    context = certificates.server()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.path("ca.pem"))
    own = ("--cert", certificates.path("server.pem"), "--cert-key", certificates.path("server.key"))
    with running(TlsServer(context)) as server:
        found = load(tmp_path, server.port, "-c", "2", "-n", "6", *(own if has_one else ()))
    assert found.errors() == ({} if has_one else {"tls": 6})
    if not has_one:
        assert "certificate" in found.report["tls_reason"]


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"", "closed the connection during the handshake"),
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "handshake"),
        (b"SSH-2.0-OpenSSH\r\n", ""),
    ],
)
def test_a_handshake_that_fails_is_an_error_with_a_reason(
    tmp_path: Path, response: bytes, reason: str
) -> None:
    server = PlainServer(response)
    port = server.listener.getsockname()[1]
    with running(server):
        found = load(tmp_path, port, "-c", "1", "-n", "3")
        assert found.errors() == {"handshake": 3}
        assert reason in found.report["tls_reason"]
        given_up = load(tmp_path, port, "-d", "1h", "--give-up", "100ms", "--timeout", "600ms")
    assert given_up.status == 1
    assert given_up.stderr.startswith("gossamer load: gave up: no response has arrived: ")
    assert found.report["tls_reason"] in given_up.stderr


@pytest.mark.parametrize("option", ["--ca", "--cert"])
def test_a_file_without_a_certificate_is_named(tmp_path: Path, option: str) -> None:
    file = tmp_path / "empty.pem"
    file.write_text("")
    found = load(tmp_path, 1, option, str(file))
    assert (found.status, found.stderr.count("\n")) == (2, 1)
    assert str(file) in found.stderr


@pytest.mark.parametrize("refuses", [False, True])
def test_a_server_without_http2_is_an_error_with_a_remedy(
    tmp_path: Path, certificates: Certificates, refuses: bool
) -> None:
    # A server chooses no protocol (ALPN), or refuses by the alert no_application_protocol.
    alert = PlainServer(b"\x15\x03\x03\x00\x02\x02\x78")
    with running(alert if refuses else TlsServer(certificates.server())) as server:
        port = server.listener.getsockname()[1]
        found = load(tmp_path, port, "-c", "1", "-n", "2", "--http2")
        without = load(tmp_path, port, "-c", "1", "-n", "2")
    if "needs nghttp2" in found.stderr:
        pytest.skip("built without nghttp2")
    assert found.errors() == {"handshake": 2}
    reason = "the server does not speak HTTP/2 (ALPN): leave out --http2"
    assert found.report["tls_reason"] == reason
    assert reason in found.text
    assert "--http2" not in (without.report["tls_reason"] or "")


SETTINGS = b"\0\0\0\4\0\0\0\0\0"
RESPONSE_HEADERS = b"\0\0\1\1\5\0\0\0\1\x88"
"""Frames of HTTP/2; the second is a response 200 without a body to the first request."""


class EagerServer(TlsServer):
    """A server that sends its settings of HTTP/2 with the end of the handshake."""

    def serve(self, plain: socket.socket) -> None:
        """Make the handshake, send the settings, and respond to a request."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.context.set_alpn_protocols(["h2"])
        tls = self.context.wrap_bio(incoming, outgoing, server_side=True)

        def receive() -> bytes:
            if tls.version() is None:
                tls.do_handshake()
                tls.write(SETTINGS)
            return tls.read(65536)

        received = b""
        with plain, contextlib.suppress(OSError):
            plain.settimeout(TIMEOUT_S)
            while b"\0\0\0\1" not in received[24:]:  # a frame of the first stream
                try:
                    received += receive()
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    incoming.write(plain.recv(65536))
            tls.write(RESPONSE_HEADERS)
            plain.sendall(outgoing.read())
            plain.recv(65536)


def test_a_server_of_http2_may_speak_first(tmp_path: Path, certificates: Certificates) -> None:
    context = certificates.server()
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # in which the server completes the handshake
    with running(EagerServer(context)) as server:
        found = load(tmp_path, server.port, "-c", "1", "-n", "1", "--http2")
    if "needs nghttp2" in found.stderr:
        pytest.skip("built without nghttp2")
    assert (found.status, found.errors()) == (0, {})
    assert found.report["tls"].startswith("TLSv1.2")
