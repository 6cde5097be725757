"""Functions of the example programs, as examples for the functions that they call."""

import re
from dataclasses import dataclass
from pathlib import Path

FUNCTION = re.compile(
    r"^(?:/\*(?:(?!\*/).)*\*/\n)?(?:static )?\w[\w ]*[ *]\w+\([^;{}]*\)\n\{\n.*?^\}$",
    re.MULTILINE | re.DOTALL,
)
MAX_LINES = 30


@dataclass(frozen=True)
class Example:
    """Code; source: the program that it is from, if it is not from a header."""

    code: str
    source: str = ""


class Examples:
    """The functions of all programs of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read the programs."""
        self._all = [
            Example(match[0], f"{folder.name}/{path.name}")
            for path in sorted(folder.glob("*.c"))
            for match in FUNCTION.finditer(path.read_text())
        ]

    def find(self, names: set[str]) -> Example | None:
        """Return the short function that calls most of these functions; None if none does."""
        best, best_key = None, (0, 0)
        for example in self._all:
            called = names & set(re.findall(r"\bgs_\w+(?=\()", example.code))
            lines = example.code.count("\n") + 1
            key = (len(called), -lines)
            if called and lines <= MAX_LINES and key > best_key:
                best, best_key = example, key
        return best
