"""The cases of the Autobahn test suite for WebSocket, by their numbers, as data.

A case is what is sent, and what must come of it: messages and pongs in their order, and then a
close of the peer with some code, or, if nothing is wrong, the echo of our close. The suite itself
is written for Python 2.
"""

from dataclasses import dataclass, field

from websocket_wire import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Frame,
    close_payload,
    compressed,
)

PROTOCOL_ERROR, MALFORMED = 1002, 1007
Events = list[tuple[int, bytes]]


@dataclass(frozen=True)
class Case:
    """Frames, what is expected, and in what pieces the frames are sent."""

    name: str
    frames: list[Frame]
    events: Events = field(default_factory=list)
    fails: int = 0  # code of the close that the peer begins; 0: it does not
    closes: bytes | None = None  # payload of the close that answers ours, in `frames`
    chop: int = 0
    waits_between: bool = False  # each frame is sent when the one before has been answered


def text(payload: bytes, *, fin: bool = True, rsv: int = 0) -> Frame:
    """Return a frame of text."""
    return Frame(TEXT, payload, fin, rsv)


def more(payload: bytes, *, fin: bool = False) -> Frame:
    """Return a frame that continues a message."""
    return Frame(CONTINUATION, payload, fin)


def split(payload: bytes, size: int, opcode: int = TEXT) -> list[Frame]:
    """Return the frames of a message that has fragments of this size."""
    parts = [payload[at : at + size] for at in range(0, len(payload), size)] or [b""]
    return [
        Frame(CONTINUATION if i else opcode, part, fin=i == len(parts) - 1)
        for i, part in enumerate(parts)
    ]


def echo_cases() -> list[Case]:
    """Group 1: messages of all sizes."""
    cases = []
    for group, opcode, byte in (("1.1", TEXT, b"*"), ("1.2", BINARY, b"\xfe")):
        for number, size in enumerate((0, 125, 126, 127, 128, 65535, 65536, 65536), 1):
            message = byte * size
            cases.append(
                Case(
                    f"{group}.{number}",
                    [Frame(opcode, message)],
                    [(opcode, message)],
                    chop=997 if number == 8 else 0,
                )
            )
    return cases


def ping_cases() -> list[Case]:
    """Group 2: pings and pongs."""
    longest = b"\xfe" * 125
    many = [b"payload-%d" % i for i in range(10)]
    pings, pongs = [Frame(PING, m) for m in many], [(PONG, m) for m in many]
    unsolicited = Frame(PONG, b"unsolicited pong payload")
    return [
        Case("2.1", [Frame(PING)], [(PONG, b"")]),
        Case("2.2", [Frame(PING, b"Hello, world!")], [(PONG, b"Hello, world!")]),
        Case(
            "2.3",
            [Frame(PING, b"\0\xff\xfe\xfd\xfc\xfb\0\xff")],
            [(PONG, b"\0\xff\xfe\xfd\xfc\xfb\0\xff")],
        ),
        Case("2.4", [Frame(PING, longest)], [(PONG, longest)]),
        Case("2.5", [Frame(PING, longest + b"\xfe")], fails=PROTOCOL_ERROR),
        Case("2.6", [Frame(PING, longest)], [(PONG, longest)], chop=1),
        Case("2.7", [Frame(PONG)]),
        Case("2.8", [unsolicited]),
        Case("2.9", [unsolicited, Frame(PING, b"ping payload")], [(PONG, b"ping payload")]),
        Case("2.10", pings, pongs),
        Case("2.11", pings, pongs, chop=1),
    ]


def reserved_cases() -> list[Case]:
    """Groups 3 and 4: reserved bits and opcodes."""
    hello = b"Hello, world!"
    first, answer = text(hello), [(TEXT, hello)]
    cases = [
        Case("3.1", [text(hello, rsv=1)], fails=PROTOCOL_ERROR),
        Case("3.5", [Frame(BINARY, b"\0\xff\xfe", rsv=5)], fails=PROTOCOL_ERROR),
        Case("3.6", [Frame(PING, hello, rsv=6)], fails=PROTOCOL_ERROR),
        Case("3.7", [Frame(CLOSE, close_payload(1000), rsv=7)], fails=PROTOCOL_ERROR),
    ]
    for number, rsv, chop, waits in (
        ("3.2", 2, 0, False),
        ("3.3", 3, 0, True),
        ("3.4", 4, 1, False),
    ):
        frames = [first, text(hello, rsv=rsv), Frame(PING)]
        cases.append(Case(number, frames, answer, PROTOCOL_ERROR, chop=chop, waits_between=waits))
    for group, opcodes in (("4.1", range(3, 8)), ("4.2", range(11, 16))):
        for number, opcode in enumerate(opcodes, 1):
            payload = hello if number % 2 == 0 else b""
            bad = Frame(opcode, payload)
            if number < 3:
                cases.append(Case(f"{group}.{number}", [bad], fails=PROTOCOL_ERROR))
            else:
                frames, chop = [first, bad, Frame(PING)], 1 if number > 3 else 0
                cases.append(Case(f"{group}.{number}", frames, answer, PROTOCOL_ERROR, chop=chop))
    return cases


def three_ways(number: int, frames: list[Frame], events: Events, fails: int = 0) -> list[Case]:
    """Return a case with the frames at once, one by one, and octet by octet."""
    return [
        Case(f"5.{number}", frames, events, fails),
        Case(f"5.{number + 1}", frames, events, fails, waits_between=not fails),
        Case(f"5.{number + 2}", frames, events, fails, chop=1),
    ]


def fragment_cases() -> list[Case]:
    """Group 5: fragmentation."""
    two = [text(b"fragment1", fin=False), more(b"fragment2", fin=True)]
    both = [(TEXT, b"fragment1fragment2")]
    ping, pong = Frame(PING, b"ping payload"), (PONG, b"ping payload")
    lost = more(b"non-continuation payload", fin=True)
    lost_part = more(b"non-continuation payload")
    hello = text(b"Hello, world!")
    five = [
        text(b"fragment1", fin=False),
        more(b"fragment2"),
        more(b"fragment3"),
        more(b"fragment4"),
    ]
    six = [*five[:2], ping, *five[2:], ping, more(b"fragment5", fin=True)]
    all_five = (TEXT, b"fragment1fragment2fragment3fragment4fragment5")
    return [
        Case(
            "5.1",
            [Frame(PING, b"fragment1", fin=False), more(b"fragment2", fin=True)],
            fails=PROTOCOL_ERROR,
        ),
        Case(
            "5.2",
            [Frame(PONG, b"fragment1", fin=False), more(b"fragment2", fin=True)],
            fails=PROTOCOL_ERROR,
        ),
        *three_ways(3, two, both),
        *three_ways(6, [two[0], ping, two[1]], [pong, *both]),
        *three_ways(9, [lost, hello], [], PROTOCOL_ERROR),
        *three_ways(12, [lost_part, hello], [], PROTOCOL_ERROR),
        Case("5.15", [*two, lost_part, hello], both, PROTOCOL_ERROR),
        Case("5.16", [lost_part, hello, lost_part, hello], fails=PROTOCOL_ERROR),
        Case("5.17", [lost, hello, lost, hello], fails=PROTOCOL_ERROR),
        Case("5.18", [two[0], text(b"fragment2")], fails=PROTOCOL_ERROR),
        Case("5.19", six, [pong, pong, all_five]),
        Case("5.20", six, [pong, pong, all_five], chop=7),
    ]


GREEK = "κόσμε".encode()
TEST_TEXT = "Hello-µ@ßöäüàá-UTF-8!!".encode()

# Groups 6.5 to 6.23: sequences of bytes, of which Python says whether they are UTF-8.
SEQUENCES: dict[str, list[bytes]] = {
    "6.5": [GREEK[:n] for n in range(1, len(GREEK) + 1)],
    "6.6": [b"\xce", b"\xce\xba\xe1\xbd", b"\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5", GREEK],
    "6.7": [b"\0", b"\xc2\x80", b"\xe0\xa0\x80", b"\xf0\x90\x80\x80"],
    "6.8": [b"\xf8\x88\x80\x80\x80", b"\xfc\x84\x80\x80\x80\x80"],
    "6.9": [b"\x7f", b"\xdf\xbf", b"\xef\xbf\xbf", b"\xf4\x8f\xbf\xbf"],
    "6.10": [b"\xf7\xbf\xbf\xbf", b"\xfb\xbf\xbf\xbf\xbf", b"\xfd\xbf\xbf\xbf\xbf\xbf"],
    "6.11": [
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xef\xbf\xbd",
        b"\xf4\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
    ],
    "6.12": [b"\x80", b"\xbf", b"\x80\xbf", b"\x80\xbf\x80", bytes(range(0x80, 0xC0))],
    "6.13": [
        b" ".join(bytes([c]) for c in range(0xC0, 0xE0)) + b" ",
        b" ".join(bytes([c]) for c in range(0xE0, 0xF0)) + b" ",
        b" ".join(bytes([c]) for c in range(0xF0, 0xF8)) + b" ",
        b"\xf8 \xf9 \xfa \xfb ",
        b"\xfc \xfd ",
    ],
    "6.14": [
        b"\xc0",
        b"\xe0\x80",
        b"\xf0\x80\x80",
        b"\xf8\x80\x80\x80",
        b"\xfc\x80\x80\x80\x80",
        b"\xdf",
        b"\xef\xbf",
        b"\xf7\xbf\xbf",
        b"\xfb\xbf\xbf\xbf",
        b"\xfd\xbf\xbf\xbf\xbf",
    ],
    "6.15": [
        b"\xc0\xe0\x80\xf0\x80\x80\xf8\x80\x80\x80\xfc\x80\x80\x80\x80\xdf\xef\xbf\xf7\xbf\xbf"
    ],
    "6.16": [b"\xfe", b"\xff", b"\xfe\xfe\xff\xff"],
    "6.17": [
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xf8\x80\x80\x80\xaf",
        b"\xfc\x80\x80\x80\x80\xaf",
    ],
    "6.18": [
        b"\xc1\xbf",
        b"\xe0\x9f\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf8\x87\xbf\xbf\xbf",
        b"\xfc\x83\xbf\xbf\xbf\xbf",
    ],
    "6.19": [
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xf8\x80\x80\x80\x80",
        b"\xfc\x80\x80\x80\x80\x80",
    ],
    "6.20": [
        bytes([0xED, second, third])
        for second, third in (
            (0xA0, 0x80),
            (0xAD, 0xBF),
            (0xAE, 0x80),
            (0xAF, 0xBF),
            (0xB0, 0x80),
            (0xBE, 0x80),
            (0xBF, 0xBF),
        )
    ],
    "6.21": [
        bytes([0xED, a, b, 0xED, c, d])
        for a, b, c, d in (
            (0xA0, 0x80, 0xB0, 0x80),
            (0xA0, 0x80, 0xBF, 0xBF),
            (0xAD, 0xBF, 0xB0, 0x80),
            (0xAD, 0xBF, 0xBF, 0xBF),
            (0xAE, 0x80, 0xB0, 0x80),
            (0xAE, 0x80, 0xBF, 0xBF),
            (0xAF, 0xBF, 0xB0, 0x80),
            (0xAF, 0xBF, 0xBF, 0xBF),
        )
    ],
    "6.22": [chr(plane << 16 | low).encode() for plane in range(17) for low in (0xFFFE, 0xFFFF)],
    "6.23": [chr(0xFFF9 + i).encode() for i in range(5)],
}


def is_utf8(data: bytes) -> bool:
    """Return whether the bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def utf8_cases() -> list[Case]:
    """Group 6: text."""
    bad = GREEK + b"\xed\xa0\x80edited"
    middle = text(b"", fin=False), more(b"middle frame payload"), more(b"", fin=True)
    cases = [
        Case("6.1.1", [text(b"")], [(TEXT, b"")]),
        Case("6.1.2", [text(b"", fin=False), more(b""), more(b"", fin=True)], [(TEXT, b"")]),
        Case("6.1.3", list(middle), [(TEXT, b"middle frame payload")]),
        Case("6.2.1", [text(TEST_TEXT)], [(TEXT, TEST_TEXT)]),
        Case("6.2.2", split(TEST_TEXT, 12), [(TEXT, TEST_TEXT)]),
        Case("6.2.3", split(TEST_TEXT, 1), [(TEXT, TEST_TEXT)]),
        Case("6.2.4", split(GREEK, 1), [(TEXT, GREEK)]),
        Case("6.3.1", [text(bad)], fails=MALFORMED),
        Case("6.3.2", split(bad, 1), fails=MALFORMED),
    ]
    for group, sequences in SEQUENCES.items():
        for number, sequence in enumerate(sequences, 1):
            good = is_utf8(sequence)
            events = [(TEXT, sequence)] if good else []
            name = f"{group}.{number}"
            cases.append(Case(name, [text(sequence)], events, 0 if good else MALFORMED))
            cases.append(
                Case(f"{name}, by octets", split(sequence, 1), events, 0 if good else MALFORMED)
            )
    return cases


# Group 6.4: parts of a message, of which the second cannot be continued to be UTF-8: the peer fails
# before the third is sent. With a single frame the parts are pieces of that.
FAIL_FAST = {
    "6.4.1": (GREEK, b"\xf4\x90\x80\x80", b"edited"),
    "6.4.2": (GREEK + b"\xf4", b"\x90", b"\x80\x80edited"),
}


def close_cases() -> list[Case]:
    """Group 7: closes. Nothing that follows a close is answered."""
    hello = text(b"Hello World!")
    close = Frame(CLOSE, close_payload(1000))
    normal = close_payload(1000)
    echo = [(TEXT, b"Hello World!")]
    cases = [
        Case("7.1.1", [hello, close], echo, closes=normal),
        Case("7.1.2", [close, close], closes=normal),
        Case("7.1.3", [close, Frame(PING)], closes=normal),
        Case("7.1.4", [close, hello], closes=normal),
        Case(
            "7.1.5",
            [text(b"fragment1", fin=False), close, more(b"fragment2", fin=True)],
            closes=normal,
        ),
        Case(
            "7.1.6",
            [text(b"BAsd7&jh23" * 26 * 1024), close, Frame(PING)],
            [(TEXT, b"BAsd7&jh23" * 26 * 1024)],
            closes=normal,
        ),
        Case("7.3.1", [Frame(CLOSE)], closes=b""),
        Case("7.3.2", [Frame(CLOSE, b"a")], fails=PROTOCOL_ERROR),
        Case("7.3.3", [close], closes=normal),
        Case("7.3.4", [Frame(CLOSE, close_payload(1000, b"Hello World!"))], closes=normal),
        Case("7.3.5", [Frame(CLOSE, close_payload(1000, b"*" * 123))], closes=normal),
        Case("7.3.6", [Frame(CLOSE, close_payload(1000, b"*" * 124))], fails=PROTOCOL_ERROR),
        Case(
            "7.5.1",
            [Frame(CLOSE, close_payload(1000, GREEK + b"\xed\xa0\x80edited"))],
            fails=MALFORMED,
        ),
    ]
    good = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
    bad = (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999)
    for number, code in enumerate(good, 1):
        payload = close_payload(code)
        cases.append(Case(f"7.7.{number}", [Frame(CLOSE, payload)], closes=payload))
    for number, code in enumerate(bad, 1):
        cases.append(
            Case(f"7.9.{number}", [Frame(CLOSE, close_payload(code))], fails=PROTOCOL_ERROR)
        )
    for number, code in enumerate((5000, 65535), 1):
        cases.append(
            Case(f"7.13.{number}", [Frame(CLOSE, close_payload(code))], fails=PROTOCOL_ERROR)
        )
    return cases


def large_cases() -> list[Case]:
    """Groups 9 and 10: large messages, and many; the largest are left out."""
    cases = []
    for group, opcode, byte in (("1", TEXT, b"*"), ("2", BINARY, b"\xfe")):
        for number, size in enumerate((1 << 16, 1 << 18, 1 << 20, 1 << 22), 1):
            message = byte * size
            cases.append(Case(f"9.{group}.{number}", [Frame(opcode, message)], [(opcode, message)]))
    for group, opcode, byte in (("3", TEXT, b"*"), ("4", BINARY, b"\xfe")):
        message = byte * (1 << 20)
        for number, size in enumerate(
            (64, 256, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20), 1
        ):
            cases.append(
                Case(f"9.{group}.{number}", split(message, size, opcode), [(opcode, message)])
            )
    for group, opcode, byte in (("5", TEXT, b"*"), ("6", BINARY, b"\xfe")):
        for number, chop in enumerate((64, 128, 256, 512, 1024, 2048), 1):
            message = byte * (1 << 18)
            cases.append(
                Case(
                    f"9.{group}.{number}", [Frame(opcode, message)], [(opcode, message)], chop=chop
                )
            )
    for group, opcode, byte in (("7", TEXT, b"*"), ("8", BINARY, b"\xfe")):
        for number, size in enumerate((0, 16, 64, 256, 1024, 4096), 1):
            message = byte * size
            cases.append(
                Case(
                    f"9.{group}.{number}", [Frame(opcode, message)] * 300, [(opcode, message)] * 300
                )
            )
    message = b"*" * 65536
    cases.append(Case("10.1.1", split(message, 1300), [(TEXT, message)]))
    return cases


PLAIN_CASES = [
    *echo_cases(),
    *ping_cases(),
    *reserved_cases(),
    *fragment_cases(),
    *utf8_cases(),
    *close_cases(),
    *large_cases(),
]

# Groups 12 and 13: what a client offers, and the bits of the window with which a server may
# compress.
OFFERS = {
    "12": ("permessage-deflate", 15),
    "13.1": ("permessage-deflate; client_max_window_bits", 15),
    "13.2": ("permessage-deflate; server_no_context_takeover; client_max_window_bits", 15),
    "13.3": ("permessage-deflate; client_max_window_bits; server_max_window_bits=9", 9),
    "13.4": ("permessage-deflate; client_max_window_bits; server_max_window_bits=15", 15),
    "13.5": ("permessage-deflate; server_no_context_takeover; server_max_window_bits=9", 9),
    "13.6": ("permessage-deflate; server_no_context_takeover; server_max_window_bits=15", 15),
    "13.7": (
        "permessage-deflate; server_no_context_takeover; server_max_window_bits=9; strange, "
        "permessage-deflate; server_no_context_takeover, permessage-deflate",
        15,
    ),
}

WORDS = b'{"name": "Gossamer", "kind": "message of JSON", "numbers": [1, 2, 3, 4, 5]}, '


def compressed_cases(bits: int = 15) -> list[Case]:
    """Return messages of all sizes that are compressed, whole and in fragments."""
    cases = []
    for number, size in enumerate(
        (0, 16, 64, 256, 1024, 4096, 8192, 16384, 32768, 65536, 131072), 1
    ):
        message = (WORDS * (size // len(WORDS) + 1))[:size]
        data = compressed(message, bits)
        whole = [Frame(TEXT, data, rsv=4)] * 20
        events = [(TEXT, message)] * 20
        cases.append(Case(f".{number}", whole, events))
        if len(data) > 2:
            first, *rest = split(data, max(len(data) // 8, 1))
            parts = [Frame(TEXT, first.payload, fin=False, rsv=4), *rest]
            cases.append(Case(f".{number}, in fragments", parts, events[:1]))
    return cases
