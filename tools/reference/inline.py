"""What the words of a comment are: names of functions, types and constants, errors, other pages."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from .parse import Library

TOKEN = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|(?P<type>\b(?:struct|enum) gs_\w+)"
    r"|(?P<name>\bgs_\w+)(?:\((?P<arguments>[^()]*)\))?"
    r"|(?P<error>-E[A-Z][A-Z0-9]+\b)"
    r"|(?P<header>\b(?:gossamer/)?\w+\.h(?:pp)?\b)"
    r"|(?P<page>\b[a-z][a-z0-9_]*\(\d\))"
    r"|(?P<constant>\bNULL\b|\b[A-Z]+_[A-Z0-9_]*(?:\.\.\.)?|\bSIG[A-Z]+\b)"
    r"|(?P<word>\b\w+\b)(?P<colon>(?=: ))?"
)
ENVIRONMENT = re.compile(r"^(?:GS_POLLER|GOSSAMER_\w+)$")


@dataclass(frozen=True)
class Span:
    """A piece of text; kind: text, code, function, call, type, error, header, page, ..."""

    kind: str
    text: str


def _kind_of_name(library: Library, name: str) -> str:
    if name in library.functions:
        return "function"
    known = library.declared.get(name)
    return {"typedef": "type", "macro": "function"}.get(known[1].kind, "variable") if known else ""


def _is_parameter(word: str, has_colon: bool, parameters: Collection[str]) -> bool:
    """Tell a parameter from an English word: it has an underscore, two letters, or a colon."""
    return word in parameters and (has_colon or "_" in word or len(word) <= 2)


def _span(library: Library, match: re.Match, parameters: Collection[str]) -> Span:
    kind, text = match.lastgroup or "text", match[0]
    if kind == "colon":
        kind = "word"
    if kind in ("name", "arguments"):
        kind = _kind_of_name(library, match["name"]) or "code"
        kind = "call" if kind == "function" and match["arguments"] else kind
    elif kind == "code":
        text = match["code"]
        kind = "parameter" if text in parameters else "code"
    elif kind == "header":
        name = text.removeprefix("gossamer/")
        is_ours = name in library.files
        kind, text = ("header", f"gossamer/{name}") if is_ours else ("text", text)
    elif kind == "constant" and ENVIRONMENT.match(text) and text not in library.declared:
        kind = "environment"
    elif kind == "word":
        has_colon = match["colon"] is not None
        kind = "parameter" if _is_parameter(text, has_colon, parameters) else "text"
    return Span(kind, text)


def spans(library: Library, text: str, parameters: Collection[str] = ()) -> Iterator[Span]:
    """Split the text of a comment on functions that have these parameters."""
    plain, end = "", 0
    for match in TOKEN.finditer(text):
        span = _span(library, match, parameters)
        plain += text[end : match.start()]
        end = match.end()
        if span.kind == "text":
            plain += span.text
            continue
        if plain:
            yield Span("text", plain)
            plain = ""
        yield span
    plain += text[end:]
    if plain:
        yield Span("text", plain)


def mentioned_functions(library: Library, text: str) -> set[str]:
    """Return the functions that the text mentions."""
    return {name for name in re.findall(r"\bgs_\w+", text) if name in library.functions}


def mentioned_pages(text: str) -> set[tuple[str, str]]:
    """Return the manual pages that the text mentions: name and section."""
    return set(re.findall(r"\b([a-z][a-z0-9_]*)\((\d)\)", text))
