"""The files of the project, and the exceptions that it grants."""

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from .changes import sources_for

EXCEPTIONS = "tools/check-exceptions.txt"
CPP = (".cc", ".cpp", ".hpp")  # the suffixes of C++


Item = TypeVar("Item")
Answer = TypeVar("Answer")


class BrokenError(Exception):
    """A part could not be checked."""


@dataclass(frozen=True, order=True)
class Problem:
    """Something that is wrong in a line of a file."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        """Say it in the form that editors jump from."""
        return f"{self.path}:{self.line}: {self.text}"


# What was checked, and what was found.
Result = tuple[str, list[Problem]]


class Exceptions:
    """The list of exceptions: lines of RULE, PATH or PATH:NAME, and the reason."""

    def __init__(self, path: Path) -> None:
        """Read the list; a line without a reason is refused."""
        self._lines: dict[tuple[str, str], int] = {}
        self._used: set[tuple[str, str]] = set()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            rule, subject, reason = (*line.split(None, 2), "", "")[:3]
            if not reason:
                raise SystemExit(
                    f"{EXCEPTIONS}:{number}: an exception needs RULE SUBJECT and a reason"
                )
            self._lines[rule, subject] = number

    def grants(self, rule: str, *subjects: str) -> bool:
        """Tell whether any of the subjects is excepted from the rule."""
        granted = [(rule, subject) for subject in subjects if (rule, subject) in self._lines]
        self._used.update(granted)
        return bool(granted)

    def unused(self) -> list[Problem]:
        """List the exceptions that nothing needs any more."""
        return [
            Problem(EXCEPTIONS, number, f"nothing needs this exception: {rule} {subject}")
            for (rule, subject), number in self._lines.items()
            if (rule, subject) not in self._used
        ]


class Tree:
    """What is checked."""

    def __init__(self, root: Path, changed: set[str] | None = None, is_deep: bool = False) -> None:
        """Take the tree that starts at root, or only what has changed in it.

        When it is deep, the analyzer looks at every source, and goes as far as it can.
        """
        self.root = root
        self.is_deep = is_deep
        self._changed = changed
        self.exceptions = Exceptions(root / EXCEPTIONS)
        self._commands: dict[str, dict[str, list[dict]]] = {}

    @cached_property
    def files(self) -> list[str]:
        """Every file that is or would be committed, relative to the root."""
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return sorted(
            name for name in set(listed.stdout.split("\0")) if name and (self.root / name).is_file()
        )

    def having(self, *suffixes: str) -> list[str]:
        """List the files whose names end so."""
        return [name for name in self.files if name.endswith(suffixes)]

    def scope(self, names: list[str]) -> list[str]:
        """Return those of the names that are to be checked: all, or what has changed."""
        return [name for name in names if self._changed is None or name in self._changed]

    def has_changes(self, *prefixes: str) -> bool:
        """Tell whether a file whose name begins so is to be checked, or was removed."""
        return self._changed is None or any(name.startswith(prefixes) for name in self._changed)

    @cached_property
    def _for_clang_tidy(self) -> list[str]:
        cpp = [name for name in self.having(".cpp") if not name.startswith("tests/")]
        sources = self.having(".c") + cpp
        if self._changed is None:
            return sources
        headers = set(self.scope(self.having(".h", ".hpp")))
        files = sources + self.having(".h", ".hpp")
        chosen = sources_for(self.root, headers, files, set(self.scope(sources)))
        return [name for name in sources if name in chosen]

    def for_clang_tidy(self) -> list[str]:
        """List the sources. Tests in C++ consist of nested lambdas, and use what was moved.

        A header that has changed is seen through one source that includes it.
        """
        return self._for_clang_tidy

    def for_lint(self) -> list[str]:
        """List the sources to lint. The plugin is named by LLVM's rules, and takes minutes."""
        return [name for name in self.for_clang_tidy() if not name.startswith("compiler/plugin/")]

    def lines(self, name: str) -> list[str]:
        """Return the file's lines."""
        return (self.root / name).read_text(errors="replace").splitlines()

    def _scripts(self, word: str) -> list[str]:
        without = [name for name in self.files if "." not in Path(name).name]
        return [
            name
            for name in without
            if word in (self.lines(name) or [""])[0] and self.lines(name)[0][:2] == "#!"
        ]

    @cached_property
    def python_files(self) -> list[str]:
        """The Python files, and the programs in Python."""
        return self.having(".py") + self._scripts("python")

    @cached_property
    def shell_files(self) -> list[str]:
        """The programs in shell."""
        return self.having(".sh") + [
            name for name in self._scripts("sh") if name not in self.python_files
        ]

    def commands(self, preset: str) -> dict[str, list[dict]]:
        """Configure the preset if need be, and return its compile commands by file."""
        if preset not in self._commands:
            folder = self.root / "build" / preset
            is_configured = (folder / "build.ninja").exists()
            again = ["ninja", "-C", str(folder), "build.ninja"]
            run(again if is_configured else ["cmake", "--preset", preset], self.root, fatal=True)
            found = defaultdict(list)
            for entry in json.loads((folder / "compile_commands.json").read_text()):
                found[os.path.relpath(entry["file"], self.root)].append(entry)
            self._commands[preset] = dict(found)
        return self._commands[preset]


def run(command: list[str], folder: Path, fatal: bool = False) -> subprocess.CompletedProcess:
    """Run the command in the folder; return what it printed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if fatal and done.returncode:
        raise BrokenError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def at_once(function: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Return what the function makes of each, as many at a time as there are processors."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, items))


def run_each(commands: Iterable[list[str]], folder: Path) -> list[subprocess.CompletedProcess]:
    """Run the commands, as many at a time as there are processors."""
    return at_once(lambda command: run(command, folder), commands)
