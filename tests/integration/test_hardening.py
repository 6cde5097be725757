"""What is installed is hardened and stripped, and debuggers find its debug data."""

import re
import shutil
from pathlib import Path

import pytest
from installation import PROGRAM, SANITIZERS, cached, output

IS_OPTIMISED = "-O2" in cached(f"CMAKE_C_FLAGS_{cached('CMAKE_BUILD_TYPE').upper()}")
IS_X86_64 = "X86-64" in output("readelf", "--file-header", shutil.which("readelf") or "")

pytestmark = [
    pytest.mark.skipif(cached("GOSSAMER_HARDEN") == "OFF", reason="configured without hardening"),
    pytest.mark.skipif(bool(SANITIZERS), reason="built with a sanitizer"),
]


def read(file: Path, *options: str) -> str:
    """Return what readelf says about a file."""
    return output("readelf", "--wide", *options, file)


def programs(installed: Path) -> list[Path]:
    """Return the program and the shared libraries."""
    files = [installed / "bin/gossamer", *installed.rglob("libgossamer*.so*")]
    return [file for file in files if not file.is_symlink() and file.suffix != ".py"]


def test_the_program_is_position_independent(installed: Path) -> None:
    program = installed / "bin/gossamer"
    assert re.search(r"Type: +DYN \(Position-Independent Executable", read(program, "-h"))
    assert re.search(r"\(FLAGS_1\).*\bPIE\b", read(program, "-d"))


def test_relocations_are_read_only_and_stacks_not_executable(installed: Path) -> None:
    assert len(programs(installed)) > 1
    for file in programs(installed):
        segments, dynamic = read(file, "-l"), read(file, "-d")
        assert "GNU_RELRO" in segments
        assert re.search(r"\(FLAGS\).*\bBIND_NOW\b", dynamic)
        assert re.search(r"GNU_STACK .* RW +0x", segments)
        assert not re.search(r"LOAD .* RWE ", segments)
        assert "TEXTREL" not in dynamic


def test_frames_have_canaries_and_copies_are_checked(installed: Path) -> None:
    symbols = read(installed / "bin/gossamer", "--dyn-syms")
    assert "__stack_chk_fail@" in symbols
    if IS_OPTIMISED:
        assert re.search(r"__(memcpy|snprintf|vsnprintf|memset)_chk@", symbols)


@pytest.mark.skipif(not IS_X86_64, reason="IBT is of x86-64")
def test_indirect_branches_may_be_tracked_but_there_is_no_shadow_stack(
    installed: Path, tmp_path: Path
) -> None:
    (archive,) = installed.rglob("libgossamer.a")
    shutil.copy(archive, tmp_path)
    output("ar", "x", archive, cwd=tmp_path)
    (unit,) = tmp_path.glob("*.o")
    notes = read(unit, "--notes")
    assert "IBT" in notes
    assert "SHSTK" not in notes

    # A program has the mark if all that it consists of has it, also the C library's own objects.
    start = Path(output(cached("CMAKE_C_COMPILER"), "-print-file-name=Scrt1.o").strip())
    has_mark = "IBT" in read(start, "--notes")
    for file in programs(installed):
        notes = read(file, "--notes")
        assert "SHSTK" not in notes
        assert not has_mark or "IBT" in notes


def test_users_of_the_library_are_not_hardened_against_their_will(installed: Path) -> None:
    files = [*installed.rglob("*.pc"), *installed.rglob("gossamer*.cmake")]
    assert len(files) > 2
    for file in files:
        text = file.read_text()
        for word in "FORTIFY", "stack-protector", "cf-protection", "pie":
            assert word not in text, (file, word)


def test_debug_data_is_apart_and_found_by_build_id_and_by_link(installed: Path) -> None:
    for file in programs(installed):
        assert ".debug_info" not in read(file, "-S")
        assert ".symtab" in read(file, "-S"), "dumps need it"
        found = re.search(r"Build ID: (..)(\w+)", read(file, "--notes"))
        assert found
        data = installed / "lib/debug/.build-id" / found[1] / f"{found[2]}.debug"
        assert ".debug_info" in read(data, "-S")
        link = file.parent / ".debug" / data.name
        assert link.resolve() == data.resolve()
        assert data.name.encode() in file.read_bytes()
    (archive,) = installed.rglob("libgossamer.a")
    assert ".debug_info" in read(archive, "-S")


@pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb")
def test_gdb_finds_the_debug_data_wherever_the_installation_is(installed: Path) -> None:
    said = output("gdb", "-nx", "-batch", "-ex", "info line main", installed / "bin/gossamer")
    assert 'cli/main.c" starts at' in said


def test_addr2line_finds_the_debug_data(installed: Path) -> None:
    program = installed / "bin/gossamer"
    symbols = output("nm", program)
    found = re.search(r"^0*(\w+) T main$", symbols, re.MULTILINE)
    assert found
    said = output("addr2line", "-e", program, found[1])
    assert "cli/main.c:" in said


def test_an_installation_elsewhere_has_its_debug_data_there(tmp_path: Path) -> None:
    build = PROGRAM.parent
    output("cmake", "--install", build, "--prefix", "/usr", DESTDIR=str(tmp_path))
    assert list((tmp_path / "usr/lib/debug/.build-id").rglob("*.debug"))
    (link,) = (tmp_path / "usr/bin/.debug").iterdir()
    assert not link.readlink().is_absolute()
    assert link.is_file()
