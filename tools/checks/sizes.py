"""Whether files, functions, nesting and lists of parameters stay small."""

import ast
import re

from . import tidy
from .tree import CPP, Problem, Result, Tree

FILE_LINES = 600
COLUMNS = 100
CMAKE_LINES = 30
# Of a function in Python; .clang-tidy has the same for C.
FUNCTION_LINES = 50
NESTING = 3
PARAMETERS = 5

CODE = (".c", ".h", *CPP, ".S", ".py", ".cmake", ".sh", ".css", ".js", ".j2")

TIDY_LINE = re.compile(r"^(.+?):(\d+):\d+: (?:warning|error): function '(\w+)' exceeds")
TIDY_NOTE = re.compile(r"^(.+?):(\d+):(\d+): note: (.*)$")
# The notes that tell what is exceeded, and our names for it.
TIDY_RULES = {
    "lines": "function-lines",
    "nesting": "nesting",
    "parameters": "parameters",
}

BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.Match)


def _check_files(tree: Tree) -> list[Problem]:
    problems = []
    limits = dict.fromkeys([*tree.having(*CODE), *tree.python_files, *tree.shell_files], FILE_LINES)
    limits |= {name: CMAKE_LINES for name in tree.files if name.endswith("CMakeLists.txt")}
    for name, limit in limits.items():
        count = len(tree.lines(name))
        if count > limit and not tree.exceptions.grants("file-lines", name):
            text = f"the file has {count} lines of {limit}: split it"
            problems.append(Problem(name, limit + 1, text))
    return problems


def _check_columns(tree: Tree) -> list[Problem]:
    return [
        Problem(name, number, f"the line has {len(line)} columns of {COLUMNS}")
        for name in tree.having(".c", ".h", *CPP)
        for number, line in enumerate(tree.lines(name), 1)
        if len(line) > COLUMNS
    ]


def _rule_of(tree: Tree, note: re.Match) -> str | None:
    """Return the rule that a note under a warning is about; a block that a macro makes is none."""
    path, line, column, text = note.groups()
    rule = next((rule for word, rule in TIDY_RULES.items() if word in text), None)
    there = "".join(tree.lines(path)[int(line) - 1 : int(line)])[int(column) - 1 :]
    is_written = rule != "nesting" or there.startswith("{")
    return rule if is_written else None


def _tidy_problems(tree: Tree, output: str) -> set[Problem]:
    problems, where = set(), None
    for line in output.splitlines():
        warning, note = TIDY_LINE.match(line), TIDY_NOTE.match(line)
        if warning:
            where = (warning[1], int(warning[2]), warning[3])
        rule = _rule_of(tree, note) if note and where else None
        if rule and not tree.exceptions.grants(rule, f"{where[0]}:{where[2]}"):
            problems.add(Problem(where[0], where[1], f"{where[2]}: {note[4]}"))
    return problems


def _check_c_functions(tree: Tree) -> list[Problem]:
    said = [answer for _, answer in tidy.answers(tree)]
    return sorted(set().union(*(_tidy_problems(tree, answer) for answer in said)))


def _depth(statements: list[ast.stmt]) -> int:
    """Return how deep the blocks among the statements go; an elif is as deep as its if."""
    deepest = 0
    for statement in statements:
        if not isinstance(statement, BLOCKS):
            continue
        inner = 0
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.ExceptHandler | ast.match_case):
                inner = max(inner, _depth(child.body))
        for field in ("body", "orelse", "finalbody"):
            block = getattr(statement, field, [])
            is_elif = isinstance(statement, ast.If) and field == "orelse" and len(block) == 1
            inner = max(inner, _depth(block) - (is_elif and isinstance(block[0], ast.If)))
        deepest = max(deepest, inner + 1)
    return deepest


def _python_problems(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    count = len([name for name in names if name not in ("self", "cls")])
    body = function.body[1:] if ast.get_docstring(function) else function.body
    lines = (function.end_lineno or 0) - body[0].lineno + 1 if body else 0
    depth = _depth(function.body)
    found = {}
    if lines > FUNCTION_LINES:
        found["function-lines"] = f"{lines} lines of {FUNCTION_LINES}"
    if depth > NESTING:
        found["nesting"] = f"nesting {depth} of {NESTING}"
    if count > PARAMETERS:
        found["parameters"] = f"{count} parameters of {PARAMETERS}"
    return found


def _check_python_functions(tree: Tree) -> list[Problem]:
    problems = []
    for name in tree.scope(tree.python_files):
        for node in ast.walk(ast.parse("\n".join(tree.lines(name)), name)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            problems += [
                Problem(name, node.lineno, f"{node.name}: {text}")
                for rule, text in _python_problems(node).items()
                if not tree.exceptions.grants(rule, f"{name}:{node.name}")
            ]
    return problems


def check(tree: Tree) -> Result:
    """Measure every file, and every function in C and Python."""
    problems = _check_files(tree) + _check_columns(tree)
    problems += _check_c_functions(tree) + _check_python_functions(tree)
    c_count, python_count = len(tree.for_clang_tidy()), len(tree.scope(tree.python_files))
    return f"files, functions of {c_count} C and C++ and {python_count} Python files", problems
