"""The cases of strict_cases.py over HTTP/2: which have no meaning, and which end differently."""

from strict_cases import ACCEPTED, ANSWERED, CHUNKS, REFUSED

# PROTOCOL_ERROR, negated: malformed requests are reset with it (RFC 9113, 8.1.1).
MALFORMED = -1

# Cases that cannot be written in frames, by what HTTP/2 lacks.
MEANINGLESS: dict[str, tuple[str, ...]] = {
    "lines, whose ends could be wrong": (
        "line ends with LF alone",
        "only the request line ends with LF",
        "only a field ends with LF",
        "only the header ends with LF",
        "line ends with CR alone",
        "line ends with CR CR LF",
        "LF before the request",
        "CR before the request",
        "empty line before",
        "empty lines before",
        "line too long and no end",
        "method too long and no end",
        "header too large and no end",
        "no colon",
        "folded line",
        "line folded by a tab",
        "folded empty line",
        "chunked folded",
    ),
    "parts of a line, with spaces between": (
        "CR instead of a space",
        "tab instead of the first space",
        "tab instead of the second space",
        "two spaces before the version",
        "space after the version",
        "tab after the version",
        "form feed for a space",
        "method alone",
        "TLS",
    ),
    "a version in a request": (
        "no version",
        "no version, with a space",
        "another protocol",
        "higher minor version",
        "coding in 1.0",
        *(name for name in REFUSED if name.startswith("version ")),
    ),
    "chunks: frames delimit a body": (
        *CHUNKS,
        *(name for name, data in ACCEPTED.items() if b"Transfer-Encoding: " in data),
        *(name for name, (data, _) in ANSWERED.items() if b"Transfer-Encoding: " in data),
        "chunked in any letters",
    ),
}

# Cases that end differently, and why.
DIFFERENT: dict[str, int] = {
    "what only TLS could bring": MALFORMED,  # a :path begins with a slash
    "Host beside an absolute target": MALFORMED,
    "Host twice": 200,  # Host beside :authority, which is the same
    "keep-alive in a list": MALFORMED,  # a field of the connection
    "Upgrade to something else": MALFORMED,
}


def has_meaning(name: str) -> bool:
    """Return whether the case can be written in frames."""
    return not any(name in names for names in MEANINGLESS.values())


def cases() -> dict[str, tuple[bytes, set[int]]]:
    """Return the requests, as in HTTP/1.1, and the statuses of their responses, or MALFORMED.

    libnghttp2 decides which requests of the status 400 are malformed; newer versions find more.
    """
    every = {name: (data, {200}) for name, data in ACCEPTED.items()}
    every |= {name: (data, {status}) for name, (data, status) in ANSWERED.items()}
    for name, (data, statuses) in REFUSED.items():
        every[name] = data, statuses | {MALFORMED} if 400 in statuses else statuses
    for name, end in DIFFERENT.items():
        every[name] = every[name][0], {end}
    return {name: case for name, case in every.items() if has_meaning(name)}
