"""Whether clang-format and ruff would change anything."""

import re

from .tree import CPP, BrokenError, Problem, Result, Tree, run

LINE = re.compile(r"^([^\s:]+):(\d+):\d+: (?:error|unformatted): ")


def _problems(output: str, text: str) -> list[Problem]:
    """Name the first line that would change of each file."""
    found = [LINE.match(line) for line in output.splitlines()]
    first = {match[1]: int(match[2]) for match in reversed(found) if match}
    return [Problem(path, line, text) for path, line in sorted(first.items())]


FIXES = {"clang-format": "clang-format-19 -i", "ruff format": ".venv/bin/ruff format"}


def check(tree: Tree) -> Result:
    """Compare every file with what the formatters make of it."""
    c_files = tree.scope(tree.having(".c", ".h", *CPP))
    python_files = tree.scope(tree.python_files)
    commands = {
        "clang-format": (["clang-format-19", "--dry-run", "-Werror"], c_files),
        "ruff format": (
            [".venv/bin/ruff", "format", "--check", "--output-format=concise"],
            python_files,
        ),
    }
    problems = []
    for name, (command, files) in commands.items():
        done = run([*command, *files] if files else ["true"], tree.root)
        text = f"`{FIXES[name]}` would change this file from here on"
        found = _problems(done.stdout + done.stderr, text)
        if done.returncode and not found:
            raise BrokenError(f"{name}: {done.stdout}{done.stderr}")
        problems += found
    return f"{len(c_files)} C and C++ files, {len(python_files)} Python files", problems
