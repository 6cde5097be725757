"""Whether clang-format and ruff would change anything."""

import re

from .tree import BrokenError, Problem, Result, Tree, run

LINE = re.compile(r"^(?:Would reformat: )?([^:\s]+)(?::(\d+):\d+: error: .*)?$")


def _problems(output: str, text: str) -> list[Problem]:
    found = [LINE.match(line) for line in output.splitlines()]
    named = {match[1]: int(match[2] or 1) for match in reversed(found) if match and "/" in match[1]}
    return [Problem(path, line, text) for path, line in sorted(named.items())]


def check(tree: Tree) -> Result:
    """Compare every file with what the formatters make of it."""
    c_files = tree.having(".c", ".h")
    clang = run(["clang-format-19", "--dry-run", "-Werror", *c_files], tree.root)
    problems = _problems(clang.stderr, "clang-format would change this file from here on")
    ruff = run(
        [str(tree.root / ".venv/bin/ruff"), "format", "--check", *tree.python_files], tree.root
    )
    problems += _problems(ruff.stdout, "ruff format would change this file")
    if (clang.returncode or ruff.returncode) and not problems:
        raise BrokenError(f"{clang.stderr}{ruff.stdout}{ruff.stderr}")
    return f"{len(c_files)} C files, {len(tree.python_files)} Python files", problems
