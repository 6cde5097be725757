"""gs_http_serve speaks HTTP/2 with clients of others: over TLS by ALPN, and by prior knowledge."""

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from http2_wire import DATA, END_HEADERS, END_STREAM, HEADERS, Http2Wire, frame
from installation import BUILD, HAS_TLS, cached, output

from tls import make_certificate

PROGRAM = BUILD / "tests/tls_stream/handlers"
BODY = bytes(range(256)) * 12000
HELLO = b"hello\n"

pytestmark = pytest.mark.skipif(
    not (HAS_TLS and cached("GS_nghttp2_LIBRARY").startswith("/") and PROGRAM.exists())
    or not shutil.which("openssl"),
    reason="built without OpenSSL, libnghttp2 or tests, or no openssl",
)


@dataclass
class Handlers:
    """A server of handlers."""

    process: subprocess.Popen[str]
    port: int
    options: list[str]  # of curl, which speaks HTTP/2
    scheme: str
    certificate: Path

    def url(self, path: str) -> str:
        """Return the address of a page."""
        return f"{self.scheme}://localhost:{self.port}{path}"

    def command(self, *arguments: str) -> list[str]:
        """Return the command of a client that prints the version and status of each answer."""
        command = ["curl", "-sS", "-m60", "--ipv4", "-w", "%{stderr}%{http_version} %{http_code}\n"]
        return [*command, "--cacert", str(self.certificate), *arguments]

    def curl(self, path: str, *arguments: str) -> tuple[list[str], bytes]:
        """Return the version and status of each answer, and their bodies."""
        command = self.command(*self.options, *arguments, self.url(path))
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr.decode().splitlines(), done.stdout


def start(kind: str, folder: Path) -> Handlers:
    """Start the server, with TLS or plain."""
    certificate, key = make_certificate(folder, "localhost")
    files = [str(certificate), str(key)] if kind == "tls" else []
    server = subprocess.Popen([PROGRAM, *files], stdout=subprocess.PIPE, text=True)
    assert server.stdout
    port = int(server.stdout.readline().split()[-1])
    options = ["--http2"] if kind == "tls" else ["--http2-prior-knowledge"]
    return Handlers(server, port, options, "https" if kind == "tls" else "http", certificate)


def stop(server: Handlers) -> None:
    """Let the server drain."""
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0


@pytest.fixture(scope="module", params=["tls", "plain"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Handlers]:
    """Return a server that the tests share."""
    server = start(request.param, tmp_path_factory.mktemp("handlers"))
    yield server
    stop(server)


def test_the_client_chooses_the_protocol(server: Handlers) -> None:
    assert server.curl("/") == (["2 200"], HELLO)
    server.options, before = ["--http1.1"], server.options
    assert server.curl("/") == (["1.1 200"], HELLO)
    server.options = before


def test_large_bodies_pass_in_both_directions(server: Handlers, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(BODY)
    assert server.curl("/echo", "--data-binary", f"@{body}") == (["2 200"], BODY)
    chunked = ["-H", "Expect: 100-continue", "-T", str(body), "-X", "POST"]
    assert server.curl("/echo", *chunked) == (["2 200"], BODY)


def test_a_head_has_no_body(server: Handlers) -> None:
    statuses, head = server.curl("/", "--head")
    assert statuses == ["2 200"]
    assert b"content-length: 6\r\n" in head


@pytest.mark.skipif(not shutil.which("nghttp"), reason="no nghttp")
def test_slow_handlers_hold_up_no_other(server: Handlers) -> None:
    said = output("nghttp", "--null-out", "--stat", "--multiply=50", server.url("/slow"))
    assert len(re.findall(r" 200 +6 /slow$", said, re.MULTILINE)) == 50


def test_trailers_end_a_body(server: Handlers) -> None:
    if server.scheme != "http":
        pytest.skip("the client that sends trailers has no TLS")
    with Http2Wire(("127.0.0.1", server.port)) as wire:
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/echo")]
        wire.send_frames(wire.headers([*fields, (b":authority", b"h")], is_last=False))
        wire.send_frames(frame(DATA, 0, 1, b"abc"))
        trailer = wire.encoder.encode([(b"x-trailer", b"y")])
        wire.send_frames(frame(HEADERS, END_STREAM | END_HEADERS, 1, trailer))
        while not wire.streams[1].is_over:
            wire.receive_frame()
        assert wire.streams[1].body == b"abc"
        assert wire.streams[1].error is None


@pytest.mark.skipif(not shutil.which("go"), reason="no go")
def test_go_has_its_bodies_returned_at_the_same_time(server: Handlers, tmp_path: Path) -> None:
    if server.scheme != "https":
        pytest.skip("it speaks HTTP/2 over TLS only")
    program, source = tmp_path / "http2_client", Path(__file__).with_name("http2_client.go")
    output("go", "build", "-o", program, source)
    assert output(program, server.url("/echo"), server.certificate, "80") == "80\n"


@pytest.mark.skipif(not shutil.which("h2load"), reason="no h2load")
def test_many_streams_of_a_load_generator_are_answered(server: Handlers) -> None:
    command = ["h2load", "-n", "3000", "-c", "3", "-m", "100", server.url("/")]
    assert "status codes: 3000 2xx" in output(*command)


def test_what_is_in_progress_is_answered_while_the_server_drains(tmp_path: Path) -> None:
    server = start("tls", tmp_path)
    address = server.url("/slow")
    command = server.command(*server.options, "--trace-ascii", "-", address)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        assert client.stdout
        assert client.stderr
        while b"Send header" not in client.stdout.readline():
            pass
        stop(server)
        assert b"hello" in client.stdout.read()
        assert client.stderr.read() == b"2 200\n"
