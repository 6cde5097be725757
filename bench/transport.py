"""What clients of the benchmarks speak: plain HTTP, HTTP over TLS, or HTTP/2 over TLS.

Frames of HTTP/2 are made by hand, so that a client can send what no library would.
"""

import contextlib
import enum
import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    *(0, 1, 3, 4),
    *(6, 7, 8, 9),
)
END_STREAM, END_HEADERS, ACK = 1, 4, 1
WINDOW = 1 << 30
_INITIAL_WINDOW_SIZE = 4


class Over(enum.Enum):
    """What the requests are sent over."""

    PLAIN = "plain"
    TLS = "tls"
    H2 = "h2"


def trusting(over: Over) -> ssl.SSLContext | None:
    """Return the context of a client that trusts any server; None: it does not speak TLS."""
    if over is Over.PLAIN:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"] if over is Over.H2 else ["http/1.1"])
    return context


def opening(over: Over) -> bytes:
    """Return the first message of a client's handshake."""
    context = trusting(over)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    if context:
        hello = context.wrap_bio(incoming, outgoing)
        with contextlib.suppress(ssl.SSLWantReadError):
            hello.do_handshake()
    return outgoing.read()


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(window: int = WINDOW) -> bytes:
    """Return a client's first bytes; window: of each stream."""
    first = frame(SETTINGS, 0, 0, struct.pack(">HI", _INITIAL_WINDOW_SIZE, window))
    return PREFACE + first + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW))


def block(path: str, method: bytes = b"\x82") -> bytes:
    """Return the header block of a request; method: as the static table has it."""
    name = path.encode()
    return method + b"\x87\x41\x05bench\x04" + bytes([len(name)]) + name


def request_frame(stream: int, path: str) -> bytes:
    """Return the frame of a request without a body."""
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, block(path))


class Frames:
    """A client's connection, of which frames are read."""

    def __init__(self, connection: socket.socket) -> None:
        """connection: of any kind."""
        self.connection = connection
        self.received = b""

    def start(self, frames: bytes, window: int = WINDOW) -> None:
        """Send the preface, and these frames at once."""
        self.connection.sendall(settings(window) + frames)

    def receive(self) -> tuple[int, int, int, bytes]:
        """Return the type, flags, stream and payload of the next frame."""
        header = self._take(9)
        length = int.from_bytes(header[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", header[3:])
        payload = self._take(length)
        if kind == GOAWAY:
            raise ValueError(f"the server ended the connection: {payload.hex()}")
        return kind, flags, stream, payload

    def await_data(self, stream: int) -> None:
        """Receive up to a part of the body of this stream's response."""
        while True:
            kind, _, number, payload = self.receive()
            if number == stream and kind == RST_STREAM:
                raise ValueError(f"stream {stream} was reset: {payload.hex()}")
            if number == stream and kind == DATA and payload:
                return

    def _take(self, n: int) -> bytes:
        while len(self.received) < n:
            data = self.connection.recv(1 << 16)
            if not data:
                raise ValueError("the server closed the connection first")
            self.received += data
        taken, self.received = self.received[:n], self.received[n:]
        return taken
