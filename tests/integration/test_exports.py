"""The libraries define the functions and objects that the headers declare, and no others."""

import re
from pathlib import Path

import pytest
from installation import (
    HAS_TLS,
    SANITIZERS,
    functions_and_objects,
    libraries_needed,
    output,
    shell,
)

pytestmark = pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers add symbols of their own")


def defined(*words: str | Path) -> set[str]:
    """Return the names of the symbols that nm lists."""
    lines = (line.split() for line in output("nm", "--defined-only", *words).splitlines())
    return {words[2] for words in lines if len(words) == 3}


LIBRARIES = ["gossamer", *(["gossamer-tls"] if HAS_TLS else [])]


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_shared_library_exports_exactly_what_the_headers_declare(
    name: str, installed: Path
) -> None:
    (library,) = installed.rglob(f"lib{name}.so")
    exported = defined("--dynamic", library)
    (soname,) = re.findall(r"\(SONAME\).*\[(.*)\]", output("readelf", "--dynamic", library))
    (abi,) = re.findall(rf"^lib{name}\.so\.(\d+)$", soname)
    assert library.resolve() == library.with_name(soname).resolve()
    version = f"{name.upper().replace('-', '_')}_{abi}"
    declared = functions_and_objects(name)
    assert exported == {f"{name}@@{version}" for name in declared} | {version}


@pytest.mark.parametrize("name", [*LIBRARIES, "gossamer_checked"])
def test_a_static_library_defines_exactly_what_the_headers_declare(
    name: str, installed: Path
) -> None:
    (library,) = installed.rglob(f"lib{name}.a")
    assert defined("--extern-only", library) == functions_and_objects(name)


def test_only_the_library_for_tls_needs_openssl(installed: Path) -> None:
    (library,) = installed.rglob("libgossamer.so")
    assert not [name for name in libraries_needed(library) if re.match("lib(ssl|crypto)", name)]
    assert "SSL_" not in output("nm", next(installed.rglob("libgossamer.a")))


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
