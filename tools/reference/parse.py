"""Read the public headers into sections, comments and declarations.

The headers have a regular form, which clang-format keeps: a comment at the beginning of a line
belongs to the declarations that follow until an empty line or the next comment. "---- TITLE ----"
begins a section, which becomes one manual page. So a few rules replace a parser of C; the tests
compile each prototype that is found here against its header.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .comment import Comment

HEADING = re.compile(r"^---- (?P<title>.+?) ----\s*?(?:\n|$)(?P<text>.*)\Z", re.DOTALL)
FUNCTION = re.compile(
    r"^(?P<api>GS_API|static inline) (?:GS_MUST_CHECK |GS_NORETURN |GS_PRINTF\(\d, \d\) )?"
    r"(?P<result>[\w ]+?[ *]+)(?P<name>gs_\w+)\((?P<parameters>.*)\)$"
)
TYPE = re.compile(r"^(?P<name>(?:struct|union|enum) \w+|enum) \{")
TYPEDEF = re.compile(r"^typedef .*?\b(?P<name>gs_\w+)\(")
VARIABLE = re.compile(r"^extern GS_API .*?(?P<name>gs_\w+);")
MACRO = re.compile(r"^#define (?P<name>\w+)(?P<parameters>\([^)]*\))?")
CONSTANT = re.compile(r"^\s+(?P<name>GS_[A-Z0-9_]+)\b", re.MULTILINE)
NO_DECLARATION = re.compile(r"^(?:#(?!define)|GS_(?:BEGIN|END)_DECLS$|struct \w+;$)")
GUARD = re.compile(r"^GOSSAMER_\w+_H$")
# The inline functions of a section with this title are not for programs.
INLINE_BODIES = "Inline bodies"


@dataclass
class Declaration:
    """A function, type, typedef, macro or variable; text: as in the header, without a body."""

    kind: str
    name: str
    text: str
    result: str = ""
    parameters: list[str] = field(default_factory=list)

    @property
    def parameter_names(self) -> list[str]:
        """The names of the parameters of a function."""
        found = (re.search(r"\(\*(\w+)\)|(\w+)(?:\[\d*\])?$", one) for one in self.parameters)
        return [match[1] or match[2] for match in found if match]

    @property
    def names(self) -> list[str]:
        """What it declares: its own name, unless it is an enum without one, and constants."""
        return [*([self.name] if self.name != "enum" else []), *self.constants]

    @property
    def returns_something(self) -> bool:
        """Whether it is a function with a result."""
        return self.kind == "function" and self.result != "void"

    @property
    def constants(self) -> list[str]:
        """The constants that an enum defines."""
        return CONSTANT.findall(self.text) if self.text.startswith("enum") else []


@dataclass
class Item:
    """Declarations with their common comment."""

    comment: Comment
    declarations: list[Declaration] = field(default_factory=list)

    @property
    def functions(self) -> list[Declaration]:
        """The functions among the declarations."""
        return [one for one in self.declarations if one.kind == "function"]


@dataclass
class Section:
    """A part of a header, and a manual page if it has functions."""

    header: "Header"
    title: str
    comment: Comment
    items: list[Item] = field(default_factory=list)

    @property
    def functions(self) -> list[Declaration]:
        """All functions of the section."""
        return [function for item in self.items for function in item.functions]

    @property
    def declarations(self) -> list[Declaration]:
        """All declarations of the section."""
        return [one for item in self.items for one in item.declarations]

    @property
    def name(self) -> str:
        """The name of the manual page."""
        return self.functions[0].name


@dataclass
class Header:
    """A public header; name: without .h."""

    name: str
    intro: Comment
    includes: list[str]
    sections: list[Section] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What the header is for."""
        title = re.split(r"[.:](?=\s|$)", self.intro.first_paragraph)[0]
        return title.split(" (")[0] if title.count("(") > title.count(")") else title

    @property
    def pages(self) -> list[Section]:
        """The sections that become manual pages."""
        return [section for section in self.sections if section.functions]


@dataclass
class Library:
    """All public headers of C, and the names of those of C++."""

    headers: list[Header]
    cpp_names: list[str] = field(default_factory=list)

    @cached_property
    def files(self) -> set[str]:
        """The names of all headers."""
        return {f"{header.name}.h" for header in self.headers} | set(self.cpp_names)

    @cached_property
    def functions(self) -> dict[str, Section]:
        """The page of each function."""
        pages = [page for header in self.headers for page in header.pages]
        return {function.name: page for page in pages for function in page.functions}

    @cached_property
    def declared(self) -> dict[str, tuple[Header, Declaration]]:
        """The header and the declaration of each name, also of constants."""
        found = {}
        for header in self.headers:
            for one in (one for section in header.sections for one in section.declarations):
                found |= dict.fromkeys(one.names, (header, one))
        return found

    def item_of(self, function: str) -> Item:
        """Return the item that declares the function."""
        items = self.functions[function].items
        return next(item for item in items if function in [one.name for one in item.functions])


def strip_comment(text: str) -> str:
    """Return the text of a comment without its delimiters."""
    body = text.removeprefix("/*").removesuffix("*/").rstrip()
    lines = body.split("\n")
    return "\n".join([lines[0].strip(), *(re.sub(r"^ \* ?", "", line) for line in lines[1:])])


def _split_parameters(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [] if text == "void" else [part.strip() for part in parts]


def _declaration(text: str) -> Declaration:
    line = " ".join(text.split())
    for kind, pattern in (("type", TYPE), ("typedef", TYPEDEF), ("variable", VARIABLE)):
        match = pattern.match(line)
        if match:
            return Declaration(kind, match["name"], text)
    match = MACRO.match(text)
    if match:
        text = re.sub(r" +\\$", r" \\", text, flags=re.MULTILINE)
        parameters = _split_parameters((match["parameters"] or "(void)")[1:-1])
        return Declaration("macro", match["name"], text, parameters=parameters)
    match = FUNCTION.match(line.removesuffix(";"))
    if not match:
        raise ValueError(f"no declaration that this program knows: {text}")
    parameters = _split_parameters(match["parameters"])
    return Declaration("function", match["name"], text, match["result"].strip(), parameters)


def _is_complete(text: str) -> bool:
    """Tell whether the text is a whole declaration, or a function up to its body."""
    if text.startswith("#"):
        return not text.endswith("\\")
    if text.startswith("static inline"):
        return text.endswith((";", "{"))
    return text.endswith(";") and text.count("{") == text.count("}")


def _code(line: str, rest: Iterator[str]) -> str:
    """Return the declaration that begins with this line, and skip its body."""
    while not _is_complete(line):
        line += "\n" + next(rest)
    if not line.startswith("static inline") or line.endswith(";"):
        return line
    while next(rest) != "}":
        pass
    return line.removesuffix("\n{") + ";"


def _chunks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of what is at the top level: comments, code, empty lines."""
    rest = iter(lines)
    for line in rest:
        if line.startswith("/*"):
            text = line
            while not text.endswith("*/"):
                text += "\n" + next(rest)
            yield "comment", strip_comment(text)
        elif not line:
            yield "empty", ""
        elif not NO_DECLARATION.match(line):
            yield "code", _code(line, rest)


class _Reader:
    """Collects the sections of a header."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.names: set[str] = set()
        self.item: Item | None = None
        self._begin_section(header.title, Comment(""))

    def _begin_section(self, title: str, comment: Comment) -> None:
        self.section = Section(self.header, title, comment)
        self.header.sections.append(self.section)

    def _add_comment(self, text: str) -> None:
        heading = HEADING.match(text)
        self.item = None
        if heading:
            self._begin_section(heading["title"], Comment(heading["text"]))
        else:
            self._add_item(Comment(text))

    def _add_item(self, comment: Comment) -> None:
        self.item = Item(comment)
        self.section.items.append(self.item)

    def _add_code(self, text: str) -> None:
        declaration = _declaration(text)
        is_inline = text.startswith("static inline")
        is_body = is_inline and self.section.title.startswith(INLINE_BODIES)
        is_known = declaration.name in self.names and declaration.name != "enum"
        if is_known or is_body or GUARD.match(declaration.name):
            return
        self.names.add(declaration.name)
        if not self.item:
            self._add_item(Comment(""))
        self.item.declarations.append(declaration)

    def add(self, kind: str, text: str) -> None:
        """Take the next chunk."""
        if kind == "comment":
            self._add_comment(text)
        elif kind == "code":
            self._add_code(text)
        else:
            self.item = None


def read_header(path: Path) -> Header:
    """Read a public header."""
    text = path.read_text()
    intro, rest = text.split("*/", 1)
    includes = re.findall(r"^#include <gossamer/(\w+)\.h>", rest, re.MULTILINE)
    header = Header(path.stem, Comment(strip_comment(f"{intro}*/")), includes)
    reader = _Reader(header)
    for kind, chunk in _chunks(rest.split("\n")):
        reader.add(kind, chunk)
    for section in header.sections:
        section.items = [item for item in section.items if item.declarations]
    header.sections = [one for one in header.sections if one.declarations or one.comment.text]
    return header


def read_library(folder: Path) -> Library:
    """Read all headers of the folder."""
    headers = [read_header(path) for path in sorted(folder.glob("*.h"))]
    return Library(headers, [path.name for path in folder.glob("*.hpp")])
