"""A peer of WebSocket that may say anything: frames as bytes, of a client or a server."""

import base64
import hashlib
import os
import socket
import struct
import time
import zlib
from dataclasses import dataclass, field

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PATIENCE = 60
TAIL = b"\0\0\xff\xff"


@dataclass(frozen=True)
class Frame:
    """What is sent, or was received."""

    opcode: int
    payload: bytes = b""
    fin: bool = True
    rsv: int = 0

    def encode(self, *, masks: bool) -> bytes:
        """Return the frame as bytes, with a mask or without."""
        n = len(self.payload)
        first = self.fin << 7 | self.rsv << 4 | self.opcode
        bit = masks << 7
        if n < 126:
            head = struct.pack(">BB", first, bit | n)
        elif n < 65536:
            head = struct.pack(">BBH", first, bit | 126, n)
        else:
            head = struct.pack(">BBQ", first, bit | 127, n)
        if not masks:
            return head + self.payload
        mask = os.urandom(4)
        return head + mask + masked(self.payload, mask)


def masked(payload: bytes, mask: bytes) -> bytes:
    """Return the payload with the mask, or without it."""
    n = len(payload)
    pattern = int.from_bytes((mask * (n // 4 + 1))[:n], "big")
    return (int.from_bytes(payload, "big") ^ pattern).to_bytes(n, "big")


def close_payload(code: int, reason: bytes = b"") -> bytes:
    """Return the payload of a close."""
    return struct.pack(">H", code) + reason


def compressed(message: bytes, bits: int = 15, level: int = 6) -> bytes:
    """Return the message as RFC 7692 has it."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, -bits)
    data = compressor.compress(message) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return data.removesuffix(TAIL)


@dataclass
class Heard:
    """All that a peer has sent until the end of the stream."""

    events: list[tuple[int, bytes]] = field(default_factory=list)  # messages, pings and pongs
    compressed_count: int = 0
    close: bytes | None = None  # its payload
    is_reset: bool = False


@dataclass
class Peer:
    """One side of a connection after the handshake."""

    sock: socket.socket
    is_client: bool
    head: str  # of the other side
    rest: bytes = b""
    message_opcode: int = 0
    message: bytes = b""
    is_compressed: bool = False

    def send(self, *frames: Frame, chop: int = 0) -> bool:
        """Send frames, in pieces of that many bytes. Return whether all of them could be sent."""
        data = b"".join(frame.encode(masks=self.is_client) for frame in frames)
        try:
            for at in range(0, len(data), chop or len(data) or 1):
                self.sock.sendall(data[at : at + chop] if chop else data)
        except OSError:
            return False
        return True

    def read(self, n: int) -> bytes | None:
        """Return n bytes; None: the stream has ended before."""
        while len(self.rest) < n:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.rest += data
        data, self.rest = self.rest[:n], self.rest[n:]
        return data

    def frame(self) -> Frame | None:
        """Receive a frame, which must be well-formed; None: the stream has ended."""
        head = self.read(2)
        if head is None:
            return None
        first, second = head
        assert (second >= 128) != self.is_client
        n = second & 127
        assert n < 126 or first & 15 < 8
        if n > 125:
            length = self.read(2 if n == 126 else 8)
            assert length
            n = int.from_bytes(length, "big")
        mask = self.read(4) if second & 128 else None
        payload = self.read(n)
        assert payload is not None
        if mask:
            payload = masked(payload, mask)
        return Frame(first & 15, payload, first >= 128, first >> 4 & 7)

    def event(self, heard: Heard) -> bool:
        """Receive one frame into what was heard. Return whether there was one."""
        frame = self.frame()
        if frame is None:
            return False
        assert heard.close is None
        assert frame.fin or frame.opcode < 8
        if frame.opcode == CLOSE:
            heard.close = frame.payload
        elif frame.opcode >= 8:
            heard.events.append((frame.opcode, frame.payload))
        else:
            self.part(frame, heard)
        return True

    def part(self, frame: Frame, heard: Heard) -> None:
        """Add a part of a message."""
        assert bool(frame.opcode) != bool(self.message_opcode)
        if frame.opcode:
            self.message_opcode, self.message = frame.opcode, b""
            self.is_compressed = bool(frame.rsv)
            assert frame.rsv in (0, 4)
        else:
            assert frame.rsv == 0
        self.message += frame.payload
        if not frame.fin:
            return
        if self.is_compressed:
            heard.compressed_count += 1
            self.message = zlib.decompressobj(-15).decompress(self.message + TAIL)
        heard.events.append((self.message_opcode, self.message))
        self.message_opcode = 0

    def listen(self, heard: Heard | None = None) -> Heard:
        """Receive to the end of the stream."""
        heard = heard or Heard()
        try:
            while self.event(heard):
                pass
        except (ConnectionResetError, BrokenPipeError):
            heard.is_reset = True
        return heard


def read_head(sock: socket.socket) -> tuple[str, bytes]:
    """Receive a head of HTTP; return it, and what has arrived behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        some = sock.recv(65536)
        assert some, data
        data += some
    head, _, rest = data.partition(b"\r\n\r\n")
    return head.decode(), rest


def field_of(head: str, name: str) -> str | None:
    """Return the value of a field."""
    for line in head.split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name.lower():
            return value.strip()
    return None


def accept_of(key: str) -> str:
    """Return the answer to a key."""
    return base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()


def request(path: str = "/", **fields: str) -> bytes:
    """Return a request; a field is left out if its value is empty."""
    all_fields = {
        "Host": "localhost",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
    }
    all_fields |= {name.replace("_", "-"): value for name, value in fields.items()}
    lines = [f"GET {path} HTTP/1.1", *(f"{n}: {v}" for n, v in all_fields.items() if v)]
    return "\r\n".join([*lines, "", ""]).encode()


def connect(port: int, path: str = "/", **fields: str) -> Peer:
    """Connect to a server as a client."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    asked = request(path, **fields)
    sock.sendall(asked)
    head, rest = read_head(sock)
    assert head.startswith("HTTP/1.1 101 "), head
    key = field_of(asked.decode(), "Sec-WebSocket-Key")
    assert key
    assert field_of(head, "Sec-WebSocket-Accept") == accept_of(key)
    return Peer(sock, is_client=True, head=head, rest=rest)


def accept(listener: socket.socket, *, extension: str = "", behind: bytes = b"") -> Peer:
    """Accept a client; `behind` is sent with the answer."""
    sock, _ = listener.accept()
    sock.settimeout(PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head, rest = read_head(sock)
    key = field_of(head, "Sec-WebSocket-Key")
    assert key
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {accept_of(key)}",
        *([f"Sec-WebSocket-Extensions: {extension}"] if extension else []),
    ]
    sock.sendall("\r\n".join([*lines, "", ""]).encode() + behind)
    return Peer(sock, is_client=False, head=head, rest=rest)


def wait_until(is_true, seconds: float = PATIENCE) -> None:  # noqa: ANN001
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)
