"""How much stack the deepest chain of calls below src/http's public functions needs.

A blocked user-level thread has one page in all, so http keeps within a fixed part of it. gcc tells
the frame of each function and who calls whom; what is not compiled here has an allowance.
"""

import os
import re
import shlex
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .changes import with_headers
from .tree import BrokenError, Problem, Result, Tree, run, run_each

LIMIT = 1536
ROOMS = ("src/http/", "src/base/")

# Bytes of stack of glibc 2.36 on x86-64, measured with a painted stack over all sizes and rounded
# up; with symbols bound when the program starts (-z now): at its first call, that takes 3 KiB.
ALLOWANCES = {
    "__memcpy_chk": 64,
    "__memset_chk": 64,
    "__stack_chk_fail": 8,  # it does not return
    "gs_syscall": 64,  # assembler
    "malloc": 400,
    "calloc": 416,
    "realloc": 528,
    "free": 304,
    "memmem": 384,
}
PLAIN = re.compile(r"^(mem|str)\w+$")
PLAIN_ALLOWANCE = 64

NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "([^"]*)"')
EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"(?: label: "([^"]*)")?')
FRAME = re.compile(r"\\n([^\\]+):(\d+):\d+\\n(\d+) bytes \(([^)]+)\)")
INDIRECT = "__indirect_call"
# By this name, of its own file, gcc calls an exported function of position-independent code.
ALIAS = re.compile(r"^.*:(\w+)\.localalias$")


@dataclass
class Function:
    """A function that was compiled here."""

    name: str
    path: str
    line: int
    frame: int
    kind: str
    calls: dict[str, str] = field(default_factory=dict)


def _compile(tree: Tree, folder: str) -> list[str]:
    """Compile the modules' files as the release preset does, into files of call graphs.

    But each for itself: what is optimised when it is linked has no graph before.
    """
    commands, graphs = [], []
    for path, entries in sorted(tree.commands("release").items()):
        if not path.startswith(ROOMS) or not path.endswith(".c"):
            continue
        words = shlex.split(entries[-1]["command"])
        words[words.index("-o") + 1] = f"{folder}/{path.replace('/', '.')}.o"
        graphs.append(f"{folder}/{path.replace('/', '.')}.ci")
        commands.append([*words, "-fno-lto", "-fcallgraph-info=su,da"])
    for done in run_each(commands, tree.root):
        if done.returncode:
            raise BrokenError(f"{' '.join(done.args)}\n{done.stderr}")
    return graphs


def _read(graphs: list[str], root: Path) -> dict[str, Function]:
    """Return the functions by the graph's name, which for static ones holds the path."""
    functions, calls = {}, []
    for graph in graphs:
        for line in Path(graph).read_text().splitlines():
            node, edge = NODE.match(line), EDGE.match(line)
            frame = node and FRAME.search(node[2])
            if node and frame:
                name = node[2].split("\\n")[0]
                path = os.path.relpath(root / frame[1], root)
                functions[node[1]] = Function(name, path, int(frame[2]), int(frame[3]), frame[4])
            elif edge:
                calls.append((edge[1], ALIAS.sub(r"\1", edge[2]), edge[3] or ""))
    for caller, callee, where in calls:
        functions[caller].calls[callee] = where
    return functions


class Chains:
    """The deepest chain of calls from each function."""

    def __init__(self, tree: Tree, functions: dict[str, Function]) -> None:
        """Take the call graph."""
        self._tree = tree
        self._functions = functions
        self._under_way: list[str] = []
        self.problems: set[Problem] = set()
        self.deepest = cache(self._deepest)

    def _complain(self, function: Function, text: str) -> None:
        self.problems.add(Problem(function.path, function.line, f"{function.name}: {text}"))

    def _outside(self, caller: Function, name: str) -> tuple[int, tuple[str, ...]]:
        """Return the allowance of what is not compiled here."""
        subject = f"{caller.path}:{caller.name}"
        if name == INDIRECT:
            if not self._tree.exceptions.grants("indirect-call", caller.path, subject):
                self._complain(caller, "calls through a pointer, so its need of stack is not known")
            return 0, ("a callback",)
        allowance = PLAIN_ALLOWANCE if PLAIN.match(name) else 0
        allowance = ALLOWANCES.get(name, allowance)
        if not allowance and not self._tree.exceptions.grants("stack", f"{subject}:{name}"):
            self._complain(caller, f"calls {name}, which has no allowance of stack")
        return allowance, (f"{name} {allowance}",)

    def _deepest(self, title: str) -> tuple[int, tuple[str, ...]]:
        """Return the bytes of the deepest chain from the function, and the chain."""
        function = self._functions[title]
        if function.kind == "dynamic":
            self._complain(function, "its frame has no fixed size")
        self._under_way.append(title)
        below: tuple[int, tuple[str, ...]] = (0, ())
        for name in function.calls:
            if name in self._under_way:
                self._complain(function, f"calls {name} recursively")
            elif name in self._functions:
                below = max(below, self.deepest(name))
            else:
                below = max(below, self._outside(function, name))
        self._under_way.pop()
        return function.frame + below[0], (f"{function.name} {function.frame}", *below[1])


def _public_names(tree: Tree) -> set[str]:
    text = "\n".join(tree.lines("include/gossamer/http.h"))
    return set(re.findall(r"^GS_API[^;(]*?\b(gs_http_\w+)\(", text, re.MULTILINE))


def check(tree: Tree) -> Result:
    """Add the frames of the deepest chain up."""
    compiled = {name for name in tree.having(".c", ".h", ".S") if name.startswith(ROOMS)}
    if not tree.has_changes(*ROOMS, "cmake/", *with_headers(tree.root, compiled)):
        return "nothing has changed", []
    machine = run(["gcc", "-dumpmachine"], tree.root, fatal=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        functions = _read(_compile(tree, folder), tree.root)
    chains = Chains(tree, functions)
    entries = sorted(_public_names(tree) & set(functions))
    if not entries:
        raise BrokenError("no public function of http was found")
    depths = [(*chains.deepest(name), name) for name in entries]
    deepest = max(depths)[0]
    problems = sorted(chains.problems)
    for used, path, name in depths:
        if used > LIMIT and not tree.exceptions.grants("stack", name):
            entry = functions[name]
            text = (
                f"{used} bytes of {LIMIT}: make a frame of the chain smaller, or inline less into"
            )
            problems.append(Problem(entry.path, entry.line, f"{text} it: {' > '.join(path)}"))
    return f"{len(entries)} functions of http on {machine}, {deepest} bytes of {LIMIT}", problems
