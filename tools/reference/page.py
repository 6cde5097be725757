"""The reference in HTML: a page for each header, and an index; nothing but HTML and CSS."""

import html
import re
from collections.abc import Collection
from pathlib import Path

from .comment import LABEL, Block
from .cpp import CppHeader, CppItem
from .guide import INLINE, Guide, Part, slug
from .inline import Span, spans
from .parse import Declaration, Header, Item, Library, Section

SHORT_PARAMETER = 34  # characters that fit into a line on a phone
WORD = re.compile(r"/\*.*?\*/|\b(?:struct |enum )?\w+", re.DOTALL)

PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<title>{title}</title>
<link rel="stylesheet" href="style.css" />
</head>
<body>
<nav class="headers" aria-label="Headers">
{navigation}
</nav>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def _code(text: str) -> str:
    return f"<code>{_escape(text)}</code>"


def _id(name: str) -> str:
    return name.replace(" ", "-")


class Pages:
    """Formats the pages, which link to each other."""

    def __init__(self, library: Library, cpp: list[CppHeader], guides: list[Guide]) -> None:
        """Find where each name is declared."""
        self.library = library
        self.cpp = cpp
        self.guides = guides
        self.urls = {
            name: f"{header.name}.html#{_id(name)}"
            for name, (header, _) in library.declared.items()
        }
        self.cpp_urls = {
            f"{header.namespace}::{name}": f"{header.name}.html#{_id(name)}"
            for header in cpp
            for name in header.names
        }
        self.urls |= self.cpp_urls
        self.files = {f"{header.name}.h": f"{header.name}.html" for header in library.headers}
        self.files |= {header.name: f"{header.name}.html" for header in cpp}

    # ---- Text ----

    def _link(self, name: str, text: str) -> str:
        url = self.urls.get(name)
        return f'<a href="{url}">{_code(text)}</a>' if url else _code(text)

    def _span(self, span: Span) -> str:
        if span.kind == "text":
            return _escape(span.text)
        if span.kind == "header":
            url = self.files[span.text.removeprefix("gossamer/")]
            return f'<a href="{url}">{_code(span.text)}</a>'
        return self._link(span.text.split("(")[0], span.text)

    def _prose(self, text: str, parameters: Collection[str] = ()) -> str:
        return "".join(self._span(span) for span in spans(self.library, text, parameters))

    def _list(self, entries: list[tuple[str, str]], parameters: Collection[str]) -> str:
        if entries[0][0].endswith("."):
            items = "\n".join(f"<li>{self._prose(text, parameters)}</li>" for _, text in entries)
            return f"<ol>\n{items}\n</ol>"
        items = "\n".join(
            f"<dt>{self._prose(tag)}</dt><dd>{self._prose(text, parameters)}</dd>"
            for tag, text in entries
        )
        return f"<dl>\n{items}\n</dl>"

    def _block(self, block: Block, parameters: Collection[str], is_intro: bool) -> str:
        if block.kind == "code":
            return f"<pre><code>{self._linked(block.text)}</code></pre>"
        if block.kind == "list":
            return self._list(block.entries, parameters)
        label = LABEL.match(block.text) if is_intro else None
        if label:
            return f"<p><b>{label['label']}:</b> {self._prose(label['text'])}</p>"
        return f"<p>{self._prose(block.text, parameters)}</p>"

    def _blocks(
        self, blocks: list[Block], parameters: Collection[str] = (), is_intro: bool = False
    ) -> str:
        return "\n".join(self._block(block, parameters, is_intro) for block in blocks)

    # ---- Declarations ----

    def _linked(self, text: str, defined: Collection[str] = ()) -> str:
        """Return code with links; the names that it defines are their targets."""
        rest = set(defined)
        parts, end = [], 0
        for match in WORD.finditer(text):
            word = match[0]
            parts.append(_escape(text[end : match.start()]))
            end = match.end()
            if word.startswith("/*"):
                parts.append(f'<span class="comment">{self._linked_comment(word)}</span>')
            elif word in rest:
                rest.remove(word)
                parts.append(f'<span id="{_id(word)}">{word}</span>')
            else:
                parts.append(self._linked_word(word))
        return "".join([*parts, _escape(text[end:])])

    def _linked_word(self, word: str) -> str:
        return f'<a href="{self.urls[word]}">{word}</a>' if word in self.urls else word

    def _linked_comment(self, comment: str) -> str:
        return re.sub(r"\b\w+\b", lambda match: self._linked_word(match[0]), _escape(comment))

    def _prototype(self, function: Declaration) -> str:
        """Show a function in one line, which breaks between its parameters if it must."""
        start = " ".join(function.text.split()).split(f"{function.name}(")[0]
        macros = re.findall(r"GS_(?!API)\w+ ", start)
        parts = [f'<span class="macro">{self._linked(macro)}</span>' for macro in macros]
        parts += [self._linked(function.result), "" if function.result.endswith("*") else " "]
        parts.append(f'<span class="name">{function.name}</span>(<wbr />')
        parameters = [
            f'<span class="short">{self._linked(one)}</span>'
            if len(one) <= SHORT_PARAMETER
            else self._linked(one)
            for one in function.parameters or ["void"]
        ]
        parts.append(", ".join(parameters))
        return f'<p class="prototype" id="{function.name}"><code>{"".join(parts)});</code></p>'

    def _declarations(self, item: Item) -> str:
        """Show types and constants in one block, then the functions."""
        others = [one for one in item.declarations if one.kind != "function"]
        texts = [self._linked(one.text, one.names) for one in others]
        parts = ["<pre><code>" + "\n".join(texts) + "</code></pre>"] if texts else []
        parts += [self._prototype(function) for function in item.functions]
        return "\n".join(parts)

    # ---- Pages ----

    def _item(self, item: Item) -> str:
        parameters = [name for one in item.declarations for name in one.parameter_names]
        parts = [self._declarations(item), self._blocks(item.comment.blocks, parameters)]
        return '<div class="item">\n' + "\n".join(part for part in parts if part) + "\n</div>"

    def _section(self, section: Section, number: int) -> str:
        manual = f' <span class="manual">{section.name}(3)</span>' if section.functions else ""
        parts = [
            f'<section id="section-{number}">',
            f"<h2>{self._prose(section.title)}{manual}</h2>",
            self._blocks(section.comment.blocks),
            *(self._item(item) for item in section.items),
            "</section>",
        ]
        return "\n".join(part for part in parts if part)

    def _contents(self, header: Header) -> str:
        items = []
        for number, section in enumerate(header.sections, 1):
            names = [self._link(one.name, one.name) for one in section.functions]
            listed = f": {', '.join(names)}" if names else ""
            title = re.split(r"[:,] ", section.title)[0]
            items.append(f'<li><a href="#section-{number}">{_escape(title)}</a>{listed}</li>')
        return '<ul class="contents">\n' + "\n".join(items) + "\n</ul>"

    def _page(self, title: str, body: str, current: str) -> str:
        """Return a page; in its navigation are the others of its kind."""
        groups = [
            [("guides", guide.name, guide.name.removeprefix("guide-")) for guide in self.guides],
            [("C", header.name, f"{header.name}.h") for header in self.library.headers],
            [("C++", header.name, header.name) for header in self.cpp],
        ]
        links = [self._navigation_link("index", "Gossamer", current)]
        for group in groups:
            is_own = current in [name for _, name, _ in group]
            for _, name, text in group if is_own else []:
                links.append(self._navigation_link(name, text, current))
            if group and not is_own:
                links.append(f'<a href="index.html#{_id(group[0][0])}">{group[0][0]}</a>')
        return PAGE.format(title=_escape(title), navigation="\n".join(links), body=body)

    @staticmethod
    def _navigation_link(name: str, text: str, current: str) -> str:
        mark = ' aria-current="page"' if name == current else ""
        return f'<a href="{name}.html"{mark}>{text}</a>'

    def header(self, header: Header) -> str:
        """Return the page of a header."""
        parts = [self._blocks(header.intro.blocks[:1]), self._contents(header)]
        parts.append(self._blocks(header.intro.blocks[1:], is_intro=True))
        parts += [self._section(one, number) for number, one in enumerate(header.sections, 1)]
        return self._page(f"gossamer/{header.name}.h", "\n".join(parts), header.name)

    # ---- C++ ----

    def _cpp_item(self, item: CppItem, defined: set[str]) -> str:
        """Show outline and comment; the names that it is the first to declare are targets."""
        ids = [name for name in dict.fromkeys(item.names) if name not in defined]
        defined |= set(ids)
        anchors = "".join(f'<span id="{_id(name)}"></span>' for name in ids)
        parts = [
            f'<div class="item">{anchors}',
            f"<pre><code>{self._linked(item.text)}</code></pre>",
            self._blocks(item.comment.blocks),
            "</div>",
        ]
        return "\n".join(part for part in parts if part)

    def cpp_header(self, header: CppHeader) -> str:
        """Return the page of a header of C++."""
        defined: set[str] = set()
        parts = [self._blocks(header.intro.blocks, is_intro=True)]
        if header.sections:
            parts.append(f"<p>Namespace: {_code(header.namespace)}</p>")
        for section in header.sections:
            if section.title:
                parts.append(f"<h2>{self._prose(section.title)}</h2>")
            parts.append(self._blocks(section.comment.blocks))
            parts += [self._cpp_item(item, defined) for item in section.items]
        return self._page(f"gossamer/{header.name}", "\n".join(parts), header.name)

    # ---- Guides ----

    def _target(self, guide: Guide, url: str) -> str:
        """Return where a link leads to within the reference; empty: it leads out of it."""
        path, _, fragment = url.partition("#")
        if not path:
            return url if fragment in guide.slugs else ""
        found = next((one for one in self.guides if path == f"{one.name}.md"), None)
        if found:
            return f"{found.name}.html" + (f"#{fragment}" if fragment in found.slugs else "")
        return self.files.get(path.rsplit("/", 1)[-1], "") if "include/gossamer/" in path else ""

    def _inline(self, guide: Guide, text: str) -> str:
        parts, end = [], 0
        for match in INLINE.finditer(text):
            parts.append(_escape(text[end : match.start()]))
            end = match.end()
            if match["code"]:
                parts.append(self._code_link(match["code"]))
            elif match["bold"]:
                parts.append(f"<b>{self._inline(guide, match['bold'])}</b>")
            else:
                parts.append(self._labelled(guide, match["label"], match["url"]))
        return "".join([*parts, _escape(text[end:])])

    def _code_link(self, code: str) -> str:
        return self._link(re.split(r"[(<]", code, maxsplit=1)[0], code)

    def _labelled(self, guide: Guide, label: str, url: str) -> str:
        target = self._target(guide, url)
        if target:
            plain = re.sub(r"`([^`]+)`", lambda match: _code(match[1]), html.escape(label))
            return f'<a href="{target}">{plain}</a>'
        outside = f" ({_escape(url)})" if "://" in url else ""
        return self._inline(guide, label) + outside

    def _part(self, guide: Guide, part: Part) -> str:
        if part.kind == "heading":
            tag = f"h{min(part.level, 3)}"
            return f'<{tag} id="{slug(part.text)}">{self._inline(guide, part.text)}</{tag}>'
        if part.kind == "code":
            return f"<pre><code>{self._linked(part.text)}</code></pre>"
        if part.kind == "list":
            tag = "ol" if part.level else "ul"
            items = "\n".join(f"<li>{self._inline(guide, row[0])}</li>" for row in part.rows)
            return f"<{tag}>\n{items}\n</{tag}>"
        if part.kind == "table":
            return self._table(guide, part)
        return f"<p>{self._inline(guide, part.text)}</p>"

    def _table(self, guide: Guide, part: Part) -> str:
        rows = []
        for number, row in enumerate(part.rows):
            tag = "td" if number else "th"
            cells = "".join(f"<{tag}>{self._inline(guide, cell)}</{tag}>" for cell in row)
            rows.append(f"<tr>{cells}</tr>")
        return '<div class="wide"><table>\n' + "\n".join(rows) + "\n</table></div>"

    def guide(self, guide: Guide) -> str:
        """Return the page of a guide."""
        body = "\n".join(self._part(guide, part) for part in guide.body)
        return self._page(guide.title, body, guide.name)

    # ---- The index ----

    def index(self, tasks: Guide) -> str:
        """Return the index: by task, the guides and the headers, then all names."""
        parts = [self._part(tasks, part) for part in tasks.body]
        tables = {
            "guides": [(guide.name, guide.title, guide.title) for guide in self.guides],
            "C": [(one.name, f"{one.name}.h", one.title) for one in self.library.headers],
            "C++": [(one.name, one.name, one.title) for one in self.cpp],
        }
        titles = {"guides": "Guides", "C": "Headers of C", "C++": "Headers of C++"}
        for kind, rows in tables.items():
            parts.append(f'<h2 id="{_id(kind)}">{titles[kind]}</h2>')
            parts.append(self._index_table(kind, rows))
        for title, names in self._names().items():
            items = "\n".join(f"<li>{self._link(name, name)}</li>" for name in sorted(names))
            parts.append(f'<h2>{title}</h2>\n<ul class="names">\n{items}\n</ul>')
        return self._page("Gossamer: the library", "\n".join(parts), "index")

    def _index_table(self, kind: str, rows: list[tuple[str, str, str]]) -> str:
        if kind == "guides":
            items = (
                f'<li><a href="{name}.html">{_escape(text)}</a></li>' for name, text, _ in rows
            )
            return "<ul>\n" + "\n".join(items) + "\n</ul>"
        lines = (
            f'<tr><td><a href="{name}.html">{_code(text)}</a></td>'
            f"<td>{self._prose(title)}</td></tr>"
            for name, text, title in rows
        )
        return "<table>\n" + "\n".join(lines) + "\n</table>"

    def _names(self) -> dict[str, list[str]]:
        """Return all names by what they are."""
        names: dict[str, list[str]] = {"Functions": [], "Types": [], "Constants and variables": []}
        for name, (_, one) in self.library.declared.items():
            if one.kind == "function":
                names["Functions"].append(name)
            elif one.kind in ("type", "typedef") and name == one.name:
                names["Types"].append(name)
            else:
                names["Constants and variables"].append(name)
        names["Types and functions of C++"] = list(self.cpp_urls)
        return names


def write_pages(
    library: Library, cpp: list[CppHeader], guides: list[Guide], tasks: Guide, folder: Path
) -> None:
    """Write the pages, and remove what an earlier run has left there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.html"):
        old.unlink()
    pages = Pages(library, cpp, guides)
    (folder / "index.html").write_text(pages.index(tasks))
    for header in library.headers:
        (folder / f"{header.name}.html").write_text(pages.header(header))
    for one in cpp:
        (folder / f"{one.name}.html").write_text(pages.cpp_header(one))
    for guide in guides:
        (folder / f"{guide.name}.html").write_text(pages.guide(guide))
    style = Path(__file__).with_name("style.css").read_text()
    (folder / "style.css").write_text(style)
