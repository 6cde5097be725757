"""The reference that tools/docs makes, and the other manual pages.

The comments of the headers must say what the pages need; mandoc and groff must find nothing.
"""

import re
import shutil
import tempfile
from pathlib import Path

from .tree import BrokenError, Problem, Result, Tree, run, run_each

MISSING = re.compile(r"^(include/\S+?): (.*)$")
MANDOC_LINE = re.compile(r"^mandoc: (\S+?):(\d+):\d+: (.*)$")
FORMATTERS = {
    "mandoc": ["mandoc", "-T", "lint", "-W", "warning"],
    "groff": ["groff", "-t", "-mandoc", "-T", "utf8", "-ww", "-z"],
}


def _write(tree: Tree, folder: Path) -> list[Problem]:
    done = run(["tools/docs", str(folder)], tree.root)
    found = [match for line in done.stdout.splitlines() if (match := MISSING.match(line))]
    if done.returncode and not found:
        raise BrokenError(f"tools/docs\n{done.stdout}{done.stderr}")
    return [Problem(match[1], 1, match[2]) for match in found]


def _format(tree: Tree, pages: list[str]) -> list[Problem]:
    """List what the formatters say; a link has nothing to format."""
    for name in FORMATTERS:
        if not shutil.which(name):
            raise BrokenError(f"{name} is missing: make setup installs it")
    lint = run([*FORMATTERS["mandoc"], *pages], tree.root)
    found = [MANDOC_LINE.match(line) for line in (lint.stdout + lint.stderr).splitlines()]
    problems = [Problem(match[1], int(match[2]), match[3]) for match in found if match]
    for done in run_each(([*FORMATTERS["groff"], page] for page in pages), tree.root):
        problems += [Problem(done.args[-1], 1, line) for line in done.stderr.splitlines()]
    return problems


def check(tree: Tree) -> Result:
    """Make the reference, and have every manual page formatted."""
    if not tree.has_changes("include/", "docs/man/", "tools/docs", "tools/reference/"):
        return "nothing has changed", []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        problems = _write(tree, folder)
        made = [page for page in folder.rglob("*.3") if not page.read_text().startswith(".so ")]
        own = [file for file in tree.files if file.startswith("docs/man/")]
        problems += _format(tree, [*sorted(map(str, made)), *own])
    return f"{len(made)} pages of functions, {len(own)} other manual pages", problems
