"""The reference that is made from the headers is whole, true to them, and well-formed."""

import re
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent
from urllib.parse import urlsplit
from xml.etree import ElementTree

import browser
import pytest

ROOT = Path(__file__).resolve().parents[2]
OVERVIEWS = sorted((ROOT / "docs/man").iterdir())
HEADERS = sorted((ROOT / "include/gossamer").glob("*.h"))
CPP_HEADERS = sorted((ROOT / "include/gossamer").glob("*.hpp"))
GUIDES = [*sorted((ROOT / "docs").glob("guide-*.md")), ROOT / "docs/debugging.md"]


def code_of(header: Path) -> str:
    """Return the header without its comments."""
    return re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.DOTALL)


def exported(header: Path) -> set[str]:
    """Return the functions that a header exports, found without the generator's parser."""
    return set(re.findall(r"\bGS_API\b[^;={]*?\b(gs_\w+)\(", code_of(header)))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the whole reference."""
    folder = tmp_path_factory.mktemp("reference")
    done = subprocess.run(
        [ROOT / "tools/docs", folder], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def page_of(written: Path, function: str) -> str:
    """Return the source of the function's manual page, followed through a link."""
    text = (written / f"man/man3/{function}.3").read_text()
    link = re.fullmatch(r"\.so (man3/gs_\w+\.3)\n", text)
    return (written / "man" / link[1]).read_text() if link else text


def section(page: str, title: str) -> str:
    """Return a section of a manual page."""
    found = re.search(rf"^\.Sh {title}\n(.*?)(?=^\.Sh |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def prototypes(page: str) -> dict[str, str]:
    """Return the prototypes of a page's synopsis, by function."""
    found = re.findall(
        r"^\.Ft (.*)\n\.Fo (gs_\w+)\n((?:\.Fa .*\n)+)\.Fc$", section(page, "SYNOPSIS"), re.MULTILINE
    )
    return {
        name: f"{result} {name}({', '.join(re.findall('^.Fa (.*)$', parameters, re.MULTILINE))});"
        for result, name, parameters in found
    }


@pytest.fixture(scope="module")
def pages(written: Path) -> dict[str, str]:
    """Return the page of each exported function."""
    names = set().union(*(exported(header) for header in HEADERS))
    assert len(names) > 250
    return {name: page_of(written, name) for name in sorted(names)}


def test_each_exported_function_has_a_page_that_names_it_and_its_header(
    pages: dict[str, str],
) -> None:
    for header in HEADERS:
        for name in exported(header):
            assert re.search(rf"^\.Nm {name}( ,)?$", pages[name], re.MULTILINE), name
            assert f".In gossamer/{header.name}\n" in section(pages[name], "SYNOPSIS")


def test_the_prototypes_of_the_pages_are_those_of_the_headers(
    pages: dict[str, str], tmp_path: Path
) -> None:
    found = {}
    for page in pages.values():
        found |= prototypes(page)
    assert set(pages) <= set(found)
    inline = "".join(code_of(header) for header in HEADERS)
    inline = set(re.findall(r"^static inline [^;({]*?\b(gs_\w+)\(", inline, re.MULTILINE))
    lines = [f"#include <gossamer/{header.name}>" for header in HEADERS]
    lines += ["static inline " * (name in inline) + text for name, text in found.items()]
    source = tmp_path / "prototypes.c"
    source.write_text("\n".join(lines).replace('"', "") + "\n")
    compiler = shutil.which("gcc") or "clang-19"
    command = [compiler, "-std=gnu17", "-Wall", "-Werror", "-Wno-unused-function"]
    done = subprocess.run(
        [*command, f"-I{ROOT}/include", "-fsyntax-only", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_page_says_what_each_of_its_functions_returns(pages: dict[str, str]) -> None:
    for name, page in pages.items():
        text = section(page, "RETURN VALUES")
        if prototypes(page)[name].startswith("void "):
            assert f".Fn {name}\nreturns" not in text
        else:
            assert f".Fn {name}" in text or text.startswith("Each of these functions\n"), name


def test_a_page_lists_each_error_that_its_results_name_with_a_reason(
    pages: dict[str, str],
) -> None:
    for name, page in pages.items():
        named = set(re.findall(r"Er (E[A-Z0-9]+)", section(page, "RETURN VALUES")))
        errors = section(page, "ERRORS")
        assert named <= set(re.findall(r"^\.It Bq Er (E[A-Z0-9]+)$", errors, re.MULTILINE)), name
        assert not re.search(r"^\.It Bq Er \w+\n\.(It|El)", errors, re.MULTILINE), name


def test_pages_refer_to_pages_that_exist(written: Path) -> None:
    names = {page.stem for page in (written / "man/man3").iterdir()}
    ours = names | {page.stem for page in OVERVIEWS}
    for page in [*(written / "man/man3").iterdir(), *OVERVIEWS]:
        referred = re.findall(r"\bXr ((?:gs_|gossamer|libgossamer)[\w-]*) \d", page.read_text())
        assert set(referred) - ours == set(), page.name
    for page in (page for page in OVERVIEWS if page.suffix == ".7"):
        assert ".Xr libgossamer 3" in page.read_text()


def test_the_contents_list_every_function(written: Path, pages: dict[str, str]) -> None:
    contents = (written / "man/man3/libgossamer.3").read_text()
    assert set(pages) - set(re.findall(r"\bXr (gs_\w+) 3\b", contents)) == set()


@pytest.mark.parametrize(
    "command",
    [
        ["mandoc", "-T", "lint", "-W", "warning"],
        ["groff", "-t", "-mandoc", "-T", "utf8", "-ww", "-z"],
    ],
    ids=["mandoc", "groff"],
)
def test_formatters_have_nothing_to_say_about_a_page(written: Path, command: list[str]) -> None:
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    made = sorted((written / "man/man3").iterdir())
    texts = [page for page in made if not page.read_text().startswith(".so ")]
    done = subprocess.run(
        [*command, *texts, *OVERVIEWS], capture_output=True, text=True, check=False
    )
    assert done.stdout + done.stderr == ""


@pytest.fixture(scope="module")
def trees(written: Path) -> dict[str, ElementTree.Element]:
    """Return the HTML pages, which are also well-formed XML."""
    files = sorted((written / "html").glob("*.html"))
    headers = {*(header.stem for header in HEADERS), *(header.name for header in CPP_HEADERS)}
    assert {file.stem for file in files} == {"index", *headers, *(guide.stem for guide in GUIDES)}
    return {file.name: ElementTree.parse(file).getroot() for file in files}


def test_every_link_of_the_html_pages_resolves(
    written: Path, trees: dict[str, ElementTree.Element]
) -> None:
    ids = {}
    for name, tree in trees.items():
        listed = [element.get("id") for element in tree.iter() if element.get("id")]
        assert len(listed) == len(set(listed)), name
        ids[name] = set(listed)
    for name, tree in trees.items():
        for element in tree.iter():
            url = urlsplit(element.get("href") or element.get("src") or "")
            assert (url.scheme, url.netloc) == ("", "")
            assert (written / "html" / (url.path or name)).is_file()
            assert not url.fragment or url.fragment in ids[url.path or name], url


def test_each_function_is_in_the_html_page_of_its_header(
    trees: dict[str, ElementTree.Element],
) -> None:
    for header in HEADERS:
        tree = trees[f"{header.stem}.html"]
        ids = {element.get("id") for element in tree.iter()}
        assert exported(header) - ids == set()


def test_the_page_of_a_header_of_cpp_shows_what_is_public(
    trees: dict[str, ElementTree.Element],
) -> None:
    def shown(name: str) -> str:
        return "".join(trees[f"{name}.html"].itertext())

    assert "std::optional<T> receive(deadline limit = deadline::never());" in shown("channel.hpp")
    assert "inline void this_thread::sleep(deadline end);" in shown("thread.hpp")
    assert "file_descriptor listen(const std::string &address," in shown("net.hpp")
    for header in CPP_HEADERS:
        code = "".join(
            "".join(element.itertext()) for element in trees[f"{header.name}.html"].iter("pre")
        )
        assert "private:" not in code, header.name
        assert "detail\n{" not in code, header.name
        ids = {element.get("id") for element in trees[f"{header.name}.html"].iter()}
        for name in re.findall(r"^class (?:\[\[nodiscard\]\] )?(\w+)\n", code, re.MULTILINE):
            assert name in ids, name


def test_the_page_of_a_guide_has_its_sections_and_its_code(
    trees: dict[str, ElementTree.Element],
) -> None:
    for guide in GUIDES:
        text = guide.read_text()
        tree = trees[f"{guide.stem}.html"]
        titles = ["".join(one.itertext()) for one in tree.iter() if one.tag in ("h1", "h2", "h3")]
        expected = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)
        assert titles == [title.replace("`", "") for title in expected], guide.name
        blocks = ["".join(one.itertext()) for one in tree.iter("pre")]
        fenced = re.findall(r"^ *```\w*\n(.*?)\n *```$", text, re.DOTALL | re.MULTILINE)
        assert blocks == [dedent(code) for code in fenced], guide.name
        cells = [one for one in tree.iter() if one.tag in ("td", "th")]
        assert bool(cells) == ("\n|---" in text), guide.name


def test_the_index_begins_with_tasks_that_lead_to_functions(
    trees: dict[str, ElementTree.Element],
) -> None:
    tasks = (ROOT / "docs/tasks.md").read_text()
    named = set(re.findall(r"`(gs_\w+|gossamer::[\w:]+)[`(]", tasks))
    assert len(named) > 100
    body = "".join(trees["index.html"].itertext())
    assert body.index("start a thread, wait for its end") < body.index("Headers of C")
    linked = {"".join(link.itertext()).split("(")[0] for link in trees["index.html"].iter("a")}
    assert named - linked == set()
    headers = {link.get("href").split("#")[0] for link in trees["index.html"].iter("a")}
    assert {page for page in trees if page != "index.html"} - headers == set()


def test_html_pages_fit_the_screen_and_follow_the_colour_scheme(written: Path) -> None:
    programs = browser.programs()
    if not programs:
        pytest.skip("no chromium with its driver")
    backgrounds = set()
    with browser.browser(*programs) as chrome:
        for name in ("index", "thread", "loop_io", "thread.hpp", "guide-threads"):
            for width, dark in ((390, False), (1280, True)):
                browser.show(chrome, written / f"html/{name}.html", width, dark)
                size = "return document.documentElement.scrollWidth"
                assert chrome.execute_script(size) <= width, name
                background = "return getComputedStyle(document.body).backgroundColor"
                backgrounds.add((dark, chrome.execute_script(background)))
        assert not [url for url in browser.requests(chrome) if url.startswith("http")]
    assert len(backgrounds) == len({background for _, background in backgrounds}) == 2
