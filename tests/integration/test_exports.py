"""The libraries define the functions and objects that the headers declare, and no others."""

import re
from pathlib import Path

import pytest
from installation import SANITIZERS, functions_and_objects, output, shell

pytestmark = pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers add symbols of their own")


def defined(*words: str | Path) -> set[str]:
    """Return the names of the symbols that nm lists."""
    lines = (line.split() for line in output("nm", "--defined-only", *words).splitlines())
    return {words[2] for words in lines if len(words) == 3}


def test_the_shared_library_exports_exactly_what_the_headers_declare(installed: Path) -> None:
    (library,) = installed.rglob("libgossamer.so")
    exported = defined("--dynamic", library)
    (soname,) = re.findall(r"\(SONAME\).*\[(.*)\]", output("readelf", "--dynamic", library))
    (abi,) = re.findall(r"^libgossamer\.so\.(\d+)$", soname)
    assert library.resolve() == library.with_name(soname).resolve()
    version = f"GOSSAMER_{abi}"
    assert exported == {f"{name}@@{version}" for name in functions_and_objects()} | {version}


@pytest.mark.parametrize("name", ["libgossamer.a", "libgossamer_checked.a"])
def test_a_static_library_defines_exactly_what_the_headers_declare(
    name: str, installed: Path
) -> None:
    (library,) = installed.rglob(name)
    assert defined("--extern-only", library) == functions_and_objects()


def test_a_library_that_contains_the_static_one_exports_only_its_own(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "plugin.c").write_text(
        "#include <gossamer/thread.h>\nint plugin_run(gs_thread_fn *fn, void *argument);\n"
        "int plugin_run(gs_thread_fn *fn, void *argument)\n"
        "{ return gs_threads_run(NULL, fn, argument, NULL); }\n"
    )
    flags = "$(pkg-config --static --cflags --libs gossamer | sed s/-lgossamer/-l:libgossamer.a/)"
    command = f"cc -shared -fPIC plugin.c {flags} -Wl,-z,defs -Wl,--exclude-libs,libgossamer.a"
    shell(f"{command} -o plugin.so", installed, tmp_path)
    assert defined("--dynamic", tmp_path / "plugin.so") == {"plugin_run"}


def test_no_library_claims_a_shadow_stack(installed: Path) -> None:
    """Switching stacks would be an error there."""
    for library in (*installed.rglob("libgossamer*.a"), *installed.rglob("libgossamer.so")):
        assert "SHSTK" not in output("readelf", "--notes", library)
