"""Each manual page of a part of the library names everything that its header has."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("thread", "sync", "io", "stage")


def functions(header: str) -> set[str]:
    """Return the names of the functions that programs may call."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"GS_API\b[^;={]*?\b(gs_\w+)\(", code))


@pytest.mark.parametrize("part", PARTS)
def test_the_manual_page_names_each_function_of_its_header_as_declared(part: str) -> None:
    header = (ROOT / f"include/gossamer/{part}.h").read_text()
    page = (ROOT / f"docs/man/gossamer-{part}.7").read_text()
    expected = functions(header)
    assert len(expected) == len(re.findall(r"^GS_API [^;=]*?\(", header, flags=re.MULTILINE))
    assert expected - set(re.findall(r"\bgs_\w+", page)) == set()
    declared = set(re.findall(r"^\.It Ft .* Fn (gs_\w+)", page, flags=re.MULTILINE))
    assert declared - set(re.findall(r"\bgs_\w+", header)) == set()
