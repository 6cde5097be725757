"""Compares our sessions of HTTP/2 with PyPI's h2: random connections, frame by frame.

Both get the same frames, and answer each complete request with its head. After each part they must
have accepted the same requests and bodies, or have found the same error. Where RFC 9113 leaves the
choice, the difference is listed in ALLOWED with the reason.
"""

import argparse
import collections
import json
import random
import struct
import subprocess
import sys
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, RequestReceived, StreamEnded
from h2.exceptions import ProtocolError
from hpack import Decoder
from http2_traffic import (
    BROKEN,
    GOAWAY,
    HEADERS,
    MALFORMED,
    PING,
    RST_STREAM,
    WRONG_LENGTH,
    Part,
    connection,
)

FRAME_HEADER = 9
ANSWER_MAX = 1000


@dataclass
class Outcome:
    """What one side made of a part."""

    heads: dict[int, bytes] = field(default_factory=dict)
    bodies: dict[int, bytes] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)
    answers: dict[int, bytes] = field(default_factory=dict)
    pongs: list[bytes] = field(default_factory=list)
    resets: dict[int, int] = field(default_factory=dict)
    error: int | None = None
    """With which the connection ended."""

    def accepted(self) -> tuple[object, ...]:
        """Return what both sides must have accepted alike."""
        return self.heads, self.bodies, self.ends, self.answers, self.pongs

    def verdict(self) -> str:
        """Return the error, or that there is none."""
        if self.error is not None:
            return f"connection {self.error}"
        codes = {code for code in self.resets.values() if code}
        return f"stream {min(codes)}" if codes else "accepted"

    def read_sent(self, data: bytes, decoder: Decoder) -> None:
        """Read frames that were sent."""
        while data:
            length, kind = int.from_bytes(data[:3], "big"), data[3]
            stream = int.from_bytes(data[5:9], "big")
            payload = data[FRAME_HEADER : FRAME_HEADER + length]
            data = data[FRAME_HEADER + length :]
            if kind == RST_STREAM:
                self.resets[stream] = int.from_bytes(payload, "big")
            elif kind == GOAWAY:
                self.error = int.from_bytes(payload[4:8], "big")
            elif kind == PING:
                self.pongs.append(payload)
            elif kind == HEADERS:
                self.answers[stream] = dict(decoder.decode(payload, raw=True))[b"x-head"]


def head_of(fields: list[tuple[bytes, bytes]]) -> bytes:
    """Return the head that we make of fields: that of HTTP/1.1."""
    pseudo = {name: value for name, value in fields if name[:1] == b":"}
    authority = pseudo.get(b":authority")
    head = pseudo[b":method"] + b" " + pseudo[b":path"] + b" HTTP/1.1\r\n"
    if authority is not None:
        head += b"Host: " + authority + b"\r\n"
    previous = b""
    for name, value in fields:
        if name[:1] == b":" or (name == b"host" and value == authority):
            continue
        if name == previous == b"cookie":
            head = head[:-2] + b"; " + value + b"\r\n"
        else:
            head += name + b": " + value + b"\r\n"
        previous = name
    return head + b"\r\n"


def answer_to(head: bytes) -> bytes:
    """Return the field of the answer to a request."""
    return head[:ANSWER_MAX].replace(b"\r", b"|").replace(b"\n", b"|")


class Theirs:
    """A server by h2."""

    def __init__(self) -> None:
        """Start the connection."""
        settings = H2Configuration(
            client_side=False, header_encoding=None, normalize_inbound_headers=False
        )
        self.connection = H2Connection(settings)
        self.connection.initiate_connection()
        self.decoder = Decoder()
        self.heads: dict[int, bytes] = {}

    def _take(self, event: Event, outcome: Outcome) -> None:
        if isinstance(event, RequestReceived):
            head = head_of([(bytes(name), bytes(value)) for name, value in event.headers])
            self.heads[event.stream_id] = outcome.heads[event.stream_id] = head
        elif isinstance(event, DataReceived) and event.data:
            outcome.bodies[event.stream_id] = event.data
        elif isinstance(event, StreamEnded):
            outcome.ends.append(event.stream_id)
            fields = [(":status", "200"), ("x-head", answer_to(self.heads[event.stream_id]))]
            self.connection.send_headers(event.stream_id, fields, end_stream=True)

    def receive(self, data: bytes) -> Outcome:
        """Return what h2 makes of a part."""
        outcome = Outcome()
        try:
            for event in self.connection.receive_data(data):
                self._take(event, outcome)
        except ProtocolError as error:
            outcome.error = int(error.error_code)
        outcome.read_sent(self.connection.data_to_send(), self.decoder)
        return outcome


def read_ours(events: list[list], decoder: Decoder) -> Outcome:
    """Return what we made of a part."""
    outcome = Outcome()
    sent = b""
    for kind, stream, *rest in events:
        data = bytes.fromhex(rest[0]) if rest else b""
        if kind == "head":
            outcome.heads[stream] = data
        elif kind == "body":
            outcome.bodies[stream] = outcome.bodies.get(stream, b"") + data
        elif kind == "end":
            outcome.ends.append(stream)
        else:
            sent += data
    outcome.read_sent(sent, decoder)
    return outcome


def encoded(connections: list[list[Part]]) -> bytes:
    """Return the input of the program."""
    out = []
    for parts in connections:
        out.append(struct.pack("<I", len(parts)))
        out += [struct.pack("<I", len(part.data)) + part.data for part in parts]
    return b"".join(out)


ALLOWED: dict[tuple[str, str, str], str] = {
    ("reset on an idle stream", "connection 1", "accepted"): "5.1: a connection error",
    ("reset on a stream of the server", "connection 1", "accepted"): "5.1: it is idle, too",
    ("data on an ended stream", "connection 5", "stream 5"): "5.1: a connection error",
    ("data on a reset stream", "connection 5", "stream 5"): "5.4.1 allows a connection error",
    ("headers on a reset stream", "connection 5", "stream 5"): "the same",
    ("acknowledgement with a payload", "connection 6", "connection 1"): "6.5: FRAME_SIZE_ERROR",
    ("another host", "accepted", "connection 1"): "8.3.1 allows it; the answer is 400",
}
"""The label of a part, our verdict, and that of h2; why ours is right, or allowed (RFC 9113)."""


def is_allowed(verdicts: tuple[str, str, str]) -> bool:
    """Return whether a difference is not a mistake of ours."""
    label, ours, theirs = verdicts
    if verdicts in ALLOWED:
        return True
    if label in MALFORMED or label == WRONG_LENGTH:
        # 8.1.1: a stream error; 5.4.1 allows what h2 does.
        return (ours, theirs) == ("stream 1", "connection 1")
    # 4.3: COMPRESSION_ERROR, for which h2 has the general error.
    return label in BROKEN and (ours, theirs) == ("connection 9", "connection 1")


@dataclass
class Comparison:
    """The result of all connections."""

    parts: int = 0
    requests: int = 0
    allowed: collections.Counter[tuple[str, str, str]] = field(default_factory=collections.Counter)
    found: list[str] = field(default_factory=list)

    def compare(self, parts: list[Part], answers: list[list[list]]) -> None:
        """Compare a connection, up to its first error."""
        theirs, decoder = Theirs(), Decoder()
        for number, part in enumerate(parts):
            if number >= len(answers):
                self.found.append(f"{part.label}: we have ended without an error")
                return
            ours, other = read_ours(answers[number], decoder), theirs.receive(part.data)
            self.parts += 1
            self.requests += len(ours.heads)
            verdicts = part.label, ours.verdict(), other.verdict()
            if ours.verdict() != other.verdict():
                if is_allowed(verdicts):
                    self.allowed[verdicts] += 1
                else:
                    self.found.append(": ".join(verdicts))
            elif ours.verdict() == "accepted" and ours.accepted() != other.accepted():
                self.found.append(f"{part.label}: {ours.accepted()} {other.accepted()}")
            if ours.verdict() != "accepted" or other.verdict() != "accepted":
                return


def main() -> int:
    """Compare the requested number of connections."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="http2_stream, as it was built")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    connections = [connection(dice) for _ in range(options.count)]
    done = subprocess.run(
        [options.program], input=encoded(connections), stdout=subprocess.PIPE, check=True
    )
    lines = done.stdout.splitlines()
    if len(lines) != len(connections):
        raise SystemExit(f"{len(lines)} answers to {len(connections)} connections")
    result = Comparison()
    for parts, line in zip(connections, lines, strict=True):
        result.compare(parts, json.loads(line))
    for text, count in collections.Counter(result.found).most_common():
        print(f"{count:5} {text}")
    print(
        f"{len(connections)} connections, {result.parts} parts, {result.requests} requests,"
        f" {sum(result.allowed.values())} allowed differences, {len(result.found)} others"
    )
    return 1 if result.found or not result.requests else 0


if __name__ == "__main__":
    sys.exit(main())
