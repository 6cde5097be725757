"""Phrases that a manual would not use, found by GNU diction with a list of our own.

What is read: documents, manual pages, and the comments of C, C++ and Python. Code is left out,
except for the strings of Python that are documentation.
"""

import io
import os
import re
import shutil
import subprocess
import tokenize

from .tree import CPP, BrokenError, Problem, Result, Tree

KINDS = (".c", ".h", *CPP, ".md", ".1", ".7")
PHRASES = "tools/checks/prose.txt"
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
INLINE_CODE = re.compile(r"`[^`\n]*`|\]\([^)\n]*\)")
FOUND = re.compile(
    r"^(.+?):(\d+): (.*?)(?=^\S+:\d+: |^\d+ phrases? in |^No phrases in )", re.DOTALL | re.MULTILINE
)
PHRASE = re.compile(r"\[([^][]*?) -> ([^][]*)\]", re.DOTALL)


def _only(text: str, spans: list[tuple[int, int]]) -> str:
    """Blank everything but the spans, so that lines keep their numbers."""
    kept, end = [], 0
    for start, stop in spans:
        kept += [re.sub(r"[^\n]", " ", text[end:start]), text[start:stop]]
        end = stop
    return "".join([*kept, re.sub(r"[^\n]", " ", text[end:])])


def _without(text: str, pattern: re.Pattern) -> str:
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _of_c(text: str) -> str:
    comments = _only(text, [found.span() for found in COMMENT.finditer(text)])
    return re.sub(r"/\*|\*/|^ *\*", lambda found: " " * len(found[0]), comments, flags=re.MULTILINE)


def _of_python(text: str) -> str:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    spans, is_statement = [], True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_prose = token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and is_statement
        )
        if is_prose:
            spans.append(
                (
                    starts[token.start[0] - 1] + token.start[1],
                    starts[token.end[0] - 1] + token.end[1],
                )
            )
        if token.type not in {tokenize.COMMENT, tokenize.NL}:
            is_statement = token.type in {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    return re.sub(r'"""|#', "   ", _only(text, spans))


def _of_manual(text: str) -> str:
    return re.sub(r"^\.\S* ?|\\f.", " ", text, flags=re.MULTILINE)


def _prose(name: str, text: str, is_python: bool) -> str:
    """Return what of the file is prose, each word in its line."""
    if name.endswith((".c", ".h", *CPP)):
        return _of_c(text)
    if is_python:
        return _of_python(text)
    if name.endswith(".md"):
        return _without(_without(text, FENCE), INLINE_CODE)
    return _of_manual(text)


def check(tree: Tree) -> Result:
    """Have all prose read at once."""
    if not shutil.which("diction", path=os.environ["PATH"]):
        raise BrokenError("diction is missing: make setup installs it")
    names = [
        name
        for name in tree.scope(tree.having(*KINDS) + tree.python_files)
        if not tree.exceptions.grants("prose", name)
    ]
    texts = (
        f'#line 1 "{name}"\n'
        f"{_prose(name, (tree.root / name).read_text(), name in tree.python_files)}\n.\n"
        for name in names
    )
    command = ["diction", "--suggest", "--ignore-double-words", "--no-default-file"]
    done = subprocess.run(
        [*command, "--file", str(tree.root / PHRASES)],
        input="".join(texts),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise BrokenError(f"diction: {done.stderr}")
    problems = [
        Problem(name, int(line), f'"{" ".join(phrase.split())}": {advice or "say it plainly"}')
        for name, line, sentence in FOUND.findall(done.stdout)
        for phrase, advice in PHRASE.findall(sentence)
    ]
    return f"{len(names)} files", problems
