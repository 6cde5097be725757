"""What clang-tidy, ruff, shellcheck and mandoc find."""

import os
import re
import shutil

from .tree import BrokenError, Problem, Result, Tree, run, run_each

TIDY_LINE = re.compile(r"^(/.+?):(\d+):\d+: (?:error|warning): (.*)$")
TOOL_LINE = re.compile(r"^([^\s:]+):(\d+):\d+: (.*)$")
MANDOC_LINE = re.compile(r"^mandoc: ([^\s:]+):(\d+):\d+: (.*)$")


def _matches(pattern: re.Pattern, output: str) -> list[Problem]:
    found = (pattern.match(line) for line in output.splitlines())
    return [Problem(match[1], int(match[2]), match[3]) for match in found if match]


def _check_c(tree: Tree) -> list[Problem]:
    tree.commands("dev")
    names = tree.having(".c")
    tidy = ["clang-tidy-19", "-p", "build/dev", "--quiet"]
    problems = set()
    for done in run_each(([*tidy, name] for name in names), tree.root):
        found = _matches(TIDY_LINE, done.stdout)
        if done.returncode and not found:
            raise BrokenError(f"{' '.join(done.args)}\n{done.stdout}{done.stderr}")
        problems.update(Problem(os.path.relpath(p.path, tree.root), p.line, p.text) for p in found)
    return sorted(problems)


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
    manuals = [name for name in tree.files if name.startswith("docs/man/")]
    ruff = [str(tree.root / ".venv/bin/ruff"), "check", "--output-format=concise", "--quiet"]
    problems = _check_with(tree, ruff, tree.python_files, TOOL_LINE)
    problems += _check_with(tree, ["shellcheck", "--format=gcc"], tree.shell_files, TOOL_LINE)
    problems += _check_with(tree, ["mandoc", "-T", "lint", "-W", "warning"], manuals, MANDOC_LINE)
    problems += _check_c(tree)
    kinds = {"C": tree.having(".c"), "Python": tree.python_files, "shell": tree.shell_files}
    counts = ", ".join(f"{len(names)} {kind}" for kind, names in kinds.items())
    return f"{counts} files, {len(manuals)} manuals", problems
