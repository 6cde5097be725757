"""Check that each file includes only headers of modules that its module may use."""

import re
from pathlib import Path

from .changes import INCLUDE, resolve
from .tree import CPP, Problem, Result, Tree

# The modules whose headers, public and private, each module may include beside its own.
LIBRARY = {
    "base": set(),
    "loop": {"base"},
    "dns": {"base", "loop"},
    "thread": {"base", "loop", "dns"},  # of dns: types only
    "stage": {"base", "loop", "thread"},
    "http": {"base"},
    "http_server": {"base", "loop", "thread", "http", "http2", "tls"},  # of tls: types only
    "http_client": {"base", "loop", "thread", "http", "http2", "tls"},  # of tls: types only
    "tls": {"base"},
    "http2": {"base", "http"},
    "websocket": {"base", "http"},
    "websocket_stream": {"base", "loop", "thread", "http", "http_server", "websocket", "tls"},
}
# Public headers belong to the module of the same name; these are named differently.
PUBLIC = {
    "api": "base",
    "clock": "base",
    "error": "base",
    "gossamer": "thread",
    "histogram": "base",
    "http_field": "http",
    "list": "base",
    "loop_embed": "loop",
    "loop_file": "loop",
    "loop_io": "loop",
    "loop_op": "loop",
    "loop_hook": "loop",
    "loop_signal": "loop",
    "loop_timer": "loop",
    "loop_watcher": "loop",
    "loop_work": "loop",
    "process": "base",
    "own_descriptors": "base",
    "page_cache": "base",
    "sys": "base",
    "version": "base",
    "buffered": "thread",
    "channel": "thread",
    "coroutine": "thread",
    "coroutine_group": "thread",
    "coroutine_task": "thread",
    "coroutine_wait": "thread",
    "io": "thread",
    "net": "thread",
    "resumable": "thread",
    "scope": "thread",
    "select": "thread",
    "sync": "thread",
    "tls": "tls_stream",
    "websocket.hpp": "websocket_stream",
    "tls_context": "tls",
    "tls_engine": "tls",
}
# What stands above the library includes every public header, and these.
ABOVE = {
    "tls_stream": {"tls"},
    "serve": {"http", "http2", "options", "src/base/sanitized.h"},
    "load": {"http", "options", "src/base/sanitized.h"},
    "compat": {
        "src/base/chaos.h",
        "src/base/futex_op.h",
        "src/base/own_descriptors.h",
        "src/base/timer_queue.h",
    },
    "cli": {"serve/serve.h", "load/load.h", "compiler/cc.h"},
    "compiler": {"src/base/futex_op.h"},
    "bench": {"http", "options"},
    "examples": set(),
}
# Within a module that has folders: the folders whose headers each may include beside its own.
# What is in no folder begins the module, and includes all of them. The README.md of each module
# says what its folders contain.
FOLDERS = {
    "src/thread": {
        "context": set(),
        "stack": {"context", "schedule", "report"},
        "schedule": {"context", "stack", "sync", "io", "report"},
        "sync": {"schedule", "io"},
        "io": {"schedule", "report"},
        "net": {"io", "schedule"},
        "report": {"stack", "schedule", "sync", "io"},
    },
    "serve": {
        "accept": {"connection", "log", "operations"},
        "connection": {"accept", "log", "operations"},
        "log": {"accept"},
        "operations": {"accept", "connection", "log", "arch", "config", "nginx"},
        "config": set(),
        "nginx": {"config"},
        "arch": {"accept", "connection", "operations"},
    },
    "compat/pthread": {
        "start": {"threads", "locks"},
        "threads": {"start"},
        "locks": {"start", "threads"},
        "signals": {"start", "threads"},
        "io": {"start", "threads"},
    },
    "compiler/plugin": {
        "read": {"decide"},
        "decide": {"read", "convert"},
        "convert": {"read", "decide", "report"},
        "report": {"read", "decide", "convert"},
    },
    "compiler/runtime": {
        "start": {"threads", "signals", "libraries"},
        "threads": {"start", "locks", "signals", "libraries"},
        "locks": {"start", "threads", "signals", "libraries"},
        "signals": {"start", "threads"},
        "io": {"start", "threads", "locks", "signals"},
        "processes": {"threads", "locks", "signals", "io"},
        "libraries": {"start", "threads", "signals"},
    },
}
# Tests of the whole, and of what comes from outside, wherever it is read.
ABOVE_ALL = {"fault", "fuzz", "integration"}
OPTIONS = ("cli/options.h", "cli/value.h", "cli/suggestion.h")

# http is given bytes and the time: it knows neither sockets nor threads, and asks no clock.
HTTP_HEADERS = re.compile(
    r"^(pthread|threads|poll|sys/(epoll|eventfd|timerfd|select|socket)|netinet/.*|arpa/.*)(\.h)?$"
)
HTTP_CALLS = re.compile(r"\b(gs_clock_now|gs_clock_wall|clock_gettime|gettimeofday|time)\s*\(")


def _module(path: str) -> str:
    """Return the module: loop for src/loop/x.c, thread for include/gossamer/io.h."""
    parts = path.split("/")
    if path.startswith("include/gossamer/"):
        stem = Path(parts[2]).stem
        return PUBLIC.get(parts[2], PUBLIC.get(stem, stem))
    return parts[1] if parts[0] in ("src", "tests") and len(parts) > 2 else parts[0]


def _may_include(module: str, path: str) -> bool:
    is_public = path.startswith("include/gossamer/")
    target = _module(path)
    if module == target:
        return True
    if module in LIBRARY:
        return target in LIBRARY[module] and (is_public or path.startswith("src/"))
    allowed = ABOVE.get(module, set())
    return (
        is_public
        or path in allowed
        or ("options" in allowed and path in OPTIONS)
        or (target in allowed and path.startswith("src/"))
    )


def _may_test_include(module: str, path: str) -> bool:
    """Allow a test what its module sees, the tests' own headers, and every public header."""
    is_open = path.startswith(("tests/", "include/gossamer/"))
    return is_open or module in ABOVE_ALL or _may_include(module, path)


def _folder(module: str, path: str) -> str:
    """Return the folder of the module that the path is in; empty: it is in none."""
    rest = path.removeprefix(module + "/").split("/")
    return rest[0] if len(rest) > 1 else ""


def _may_include_folder(name: str, path: str) -> bool:
    """Return whether the folder of a file may include from the folder of the path."""
    module = next((one for one in FOLDERS if name.startswith(one + "/")), None)
    if module is None or not path.startswith(module + "/"):
        return True
    own, other = _folder(module, name), _folder(module, path)
    return not own or own == other or not other or other in FOLDERS[module].get(own, set())


def _check_file(tree: Tree, name: str) -> list[Problem]:
    module, allows = _module(name), _may_test_include if name.startswith("tests/") else _may_include
    is_http = name.startswith("src/http/") or name == "include/gossamer/http.h"
    problems = []
    for number, line in enumerate(tree.lines(name), 1):
        found = INCLUDE.match(line)
        path = found and resolve(tree.root, name, found[2])
        if path and not allows(module, path):
            is_new = path.startswith("include/gossamer/") and _module(path) == Path(path).stem
            hint = "; a new header needs a row in PUBLIC of tools/checks/layers.py" * is_new
            problems.append(Problem(name, number, f"{module} must not include {path}{hint}"))
        elif path and not _may_include_folder(name, path):
            problems.append(
                Problem(
                    name,
                    number,
                    f"this folder must not include {path}: see FOLDERS in tools/checks/layers.py",
                )
            )
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
    """Check every include of every C and C++ file."""
    names = tree.having(".c", ".h", *CPP, ".S")
    problems = [problem for name in names for problem in _check_file(tree, name)]
    return f"{len(names)} files", [
        p for p in problems if not tree.exceptions.grants("layer", p.path)
    ]
