"""Words that no file may hold."""

import re

from .tree import CPP, Problem, Result, Tree

RULES = {
    "unfinished": (re.compile(r"\b(TODO|FIXME|XXX|HACK)\b"), "finish it or leave it out"),
    "machine-path": (
        re.compile(r"(?<![\w.$}~\"])/(work|home|root|Users)/"),
        "a path of one machine",
    ),
}
CORPORA = "tests/fuzz/corpus/"  # archives of what fuzzers made
TEXTS = (
    ".c",
    ".h",
    *CPP,
    ".S",
    ".py",
    ".txt",
    ".cmake",
    ".md",
    ".json",
    ".toml",
    ".1",
    ".7",
    ".css",
)


def _check_line(tree: Tree, name: str, number: int, line: str) -> list[Problem]:
    found = ((rule, pattern.search(line), text) for rule, (pattern, text) in RULES.items())
    return [
        Problem(name, number, f'"{match[0]}": {text}')
        for rule, match, text in found
        if match and not tree.exceptions.grants(rule, name)
    ]


def check(tree: Tree) -> Result:
    """Look at every line of every text."""
    names = [
        name
        for name in tree.files
        if not name.startswith(CORPORA)
        and (name.endswith(TEXTS) or "." not in name.rsplit("/", 1)[-1])
    ]
    problems = []
    for name in names:
        for number, line in enumerate(tree.lines(name), 1):
            problems += _check_line(tree, name, number, line)
    return f"{len(names)} files", problems
