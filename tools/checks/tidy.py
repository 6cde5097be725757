"""What clang-tidy says of the sources, at one of some levels.

An answer is kept under a hash of the level's rules, the configuration, the version of clang-tidy,
the options, and the content of the source and of every header that it includes. The options are
those that decide what the source means: a macro counts only where a file that is read mentions it.
So a source that is compiled several times is looked at as often as its meaning differs.
"""

import json
import os
import re
import shlex
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .kept import Kept, has_changed, hash_of, hash_of_file
from .tree import BrokenError, Tree, at_once, run

TIDY = "clang-tidy-19"
# What each level adds to the rules of .clang-tidy. "whole" has the analyzer, too, and bounds how
# far it follows a function: the longest one in a hundred take most of the time. "all-paths" is
# the analyzer alone, to clang's own limit.
NOT_THE_ANALYZER = "-bugprone-*,-cert-*,-performance-*,-portability-*,-misc-*,-readability-*"
LEVELS = {
    "plain": ("-clang-analyzer-*,readability-function-size", ()),
    "sizes": ("-*,readability-function-size", ()),
    "whole": (
        "readability-function-size",
        ("-Xclang", "-analyzer-config", "-Xclang", "max-nodes=25000"),
    ),
    "all-paths": (NOT_THE_ANALYZER, ()),
}
# The options of a source that is not compiled here, since its library is missing or a test does it.
NOT_BUILT = ("-D_GNU_SOURCE", "-Iinclude", "-Isrc", "-I.")

KEPT_OPTION = re.compile(r"-(?:[DUI].|std=)")
WITH_A_WORD = ("-isystem", "-include")
UNITY = re.compile(r"^build/.*/unity_\d+_cxx\.cxx$")
WORD = re.compile(rb"\w+")
# Of the rules of make: the number of the variant, and what it depends on.
RULE = re.compile(r"^variant(\d+): ((?:.*\\\n)*.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Variant:
    """A source with its options. The files that it includes are unknown if one is missing."""

    name: str
    options: tuple[str, ...]
    files: tuple[str, ...] = ()


@cache
def _words(path: str) -> frozenset[bytes]:
    return frozenset(WORD.findall(Path(path).read_bytes()))


def _options(tree: Tree, entry: dict) -> tuple[str, ...]:
    """Return the options of a compile command that clang-tidy needs, with relative paths."""
    words = iter(shlex.split(entry["command"].replace(f"{tree.root}/", "")))
    options = []
    for word in words:
        if word in WITH_A_WORD:
            options += [word, next(words)]
        elif KEPT_OPTION.match(word):
            options.append("-I." if word == f"-I{tree.root}" else word)
    return tuple(options)


def _units(tree: Tree, names: list[str]) -> list[str]:
    """Replace what is compiled only as a part of a file that CMake makes by that file."""
    made = [name for name in tree.commands("dev") if UNITY.search(name)]
    parts_of = {name: (tree.root / name).read_text() for name in made}
    found = []
    for name in names:
        found += [one for one in made if f'/{name}"' in parts_of[one]] or [name]
    return list(dict.fromkeys(found))


def _written(tree: Tree, names: list[str]) -> list[Variant]:
    """List the sources with each set of options that they are compiled with."""
    entries = tree.commands("dev")
    found = {}
    for name in _units(tree, names):
        for options in [_options(tree, entry) for entry in entries.get(name, ())] or [NOT_BUILT]:
            found[name, options] = Variant(name, options)
    return list(found.values())


def _files_of(tree: Tree, variants: list[Variant]) -> dict[int, tuple[str, ...]]:
    """Return what each variant includes, by its place in the list, as clang itself finds it."""
    folder = tree.root / "build/check"
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / "compile_commands.json"
    entries = [
        {
            "directory": str(tree.root),
            "file": one.name,
            "arguments": ["clang-19", *one.options, "-c", one.name, "-o", f"variant{number}"],
        }
        for number, one in enumerate(variants)
    ]
    database.write_text(json.dumps(entries))
    jobs = str(len(os.sched_getaffinity(0)))
    command = ["clang-scan-deps-19", "-format=make", "-j", jobs, "-compilation-database"]
    done = run([*command, str(database)], tree.root)
    rules = RULE.findall(done.stdout)
    if variants and not rules:
        raise BrokenError(f"{' '.join(command)}\n{done.stderr}")
    return {int(number): tuple(files.replace("\\\n", " ").split()) for number, files in rules}


def _needed(option: str, files: tuple[str, ...]) -> bool:
    """Tell whether the option can matter: a macro only if a file mentions it."""
    macro = re.match(r"-[DU](\w+)", option)
    return not macro or any(macro[1].encode() in _words(path) for path in files)


@cache
def variants(tree: Tree) -> dict[str, list[Variant]]:
    """Return the different variants of each source, the one with the fewest macros first."""
    written = _written(tree, tree.for_clang_tidy())
    files_of = _files_of(tree, written)
    found = defaultdict(set)
    for number, one in enumerate(written):
        files = tuple(str(tree.root / path) for path in files_of.get(number, ()))
        options = tuple(option for option in one.options if not files or _needed(option, files))
        found[one.name].add(Variant(one.name, options, files))
    return {
        name: sorted(of_one, key=lambda one: (len(one.options), one.options))
        for name, of_one in found.items()
    }


@cache
def _environment(tree: Tree) -> list[str]:
    version = run([TIDY, "--version"], tree.root, fatal=True).stdout
    configurations = [name for name in tree.files if Path(name).name == ".clang-tidy"]
    return [version, *configurations, *(hash_of_file(f"{tree.root}/{c}") for c in configurations)]


def _key(tree: Tree, level: str, one: Variant) -> str:
    rules, options = LEVELS[level]
    words = [rules, *options, one.name, *one.options, *_environment(tree)]
    for path in one.files:
        words += [os.path.relpath(path, tree.root), hash_of_file(path)]
    return hash_of(words)


def _ask_one(tree: Tree, kept: Kept, level: str, one: Variant) -> str:
    """Return the answer that is kept, or ask, and keep it if all is known that it depends on."""
    key = _key(tree, level, one)
    answer = kept.get(key) if one.files else None
    if answer is not None:
        return answer
    rules, options = LEVELS[level]
    command = [TIDY, "--quiet", f"--checks={rules}", "--header-filter=.*", one.name]
    done = run([*command, "--", *options, *one.options], tree.root)
    if done.returncode and ": error: " not in done.stdout:
        raise BrokenError(f"{' '.join(done.args)}\n{done.stdout}{done.stderr}")
    answer = done.stdout.replace(f"{tree.root}/", "")
    if one.files and not has_changed(one.files):
        kept.put(key, answer)
    return answer


def _ask(tree: Tree, wanted: list[tuple[str, Variant]]) -> list[tuple[Variant, str]]:
    """Return what clang-tidy says of each variant, at its level."""
    kept = Kept(tree.root, "tidy")
    answers = at_once(lambda one: _ask_one(tree, kept, *one), wanted)
    kept.prune()
    return [(variant, answer) for (_, variant), answer in zip(wanted, answers, strict=True)]


def _is_own(variant: Variant, first: Variant) -> bool:
    """Tell whether the source itself, rather than a header, mentions how the variant differs."""
    words = _words(variant.files[0]) if variant.files else frozenset()
    macros = {option[2:].encode() for option in {*variant.options} - {*first.options}}
    return not macros.isdisjoint(words)


def _to_check(tree: Tree) -> list[Variant]:
    """List the first variant of each source and those that differ from it, or else all."""
    return [
        one
        for of_one in variants(tree).values()
        for one in of_one
        if tree.is_deep or one is of_one[0] or _is_own(one, of_one[0])
    ]


@cache
def answers(tree: Tree) -> list[tuple[Variant, str]]:
    """Return what clang-tidy says of each source.

    The analyzer looks at the first variant of each source that is no test. When deep, it looks at
    every variant of all, as far as it can.
    """
    to_lint = set(tree.for_lint())
    found = _to_check(tree)
    first = {one.name: one for one in reversed(found) if not one.name.startswith("tests/")}

    def level(one: Variant) -> str:
        if one.name not in to_lint:
            return "sizes"
        return "plain" if tree.is_deep or first.get(one.name) is not one else "whole"

    wanted = [(level(one), one) for one in found]
    if tree.is_deep:
        wanted += [("all-paths", one) for one in found if one.name in to_lint]
    return _ask(tree, wanted)
