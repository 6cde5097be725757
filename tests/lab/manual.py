"""Options in the help of a command, and in its manual page."""

from pathlib import Path


def options_of_help(text: str) -> set[str]:
    """Return the long options, except those that gossamer.1 documents."""
    lines = [line.lstrip("│") for line in text.splitlines()]
    found = {
        line.split("--")[1].split()[0]
        for line in lines
        if line.startswith(" ") and line.lstrip().startswith("-") and "--" in line[:12]
    }
    return found - {"help", "version"}


def options_of_page(page: Path) -> set[str]:
    """Return the long options of a manual page."""
    macros = [line.split() for line in page.read_text().splitlines() if line.startswith(".It Fl")]
    words = [word for words in macros for word in words]
    return {word.removeprefix("-") for word in words if word.startswith("-") and len(word) > 1}
