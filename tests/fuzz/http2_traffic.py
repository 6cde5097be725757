"""Random connections of HTTP/2: mostly valid frames, and some that are slightly wrong.

A connection is a list of parts, each of which is a frame, or the frames of one header block. Each
part has a label, which says what it is.
"""

import random
import struct
from dataclasses import dataclass, field

from hpack import Encoder, HeaderTuple, NeverIndexedHeaderTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = range(9)
CONTINUATION, UNKNOWN = 9, 0x63
END_STREAM, END_HEADERS, PADDED, WITH_PRIORITY, ACK = 1, 4, 8, 32, 1
MISTAKES = 0.2
"""Share of the parts that are wrong."""

Fields = list[tuple[bytes, bytes]]
REQUEST: Fields = [
    (b":method", b"GET"),
    (b":scheme", b"https"),
    (b":authority", b"a"),
    (b":path", b"/x"),
]
EXTRA: Fields = [
    (b"cookie", b"a=b"),
    (b"cookie", b"c=d"),
    (b"te", b"trailers"),
    (b"user-agent", b"Mozilla/5.0 (X11; Linux)"),
    (b"accept", b"*/*"),
    (b"x-empty", b""),
    (b"x-quote", b'"a, b"; c'),
    (b"x-long", b"y" * 300),
    (b"host", b"a"),
]
MALFORMED: dict[str, Fields] = {
    "no method": REQUEST[1:],
    "no scheme": [REQUEST[0], *REQUEST[2:]],
    "no path": REQUEST[:3],
    "empty path": [*REQUEST[:3], (b":path", b"")],
    "method twice": [REQUEST[0], *REQUEST],
    "pseudo-field after another": [*REQUEST[:3], (b"x", b"y"), REQUEST[3]],
    "unknown pseudo-field": [*REQUEST, (b":x", b"y")],
    "status": [*REQUEST, (b":status", b"200")],
    "capital": [*REQUEST, (b"X-A", b"y")],
    "connection": [*REQUEST, (b"connection", b"close")],
    "keep-alive": [*REQUEST, (b"keep-alive", b"1")],
    "transfer-encoding": [*REQUEST, (b"transfer-encoding", b"chunked")],
    "upgrade": [*REQUEST, (b"upgrade", b"h2c")],
    "te": [*REQUEST, (b"te", b"gzip")],
    "line feed in a value": [*REQUEST, (b"x", b"a\nb")],
    "NUL in a value": [*REQUEST, (b"x", b"a\0b")],
    "space in a name": [*REQUEST, (b"x y", b"a")],
    "empty name": [*REQUEST, (b"", b"a")],
    "space around a value": [*REQUEST, (b"x", b" a ")],
    "no authority": [*REQUEST[:2], REQUEST[3]],
    "another host": [*REQUEST, (b"host", b"b")],
}

BROKEN = {
    "index 0": b"\x80",
    "index too large": b"\xff\x80\x01",
    "truncated integer": b"\xff",
    "truncated string": b"\x82\x00\x05ab",
    "huge integer": b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "table too large": b"\x3f\xff\xff\x03\x82",
    "late table size": b"\x82\x84\x87\x41\x01a\x20",
    "bad padding of Huffman's code": b"\x82\x84\x87\x41\x81\x00",
}
"""Header blocks that cannot be decoded."""
WRONG_LENGTH = "wrong content-length"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


@dataclass
class Part:
    """Frames that are sent together."""

    label: str
    data: bytes


@dataclass
class Client:
    """What a client has sent so far."""

    dice: random.Random
    parts: list[Part] = field(default_factory=list)
    encoder: Encoder = field(default_factory=Encoder)
    next_stream: int = 1
    open: list[int] = field(default_factory=list)
    """Streams whose end was not sent."""
    ended: list[int] = field(default_factory=list)
    """Streams that both sides have ended."""
    reset: list[int] = field(default_factory=list)

    def add(self, label: str, data: bytes) -> None:
        """Add a part."""
        self.parts.append(Part(label, data))

    def block(self, fields: Fields) -> bytes:
        """Encode fields: with or without Huffman's code, indexing, and another table."""
        if self.dice.random() < 0.1:
            self.encoder.header_table_size = self.dice.choice((0, 64, 500, 4096))
        kinds = (HeaderTuple, HeaderTuple, NeverIndexedHeaderTuple)
        tuples = [self.dice.choice(kinds)(name, value) for name, value in fields]
        return self.encoder.encode(tuples, huffman=self.dice.random() < 0.5)

    def headers(self, stream: int, flags: int, block: bytes) -> bytes:
        """Return the frames of a header block: with padding, a priority, or split."""
        first = block
        last = END_HEADERS
        rest = b""
        if self.dice.random() < 0.2:
            at = self.dice.randint(1, len(block))  # h2 refuses padding of nothing
            first, last = block[:at], 0
            rest = frame(CONTINUATION, END_HEADERS, stream, block[at:])
        if self.dice.random() < 0.15:
            first, flags = struct.pack(">IB", 0, 16) + first, flags | WITH_PRIORITY
        if self.dice.random() < 0.15:
            n = self.dice.randint(0, 20)
            first, flags = bytes([n]) + first + bytes(n), flags | PADDED
        return frame(HEADERS, flags | last, stream, first) + rest

    def new_stream(self) -> int:
        """Return the next stream, or one after some that stay unused."""
        self.next_stream += 2 * self.dice.choice((1, 1, 1, 3))
        return self.next_stream - 2

    # ---- Valid parts ----

    def request(self) -> None:
        """Open a stream."""
        stream, is_end = self.new_stream(), self.dice.random() < 0.5
        fields = [*REQUEST, *self.dice.sample(EXTRA, self.dice.randint(0, 5))]
        (self.ended if is_end else self.open).append(stream)
        self.add("request", self.headers(stream, END_STREAM * is_end, self.block(fields)))

    def data(self) -> None:
        """Send a part of a body."""
        if not self.open:
            return self.request()
        stream, is_end = self.dice.choice(self.open), self.dice.random() < 0.4
        body, flags = bytes(self.dice.randrange(256) for _ in range(self.dice.randint(0, 30))), 0
        if self.dice.random() < 0.2:
            body, flags = bytes([3]) + body + bytes(3), PADDED
        if is_end:
            self.open.remove(stream)
            self.ended.append(stream)
        return self.add("data", frame(DATA, flags | END_STREAM * is_end, stream, body))

    def trailers(self) -> None:
        """End a body with trailers."""
        if not self.open:
            return self.request()
        stream = self.open.pop()
        self.ended.append(stream)
        block = self.block([(b"x-trailer", b"t")])
        return self.add("trailers", self.headers(stream, END_STREAM, block))

    def cancel(self) -> None:
        """Reset a stream."""
        if not self.open:
            return self.request()
        stream = self.open.pop(0)
        self.reset.append(stream)
        return self.add("reset", frame(RST_STREAM, 0, stream, struct.pack(">I", 8)))

    def control(self) -> None:
        """Send a frame that concerns no request."""
        number = self.dice.getrandbits(16) | 16384
        newest = self.next_stream
        label, data = self.dice.choice(
            (
                ("ping", frame(PING, 0, 0, self.dice.randbytes(8))),
                ("acknowledged ping", frame(PING, ACK, 0, bytes(8))),
                ("window", frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", number))),
                ("settings", frame(SETTINGS, 0, 0, struct.pack(">HI", 4, number))),
                ("table size", frame(SETTINGS, 0, 0, struct.pack(">HI", 1, number % 4096))),
                ("unknown setting", frame(SETTINGS, 0, 0, struct.pack(">HI", 99, number))),
                ("unknown frame", frame(UNKNOWN, 255, 0, b"abc")),
                ("unknown frame of a stream", frame(UNKNOWN, 0, newest, b"abc")),
                ("priority", frame(PRIORITY, 0, newest + 20, struct.pack(">IB", 0, 3))),
            )
        )
        self.add(label, data)

    # ---- Mistakes ----

    def malformed(self) -> None:
        """Send a request that is malformed."""
        what = self.dice.choice(list(MALFORMED))
        stream = self.new_stream()
        self.add(what, self.headers(stream, END_STREAM, self.block(MALFORMED[what])))

    def wrong_length(self) -> None:
        """Send a body of another length than was announced."""
        stream = self.new_stream()
        block = self.block([*REQUEST, (b"content-length", b"5")])
        body = frame(DATA, END_STREAM, stream, b"x" * self.dice.choice((0, 3, 6)))
        self.add(WRONG_LENGTH, self.headers(stream, 0, block) + body)

    def broken_block(self) -> None:
        """Send a header block that cannot be decoded."""
        label = self.dice.choice(list(BROKEN))
        flags = END_STREAM | END_HEADERS
        self.add(label, frame(HEADERS, flags, self.new_stream(), BROKEN[label]))

    def on_wrong_stream(self) -> None:
        """Send a frame on a stream that is not in the state for it."""
        kinds = {
            "data": (DATA, b"x"),
            "window": (WINDOW_UPDATE, struct.pack(">I", 1)),
            "reset": (RST_STREAM, struct.pack(">I", 8)),
            "headers": (HEADERS, b""),
        }
        states = {
            "an idle stream": [self.next_stream + 10],
            "an ended stream": self.ended,
            "a reset stream": self.reset,
            "no stream": [0],
            "a stream of the server": [2],
        }
        kind = self.dice.choice(list(kinds))
        state = self.dice.choice([name for name in states if states[name]])
        if (kind, state) in {("window", "no stream"), ("headers", "an idle stream")}:
            return self.control()
        flags = END_HEADERS | END_STREAM if kind == "headers" else 0
        number, payload = kinds[kind]
        payload = payload or self.block(REQUEST)
        data = frame(number, flags, self.dice.choice(states[state]), payload)
        return self.add(f"{kind} on {state}", data)

    def wrong_frame(self) -> None:
        """Send a frame that no state allows."""
        newest = self.next_stream
        long = struct.pack(">I", 1 << 31)
        label, data = self.dice.choice(
            (
                ("ping of 7 bytes", frame(PING, 0, 0, bytes(7))),
                ("ping on a stream", frame(PING, 0, newest, bytes(8))),
                ("settings of 5 bytes", frame(SETTINGS, 0, 0, bytes(5))),
                ("settings on a stream", frame(SETTINGS, 0, newest)),
                ("acknowledgement with a payload", frame(SETTINGS, ACK, 0, bytes(6))),
                ("push 2", frame(SETTINGS, 0, 0, struct.pack(">HI", 2, 2))),
                ("window size too large", frame(SETTINGS, 0, 0, struct.pack(">H", 4) + long)),
                ("frame size too small", frame(SETTINGS, 0, 0, struct.pack(">HI", 5, 100))),
                ("window update of 0", frame(WINDOW_UPDATE, 0, 0, bytes(4))),
                ("window update of 3 bytes", frame(WINDOW_UPDATE, 0, 0, bytes(3))),
                ("window too large", 2 * frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")),
                ("reset of 3 bytes", frame(RST_STREAM, 0, newest, bytes(3))),
                ("push promise", frame(PUSH_PROMISE, 4, newest, struct.pack(">I", 2) + b"\x82")),
                ("continuation alone", frame(CONTINUATION, 4, newest, b"\x82")),
                (
                    "another frame in a block",
                    frame(HEADERS, 1, newest) + frame(PING, 0, 0, bytes(8)),
                ),
                ("another stream in a block", frame(HEADERS, 1, newest) + frame(9, 4, newest + 2)),
                ("padding too long", frame(HEADERS, PADDED | 5, newest, b"\x09\x82")),
                ("frame too large", frame(UNKNOWN, 0, 0, bytes(16385))),
                ("going away on a stream", frame(GOAWAY, 0, newest, bytes(8))),
                ("priority of 4 bytes", frame(PRIORITY, 0, newest, bytes(4))),
                ("priority on no stream", frame(PRIORITY, 0, 0, bytes(5))),
            )
        )
        self.add(label, data)


def connection(dice: random.Random) -> list[Part]:
    """Return a random connection."""
    client = Client(dice)
    client.add("preface", PREFACE + frame(SETTINGS, 0, 0))
    valid = (client.request, client.request, client.data, client.data, client.trailers)
    valid += (client.cancel, client.control, client.control)
    wrong = (client.malformed, client.malformed, client.wrong_length, client.broken_block)
    wrong += (client.on_wrong_stream, client.on_wrong_stream, client.wrong_frame)
    for _ in range(dice.randint(2, 14)):
        dice.choice(wrong if dice.random() < MISTAKES else valid)()
    return client.parts
