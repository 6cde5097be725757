"""HTTP/2 over a raw socket, for tests that are written for HTTP/1: each request is a stream.

The frames are made here, and header blocks by the package hpack, so that a test may send what no
client of HTTP/2 would. What is received is parsed strictly.
"""

import struct
from dataclasses import dataclass, field
from typing import NoReturn

from hpack import Decoder, Encoder
from wire import EndedError, Response, Wire

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    *(0, 1, 3, 4),
    *(6, 7, 8, 9),
)
END_STREAM, END_HEADERS = 1, 4
FRAME_MAX = 16384
WINDOW = 1 << 30
BYTEWISE_MAX = 2000

Fields = list[tuple[bytes, bytes]]


class ResetError(Exception):
    """The server has reset the stream, or ended the connection, with this error."""

    def __init__(self, error: int) -> None:
        """Keep the error."""
        super().__init__(f"error {error}")
        self.error = error


@dataclass
class Stream:
    """What was received of a response."""

    responses: list[Response] = field(default_factory=list)  # the last one is final
    body: bytearray = field(default_factory=bytearray)
    is_over: bool = False
    error: int | None = None


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def translate(head: bytes) -> Fields:
    """Return the fields of a request that is written as in HTTP/1.1, without judging them."""
    line, *rows = head.split(b"\r\n")
    method, _, rest = line.partition(b" ")
    target, _, _ = rest.rpartition(b" ")
    fields = [(b":method", method), (b":scheme", b"http"), (b":path", target)]
    if method == b"CONNECT":
        fields = [(b":method", method), (b":authority", target)]
    for row in rows:
        name, _, value = row.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name != b"host":
            fields.append((name, value))
        elif b":authority" not in dict(fields):
            fields.insert(1, (b":authority", value))
        elif method != b"CONNECT":
            fields.append((name, value))
    return fields


class Http2Wire(Wire):
    """A client's connection that speaks HTTP/2 by prior knowledge."""

    def __init__(self, address: tuple[str, int], receive_buffer: int = 0) -> None:
        """Connect, and open the windows so far that they do not matter."""
        super().__init__(address, receive_buffer)
        self.encoder, self.decoder = Encoder(), Decoder()
        self.streams: dict[int, Stream] = {}
        self.next_stream, self.next_response = 1, 1
        self.body_left = 0  # of the newest stream, still to be sent
        settings = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, WINDOW))
        self.send_frames(PREFACE + settings + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW)))

    # ---- Sending ----

    def send_frames(self, data: bytes) -> None:
        """Send bytes that are frames already."""
        super().send(data)

    def headers(self, fields: Fields, *, is_last: bool) -> bytes:
        """Return the frames that open a stream."""
        number = self.next_stream
        self.next_stream += 2
        self.streams[number] = Stream()
        block = self.encoder.encode(fields)
        parts = [block[i : i + FRAME_MAX] for i in range(0, len(block), FRAME_MAX)]
        return b"".join(
            frame(
                CONTINUATION if i else HEADERS,
                (END_STREAM if is_last and not i else 0)
                | (END_HEADERS if part is parts[-1] else 0),
                number,
                part,
            )
            for i, part in enumerate(parts)
        )

    def request_frames(self, fields: Fields, body: bytes = b"") -> bytes:
        """Return the frames of a request, which has no end if it announces a longer body."""
        announced = length_of(fields)
        frames = self.headers(fields, is_last=not body and not announced)
        if body:
            flags = 0 if len(body) < announced else END_STREAM
            frames += frame(DATA, flags, self.next_stream - 2, body)
        return frames

    def frames_of(self, data: bytes) -> bytes:
        """Return the frames of requests that are written as in HTTP/1.1, or of more of a body."""
        frames = b""
        while data:
            if self.body_left:
                part, data = data[: self.body_left], data[self.body_left :]
                self.body_left -= len(part)
                flags = 0 if self.body_left else END_STREAM
                frames += frame(DATA, flags, self.next_stream - 2, part)
                continue
            head, _, data = data.partition(b"\r\n\r\n")
            fields = translate(head)
            self.body_left = length_of(fields)
            frames += self.headers(fields, is_last=not self.body_left)
        return frames

    def send(self, data: bytes) -> None:
        """Send requests that are written as in HTTP/1.1, each as a stream."""
        self.send_frames(self.frames_of(data))

    def send_frames_bytewise(self, data: bytes) -> None:
        """Send each byte of short frames separately."""
        if len(data) > BYTEWISE_MAX:
            self.send_frames(data)
        else:
            super().send_bytewise(data)

    def send_bytewise(self, data: bytes) -> None:
        """Send requests as with send, each byte separately."""
        self.send_frames_bytewise(self.frames_of(data))

    # ---- Receiving ----

    def exactly(self, n: int) -> bytes:
        """Receive n bytes."""
        while len(self.buffer) < n:
            data = self.socket.recv(4 * FRAME_MAX)
            if not data:
                raise EndedError(self.buffer)
            self.buffer += data
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def receive_frame(self) -> None:
        """Receive a frame, and note what it says."""
        head = self.exactly(9)
        kind, flags, number = struct.unpack(">BBI", head[3:])
        payload = self.exactly(int.from_bytes(head[:3], "big"))
        if kind == GOAWAY and (error := int.from_bytes(payload[4:8], "big")):
            raise ResetError(error)
        stream = self.streams.get(number)
        assert stream or not number, f"a frame of stream {number}, which was not opened"
        if stream and not stream.is_over:
            self.note(stream, kind, flags, payload)

    def receive_frames(self) -> NoReturn:
        """Receive frames until the connection ends; ResetError has the reason."""
        while True:
            self.receive_frame()

    def note(self, stream: Stream, kind: int, flags: int, payload: bytes) -> None:
        """Note a frame of a stream."""
        if kind == RST_STREAM:
            stream.error, stream.is_over = int.from_bytes(payload, "big"), True
            return
        if kind == HEADERS:
            assert flags & END_HEADERS
            fields = self.decoder.decode(payload)
            names = [name for name, _ in fields]
            assert names[0] == ":status", fields
            assert len(names) == len(set(names)), fields
            values = dict(fields[1:])
            stream.responses.append(Response(int(fields[0][1]), values))
        elif kind == DATA:
            stream.body += payload
        stream.is_over = bool(flags & END_STREAM)

    def response(self, method: str = "GET") -> Response:
        """Receive the response of the next stream; ResetError says that it has none."""
        number = self.next_response
        stream = self.streams[number]
        while not stream.is_over and not stream.responses:
            self.receive_frame()
        if stream.responses and stream.responses[0].status < 200:
            return stream.responses.pop(0)
        while not stream.is_over:
            self.receive_frame()
        self.next_response += 2
        if not stream.responses:
            raise ResetError(stream.error or 0)
        response = stream.responses[-1]
        response.body = bytes(stream.body)
        assert "date" in response.fields
        length = response.fields.get("content-length")
        has_body = method != "HEAD" and response.status != 304
        assert len(response.body) == (int(length or 0) if has_body else 0)
        return response


def length_of(fields: Fields) -> int:
    """Return the length of the body that the fields announce; 0 if it is none."""
    try:
        return int(dict(fields).get(b"content-length", b"0"))
    except ValueError:
        return 0
