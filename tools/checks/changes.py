"""What differs from the main branch, and what must be looked at again because of it."""

import os
import re
import subprocess
from collections import defaultdict
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
MAIN = ("origin/main", "main")


def _git(root: Path, *words: str) -> list[str] | None:
    """Return the names that git prints, or None if it fails."""
    done = subprocess.run(["git", *words], cwd=root, check=False, capture_output=True, text=True)
    return None if done.returncode else [name for name in re.split(r"[\0\n]", done.stdout) if name]


def base(root: Path) -> str | None:
    """Return the commit to compare with; None if there is only one.

    That is where the branch left origin/main, or else main. On main itself, without a remote, it is
    the commit before the last.
    """
    branch = _git(root, "symbolic-ref", "--short", "HEAD")
    for name in MAIN:
        found = _git(root, "merge-base", "HEAD", name)
        if found and [name] != branch:
            return found[0]
    found = _git(root, "rev-parse", "--verify", "--quiet", "HEAD~")
    return found[0] if found else None


def changed(root: Path) -> set[str] | None:
    """Return the files that differ, are not committed, or are new; None if that is every file."""
    commit = base(root)
    if commit is None:
        return None
    differing = _git(root, "diff", "--name-only", "--no-renames", "-z", commit)
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return {*(differing or ()), *(untracked or ())}


def resolve(root: Path, name: str, word: str) -> str | None:
    """Return the file of the tree that an include in the file means, or None if it is none."""
    folders = [str(Path(name).parent), "src", "", "include"]
    candidates = [os.path.normpath(f"{folder}/{word}" if folder else word) for folder in folders]
    return next((path for path in candidates if (root / path).is_file()), None)


def with_headers(root: Path, files: set[str]) -> set[str]:
    """Return the files, and the headers of the tree that they include, directly or not."""
    found, new = set(), set(files)
    while new:
        found |= new
        included = {
            resolve(root, name, word)
            for name in new
            for _, word in INCLUDE.findall((root / name).read_text(errors="replace"))
        }
        new = {name for name in included if name} - found
    return found


def _includers(root: Path, files: list[str]) -> dict[str, set[str]]:
    found = defaultdict(set)
    for name in files:
        for _, word in INCLUDE.findall((root / name).read_text(errors="replace")):
            found[resolve(root, name, word)].add(name)
    return found


def sources_for(root: Path, headers: set[str], files: list[str], chosen: set[str]) -> set[str]:
    """Return the chosen sources, and for each header that none of them includes the nearest."""
    includers = _includers(root, files)
    found = set(chosen)
    for header in sorted(headers):
        reached = [header]
        for name in reached:
            reached += sorted(includers[name] - set(reached))
        sources = [name for name in reached if not name.endswith((".h", ".hpp"))]
        if sources and found.isdisjoint(sources):
            found.add(sources[0])
    return found
