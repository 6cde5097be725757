"""Read the headers of C++ into comments and outlines: declarations without bodies and internals.

The rules rest on the form that clang-format keeps: what begins at the start of a line is at the top
level, and a body is between braces of the same indentation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .comment import Comment
from .parse import HEADING, strip_comment

NOT_DECLARED = re.compile(
    r"^#(?:.*\\\n)*.*\n|^namespace [\w:]+\n\{\n|^\} // namespace.*\n", re.MULTILINE
)
DETAIL = re.compile(r"^namespace detail\n\{.*?^\} // namespace detail\n", re.MULTILINE | re.DOTALL)
INNER = re.compile(
    r"^namespace (?!gossamer)(\w+)\n\{\n(.*?)^\} // namespace \1\n", re.MULTILINE | re.DOTALL
)
PRIVATE = re.compile(r"\n*^  private:$.*?^\};$", re.MULTILINE | re.DOTALL)
BODY = r"\n{0}\{{\n(?!  public:)(?:(?!{0}\}}).*\n)*?{0}\}}$"
INITIALIZERS = re.compile(r"(\)(?: noexcept)?)\s+: [^;]*;")
TYPE = re.compile(
    r"^(?:template <.*> )?(?:enum )?(?:class|struct|union) (?:GS_API |\[\[.*\]\] )?(\w+)"
)
# Declared before its definition, or a definition of what is internal.
FORWARD = re.compile(
    r"^(?:template <.*> )?class \w+;$|^template <> struct std::|\bdetail::\w+(?:<\w+>)?::\w+\("
)
ALIAS = re.compile(r"^using (\w+) =")
FUNCTION = re.compile(r"((?:\w+::)*\w+)\(")


@dataclass
class CppItem:
    """A comment and the declarations below it."""

    comment: Comment
    text: str = ""
    names: list[str] = field(default_factory=list)


@dataclass
class CppSection:
    """A part of a header; the title of the first one is empty."""

    title: str
    comment: Comment
    items: list[CppItem] = field(default_factory=list)


@dataclass
class CppHeader:
    """A header of C++; name: with .hpp. namespace: of most of its names."""

    name: str
    intro: Comment
    namespace: str
    sections: list[CppSection] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What the header is for."""
        return re.split(r"[.:](?=\s|$)", self.intro.first_paragraph)[0]

    @property
    def names(self) -> list[str]:
        """The types and functions that it declares."""
        return [name for section in self.sections for item in section.items for name in item.names]


def _qualified(match: re.Match) -> str:
    """Return the functions of an inner namespace, named with it."""
    name, text = match[1], match[2]
    return re.sub(r"^(inline [\w ]+ )(\w+)\(", rf"\1{name}::\2(", text, flags=re.MULTILINE)


def outline(text: str) -> str:
    """Return the declarations without bodies, internals and directives."""
    text = DETAIL.sub("", text)
    text = INNER.sub(_qualified, text)
    text = NOT_DECLARED.sub("", text)
    text = PRIVATE.sub("\n};", text)
    for indent in (" " * 4, ""):
        text = re.sub(BODY.format(indent), ";", text, flags=re.MULTILINE)
    return INITIALIZERS.sub(r"\1;", text)


def _is_complete(text: str) -> bool:
    is_balanced = all(text.count(one) == text.count(other) for one, other in ("{}", "()"))
    return is_balanced and text.endswith(";")


def _chunks(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of what is at the top level."""
    rest = iter(lines)
    for line in rest:
        text = line
        if line.startswith("/*"):
            while not text.endswith("*/"):
                text += "\n" + next(rest)
            yield "comment", strip_comment(text)
        elif not line:
            yield "empty", ""
        else:
            while not _is_complete(text):
                text += "\n" + next(rest)
            yield "code", text


def _names(code: str) -> list[str]:
    line = " ".join(code.split())
    line = re.sub(r"^template <[^{;]*?> (?=class|struct|auto|void|std|task|inline|T |F )", "", line)
    found = TYPE.match(line) or ALIAS.match(line) or FUNCTION.search(line)
    return [found[1]] if found else []


def read_cpp_header(path: Path) -> CppHeader:
    """Read a header of C++."""
    intro, rest = path.read_text().split("*/", 1)
    namespace = re.search(r"^namespace (gossamer[\w:]*)$", rest, re.MULTILINE)
    header = CppHeader(
        path.name, Comment(strip_comment(f"{intro}*/")), namespace[1] if namespace else "gossamer"
    )
    section = CppSection("", Comment(""))
    header.sections.append(section)
    item = None
    for kind, text in _chunks(outline(rest).split("\n")):
        heading = HEADING.match(text) if kind == "comment" else None
        if heading:
            section = CppSection(heading["title"], Comment(heading["text"]))
            header.sections.append(section)
            item = None
        elif kind == "empty":
            item = None
        elif kind == "comment":
            item = CppItem(Comment(text))
            section.items.append(item)
        elif not FORWARD.search(" ".join(text.split())):
            if not item:
                item = CppItem(Comment(""))
                section.items.append(item)
            item.text += ("\n" if item.text else "") + text
            item.names += _names(text)
    for one in header.sections:
        one.items = [item for item in one.items if item.text]
    header.sections = [one for one in header.sections if one.items]
    return header


def read_cpp(folder: Path) -> list[CppHeader]:
    """Read all headers of C++ of the folder."""
    return [read_cpp_header(path) for path in sorted(folder.glob("*.hpp"))]
