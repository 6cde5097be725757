"""What `make install-libevent` installs: its functions, and programs that are built with it."""

import fcntl
import re
from pathlib import Path

import pytest
from installation import BUILD, ROOT, SANITIZERS, libraries_needed, output
from libevent_functions import HEADERS, INCLUDE, exported, table

pytestmark = pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers add symbols of their own")

ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.MULTILINE)
TABLE = (ROOT / "docs/libevent-functions.md").read_text()

PROGRAM = """
#include <event2/bufferevent.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <stdio.h>

static void on_read(struct bufferevent *bev, void *base)
{
    char *line = evbuffer_readln(bufferevent_get_input(bev), NULL, EVBUFFER_EOL_LF);
    puts(line);
    event_base_loopbreak(base);
}

int main(void)
{
    struct bufferevent *pair[2];
    if (evthread_use_pthreads())
        return 1;
    struct event_base *base = event_base_new();
    if (!base || bufferevent_pair_new(base, 0, pair))
        return 2;
    bufferevent_setcb(pair[1], on_read, NULL, NULL, base);
    bufferevent_enable(pair[1], EV_READ);
    bufferevent_write(pair[0], "a line\\n", 7);
    printf("%s\\n", event_get_version());
    return event_base_dispatch(base);
}
"""


@pytest.fixture(scope="module")
def libevent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory that the libraries were installed in, and then moved to."""
    folder = tmp_path_factory.mktemp("libevent")
    with (BUILD / "libevent.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        output("cmake", "--build", BUILD, "--target", "libevent")
    before = folder / "before"
    output("cmake", "--install", BUILD, "--component", "libevent", "--prefix", before)
    return before.rename(folder / "after")


@pytest.mark.skipif(not (INCLUDE / "event2/event.h").exists(), reason="libevent is not installed")
def test_the_table_of_functions_is_that_of_the_headers() -> None:
    assert table() == TABLE


@pytest.mark.parametrize("name", ["libevent_core", "libevent_pthreads"])
def test_each_library_exports_exactly_the_functions_of_the_table(name: str, libevent: Path) -> None:
    functions = {function for function, library in ROW.findall(TABLE) if library == name}
    assert functions
    assert exported(libevent / "lib" / f"{name}.so") == functions


@pytest.mark.parametrize("header", HEADERS)
def test_each_function_is_declared_by_a_header_of_the_same_name(
    header: str, libevent: Path
) -> None:
    section = TABLE.split(f"\n## {header}\n")[1].split("\n## ")[0]
    include = libevent / "include"
    texts = [(include / f"event2/{stem}.h").read_text() for stem in HEADERS[header]]
    for function, library in ROW.findall(section):
        if library.startswith("lib"):
            assert any(re.search(rf"\b{function}\(", text) for text in texts), function


@pytest.mark.parametrize("packages", ["libevent_core libevent_pthreads", "libevent"])
@pytest.mark.parametrize("is_static", [False, True])
def test_a_program_is_built_by_the_words_of_pkg_config(
    packages: str, is_static: bool, libevent: Path, tmp_path: Path
) -> None:
    found = {"PKG_CONFIG_PATH": str(libevent / "lib/pkgconfig")}
    assert output("pkg-config", "--modversion", *packages.split(), **found).startswith("2.1.12")
    words = output("pkg-config", "--static", "--cflags", "--libs", *packages.split(), **found)
    if is_static:
        words = re.sub(r"-l(event\w*)", r"-l:lib\1.a", words)
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    output("cc", "-Wall", "-Werror", tmp_path / "program.c", "-o", program, *words.split())
    assert any("libevent" in name for name in libraries_needed(program)) != is_static
    said = output(program, LD_LIBRARY_PATH=str(libevent / "lib"))
    assert said == "2.1.12-stable\na line\n"
