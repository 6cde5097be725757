"""Other programs talk to servers and clients of the library by WebSocket."""

import random
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest
from installation import BUILD
from websocket_wire import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Frame,
    accept,
    close_payload,
    connect,
    field_of,
    read_head,
)
from wsproto.frame_protocol import FrameProtocol, Opcode, ParseFailed

import websocket

PROGRAM = BUILD / "tests/websocket_stream/websocket_echo"
NORMAL = close_payload(1000)

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="built without tests")


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a server; yield it and its port."""
    with subprocess.Popen([PROGRAM, "serve"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, int(process.stdout.readline().split()[-1])
        finally:
            process.kill()


def test_a_client_of_python_gets_its_messages_back(
    server: tuple[subprocess.Popen[str], int],
) -> None:
    url = f"ws://127.0.0.1:{server[1]}/parts"
    client = websocket.create_connection(url, subprotocols=["x", "echo.v1"], timeout=60)
    assert client.subprotocol == "echo.v1"
    for message in ("", "hello", "é" * 70000):
        client.send(message)
        assert client.recv() == message
    client.send_binary(bytes(range(256)))
    assert client.recv() == bytes(range(256))
    client.close(1000)


def test_a_server_that_ends_closes_its_connections(
    server: tuple[subprocess.Popen[str], int],
) -> None:
    process, port = server
    peers = [connect(port) for _ in range(20)]
    process.send_signal(signal.SIGTERM)
    for peer in peers:
        heard = peer.listen()
        assert heard.close == close_payload(1001)
        peer.send(Frame(CLOSE, heard.close))
        peer.sock.close()
    assert process.wait(60) == 0


def client_output(answer: bytes) -> tuple[int, str]:
    """Return the status and the message of a client that gets this answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        command = [PROGRAM, "connect", f"ws://127.0.0.1:{listener.getsockname()[1]}/"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as client:
            sock, _ = listener.accept()
            read_head(sock)
            sock.sendall(answer)
            sock.close()
            _, text = client.communicate(timeout=60)
            return client.returncode, text.strip()


def test_a_client_says_why_it_cannot_connect() -> None:
    head = b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
    assert client_output(b"HTTP/1.1 404 x\r\n\r\n") == (1, "the server has answered with 404")
    assert client_output(head + b"\r\n") == (1, "the server has not answered the key")
    assert client_output(b"SSH-2.0-x\r\n\r\n") == (1, "the server's answer is not HTTP/1.1")
    assert client_output(b"nonsense\n") == (1, "the server's answer is not HTTP/1.1")
    assert client_output(head) == (1, "Connection reset by peer")
    assert client_output(head + b"X: y\r\n" * 10000) == (1, "Message too long")


def test_what_comes_with_the_answer_of_a_server_is_received() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        command = [PROGRAM, "connect", f"ws://127.0.0.1:{listener.getsockname()[1]}/a?b"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
            behind = Frame(TEXT, b"at once").encode(masks=False)
            peer = accept(listener, behind=behind)
            assert peer.head.startswith("GET /a?b HTTP/1.1\r\n")
            assert field_of(peer.head, "Sec-WebSocket-Protocol") == "echo.v2, echo.v1"
            answer = peer.frame()
            assert answer
            assert answer.payload == b"at once"
            peer.send(Frame(CLOSE, close_payload(4000, b"enough")))
            assert peer.listen().close == close_payload(4000)
            peer.sock.close()
            shown, _ = client.communicate(timeout=60)
            assert shown == "4000 enough (the peer has closed the connection)\n"


# ---- The same as another parser


def random_stream(choose: random.Random) -> bytes:
    """Return frames of a client, of which some are wrong."""
    frames, in_message = [], False
    for _ in range(choose.randint(1, 6)):
        opcode = choose.choice(
            (PING, PONG, CONTINUATION if in_message else choose.choice((TEXT, BINARY)))
        )
        fin = opcode >= CLOSE or choose.random() < 0.7
        if choose.random() < 0.05:
            opcode = choose.randrange(16)
        n = choose.choice((0, 1, 5, 125, 126, 300))
        payload = "aé€😀".encode() * n if choose.random() < 0.7 else choose.randbytes(n)
        payload = payload[:n] if opcode >= CLOSE else payload
        frames.append(Frame(opcode, payload, fin, choose.choice((0, 0, 0, 0, 0, 0, 0, 0, 0, 1))))
        in_message = opcode < CLOSE and not fin if opcode < CLOSE else in_message
    data = bytearray(b"".join(frame.encode(masks=True) for frame in frames))
    if choose.random() < 0.3:
        data[choose.randrange(min(len(data), 12))] ^= 1 << choose.randrange(8)
    return bytes(data)


def add_frame(frame: object, events: list[tuple[int, bytes]], parts: list[bytes]) -> None:
    """Add what a frame of wsproto means."""
    if frame.opcode is Opcode.PING:
        events.append((PONG, bytes(frame.payload)))
    if frame.opcode.iscontrol():
        return
    parts.append(frame.payload.encode() if isinstance(frame.payload, str) else frame.payload)
    if frame.message_finished:
        opcode = TEXT if frame.opcode is Opcode.TEXT else BINARY
        events.append((opcode, b"".join(parts)))
        parts.clear()


def parse(data: bytes) -> tuple[list[tuple[int, bytes]], int]:
    """Return what wsproto makes of a stream: messages and pongs, and the code of its failure."""
    protocol = FrameProtocol(client=False, extensions=[])
    events: list[tuple[int, bytes]] = []
    parts: list[bytes] = []
    protocol.receive_bytes(data)
    try:
        for frame in protocol.received_frames():
            if frame.opcode is Opcode.CLOSE:
                return events, -1
            add_frame(frame, events, parts)
    except ParseFailed as failure:
        return events, int(failure.code)
    return events, 0


def test_frames_mean_to_the_server_what_they_mean_to_wsproto(
    server: tuple[subprocess.Popen[str], int],
) -> None:
    codes = []
    for seed in range(250):
        data = random_stream(random.Random(seed))
        events, code = parse(data)
        peer = connect(server[1])
        with peer.sock:
            peer.sock.sendall(data)
            if not code:
                peer.sock.shutdown(socket.SHUT_WR)
            heard = peer.listen()
        codes.append(code)
        assert heard.events == events, seed
        if code > 0:
            assert heard.close, seed
            assert int.from_bytes(heard.close[:2], "big") == code, seed
        elif not code:  # the handler closes what has ended
            assert heard.close == NORMAL, seed
    assert min(codes.count(code) for code in (0, 1002, 1007)) >= 10
