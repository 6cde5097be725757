"""The manual page of each module names each function of its headers, and that of C++ each name."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = {
    "thread": ("thread",),
    "sync": ("sync",),
    "io": ("io", "net", "buffered", "process"),
    "stage": ("stage",),
    "tls": ("tls", "tls_context", "tls_engine"),
}


def functions(header: str) -> set[str]:
    """Return the names of the public functions."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    return set(re.findall(r"GS_API\b[^;={]*?\b(gs_\w+)\(", code))


@pytest.mark.parametrize("module", MODULES)
def test_the_manual_page_names_each_function_of_its_headers_as_declared(module: str) -> None:
    headers = (ROOT / f"include/gossamer/{name}.h" for name in MODULES[module])
    header = "".join(path.read_text() for path in headers)
    page = (ROOT / f"docs/man/gossamer-{module}.7").read_text()
    expected = functions(header)
    assert len(expected) == len(re.findall(r"^GS_API [^;=]*?\(", header, flags=re.MULTILINE))
    assert expected - set(re.findall(r"\bgs_\w+", page)) == set()
    declared = set(re.findall(r"^\.It Ft .* Fn (gs_\w+)", page, flags=re.MULTILINE))
    assert declared - set(re.findall(r"\bgs_\w+", header)) == set()


def test_each_difference_from_the_system_calls_has_a_test() -> None:
    page = (ROOT / "docs/man/gossamer-io.7").read_text()
    (table,) = re.findall(r"^Subject\|.*?(?=^\.TE$)", page, flags=re.DOTALL | re.MULTILINE)
    cell = r"T\{\n.+\nT\}"
    row = rf'^(?:\.\\" \w+/test_\w+\.c: \w+\n)+{cell}\|{cell}\|{cell}\n'
    assert re.sub(row, "", table, flags=re.MULTILINE).count("\n") == 1
    tests = re.findall(r'^\.\\" (\S+): (\w+)$', table, flags=re.MULTILINE)
    assert len(tests) > 25
    for file, name in tests:
        text = (ROOT / "tests/thread" / file).read_text()
        assert re.search(rf"^(THREAD_)?TEST\({name}[,)]", text, flags=re.MULTILINE), name


def names_of_cpp(header: str) -> set[str]:
    """Return the names of the public types and functions, and of their members."""
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    detail = r"^namespace detail\n\{.*?^\} // namespace detail$"
    code = re.sub(detail, "", code, flags=re.DOTALL | re.MULTILINE)
    code = re.sub(r"^  private:$.*?^\};$", "", code, flags=re.DOTALL | re.MULTILINE)
    types = re.findall(
        r"^(?:template <.*> )?class (?:GS_API |\[\[.*\]\] )?(\w+)\b", code, flags=re.MULTILINE
    )
    types += re.findall(r"^using (\w+) =", code, flags=re.MULTILINE)
    functions = re.findall(r"^(?:    )?(?:[\w:<>*&[\].,]+ )+[*&]?(?!gs_)(\w+)\(", code, flags=re.M)
    return {*types, *functions} - {"bool", "operator"}


def test_the_manual_page_of_cpp_names_what_its_headers_declare() -> None:
    headers = [path.read_text() for path in (ROOT / "include/gossamer").glob("*.hpp")]
    page = (ROOT / "docs/man/gossamer-cpp.7").read_text()
    names = set().union(*(names_of_cpp(header) for header in headers))
    assert names >= {"task", "call_once", "deadline", "try_lock_shared_for", "send_all"}
    assert names - set(re.findall(r"\w+", page)) == set()
