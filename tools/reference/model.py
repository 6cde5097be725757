"""What a manual page says beside its declarations: results, errors, examples, other pages."""

import re
from dataclasses import dataclass, field

from .comment import Block, Errors, capitalize, errors_in
from .examples import Example, Examples
from .inline import mentioned_functions, mentioned_pages
from .parse import Declaration, Header, Item, Library, Section

# The reasons of errors for which a comment need not give one.
DEFAULT_REASONS = {
    "ENOMEM": "there is not enough memory",
    "EMFILE": "the process has too many open descriptors",
    "ENFILE": "the system has too many open files",
    "ETIMEDOUT": "the deadline passed first",
    "ECANCELED": "the calling thread was canceled",
}
# Which labelled paragraphs of a header concern only some of its pages: those with such a name
# among their functions or parameters.
LABEL_NEEDS = {"Deadlines": r"^deadline_ns$", "Watchers": r"_start$"}
# Functions of gossamer/sys.h whose system call has another name.
NOT_SYSTEM_CALLS = {"gs_sys_set_fault", "gs_sys_mmap_shared"}


@dataclass
class Result:
    """What some functions of a page return."""

    functions: list[Declaration]
    text: str
    errors: Errors

    @property
    def predicate(self) -> str:
        """What follows the names of the functions: "returns ..."."""
        return re.sub(r"^(?:Returns|Each (?:\w+ )?returns)\b", "returns", self.text)


@dataclass
class Reference:
    """The library, and where examples and the other manual pages are found."""

    library: Library
    examples: Examples
    overviews: set[str] = field(default_factory=set)  # the pages of section 7

    def results_of(self, page: Section) -> list[Result]:
        """List the results of the functions of a page."""
        results: list[Result] = []
        for item in page.items:
            functions = [one for one in item.functions if one.returns_something]
            text = self.returns_of(page, item)
            same = next((one for one in results if text and one.text == text), None)
            if same:
                same.functions += functions
            elif functions:
                errors = errors_in(text, set(DEFAULT_REASONS))
                results.append(Result(functions, _first_if_alone(item, text), errors))
        for result in results:
            self._resolve(result.errors)
        return results

    @staticmethod
    def returns_of(page: Section, item: Item) -> str:
        """Return what is said of the results of an item, by its comment, section or header."""
        return item.comment.returns or page.comment.returns or page.header.intro.returns

    def _resolve(self, errors: Errors) -> None:
        """Add the errors of the functions that are named as examples."""
        for name in errors.same_as:
            page = self.library.functions[name]
            text = self.returns_of(page, self.library.item_of(name))
            others = errors_in(text, set(DEFAULT_REASONS))
            for error, reasons in others.reasons.items():
                mine = errors.reasons.setdefault(error, [])
                mine += [reason for reason in reasons if reason not in mine]
            errors.pages += [one for one in others.pages if one not in errors.pages]

    def overview_of(self, page: Section) -> list[Block]:
        """Return what is said of all functions of the page.

        The first page of a header says what the header is for, unless a page of section 7 does.
        """
        header = page.header
        is_first = page is header.pages[0] and f"gossamer-{header.name}" not in self.overviews
        return (header.intro.overview if is_first else []) + page.comment.description

    def labels_of(self, page: Section) -> dict[str, list[Block]]:
        """Return the labelled paragraphs of the headers that concern the page."""
        names = [one.name for one in page.functions]
        names += [name for one in page.functions for name in one.parameter_names]
        labels: dict[str, list[Block]] = {}
        for header in self._bases_of(page.header):
            labels |= header.intro.labels
        return {
            label: blocks
            for label, blocks in labels.items()
            if any(re.search(LABEL_NEEDS.get(label, ""), name) for name in names)
        }

    def _bases_of(self, header: Header) -> list[Header]:
        """List the headers whose labels hold for this one, itself last."""
        by_name = {one.name: one for one in self.library.headers}
        names = [header.name]
        base = header.name.split("_")[0]
        if base != header.name and base in by_name:
            names.insert(0, base)
        if "thread" in header.includes:
            names.insert(0, "thread")
        return [by_name[name] for name in names]

    def examples_of(self, page: Section) -> list[Example]:
        """Return the examples of the comments, or else one of a program."""
        names = {one.name for one in page.functions}
        comments = [page.comment, *(item.comment for item in page.items)]
        found = [code for comment in comments for code in comment.code]
        found += [
            code for code in page.header.intro.code if names & set(re.findall(r"\bgs_\w+", code))
        ]
        if found:
            return [Example(code) for code in found]
        example = self.examples.find(names)
        return [example] if example else []

    def see_also(self, page: Section) -> list[tuple[str, str]]:
        """List the other pages that concern the reader of this one, by section and name."""
        texts = [page.comment.text, *(item.comment.text for item in page.items)]
        texts += [result.text for result in self.results_of(page)]
        text = "\n".join(texts)
        own = {one.name for one in page.functions}
        pages = {(name, "3") for name in mentioned_functions(self.library, text) - own}
        pages |= mentioned_pages(text)
        pages |= {
            (name.removeprefix("gs_sys_"), "2")
            for name in own
            if name.startswith("gs_sys_") and name not in NOT_SYSTEM_CALLS
        }
        overview = f"gossamer-{page.header.name.split('_')[0]}"
        pages |= {(overview, "7")} if overview in self.overviews else set()
        pages.add(("libgossamer", "3"))
        return sorted(pages, key=lambda one: (one[1], one[0]))

    def problems(self) -> list[str]:
        """List what the comments lack."""
        found = []
        for page in (page for header in self.library.headers for page in header.pages):
            where = f"include/gossamer/{page.header.name}.h"
            for result in self.results_of(page):
                names = ", ".join(one.name for one in result.functions)
                if not result.text:
                    found.append(f"{where}: no comment says what {names} returns")
                found += [
                    f"{where}: no comment says why {names} returns -{error}"
                    for error, reasons in result.errors.reasons.items()
                    if not reasons and error not in DEFAULT_REASONS
                ]
            comments = [page.comment, *(item.comment for item in page.items)]
            if not any(comment.text for comment in comments) and not page.header.intro.returns:
                found.append(f"{where}: no comment describes {page.name}")
        return found


def reasons_for(error: str, reasons: list[str]) -> list[str]:
    """Return the reasons as sentences; one that begins with "only" restricts the default one."""
    default = DEFAULT_REASONS.get(error, "")
    full = [f"{default} ({one})" if one.startswith("only") and default else one for one in reasons]
    return [f"{capitalize(reason)}." for reason in full or [default]]


def _first_if_alone(item: Item, text: str) -> str:
    """Only the first sentence, if the description repeats all of the text."""
    if is_only_result(item):
        return re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]
    return text


def is_only_result(item: Item) -> bool:
    """Tell whether the comment says nothing but what the function returns."""
    return bool(item.comment.returns) and not item.comment.description
