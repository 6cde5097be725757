"""The mutants that no test can find, each with the reason."""

import sys
import tomllib
from pathlib import Path

from mutation.mutants import ROOT, functions_of

LISTED = ROOT / "tools/mutation/equivalent.toml"
# A file, a function, a kind of mutant, and the line before it was changed.
Key = tuple[str, str, str, str]


def text_of(file: str, line: int) -> str:
    """Return a line of the tree; the first one has the number 1."""
    return (ROOT / file).read_text().split("\n")[line - 1].strip()


def is_there(key: Key) -> bool:
    """Whether the function has the line."""
    file, function, _, text = key
    lines = (ROOT / file).read_text().split("\n") if (ROOT / file).exists() else []
    inside = functions_of(lines)
    return any(name == function and lines[n].strip() == text for n, name in inside.items())


def read_equivalent(listed: Path = LISTED) -> dict[Key, str]:
    """Read the reasons. What the tree does not have any more is an error."""
    reasons = {}
    for entry in tomllib.loads(listed.read_text())["mutant"]:
        key = (entry["file"], entry["function"], entry["kind"], entry["text"])
        if not is_there(key):
            sys.exit(f"mutate: {listed.name} lists what is not there: {' '.join(key)}")
        reasons[key] = entry["why"]
    return reasons
