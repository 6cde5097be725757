#!/usr/bin/env python3
"""Prints the table of docs/libevent-functions.md, from the headers of an installed libevent.

It lists what the headers declare that compat/libevent replaces: each function, and the library of
Debian that exports it, if one does.
"""

import re
import subprocess
import sys
from pathlib import Path

INCLUDE = Path("/usr/include")
HEADERS = {
    "event.h": ("event", "event_compat"),
    "buffer.h": ("buffer", "buffer_compat"),
    "bufferevent.h": ("bufferevent", "bufferevent_compat", "bufferevent_struct"),
    "listener.h": ("listener",),
    "thread.h": ("thread",),
    "util.h": ("util",),
}
LIBRARIES = ("event_core", "event_pthreads")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|.)*$", re.MULTILINE)
DECLARED = re.compile(r"\bEVENT2_EXPORT_SYMBOL\b[^;{()]*?\b(\w+)\s*\(")
BEGINNING = """# The functions of libevent

What the headers of libevent 2.1.12 declare, together with their companions for old programs
(`*_compat.h`), and the library that has it. `tools/libevent_functions.py` makes this table from
Debian's headers and libraries; a test compares it with both, and with our libraries. Six functions
are in no library on Linux: they are for other systems, or are declared without being defined.
"""


def declared(header: str, include: Path = INCLUDE) -> set[str]:
    """Return the functions that a header of the table declares, with its companions."""
    names: set[str] = set()
    for stem in HEADERS[header]:
        text = (include / f"event2/{stem}.h").read_text()
        names.update(DECLARED.findall(DIRECTIVE.sub("", COMMENT.sub("", text))))
    return names


def exported(library: Path) -> set[str]:
    """Return the names that a shared library exports."""
    command = ["nm", "--dynamic", "--defined-only", library]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = (line.split() for line in done.stdout.splitlines())
    return {words[2].split("@")[0] for words in lines if len(words) == 3}


def library_of(name: str) -> Path:
    """Return the path of a shared library of the system, as the linker finds it."""
    command = ["cc", f"-print-file-name=lib{name}.so"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def table() -> str:
    """Return the document."""
    names = {library: exported(library_of(library)) for library in LIBRARIES}
    parts = [BEGINNING]
    for header in HEADERS:
        functions = sorted(declared(header))
        parts.append(f"\n## {header}\n\n| function | library |\n|---|---|\n")
        for name in functions:
            homes = [f"lib{library}" for library in LIBRARIES if name in names[library]]
            parts.append(f"| `{name}` | {homes[0] if homes else 'none on Linux'} |\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(table())
