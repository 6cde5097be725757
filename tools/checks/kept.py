"""Answers of slow tools, kept below build/check under a hash of all that they depend on."""

import hashlib
import os
import time
from collections.abc import Iterable
from functools import cache
from pathlib import Path

FOLDER = "build/check"
# The answers to a whole tree are about 2,000 files, most of them empty.
MAX_ANSWERS = 12_000


STARTED_NS = time.time_ns()


@cache
def hash_of_file(path: str) -> str:
    """Return the hash of the file's content, which is read once."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def has_changed(paths: Iterable[str]) -> bool:
    """Tell whether a file was written since the start: a tool may have read another content."""
    return any(Path(path).stat().st_mtime_ns >= STARTED_NS for path in paths)


def hash_of(words: list[str]) -> str:
    """Return the hash of the words."""
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


class Kept:
    """The answers of one tool."""

    def __init__(self, root: Path, tool: str) -> None:
        """Use the folder of the tool below the root."""
        self._folder = root / FOLDER / tool
        self._folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: str) -> str | None:
        """Return the answer, which counts as used just now, or None."""
        path = self._folder / key
        try:
            os.utime(path)
            return path.read_text()
        except FileNotFoundError:
            return None

    def put(self, key: str, answer: str) -> None:
        """Keep the answer; a reader sees all of it or nothing."""
        unfinished = self._folder / f"{key}.{os.getpid()}"
        unfinished.write_text(answer)
        unfinished.replace(self._folder / key)

    def prune(self, limit: int = MAX_ANSWERS) -> None:
        """Remove the answers that were not used for longest."""
        found = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in found[limit:]:
            path.unlink(missing_ok=True)
