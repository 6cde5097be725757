"""Whether each file includes only what the rooms that its room may use offer."""

import os
import re
from pathlib import Path

from .tree import Problem, Result, Tree

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# The rooms whose headers, public and private, each room may include beside its own.
LIBRARY = {
    "base": set(),
    "loop": {"base"},
    "thread": {"base", "loop"},
    "stage": {"base", "loop", "thread"},
    "http": {"base"},
}
# Public headers belong to the room of the same name; these are named differently.
PUBLIC = {
    "api": "base",
    "buffer": "base",
    "clock": "base",
    "histogram": "base",
    "list": "base",
    "loop_embed": "loop",
    "loop_file": "loop",
    "loop_io": "loop",
    "loop_op": "loop",
    "loop_point": "loop",
    "loop_signal": "loop",
    "loop_timer": "loop",
    "loop_watcher": "loop",
    "ring": "base",
    "sys": "base",
    "io": "thread",
    "sync": "thread",
}
# What stands above the library includes every public header, and these.
ABOVE = {
    "serve": {"http", "options"},
    "load": {"http", "options"},
    "compat": {"http", "options"},
    "cli": {"serve/serve.h", "load/load.h"},
    "bench": {"http", "options"},
    "examples": set(),
}
# Tests of the whole, and of what comes from outside, wherever it is read.
ABOVE_ALL = {"fault", "fuzz", "integration"}
OPTIONS = ("cli/options.h", "cli/value.h")

# http is given bytes and the time: it knows neither sockets nor threads, and asks no clock.
HTTP_HEADERS = re.compile(
    r"^(pthread|threads|poll|sys/(epoll|eventfd|timerfd|select|socket)|netinet/.*|arpa/.*)(\.h)?$"
)
HTTP_CALLS = re.compile(r"\b(gs_clock_now|gs_clock_wall|clock_gettime|gettimeofday|time)\s*\(")


def _resolve(tree: Tree, name: str, word: str) -> str | None:
    """Return the file of the tree that the word means, or None if it is none of ours."""
    folders = [str(Path(name).parent), "src", "", "include"]
    candidates = [os.path.normpath(f"{folder}/{word}" if folder else word) for folder in folders]
    return next((path for path in candidates if (tree.root / path).is_file()), None)


def _room(path: str) -> str:
    """Return the room: loop for src/loop/x.c, thread for include/gossamer/io.h."""
    parts = path.split("/")
    if path.startswith("include/gossamer/"):
        stem = parts[2].removesuffix(".h")
        return PUBLIC.get(stem, stem)
    return parts[1] if parts[0] in ("src", "tests") and len(parts) > 2 else parts[0]


def _may_include(room: str, path: str) -> bool:
    is_public = path.startswith("include/gossamer/")
    target = _room(path)
    if room == target:
        return True
    if room in LIBRARY:
        return target in LIBRARY[room] and (is_public or path.startswith("src/"))
    allowed = ABOVE.get(room, set())
    return (
        is_public
        or path in allowed
        or ("options" in allowed and path in OPTIONS)
        or (target in allowed and path.startswith("src/"))
    )


def _may_test_include(room: str, path: str) -> bool:
    """Allow a test what its room sees, the tests' own headers, and every public header."""
    is_open = path.startswith(("tests/", "include/gossamer/"))
    return is_open or room in ABOVE_ALL or _may_include(room, path)


def _check_file(tree: Tree, name: str) -> list[Problem]:
    room, allows = _room(name), _may_test_include if name.startswith("tests/") else _may_include
    is_http = name.startswith("src/http/") or name == "include/gossamer/http.h"
    problems = []
    for number, line in enumerate(tree.lines(name), 1):
        found = INCLUDE.match(line)
        path = found and _resolve(tree, name, found[2])
        if path and not allows(room, path):
            problems.append(Problem(name, number, f"{room} must not include {path}"))
        if is_http and found and HTTP_HEADERS.match(found[2]):
            problems.append(Problem(name, number, f"http must not include <{found[2]}>"))
        if (
            is_http
            and not found
            and HTTP_CALLS.search(line)
            and not line.lstrip().startswith(("*", "/*"))
        ):
            problems.append(Problem(name, number, "http is given the time and asks no clock"))
    return problems


def check(tree: Tree) -> Result:
    """Check every include of every C file."""
    names = tree.having(".c", ".h", ".S")
    problems = [problem for name in names for problem in _check_file(tree, name)]
    return f"{len(names)} files", [
        p for p in problems if not tree.exceptions.grants("layer", p.path)
    ]
