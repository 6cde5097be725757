"""What clang-tidy, ruff and shellcheck find."""

import os
import re
import shutil

from . import tidy
from .tree import BrokenError, Problem, Result, Tree, run

TIDY_LINE = re.compile(r"^(.+?):(\d+):\d+: (?:error|warning): (.*)$")
TOOL_LINE = re.compile(r"^([^\s:]+):(\d+):\d+: (.*)$")
# What tools/check sizes looks at, which knows the exceptions.
SIZE = "[readability-function-size,-warnings-as-errors]"
NO_HEADER = re.compile(r"^'[^']+' file not found ")


def _matches(pattern: re.Pattern, output: str) -> list[Problem]:
    found = (pattern.match(line) for line in output.splitlines())
    return [Problem(match[1], int(match[2]), match[3]) for match in found if match]


def _lacks_library(found: list[Problem]) -> bool:
    return any(NO_HEADER.match(problem.text) for problem in found)


def _check_c(tree: Tree) -> tuple[list[Problem], list[str]]:
    """Return the problems, and the files that are not built here: their library is missing."""
    built, to_lint = tree.commands("dev"), set(tree.for_lint())
    problems, left_out = set(), set()
    for one, answer in tidy.answers(tree):
        found = [p for p in _matches(TIDY_LINE, answer) if not p.text.endswith(SIZE)]
        if one.name not in built and _lacks_library(found):
            left_out.add(one.name)
        elif one.name in to_lint:
            problems.update(found)
    return sorted(problems), sorted(left_out)


def _check_with(
    tree: Tree, command: list[str], names: list[str], pattern: re.Pattern
) -> list[Problem]:
    if not names:
        return []
    if not shutil.which(command[0], path=f"{tree.root}/.venv/bin:{os.environ['PATH']}"):
        raise BrokenError(f"{command[0]} is missing: make setup installs it")
    done = run([*command, *names], tree.root)
    problems = _matches(pattern, done.stdout + done.stderr)
    if done.returncode and not problems:
        raise BrokenError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return problems


def check(tree: Tree) -> Result:
    """Run each linter over the files that it is for."""
    python_files, shell_files = tree.scope(tree.python_files), tree.scope(tree.shell_files)
    ruff = [str(tree.root / ".venv/bin/ruff"), "check", "--output-format=concise", "--quiet"]
    problems = _check_with(tree, ruff, python_files, TOOL_LINE)
    problems += _check_with(tree, ["shellcheck", "--format=gcc"], shell_files, TOOL_LINE)
    problems_of_c, left_out = _check_c(tree)
    problems += problems_of_c
    kinds = {
        "C and C++": tree.for_lint(),
        "Python": python_files,
        "shell": shell_files,
    }
    counts = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items())
    without = f"; without their libraries: {', '.join(left_out)}" if left_out else ""
    return f"{counts} files{without}", problems
