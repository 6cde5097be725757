#!/usr/bin/env python3
"""Lets the library and httptools parse the same streams of requests, and compares the results.

The library may refuse what httptools accepts, because it is meant to be strict. Whatever it
accepts, httptools must also accept and parse identically, except for features that httptools does
not support. If the library waits for more bytes, httptools must not have found the end of a
request.
"""

import argparse
import json
import random
import struct
import subprocess
import sys
from dataclasses import dataclass, field

import httptools

SEEDS = (
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /a/b?c=d&e HTTP/1.1\r\nHost: a:80\r\nUser-Agent: me/1 (x)\r\nAccept: */*\r\n\r\n",
    b"HEAD /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://b/c HTTP/1.1\r\nhOST:\ta \t\r\nX-Empty:\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"PUT /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b\r\nhello\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
    b"DELETE /d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
    b"GET /c HTTP/1.1\r\nHost: a\r\nConnection: foo, close\r\n\r\n",
    b"PATCH / HTTP/1.1\r\nHost: [::1]\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
)
PIECES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b",", b";", b"\0", b"\x7f", b"\xff", b"0", b"-1",
    b"+", b"Content-Length: 5\r\n", b"Content-Length: 1\r\n", b"content-length:5\r\n",
    b"Host: b\r\n", b"Transfer-Encoding: chunked\r\n", b"transfer-encoding : chunked\r\n",
    b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: identity\r\n", b", chunked", b"gzip, ",
    b"Connection: close\r\n", b"Connection: keep-alive\r\n", b" folded\r\n", b"X: y\r\n",
    b"\r\n\r\n", b"0\r\n\r\n", b"1\r\na\r\n", b"ffffffffffffffff\r\n", b"0x",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"#", b"%00",
    b"..",
)  # fmt: skip

# For other methods, httptools parses only part of the request: it knows the registered methods and
# two versions, and stops parsing after a request to switch protocols.
KNOWN_METHODS = frozenset(
    b"GET HEAD POST PUT DELETE OPTIONS TRACE PATCH PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK "
    b"SEARCH REPORT MERGE BIND REBIND UNBIND ACL CHECKOUT MKACTIVITY NOTIFY SUBSCRIBE UNSUBSCRIBE "
    b"MSEARCH PURGE MKCALENDAR LINK UNLINK SOURCE QUERY".split()
)


@dataclass
class HttptoolsResult:
    """The results of httptools for a stream."""

    stream: bytes
    requests: list[dict] = field(default_factory=list)
    error: str = ""
    url: bytes = b""
    fields: list[list[bytes]] = field(default_factory=list)
    head: dict = field(default_factory=dict)
    body: int = 0

    def __post_init__(self) -> None:
        """Create the parser, which calls the methods below."""
        self.parser = httptools.HttpRequestParser(self)

    def on_message_begin(self) -> None:
        """Discard the state of the previous request."""
        self.url, self.fields, self.head, self.body = b"", [], {}, 0

    def on_url(self, url: bytes) -> None:
        """Append a part of the target."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Append a field, unless it is a trailer field."""
        if not self.head:
            self.fields.append([name.hex(), value.strip(b" \t").hex()])

    def on_headers_complete(self) -> None:
        """Store the values of the complete head."""
        self.head = {
            "method": self.parser.get_method().hex(),
            "target": self.url.hex(),
            "version": self.parser.get_http_version(),
            "keep_alive": self.parser.should_keep_alive(),
            "fields": self.fields,
        }

    def on_body(self, body: bytes) -> None:
        """Count the bytes of a part of the body."""
        self.body += len(body)

    def on_message_complete(self) -> None:
        """Store the request."""
        self.requests.append(self.head | {"body": self.body})


def parse(stream: bytes) -> HttptoolsResult:
    """Return the results of httptools for the stream."""
    theirs = HttptoolsResult(stream)
    try:
        theirs.parser.feed_data(stream)
    except httptools.HttpParserUpgrade:
        theirs.error = "upgrade"
    except httptools.HttpParserError as error:
        theirs.error = f"{type(error).__name__}: {error}"
    return theirs


def is_supported(request: dict) -> bool:
    """Return whether httptools supports all features of the request."""
    names = {bytes.fromhex(name).lower() for name, _ in request["fields"]}
    target = bytes.fromhex(request["target"])
    return (
        bytes.fromhex(request["method"]) in KNOWN_METHODS
        and request["version"] in ("1.0", "1.1")
        and not names & {b"upgrade", b"proxy-connection"}
        and (target[:1] == b"/" or target == b"*" or b"?" not in target)
    )


def coding_of(request: dict) -> bytes:
    """Return the value of Transfer-Encoding, which occurs at most once."""
    for name, value in request["fields"]:
        if bytes.fromhex(name).lower() == b"transfer-encoding":
            return bytes.fromhex(value).lower()
    return b""


def difference(request: dict, other: dict) -> str:
    """Return the first difference, or ""."""
    options = b",".join(
        bytes.fromhex(value).lower()
        for name, value in request["fields"]
        if bytes.fromhex(name).lower() == b"connection"
    )
    for what, value in request.items():
        if what == "keep_alive" and b"close" in options and b"keep-alive" in options:
            continue  # RFC 9112, 9.3: close takes precedence; httptools differs for HTTP/1.0
        if other[what] != value:
            return f"{what} is {value}, not {other[what]}"
    return ""


def is_stricter(requests: list[dict], number: int, theirs: HttptoolsResult) -> bool:
    """Return whether httptools refused what RFC 9110 and 9112 allow."""
    spaced = b" ;" in theirs.stream or b"\t;" in theirs.stream
    if "chunk extensions" in theirs.error or (spaced and "chunk size" in theirs.error):
        return True  # RFC 9112, 7.1.1: white space before an extension
    if theirs.head and "Transfer-Encoding" in theirs.error:
        return True  # RFC 9110, 6.5.1: framing fields in a trailer are discarded
    codings = coding_of(requests[number])
    if codings != b"chunked" and codings.strip(b", \t") == b"chunked":
        return True  # RFC 9110, 5.6.1.2: empty list elements
    return number > 0 and "Data after" in theirs.error and bool(coding_of(requests[number - 1]))


def disagreement(ours: dict, theirs: HttptoolsResult) -> str:
    """Return a description of the first disagreement, or ""."""
    for number, request in enumerate(ours["requests"]):
        if not is_supported(request):
            return ""
        if number >= len(theirs.requests):
            if is_stricter(ours["requests"], number, theirs):
                return ""
            return f"request {number} was accepted by us only ({theirs.error or 'incomplete'})"
        wrong = difference(request, theirs.requests[number])
        if wrong:
            return f"request {number}: {wrong}"
    if ours["outcome"] == "incomplete" and len(theirs.requests) > len(ours["requests"]):
        return "we wait for more of a request that is complete for them"
    return ""


def mutated(dice: random.Random) -> bytes:
    """Return a few requests with random mistakes."""
    stream = bytearray(b"".join(dice.choices(SEEDS, k=dice.randint(1, 3))))
    for _ in range(dice.randint(0, 4)):
        at = dice.randrange(len(stream) + 1)
        to = min(len(stream), at + dice.choice((1, 1, 2, 4, 16)))
        match dice.randrange(5):
            case 0:
                del stream[at:to]
            case 1:
                stream[at:at] = dice.choice(PIECES)
            case 2:
                stream[at:to] = dice.choice(PIECES)
            case 3:
                stream[at:at] = stream[at:to]
            case 4:
                lines = stream.split(b"\r\n")
                lines.insert(dice.randrange(len(lines)), dice.choice(PIECES).removesuffix(b"\r\n"))
                stream = bytearray(b"\r\n".join(lines))
    return bytes(stream)


def main() -> int:
    """Compare the requested number of streams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="parse_stream, as it was built")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    streams = [*SEEDS, b"".join(SEEDS[:7]), *(mutated(dice) for _ in range(options.count))]
    given = b"".join(struct.pack("<I", len(stream)) + stream for stream in streams)
    done = subprocess.run([options.program], input=given, stdout=subprocess.PIPE, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(streams):
        raise SystemExit(f"{len(answers)} answers to {len(streams)} streams")
    found = accepted = 0
    for stream, ours in zip(streams, answers, strict=True):
        accepted += len(ours["requests"])
        wrong = disagreement(ours, parse(stream))
        if stream in SEEDS and len(ours["requests"]) != 1:
            wrong = "a good request was refused"
        if wrong:
            found += 1
            print(f"{stream!r}\n    {wrong}")
    print(f"{len(streams)} streams, {accepted} requests accepted, {found} disagreements")
    return 1 if found or not accepted else 0


if __name__ == "__main__":
    sys.exit(main())
