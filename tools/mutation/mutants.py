"""What can be changed in the sources."""

import random
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "include/gossamer/sync.h",
    "src/thread/sync/*.[ch]",
    "src/thread/schedule/*.[ch]",
    "src/thread/stack/saved_block.c",
    "src/thread/stack/shared_stack.c",
    "src/thread/stack/slot_set.c",
    "src/thread/stack/stacks.[ch]",
    "src/thread/io/descriptor*.[ch]",
    "src/base/pool.c",
    "src/loop/async.c",
    "src/loop/signal.c",
    "src/loop/work.c",
)
ORDER = re.compile(r"memory_order_(acquire|release|acq_rel)\b")
# Those that publish something. If each of two threads writes one variable and then reads the other,
# neither x86 nor the thread sanitizer can distinguish a relaxed operation from a strict one.
# The models of tests/model have these faults: LOOK_BEFORE_ASLEEP and CLEAR_RELAXED in inbox,
# STORE_RELAXED and LOAD_RELAXED in once, LOOK_BEFORE_ASLEEP in monitor_sleep, NO_EPOCH in idle.
STRICT = re.compile(r"\batomic_(exchange|compare_exchange_(?:strong|weak))\(")
MODELLED = re.compile(r"mailbox(\.|->)(asleep|woken)|\bis_idle\b|is_monitor_asleep|once->state")
LOCK = re.compile(r"^\s*(?:spin_lock|spin_lock_always|pthread_mutex_lock)\((.*)\);$")
STATEMENT = re.compile(r"^\s+[\w*(].*;$")
# What is no statement, does nothing, or cannot be left out without an error of the compiler.
KEPT = re.compile(
    r"^\s*(return|goto|break|continue|case|default|else|if|while|for|do|const|static|struct|"
    r"unsigned|int|int64_t|bool|u?int\d+_t|uintptr_t|size_t|void|char|enum|sigset_t|pthread_t|"
    r"pthread_attr_t|_Noreturn|typedef|extern|#|/|\*)\b|^\s*(gs_chaos|assert|__builtin|\(void\)|"
    r"fiber_|/\*|\*|\.)|prefetch|gs_spin_pause|^\s*\w+ \*?\w+ = |^\s*;|"
    r"_Static_assert|__asm__|GS_API"
)


@dataclass(frozen=True)
class Mutant:
    """One change of one file, which becomes `text`."""

    file: str
    line: int
    kind: str
    function: str
    what: str
    text: str

    def name(self) -> str:
        """Say where and what it is."""
        return f"{self.file}:{self.function}: {self.kind}: {self.what}"

    def key(self) -> tuple[str, int, str, str]:
        """Return what tells it from others."""
        return self.file, self.line, self.kind, self.what


def functions_of(lines: list[str]) -> dict[int, str]:
    """Return the name of the function around each line that is in the body of one."""
    inside: dict[int, str] = {}
    name, is_body = "", False
    for number, line in enumerate(lines):
        found = re.match(r"^[A-Za-z].*?\b(\w+)\(", line)
        if found and not is_body:
            name = found.group(1)
        if line == "{":
            is_body = True
        elif line == "}":
            is_body = False
        elif is_body:
            inside[number] = name
    return inside


def closing(text: str, start: int) -> int:
    """Return where the parenthesis is closed that is open at start."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return at
    return -1


def relaxed(line: str, found: re.Match[str]) -> str:
    """Return the line with a sequentially consistent operation made relaxed."""
    end = closing(line, found.end() - 1)
    if end < 0:
        return ""
    orders = ", memory_order_relaxed" * (2 if "compare" in found.group(1) else 1)
    head = f"atomic_{found.group(1)}_explicit("
    return line[: found.start()] + head + line[found.end() : end] + orders + line[end:]


def is_deletable(line: str) -> bool:
    """Whether the line is a whole statement that does something and can be left out."""
    is_whole = bool(STATEMENT.match(line)) and line.count("(") == line.count(")")
    return is_whole and not KEPT.search(line) and not LOCK.match(line) and "unlock" not in line


def of_line(lines: list[str], number: int) -> Iterator[tuple[str, str, dict[int, str]]]:
    """Return kind, description and changed lines of every mutant of a line."""
    line = lines[number]
    for found in () if MODELLED.search(line) else ORDER.finditer(line):
        changed = line[: found.start()] + "memory_order_relaxed" + line[found.end() :]
        yield "order", changed.strip(), {number: changed}
    for found in STRICT.finditer(line):
        changed = relaxed(line, found)
        if changed and not MODELLED.search(line):
            yield "order", changed.strip(), {number: changed}
    if is_deletable(line):
        before = lines[number - 1].rstrip()
        # The only statement of a condition or a loop goes, the condition stays.
        is_alone = before.endswith((")", "else", "do"))
        indent = re.match(r"\s*", line)
        empty = (indent.group() if indent else "") + ";" if is_alone else ""
        yield "line", line.strip(), {number: empty}


def of_lock(lines: list[str], number: int, inside: dict[int, str]) -> dict[int, str]:
    """Return the lines of the function without a lock and its releases; empty: it is none."""
    found = LOCK.match(lines[number])
    if not found:
        return {}
    changed = {}
    for other, name in inside.items():
        same = f"lock({found.group(1)});" in lines[other] or (
            f"lock_always({found.group(1)});" in lines[other]
        )
        if name == inside[number] and same:
            changed[other] = ";"
    return changed


def files() -> list[str]:
    """Return the files that are changed."""
    found = []
    for pattern in FILES:
        matching = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))
        if not matching:
            sys.exit(f"mutate: there is no {pattern}")
        found += matching
    return found


def all_mutants() -> list[Mutant]:
    """Return every mutant that there can be, in a fixed order."""
    mutants = []
    for file in files():
        lines = (ROOT / file).read_text().split("\n")
        inside = functions_of(lines)
        for number, function in inside.items():
            ways = list(of_line(lines, number))
            lock = of_lock(lines, number, inside)
            if lock:
                ways.append(("lock", lines[number].strip(), lock))
            for kind, what, changed in ways:
                text = "\n".join(changed.get(i, line) for i, line in enumerate(lines))
                mutants.append(Mutant(file, number + 1, kind, function, what, text))
    return mutants


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Choose of each kind its share; the rest stands behind, for those that do not build."""
    chooser = random.Random(seed)
    kinds = {kind: [m for m in mutants if m.kind == kind] for kind in ("lock", "order", "line")}
    shares = {"lock": 25, "order": 35, "line": 40}
    chosen, rest = [], []
    for kind, those in kinds.items():
        chooser.shuffle(those)
        n = min(len(those), round(count * shares[kind] / 100))
        chosen += those[:n]
        rest += those[n:]
    chooser.shuffle(chosen)
    chooser.shuffle(rest)
    return chosen + rest
