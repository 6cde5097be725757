"""The text of a comment: its paragraphs, lists and code, what it says of results and of errors."""

import re
from dataclasses import dataclass, field
from functools import cached_property

CODE_INDENT = " " * 4
LIST_ITEM = re.compile(r"^ {2}(?P<tag>\d+\.|\S+(?= {2,}\S))\s+(?P<text>.*)$")
RETURNS = re.compile(r"(?:^|(?<=[.:] ))(?:Returns|Each (?:\w+ )?returns)\b")
LABEL = re.compile(r"^(?P<label>[A-Z][a-z]+): (?P<text>.*)\Z", re.DOTALL)

# Words beside the code of an example, which in a comment cannot be in one themselves.
REMARK = re.compile(r"^(?P<code>.*[;{)]) {4,}(?P<words>[a-z][^;{}]*)$", re.MULTILINE)

# One error, or several with a common reason after the last one.
ERRORS = re.compile(
    r"(?P<names>-E[A-Z0-9]+(?:(?:, | or |, or )-E[A-Z0-9]+)*)"
    r"(?: \((?P<inside>[^()]*(?:\([^()]*\)[^()]*)*)\)| if (?P<after>[^.;]*))?"
)
SAME_ERRORS = re.compile(r"\bas (?P<name>gs_\w+)")
ERRORS_OF = re.compile(r"\berrors? of (?P<pages>[a-z0-9_]+\(\d\)(?:(?:, | or )[a-z0-9_]+\(\d\))*)")
OTHER_ERROR = re.compile(r"the error with which (?P<cause>[^.;,]*)")
ERROR_OF_CALL = re.compile(r"\berror of the system call\b")


@dataclass
class Block:
    """A paragraph ("text"), code ("code") or a list ("list", with entries of tag and text)."""

    kind: str
    text: str = ""
    entries: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Errors:
    """The errors that a text names: reasons by name, and what is said of all others."""

    reasons: dict[str, list[str]]
    same_as: list[str]
    pages: list[str]
    causes: list[str]
    is_of_system_call: bool


def _kind_of(line: str, last: Block | None) -> str:
    """Return what a line of a comment is, after the block before it."""
    if LIST_ITEM.match(line):
        return "entry"
    if last and last.kind == "list" and line.startswith(" "):
        return "entry continued"
    return "code" if line.startswith(CODE_INDENT) else "text"


def _add_line(blocks: list[Block], line: str, is_new: bool) -> None:
    """Add a line that is not empty; is_new: it begins a paragraph."""
    last = blocks[-1] if blocks else None
    kind = _kind_of(line, last)
    if kind == "entry":
        entry = LIST_ITEM.match(line)
        if not last or last.kind != "list":
            last = Block("list", entries=[])
            blocks.append(last)
        last.entries.append((entry["tag"], entry["text"]))
    elif kind == "entry continued":
        tag, so_far = last.entries[-1]
        last.entries[-1] = (tag, f"{so_far} {line.strip()}")
    elif kind == "code" and last and last.kind == "code":
        last.text += ("\n\n" if is_new else "\n") + line.removeprefix(CODE_INDENT)
    elif kind == "code":
        blocks.append(Block("code", line.removeprefix(CODE_INDENT)))
    elif last and last.kind == "text" and not is_new:
        last.text += f" {line}"
    else:
        blocks.append(Block("text", line))


def _blocks(text: str) -> list[Block]:
    blocks: list[Block] = []
    is_new = True
    for line in text.split("\n"):
        if line.strip():
            _add_line(blocks, line, is_new)
        is_new = not line.strip()
    for block in blocks:
        if block.kind == "code":
            block.text = REMARK.sub(r"\g<code>  /* \g<words> */", block.text)
    return blocks


@dataclass
class Comment:
    """A comment without its delimiters."""

    text: str

    @cached_property
    def blocks(self) -> list[Block]:
        """All blocks, in order."""
        return _blocks(self.text) if self.text else []

    @property
    def first_paragraph(self) -> str:
        """The first paragraph, in one line."""
        return next((block.text for block in self.blocks if block.kind == "text"), "")

    @property
    def code(self) -> list[str]:
        """The examples."""
        return [
            block.text
            for block in self.blocks
            if block.kind == "code" and not self._belongs_to_label(block)
        ]

    @property
    def returns(self) -> str:
        """What it says of the result: from "Returns" to the end of the paragraph."""
        for block in self.blocks:
            found = RETURNS.search(block.text) if block.kind == "text" else None
            if found:
                return block.text[found.start() :]
        return ""

    @property
    def description(self) -> list[Block]:
        """All but the examples and what it says of the result."""
        blocks = []
        for block in self.blocks:
            text = block.text
            if block.kind == "text" and self.returns and text.endswith(self.returns):
                text = text.removesuffix(self.returns).rstrip()
            if block.kind == "list" or (block.kind == "text" and text):
                blocks.append(Block(block.kind, text, block.entries))
        return blocks

    @property
    def overview(self) -> list[Block]:
        """The description without the paragraphs that have a label: see labels."""
        first, *rest = self.description or [Block("text")]
        return [first, *(one for one in rest if one.kind == "list" or not LABEL.match(one.text))]

    @property
    def labels(self) -> dict[str, list[Block]]:
        """The paragraphs that begin with a label, such as "Threads:", without it.

        If one ends with a colon, the code after it belongs to it.
        """
        found = {}
        for block in self.blocks[1:]:
            match = LABEL.match(block.text) if block.kind == "text" else None
            if match:
                last = [Block("text", capitalize(match["text"]))]
                found[match["label"]] = last
            elif self._belongs_to_label(block):
                last.append(block)
        return found

    def _belongs_to_label(self, block: Block) -> bool:
        number = next(number for number, one in enumerate(self.blocks) if one is block)
        before = self.blocks[number - 1].text if number else ""
        return block.kind == "code" and before.endswith(":") and bool(LABEL.match(before))


def capitalize(text: str) -> str:
    """Begin with a capital letter, unless the first word is a name."""
    first = text.split(" ", 1)[0].rstrip(".,:;")
    return text[0].upper() + text[1:] if first.isalpha() else text


def errors_in(text: str, have_default: set[str]) -> Errors:
    """Find the errors in what is said of a result.

    A reason, in parentheses or after "if", belongs to the error before it, and to those before that
    one which have no default reason.
    """
    errors = Errors({}, [], [], [], bool(ERROR_OF_CALL.search(text)))
    for match in ERRORS.finditer(text):
        names = re.findall(r"E[A-Z0-9]+", match["names"])
        reason = match["inside"] or match["after"]
        for name in names:
            is_meant = name == names[-1] or name not in have_default
            reasons = errors.reasons.setdefault(name, [])
            reasons += [reason] if reason and is_meant else []
    errors.same_as = [match["name"] for match in SAME_ERRORS.finditer(text)]
    for match in ERRORS_OF.finditer(text):
        errors.pages += re.findall(r"[a-z0-9_]+\(\d\)", match["pages"])
    errors.causes = [match["cause"] for match in OTHER_ERROR.finditer(text)]
    return errors
