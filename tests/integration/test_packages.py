"""Projects that use CMake find the library installed, or build it as a part of themselves."""

import json
import os
import shutil
from pathlib import Path

import pytest
from installation import (
    HAS_CXX,
    HAS_TLS,
    ROOT,
    SANITIZERS,
    cached,
    environment,
    libraries_needed,
    output,
    shell,
)

SAID = f"all threads have resumed: the sum of their numbers is {99 * 50}"

TLS_PROGRAM = """
#include <stddef.h>
#include <gossamer/tls_context.h>
int main(void)
{
    const struct gs_tls_options options = {.is_client = true};
    struct gs_tls_context *context;
    int err = gs_tls_context_new(&options, &context, NULL);
    if (!err)
        gs_tls_context_release(context);
    return err != 0;
}
"""

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES {language})
{found}
add_executable({name} {source})
target_link_libraries({name} PRIVATE {target})
"""


def write_project(folder: Path, found: str, target: str, path: str = "examples/many.c") -> Path:
    """Write the project of a program, which is a copy of one of ours."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(shutil.copy(ROOT / path, folder))
    language = {".c": "C", ".cc": "CXX"}[source.suffix]
    names = {"name": source.stem, "source": source.name, "language": language}
    text = PROJECT.format(found=found, target=target, **names)
    (folder / "CMakeLists.txt").write_text(text)
    return folder


def check_program(program: Path) -> None:
    library = program.resolve().parent
    assert output(program, "100", LD_LIBRARY_PATH=str(library)).splitlines()[-1] == SAID


def build_with_installed(
    installed: Path, folder: Path, found: str, targets: tuple[str, ...], *words: str
) -> list[Path]:
    """Build a program for each target in one project; return the programs, which work."""
    variables = environment(installed, folder)
    project = write_project(folder / "project", found, targets[0])
    with (project / "CMakeLists.txt").open("a") as text:
        for number, target in enumerate(targets[1:]):
            text.write(f"add_executable(other{number} many.c)\n")
            text.write(f"target_link_libraries(other{number} PRIVATE {target})\n")
    build = folder / "build"
    output("cmake", "-S", project, "-B", build, "-G", "Ninja", *words, **variables)
    output("cmake", "--build", build, **variables)
    names = ("many", *(f"other{number}" for number in range(len(targets) - 1)))
    for name in names:
        said = output(build / name, "100", **variables)
        assert said.splitlines()[-1] == SAID
    return [build / name for name in names]


@pytest.mark.parametrize(
    ("words", "targets"),
    [
        ((), {"gossamer": True, "static": False, "checked": False}),
        (("-DBUILD_SHARED_LIBS=ON",), {"gossamer": True}),
        (("-DBUILD_SHARED_LIBS=OFF",), {"gossamer": False, "shared": True}),
    ],
)
def test_find_package(
    words: tuple[str, ...], targets: dict[str, bool], installed: Path, tmp_path: Path
) -> None:
    found = "find_package(gossamer 0.1 REQUIRED COMPONENTS static shared checked)"
    names = tuple(f"gossamer::{name}" for name in targets)
    words = (*words, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    programs = build_with_installed(installed, tmp_path, found, names, *words)
    for program, is_shared in zip(programs, targets.values(), strict=True):
        assert ("libgossamer.so.0" in libraries_needed(program)) == is_shared
    # Each is compiled with the options for stacks.
    for entry in json.loads((tmp_path / "build/compile_commands.json").read_text()):
        assert "-fstack-clash-protection" in entry["command"].split()


@pytest.mark.skipif(not HAS_TLS, reason="built without OpenSSL")
@pytest.mark.parametrize("is_shared", [True, False])
def test_find_package_has_a_component_for_tls(
    is_shared: bool, installed: Path, tmp_path: Path
) -> None:
    found = "find_package(gossamer 0.1 REQUIRED COMPONENTS tls)"
    words = f"-DBUILD_SHARED_LIBS={'ON' if is_shared else 'OFF'}"
    project = write_project(tmp_path / "project", found, "gossamer::tls")
    (project / "many.c").write_text(TLS_PROGRAM)
    build, variables = tmp_path / "build", environment(installed, tmp_path)
    output("cmake", "-S", project, "-B", build, "-G", "Ninja", words, **variables)
    output("cmake", "--build", build, **variables)
    output(build / "many", **variables)
    needed = libraries_needed(build / "many")
    assert ("libgossamer-tls.so.0" in needed) == is_shared
    assert ("libssl.so.3" in needed) != is_shared


@pytest.mark.skipif(not HAS_TLS, reason="built without OpenSSL")
@pytest.mark.parametrize("static", ["", " --static"])
def test_pkg_config_knows_tls(static: str, installed: Path, tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text(TLS_PROGRAM)
    flags = f"$(pkg-config --cflags --libs{static} gossamer-tls)"
    shell(f"cc program.c {flags} -o program && ./program", installed, tmp_path)


def test_find_package_offers_the_library_that_is_there(installed: Path, tmp_path: Path) -> None:
    """As where a distribution leaves out static libraries, or has a package for them."""
    part = shutil.copytree(installed, tmp_path / "part", symlinks=True)
    for file in (*part.rglob("libgossamer.a"), *part.rglob("gossamer-static*.cmake")):
        file.unlink()
    words = "-DBUILD_SHARED_LIBS=OFF"
    found = "find_package(gossamer 0.1 REQUIRED)"
    (program,) = build_with_installed(part, tmp_path, found, ("gossamer::gossamer",), words)
    assert "libgossamer.so.0" in libraries_needed(program)
    check_is_not_found(part, tmp_path / "other", "gossamer 0.1 COMPONENTS static")


def check_is_not_found(installed: Path, folder: Path, *packages: str) -> None:
    """Configure a project that cannot have what it asks for, as it knows."""
    text = "".join(
        f"find_package({words})\nif(gossamer_FOUND)\n    message(FATAL_ERROR found)\nendif()\n"
        for words in packages
    )
    project = write_project(folder / "project", text, "m")
    output("cmake", "-S", project, "-B", folder / "build", **environment(installed, folder))


def test_find_package_refuses_another_minor_version(installed: Path, tmp_path: Path) -> None:
    check_is_not_found(installed, tmp_path, "gossamer 0.2", "gossamer 1", "gossamer 0.0")


@pytest.mark.skipif(not HAS_CXX, reason="configured without a C++ compiler")
@pytest.mark.parametrize("target", ["gossamer::static", "gossamer::shared"])
def test_find_package_serves_a_project_in_cplusplus(
    target: str, installed: Path, tmp_path: Path
) -> None:
    found = "find_package(gossamer 0.1 REQUIRED)"
    project = write_project(tmp_path / "project", found, target, "tests/headers/program.cc")
    build, variables = tmp_path / "build", environment(installed, tmp_path)
    output("cmake", "-S", project, "-B", build, **variables)
    said = output("cmake", "--build", build, "--verbose", **variables)
    assert " -fstack-clash-protection " in said
    output(build / "program", **variables)


def folder_without_python(folder: Path) -> Path:
    """Return a directory with the commands of the system, except Python."""
    folder.mkdir()
    for directory in ("/bin", "/usr/bin", *os.environ["PATH"].split(":")):
        for tool in Path(directory).iterdir() if Path(directory).is_dir() else ():
            place = folder / tool.name
            if not tool.name.startswith("python") and not place.is_symlink():
                place.symlink_to(tool)
    return folder


ADD = f"""
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
{{settings}}
add_subdirectory({ROOT} gossamer)
"""
FETCH = """
include(FetchContent)
FetchContent_Declare(gossamer URL unused)
FetchContent_MakeAvailable(gossamer)
"""


@pytest.fixture(scope="module")
def detected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what CMake finds out about the compiler of C, which it need not do in each test."""
    folder = tmp_path_factory.mktemp("detected")
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(none LANGUAGES C ASM)\n"
    )
    compiler = f"-DCMAKE_C_COMPILER={cached('CMAKE_C_COMPILER')}"
    output("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", compiler)
    return folder / "build"


def configure(detected: Path, project: Path, build: Path, *words: str, **variables: str) -> None:
    """Configure a project with Ninja and the compiler of the build under test."""
    shutil.copytree(detected / "CMakeFiles", build / "CMakeFiles")
    compiler = f"-DCMAKE_C_COMPILER={cached('CMAKE_C_COMPILER')}"
    output("cmake", "-S", project, "-B", build, "-G", "Ninja", compiler, *words, **variables)


@pytest.mark.skipif(bool(SANITIZERS), reason="it is configured again, as users do")
def test_add_subdirectory_builds_the_library_and_nothing_else(
    detected: Path, tmp_path: Path
) -> None:
    path = str(folder_without_python(tmp_path / "bin"))
    text = ADD.format(settings="include(CTest)")
    project = write_project(tmp_path / "project", text, "gossamer::gossamer")
    build = tmp_path / "build"
    configure(detected, project, build, PATH=path)
    commands = output("ninja", "-C", build, "-t", "commands", PATH=path)
    assert "libgossamer.a" in commands
    assert "libgossamer.so" not in commands
    assert "python" not in commands

    entries = json.loads((build / "compile_commands.json").read_text())
    sources = {Path(entry["file"]) for entry in entries}
    assert {source.relative_to(ROOT).parts[0] for source in sources if ROOT in source.parents} == {
        "src"
    }
    (own,) = (entry["command"].split() for entry in entries if entry["file"].endswith("many.c"))
    assert [word for word in own if word.startswith(("-W", "-f", "-D"))] == [
        "-fstack-clash-protection"
    ]
    assert "\nTotal Tests: 0\n" in output("ctest", "--test-dir", build, "-N")
    output("cmake", "--install", build, "--prefix", tmp_path / "none")
    assert not (tmp_path / "none").exists()


STATIC = """
add_executable(many_static many.c)
target_link_libraries(many_static PRIVATE gossamer::static)
"""


@pytest.mark.skipif(bool(SANITIZERS), reason="it is compiled again, as users do")
def test_fetch_content_with_make_builds_both_libraries(tmp_path: Path) -> None:
    project = write_project(tmp_path / "project", FETCH, "gossamer::gossamer")
    with (project / "CMakeLists.txt").open("a") as text:
        text.write(STATIC)
    build = tmp_path / "build"
    words = [f"-DFETCHCONTENT_SOURCE_DIR_GOSSAMER={ROOT}", "-DGOSSAMER_BUILD_SHARED=ON"]
    words += ["-DGOSSAMER_INSTALL=ON", "-DCMAKE_INSTALL_PREFIX=/usr"]
    words += ["-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_INSTALL_DATADIR=/usr/elsewhere"]
    words.append(f"-DCMAKE_C_COMPILER={cached('CMAKE_C_COMPILER')}")
    output("cmake", "-S", project, "-B", build, "-G", "Unix Makefiles", *words)
    output("cmake", "--build", build, "-j", "2")
    for name, is_shared in (("many", True), ("many_static", False)):
        check_program(build / name)
        assert ("libgossamer.so.0" in libraries_needed(build / name)) == is_shared
    libraries = [next(build.rglob(f"libgossamer.{suffix}")) for suffix in ("a", "so")]
    assert not any(bytes(tmp_path) in library.read_bytes() for library in libraries)
    package = tmp_path / "package"
    output("env", f"DESTDIR={package}", "cmake", "--install", build)
    assert (package / "usr/elsewhere/gossamer/gdb/gossamer.py").is_file()
    assert list((package / "usr/elsewhere/gdb/auto-load/usr/lib").glob("*-gdb.py"))


@pytest.mark.skipif(bool(SANITIZERS), reason="it is configured again, as users do")
@pytest.mark.parametrize(
    ("settings", "targets"),
    [
        ("", {"gossamer_static"}),
        ("set(BUILD_SHARED_LIBS OFF)", {"gossamer_static"}),
        ("set(BUILD_SHARED_LIBS ON)", {"gossamer_shared"}),
        ("set(GOSSAMER_BUILD_SHARED ON)", {"gossamer_static", "gossamer_shared"}),
        ("set(GOSSAMER_BUILD_PROGRAM ON)", {"gossamer_static", "gossamer"}),
        ("set(GOSSAMER_BUILD_EXAMPLES ON)", {"gossamer_static", "example_many"}),
    ],
)
def test_a_project_chooses_what_is_built(
    settings: str, targets: set[str], detected: Path, tmp_path: Path
) -> None:
    chosen = {"gossamer_static", "gossamer_shared", "gossamer", "example_many"}
    text = ADD.format(settings=settings)
    for name in sorted(chosen | {"test_base_list", "baseline"}):
        word = "NOT TARGET" if name in targets else "TARGET"
        text += f"if({word} {name})\n    message(FATAL_ERROR {name})\nendif()\n"
    project = write_project(tmp_path / "project", text, "gossamer::gossamer")
    configure(detected, project, tmp_path / "build")


PARTS = ("PROGRAM", "COMPAT", "EXAMPLES", "BENCH", "TESTS")


@pytest.mark.skipif(bool(SANITIZERS), reason="it is configured again, as distributions do")
@pytest.mark.parametrize(
    ("shared", "linked", "linked_statically"),
    [("OFF", "-lgossamer -pthread -lm", ""), ("ON", "-lgossamer", "-pthread -lm")],
)
def test_pkg_config_names_the_libraries_that_a_program_needs(
    shared: str, linked: str, linked_statically: str, detected: Path, tmp_path: Path
) -> None:
    words = [f"-DBUILD_SHARED_LIBS={shared}", "-DCMAKE_INSTALL_PREFIX=/usr"]
    words += [f"-DGOSSAMER_BUILD_{part}=OFF" for part in PARTS]
    words += ["-DCMAKE_INSTALL_LIBDIR=/usr/lib/here", "-DCMAKE_INSTALL_INCLUDEDIR=include/there"]
    words.append("-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON")  # the reference is not what is tested
    configure(detected, ROOT, tmp_path, *words)
    fields = dict(
        line.split(": ", 1)
        for line in (tmp_path / "gossamer.pc").read_text().splitlines()
        if ": " in line
    )
    assert linked in fields["Libs"]
    assert linked_statically in fields["Libs.private"]
    assert ("-lm" in fields["Libs"]) == (shared == "OFF")
    paths = (tmp_path / "gossamer.pc").read_text().splitlines()[:2]
    assert paths == ["libdir=${pcfiledir}/../", "includedir=${pcfiledir}/../../../include/there"]
