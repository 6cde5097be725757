"""Guides: the part of Markdown that docs/ uses, read into blocks."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import dedent

HEADING = re.compile(r"^(?P<level>#+) (?P<text>.*)$")
ITEM = re.compile(r"^(?:(?P<bullet>-)|(?P<number>\d+)\.) (?P<text>.*)$")
RULE = re.compile(r"^[|: -]+$")
INLINE = re.compile(
    r"`(?P<code>[^`]+)`|\[(?P<label>(?:[^\][]|\[[^\]]*\])+)\]\((?P<url>[^)\s]+)\)|\*\*(?P<bold>.+?)\*\*"
)


@dataclass
class Part:
    """A block; kind: heading, code, table, list or text; level: of a heading, or 1: numbered."""

    kind: str
    text: str = ""
    level: int = 0
    rows: list[list[str]] = field(default_factory=list)  # cells of a table, or items of a list


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    words = re.sub(r"[^\w\- ]", "", heading.lower())
    return words.replace(" ", "-")


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in inner.split("|")]


def _fenced(rest: Iterator[str]) -> Part:
    """Read code to its end; within a list it is indented."""
    lines = []
    for line in rest:
        if line.lstrip().startswith("```"):
            break
        lines.append(line)
    return Part("code", dedent("\n".join(lines)))


def _add(parts: list[Part], line: str, is_new: bool) -> None:
    """Add a line that is neither empty nor in a block of code; is_new: after an empty line."""
    last = parts[-1] if parts else Part("")
    heading, item = HEADING.match(line), ITEM.match(line)
    if heading:
        parts.append(Part("heading", heading["text"], len(heading["level"])))
    elif item and last.kind == "list" and bool(item["number"]) == bool(last.level):
        last.rows.append([item["text"]])
    elif item:
        parts.append(Part("list", "", int(bool(item["number"])), [[item["text"]]]))
    elif line.startswith("|") and last.kind == "table" and not is_new:
        if not RULE.match(line):
            last.rows.append(_cells(line))
    elif line.startswith("|"):
        parts.append(Part("table", rows=[_cells(line)]))
    elif last.kind == "list" and (line.startswith(" ") or not is_new):
        last.rows[-1][0] += f" {line.strip()}"
    elif last.kind == "text" and not is_new:
        last.text += f" {line.strip()}"
    else:
        parts.append(Part("text", line.strip()))


def read_parts(text: str) -> list[Part]:
    """Read the blocks of a text."""
    parts: list[Part] = []
    rest = iter(text.split("\n"))
    is_new = True
    for line in rest:
        if line.lstrip().startswith("```"):
            parts.append(_fenced(rest))
        elif line.strip() and not line.startswith("<!--"):
            _add(parts, line, is_new)
        is_new = not line.strip()
    return parts


@dataclass
class Guide:
    """A guide; name: without .md."""

    name: str
    parts: list[Part]

    @property
    def title(self) -> str:
        """Its first heading, as plain text."""
        heading = next(part.text for part in self.parts if part.kind == "heading")
        return heading.replace("`", "")

    @property
    def body(self) -> list[Part]:
        """All but the title."""
        title = next(part for part in self.parts if part.kind == "heading")
        return [part for part in self.parts if part is not title]

    @cached_property
    def slugs(self) -> set[str]:
        """The anchors of its headings."""
        return {slug(part.text) for part in self.parts if part.kind == "heading"}


def read_guides(folder: Path) -> list[Guide]:
    """Read the guides of the folder: how to write programs, and how to debug them."""
    paths = [*sorted(folder.glob("guide-*.md"), key=_order), folder / "debugging.md"]
    return [Guide(path.stem, read_parts(path.read_text())) for path in paths if path.is_file()]


def _order(path: Path) -> tuple[int, str]:
    """The guides to threads and to the loop come first."""
    firsts = ["guide-threads", "guide-loop", "guide-https"]
    return (firsts.index(path.stem) if path.stem in firsts else len(firsts), path.stem)
