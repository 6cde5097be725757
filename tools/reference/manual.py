"""Manual pages in mdoc(7): one for each section of a header, links for the further functions."""

import re
from collections.abc import Collection
from pathlib import Path

from .comment import Block, capitalize
from .inline import Span, spans
from .model import Reference, Result, is_only_result, reasons_for
from .parse import Declaration, Item, Library, Section

MACROS = {
    "function": "Fn",
    "type": "Vt",
    "variable": "Va",
    "constant": "Dv",
    "environment": "Ev",
    "parameter": "Fa",
    "code": "Va",
    "header": "In",
}
CLOSING = ".,:;)?!"
LIBRARY = """\
Gossamer
.Pq libgossamer ;
.Ql pkg-config --cflags --libs gossamer
prints the options of the compiler."""


def _escape(text: str) -> str:
    return text.replace("\\", r"\e").replace("\u2019", "'")


def _text(text: str) -> str:
    """Escape running text; a minus sign is not a hyphen."""
    return re.sub(r"(?<![\w-])-(?=\w)", r"\\-", _escape(text))


def _argument(text: str) -> str:
    """Quote an argument of a macro."""
    text = _escape(text).replace('"', r"\(dq").replace("-", r"\-")
    return f'"{text}"' if " " in text or not text else text


def _code(text: str) -> list[str]:
    """Return lines for a literal display."""
    for plain, escape in (("\\", r"\e"), ("-", r"\-"), ("'", r"\(aq"), ("`", r"\(ga")):
        text = text.replace(plain, escape)
    text = text.replace("^", r"\(ha").replace("~", r"\(ti")
    lines = [f"\\&{line}" if line.startswith(".") else line for line in text.split("\n")]
    return [".Bd -literal -offset indent", *lines, ".Ed"]


def _call_of(span: Span) -> str:
    name, arguments = span.text.removesuffix(")").split("(", 1)
    return " ".join(["Fn", name, *(_argument(one.strip()) for one in arguments.split(","))])


def _macro(span: Span) -> str:
    """Return the macro of a span that is no plain text, with its arguments."""
    if span.kind == "call":
        return _call_of(span)
    if span.kind == "error":
        return f"No \\- Ns Er {span.text.removeprefix('-')}"
    if span.kind == "page":
        name, section = span.text.removesuffix(")").split("(")
        return f"Xr {name} {section}"
    return f"{MACROS[span.kind]} {_argument(span.text)}"


def _word(pieces: list[Span]) -> str:
    """Return the line for a word of which at least one piece has a macro."""
    line = ""
    for number, piece in enumerate(pieces):
        if piece.kind != "text":
            line += (" Ns " if line else "") + _macro(piece)
        elif number == len(pieces) - 1 and all(one in CLOSING for one in piece.text):
            line += "".join(f" {one}" for one in piece.text)
        elif line:
            line += f" Ns {_argument(piece.text)}"
        else:
            line = rf"No \&{_argument(piece.text)}"
    return f".{line}"


def _words(pieces: list[Span]) -> list[list[Span]]:
    """Split spans at the spaces of the plain ones."""
    words: list[list[Span]] = [[]]
    for piece in pieces:
        if piece.kind != "text":
            words[-1].append(piece)
            continue
        for number, part in enumerate(piece.text.split(" ")):
            if number:
                words.append([])
            if part:
                words[-1].append(Span("text", part))
    return [word for word in words if word]


def prose(library: Library, text: str, parameters: Collection[str] = ()) -> list[str]:
    """Format running text: a line for each macro and for each sentence."""
    lines: list[str] = []
    plain: list[str] = []

    def flush() -> None:
        if plain:
            line = " ".join(plain)
            lines.append(f"\\&{line}" if line[0] in ".'" else line)
            plain.clear()

    for word in _words(list(spans(library, text, parameters))):
        if all(piece.kind == "text" for piece in word):
            plain.append(_text("".join(piece.text for piece in word)))
            if plain[-1].endswith((".", ".)")):
                flush()
        else:
            flush()
            lines.append(_word(word))
    flush()
    return lines


def _blocks(library: Library, blocks: list[Block], parameters: Collection[str]) -> list[str]:
    lines: list[str] = []
    for block in blocks:
        if block.kind == "list":
            width = max((tag for tag, _ in block.entries), key=len)
            is_numbered = width.endswith(".")
            lines.append(".Bl -enum" if is_numbered else f".Bl -tag -width {width}")
            for tag, text in block.entries:
                lines.append(".It" if is_numbered else f".It Sy {tag}")
                lines += prose(library, text, parameters)
            lines.append(".El")
        elif block.kind == "code":
            lines += _code(block.text)
        else:
            lines += [*([".Pp"] if lines else []), *prose(library, block.text, parameters)]
    return lines


def _enumeration(words: list[str], last: str = "and") -> list[str]:
    """Return lines ".Fn a ,", ".Fn b", "and", ".Fn c"."""
    lines = []
    for number, word in enumerate(words):
        if number and number == len(words) - 1:
            lines.append(last)
        lines.append(f".{word}{' ,' if number < len(words) - 2 else ''}")
    return lines


def _functions(declarations: list[Declaration]) -> list[str]:
    return _enumeration([f"Fn {one.name}" for one in declarations])


class Page:
    """The manual page of a section."""

    def __init__(self, reference: Reference, section: Section, date: str) -> None:
        """Prepare the page; date: as in ".Dd"."""
        self.reference = reference
        self.library = reference.library
        self.section = section
        self.date = date
        self.results = reference.results_of(section)

    def text(self) -> str:
        """Return the source of the page."""
        parts = {
            "NAME": self._names(),
            "LIBRARY": LIBRARY.split("\n"),
            "SYNOPSIS": self._synopsis(),
            "DESCRIPTION": self._description(),
            "RETURN VALUES": self._return_values(),
            "EXAMPLES": self._examples(),
            "ERRORS": self._errors(),
            "SEE ALSO": self._see_also(),
        }
        lines = [f".Dd {self.date}", f".Dt {self.section.name.upper()} 3", ".Os"]
        for title, part in parts.items():
            lines += [f".Sh {title}", *part] if part else []
        return "\n".join(lines) + "\n"

    def _names(self) -> list[str]:
        functions = self.section.functions
        names = [f".Nm {one.name}{' ,' if one != functions[-1] else ''}" for one in functions]
        title = self.section.title
        lower = title[0].lower() + title[1:] if title[1].islower() or title[1] == " " else title
        return [*names, f".Nd {_text(lower)}"]

    def _synopsis(self) -> list[str]:
        lines = [f".In gossamer/{self.section.header.name}.h", ".Pp"]
        for function in self.section.functions:
            parameters = [f".Fa {_argument(one)}" for one in function.parameters or ["void"]]
            lines += [f".Ft {_argument(function.result)}", f".Fo {function.name}", *parameters]
            lines.append(".Fc")
        return lines

    def _description(self) -> list[str]:
        lines = _blocks(self.library, self.reference.overview_of(self.section), ())
        described = [item for item in self.section.items if self._blocks_of(item)]
        if len(described) == 1 and not lines and len(self.section.functions) == 1:
            parameters = self.section.functions[0].parameter_names
            lines += _blocks(self.library, self._blocks_of(described[0]), parameters)
        elif described:
            lines += self._list_of(described)
        lines += self._types()
        for label, blocks in self.reference.labels_of(self.section).items():
            lines += [f".Ss {label}", *_blocks(self.library, blocks, ())]
        return lines

    @staticmethod
    def _blocks_of(item: Item) -> list[Block]:
        if is_only_result(item):
            return [Block("text", item.comment.returns)]
        return item.comment.description

    def _list_of(self, items: list[Item]) -> list[str]:
        lines = [".Bl -tag -width Ds"]
        for item in items:
            lines.append(f".It {self._tag_of(item)}")
            parameters = [name for one in item.declarations for name in one.parameter_names]
            lines += _blocks(self.library, self._blocks_of(item), parameters)
        return [*lines, ".El"]

    @staticmethod
    def _tag_of(item: Item) -> str:
        """Return the functions of the item, or else its types and constants."""
        if item.functions:
            return " , ".join(f"Fn {one.name}" for one in item.functions)
        macros = {"macro": "Dv", "variable": "Va"}
        return " , ".join(
            f"{macros.get(one.kind, 'Vt')} {_argument(one.name)}" for one in item.declarations
        )

    def _types(self) -> list[str]:
        """Show the types and constants of the section, and the function types that it uses."""
        own = [one for one in self.section.declarations if one.kind != "function"]
        names = {one.name for one in own}
        used = {
            name
            for function in self.section.functions
            for parameter in function.parameters
            for name in re.findall(r"\bgs_\w+_fn\b", parameter)
        }
        shown = [self.library.declared[name][1] for name in sorted(used - names)] + own
        if not shown:
            return []
        return [".Ss Types and constants", *_code("\n".join(one.text for one in shown))]

    def _return_values(self) -> list[str]:
        lines: list[str] = []
        for result in self.results:
            names = [name for one in result.functions for name in one.parameter_names]
            subject = self._subject(result)
            text = prose(self.library, result.predicate, names)
            lines += [*([".Pp"] if lines else []), *subject, *text]
        return lines

    def _subject(self, result: Result) -> list[str]:
        if len(result.functions) == 1:
            return [f".Fn {result.functions[0].name}"]
        all_of_them = [one for one in self.section.functions if one.returns_something]
        if len(result.functions) == len(all_of_them) and len(all_of_them) > 2:
            return ["Each of these functions"]
        return ["Each of", *_functions(result.functions)]

    def _errors(self) -> list[str]:
        failing = [one for one in self.results if one.errors.reasons]
        lines = []
        for error in sorted({name for one in failing for name in one.errors.reasons}):
            lines += [f".It Bq Er {error}", *self._reasons(error, failing)]
        if lines:
            lines = [".Bl -tag -width Er", *lines, ".El"]
        return lines + self._other_errors(bool(lines))

    def _reasons(self, error: str, failing: list[Result]) -> list[str]:
        """Return the reasons; with the functions that they are of, unless all have the same."""
        texts = {
            id(one): reasons_for(error, one.errors.reasons[error])
            for one in failing
            if error in one.errors.reasons
        }
        if len(texts) == len(failing) and len({tuple(text) for text in texts.values()}) == 1:
            text = next(iter(texts.values()))
            return [line for one in text for line in prose(self.library, one)]
        grouped: dict[tuple[str, ...], list[Declaration]] = {}
        for one in failing:
            if id(one) in texts:
                grouped.setdefault(tuple(texts[id(one)]), []).extend(one.functions)
        lines: list[str] = []
        for text, functions in grouped.items():
            subject = _functions(functions)
            subject[-1] += " :"
            lines += [*([".Pp"] if lines else []), *subject]
            lines += [line for one in text for line in prose(self.library, one)]
        return lines

    def _other_errors(self, has_list: bool) -> list[str]:
        pages = {page for one in self.results for page in one.errors.pages}
        causes = {cause: None for one in self.results for cause in one.errors.causes}
        lines = []
        if pages:
            named = [one.removesuffix(")").split("(") for one in sorted(pages)]
            words = _enumeration([f"Xr {name} {section}" for name, section in named])
            lines += ["Other errors are those of", *words[:-1], f"{words[-1]} ."]
        for cause in causes:
            lines += [f"Any other error is that with which {cause}."]
        if any(one.errors.is_of_system_call for one in self.results):
            lines += ["Other errors are those of the system call."]
        is_first = not has_list
        if is_first and lines:
            lines[0] = capitalize(lines[0].replace("Other errors", "The errors"))
            lines[0] = lines[0].replace("Any other error is that", "The error is that")
        return [".Pp", *lines] if lines and has_list else lines

    def _examples(self) -> list[str]:
        lines: list[str] = []
        for example in self.reference.examples_of(self.section):
            source = ["From", f".Pa {example.source} :"] if example.source else []
            lines += [*source, *_code(example.code)]
        return lines

    def _see_also(self) -> list[str]:
        pages = self.reference.see_also(self.section)
        return [
            f".Xr {name} {section}{' ,' if (name, section) != pages[-1] else ''}"
            for name, section in pages
        ]


def _contents(reference: Reference, date: str) -> str:
    """Return the source of libgossamer(3), which lists all pages."""
    lines = [f".Dd {date}", ".Dt LIBGOSSAMER 3", ".Os", ".Sh NAME", ".Nm libgossamer"]
    lines += [".Nd event loop, user-level threads, and HTTP for servers", ".Sh LIBRARY"]
    lines += [*LIBRARY.split("\n"), ".Sh DESCRIPTION"]
    lines += ["Each function has a manual page; these are the pages by header.", "Functions that"]
    lines += ["can fail return 0 or a value, or a negative error number.", "They do not use"]
    lines += [".Va errno ."]
    for header in (one for one in reference.library.headers if one.pages):
        lines += [f".Ss {_text(header.title)}", f".In gossamer/{header.name}.h"]
        lines += [".Bl -tag -width Ds"]
        for page in header.pages:
            names = [f"Xr {one.name} 3" for one in page.functions]
            lines += [f".It {' , '.join(names)}", _text(f"{page.title}.")]
        lines += [".El"]
    overviews = sorted(reference.overviews)
    lines += [".Sh SEE ALSO", ".Xr gossamer 1 ,"]
    lines += [f".Xr {name} 7{' ,' if name != overviews[-1] else ''}" for name in overviews]
    return "\n".join(lines) + "\n"


def write_manual(reference: Reference, folder: Path, date: str) -> None:
    """Write the pages, and remove what an earlier run has left there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.3"):
        old.unlink()
    (folder / "libgossamer.3").write_text(_contents(reference, date))
    for page in (page for header in reference.library.headers for page in header.pages):
        (folder / f"{page.name}.3").write_text(Page(reference, page, date).text())
        for function in page.functions[1:]:
            (folder / f"{function.name}.3").write_text(f".so man3/{page.name}.3\n")
