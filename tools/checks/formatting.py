"""Whether clang-format and ruff would change anything."""

import re

from .tree import CPP, BrokenError, Problem, Result, Tree, run

LINE = re.compile(r"^([^\s:]+):(\d+):\d+: (?:error|unformatted): ")


def _problems(output: str, text: str) -> list[Problem]:
    """Name the first line that would change of each file."""
    found = [LINE.match(line) for line in output.splitlines()]
    first = {match[1]: int(match[2]) for match in reversed(found) if match}
    return [Problem(path, line, text) for path, line in sorted(first.items())]


def check(tree: Tree) -> Result:
    """Compare every file with what the formatters make of it."""
    c_files = tree.having(".c", ".h", *CPP)
    clang = run(["clang-format-19", "--dry-run", "-Werror", *c_files], tree.root)
    problems = _problems(clang.stderr, "clang-format would change this file from here on")
    command = [".venv/bin/ruff", "format", "--check", "--output-format=concise"]
    ruff = run([*command, *tree.python_files], tree.root)
    problems += _problems(ruff.stdout, "ruff format would change this file from here on")
    if (clang.returncode or ruff.returncode) and not problems:
        raise BrokenError(f"{clang.stderr}{ruff.stdout}{ruff.stderr}")
    return f"{len(c_files)} C and C++ files, {len(tree.python_files)} Python files", problems
