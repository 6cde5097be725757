"""HTTP/2 in all architectures: by prior knowledge and by ALPN, with curl as the client."""

import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SMALL, Serve, sparse
from http2_records import Records, get_frame
from http2_wire import (
    END_HEADERS,
    END_STREAM,
    FRAME_MAX,
    HEADERS,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Http2Wire,
    ResetError,
    Stream,
    frame,
)
from metrics import PATH, read, value
from server import Server, has_http2
from wire import Wire, request, wait_until_received

from tls import listen_arguments

pytestmark = pytest.mark.skipif(not has_http2(), reason="built without libnghttp2")

GET = b"\x82\x84\x86\1\1x"  # the header block of a request
CANCEL = b"\0\0\0\x08"
UNKNOWN = 0xBB  # the type of frames that are ignored
ENHANCE_YOUR_CALM = 11
RESETS = 2000  # of a connection, which may have half as many at once
PART = 1 << 20  # of a download
PARTS = 10
LARGE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def shared_arguments() -> list[str]:
    """Let the shared server listen with TLS, and without."""
    return [*listen_arguments(), "--listen", "127.0.0.1:0", "--metrics", PATH]


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


def test_a_client_that_chose_http_1_may_not_speak_http_2(shared: Server) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    with (
        socket.create_connection(shared.addresses[0][:2], timeout=20) as plain,
        context.wrap_socket(plain) as client,
    ):
        client.sendall(PREFACE + frame(SETTINGS, 0, 0))
        received = b""
        while data := client.recv(65536):
            received += data
    assert received.startswith(b"HTTP/1.1 505 ")


def test_metrics_tell_of_http_2(shared: Server) -> None:
    before = value(read(shared), "http2_requests_total")
    curl(shared, "plain", "/")
    assert value(read(shared), "http2_requests_total") >= before + 1


def opened_and_reset(wire: Http2Wire) -> Iterator[bytes]:
    """Yield the frames that open streams, each of which is reset at once."""
    for stream in range(1, 2 * RESETS, 2):
        wire.streams[stream] = Stream()
        yield frame(HEADERS, END_STREAM | END_HEADERS, stream, GET)
        yield frame(RST_STREAM, 0, stream, CANCEL)


def check_refusal(address: tuple[str, int]) -> None:
    """Check that a connection with too many resets ends."""
    with Http2Wire(address) as wire:
        wire.send_frames(b"".join(opened_and_reset(wire)))
        with pytest.raises(ResetError) as ended:
            wire.receive_frames()
        assert ended.value.error == ENHANCE_YOUR_CALM


def test_rapid_resets_end_their_connections_while_others_are_served(shared: Server) -> None:
    address = shared.addresses[1]
    before = value(read(shared), "http2_abuses_total")
    connections = 10
    with Http2Wire(address) as other:
        for _ in range(connections):
            check_refusal(address)
            assert other.get("/").body == SMALL
    assert value(read(shared), "http2_abuses_total") == before + connections


def test_an_urgent_page_overtakes_a_download(serve: Serve, root: Path) -> None:
    sparse(root / "huge.bin", 8 << 20)
    server = serve(root)
    with Http2Wire(server.address, receive_buffer=65536) as wire:
        wire.send(request("GET", "/huge.bin"))
        while not wire.streams[1].body:
            wire.receive_frame()
        wire.send(request("GET", "/a.txt", Priority="u=0"))
        # While there is room in the socket, the server need not receive.
        wait_until_received(wire)
        wire.next_response = 3
        assert wire.response().body == b"hello\n"
        assert not wire.streams[1].is_over
        wire.next_response = 1
        assert len(wire.response().body) == 8 << 20


def overtakes(wire: Http2Wire, download: int) -> bool:
    """Return whether the head of an urgent page arrives before the rest of a part of a download.

    The sockets have room for the whole part. The window for it opens with the first bytes that the
    server receives; the request is behind more bytes than it receives at a time.
    """
    body = wire.streams[download].body
    end = len(body) + PART
    window = frame(WINDOW_UPDATE, 0, download, PART.to_bytes(4, "big"))
    number = wire.next_stream
    urgent = wire.frames_of(request("HEAD", "/a.txt", Priority="u=0"))
    wire.send_frames(window + 4 * frame(UNKNOWN, 0, 0, bytes(FRAME_MAX)) + urgent)
    while not wire.streams[number].is_over:
        wire.receive_frame()
    has_overtaken = len(body) < end
    while len(body) < end:
        wire.receive_frame()
    return has_overtaken


def test_an_urgent_page_overtakes_a_download_that_never_fills_the_socket(
    serve: Serve, root: Path
) -> None:
    sparse(root / "huge.bin", 2 * PARTS * PART)
    server = serve(root)
    with Http2Wire(server.address) as wire:
        wire.send(request("GET", "/huge.bin"))  # the buffers of the sockets grow
        wire.response()
        wire.send_frames(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
        number = wire.next_stream
        wire.send(request("GET", "/huge.bin"))
        while not wire.streams[number].responses:
            wire.receive_frame()
        # While the client does not run, the server may send a whole part.
        assert sum(overtakes(wire, number) for _ in range(PARTS)) > PARTS // 2


def test_what_was_received_with_a_request_that_was_reset_is_answered(shared: Server) -> None:
    client = Records(shared.addresses[0][:2])
    client.send(PREFACE + frame(SETTINGS, 0, 0))
    client.wait_for(SETTINGS, 0)
    # The load starts before the reset is seen, and then nothing is answered when it is complete.
    unused = frame(2, 0, 9, b"\0\0\0\0\1") * 400
    reset = frame(RST_STREAM, 0, 1, CANCEL)
    client.send(get_frame(1, b"/nonesuch") + unused + reset, get_frame(3, b"/"))
    client.wait_for(HEADERS, 3)
    client.socket.close()
