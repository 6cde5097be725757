"""What is installed is whole: programs are built with it alone, as the documents tell."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from installation import HAS_CXX, PROGRAM, ROOT, SANITIZERS, cached, libraries_needed, output, shell

COMMAND = re.compile(
    r"\bc(?:c|\+\+) (?:-[\w+=]+ )*(?P<source>\w+\.c(?:pp)?) .*?\$\(pkg-config [^)]*\)[^`\n]*"
)
DOCUMENTS = ("README.md", "docs/guide-threads.md", "docs/guide-loop.md")
DOCUMENTS += ("docs/packaging.md", "docs/debugging.md")
MANUALS = ("cpp", "http", "io", "loop", "stage", "sync", "thread")
SHARED = "$(pkg-config --cflags --libs gossamer)"
STATIC = "$(pkg-config --static --cflags --libs gossamer | sed s/-lgossamer/-l:libgossamer.a/)"
EXAMPLES = {source.name for source in (ROOT / "examples").iterdir()} - {
    "CMakeLists.txt",
    "README.md",
}


def commands_of(document: Path) -> list[tuple[str, str]]:
    """Return the commands of a document that compile a program, each after the program's file."""
    found = COMMAND.finditer(document.read_text())
    return [(match["source"], match[0]) for match in found]


def can_run(command: str) -> bool:
    """Return whether the compiler is there; a sanitizer needs shared libraries, and no other."""
    if SANITIZERS and (" -static " in command or " -fsanitize=" in command):
        return False
    return HAS_CXX or not command.startswith("c++")


def run_many(folder: Path, installed: Path, program: str = "./many") -> None:
    said = shell(f"{program} 1000", installed, folder)
    last = said.splitlines()[-1]
    assert last == f"all threads have resumed: the sum of their numbers is {999 * 500}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_tells_how_a_program_is_compiled(
    name: str, installed: Path, tmp_path: Path
) -> None:
    commands = commands_of(ROOT / name)
    assert commands
    for source, command in commands:
        shutil.copy(ROOT / "examples/server.c", tmp_path / source)
        if can_run(command):
            shell(command, installed, tmp_path)


@pytest.mark.parametrize("module", MANUALS)
def test_a_manual_page_tells_how_a_program_is_compiled(
    module: str, installed: Path, tmp_path: Path
) -> None:
    page = (installed / f"share/man/man7/gossamer-{module}.7").read_text()
    found = re.search(
        r"^\.Sh SYNOPSIS\n\.Dl (c.* (program\.\w+) .*)\n\.Pp\n\.In (.*)\n", page, re.M
    )
    assert found
    command, source, header = found.groups()
    assert COMMAND.fullmatch(command)
    (tmp_path / source).write_text(f"#include <{header}>\nint main() {{}}\n")
    if can_run(command):
        shell(command, installed, tmp_path)


def test_every_example_is_compiled_by_the_command_in_their_readme(
    installed: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(installed / "share/doc/gossamer/examples", tmp_path / "examples")
    commands = commands_of(folder / "README.md")
    assert {source for source, _ in commands} == EXAMPLES
    for _, command in commands:
        if can_run(command):
            shell(command, installed, folder)
    assert "libgossamer.so.0" in libraries_needed(folder / "many")
    run_many(folder, installed)


@pytest.mark.skipif(not HAS_CXX, reason="configured without a C++ compiler")
@pytest.mark.parametrize("flags", [SHARED, STATIC], ids=["shared", "static"])
def test_a_program_in_cpp_is_built_with_what_pkg_config_says(
    flags: str, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "sum.cpp").write_text(
        """#include <gossamer/gossamer.hpp>
        int main()
        {
            return gossamer::run([] {
                gossamer::task sum([](int a, int b) { return a + b; }, 20, 22);
                return sum.join() == 42 ? 0 : 1;
            });
        }
        """
    )
    shell(f"c++ -std=c++17 sum.cpp {flags} -o sum && ./sum", installed, tmp_path)


def test_a_program_is_linked_with_the_static_library(installed: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/many.c", tmp_path)
    shell(f"cc many.c {STATIC} -o many", installed, tmp_path)
    assert not any("gossamer" in needed for needed in libraries_needed(tmp_path / "many"))
    run_many(tmp_path, installed)


MISUSE = """
#include <gossamer/sync.h>

static struct gs_mutex mutex;

static void *end(void *unused)
{
    return unused;
}

static void *first(void *must_join)
{
    struct gs_thread *thread;
    if (!must_join)
        gs_mutex_unlock(&mutex);
    else if (!gs_thread_spawn(NULL, end, NULL, &thread) && !gs_thread_join(thread, GS_NEVER, NULL))
        return (void *)(long)gs_thread_join(thread, GS_NEVER, NULL);
    return NULL;
}

int main(int count, char **words)
{
    return gs_threads_run(NULL, first, count > 1 ? words : NULL, NULL);
}
"""


def stopped(*command: str | Path) -> str:
    """Run a command that must be aborted; return what it says first."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGABRT, done.stdout + done.stderr
    return done.stderr.splitlines()[0]


def test_a_program_is_linked_with_the_checked_library(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "misuse.c").write_text(MISUSE)

    # Compiled for the normal library.
    shell("cc -c misuse.c $(pkg-config --cflags gossamer)", installed, tmp_path)
    shell("cc misuse.o $(pkg-config --libs gossamer-checked) -o misuse", installed, tmp_path)
    line = stopped(tmp_path / "misuse", "join")
    assert re.fullmatch(r'gossamer: gs_thread_join: thread "" was joined before \(in .+\)', line)
    assert stopped(tmp_path / "misuse").startswith("gossamer: gs_mutex_unlock: mutex 0x")

    # Without assertions, the inline functions are only checked if they are compiled for that.
    flags = "-O2 -DNDEBUG $(pkg-config --cflags --libs gossamer-checked)"
    shell(f"cc misuse.c {flags} -o misuse", installed, tmp_path)
    assert stopped(tmp_path / "misuse").startswith("gossamer: gs_mutex_unlock: mutex 0x")


@pytest.mark.skipif(bool(SANITIZERS), reason="a sanitizer needs shared libraries")
def test_a_program_is_linked_with_static_libraries_only(installed: Path, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/many.c", tmp_path)
    flags = "$(pkg-config --static --cflags --libs gossamer)"
    shell(f"cc -static many.c {flags} -o many", installed, tmp_path)
    assert libraries_needed(tmp_path / "many") == []
    run_many(tmp_path, installed)


def test_a_program_is_linked_without_pkg_config(installed: Path, tmp_path: Path) -> None:
    guide = (ROOT / "docs/guide-threads.md").read_text()
    found = re.search(r"without pkg-config, link with\s`(.*?)`\sand compile with `(.*?)`", guide)
    assert found
    (archive,) = installed.rglob("libgossamer.a")
    shutil.copy(ROOT / "examples/many.c", tmp_path)
    paths = f"-I{installed / 'include'} -L{archive.parent}"
    shell(f"cc many.c {found[2]} {paths} {found[1]} -o many", installed, tmp_path)
    run_many(tmp_path, installed)


DLOPEN = r"""
#include <dlfcn.h>
#include <gossamer/thread.h>
#include <stdio.h>

static void *first(void *argument)
{
    *(int *)argument += 1;
    return argument;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 0; i < 3 && argc == 2; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        __typeof__(&gs_threads_run) run = library ? dlsym(library, "gs_threads_run") : NULL;
        if (!run) {
            fputs(dlerror(), stderr);
            return 1;
        }
        void *result = NULL;
        if (run(NULL, first, &count, &result) || result != &count || dlclose(library))
            return 2;
    }
    printf("%d\n", count);
}
"""


def test_a_program_loads_the_library_while_it_runs(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "load.c").write_text(DLOPEN)
    (library,) = installed.rglob("libgossamer.so")
    shell("cc load.c $(pkg-config --cflags gossamer) -ldl -o load", installed, tmp_path)
    assert shell(f"./load {library}", installed, tmp_path) == "3\n"


GROWN = r"""
#include <gossamer/thread.h>
#include <string.h>

__attribute__((noinline)) static void use(char *bytes)
{
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

/* Larger than the stack and its guard; only its far end is written to. */
static void *overflow(void *argument)
{
    char bytes[512 * 1024];
    bytes[0] = 1;
    use(bytes);
    return argument;
}

int main(void)
{
    return gs_threads_run(NULL, overflow, NULL, NULL);
}
"""


@pytest.mark.skipif(bool(SANITIZERS), reason="a sanitizer reports the overflow itself")
def test_a_frame_larger_than_a_guard_is_reported_as_an_overflow(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "grown.c").write_text(GROWN)
    command = "cc grown.c $(pkg-config --cflags --libs gossamer) -o grown && ! ./grown 2>said"
    shell(command, installed, tmp_path)
    assert "stack overflow" in (tmp_path / "said").read_text()


def test_headers_library_and_pkg_config_agree_on_the_version(
    installed: Path, tmp_path: Path
) -> None:
    source = (
        "#include <gossamer/version.h>\n#include <stdio.h>\n"
        'int main(void) { printf("%s %s\\n", GOSSAMER_VERSION, gs_version()); }\n'
    )
    (tmp_path / "version.c").write_text(source)
    shell("cc version.c $(pkg-config --cflags --libs gossamer) -o version", installed, tmp_path)
    version = shell("pkg-config --modversion gossamer", installed, tmp_path).strip()
    assert shell("./version", installed, tmp_path).split() == [version, version]
    assert output(installed / "bin/gossamer", "--version").splitlines()[0] == f"gossamer {version}"
    assert f'\nversion = "{version}"\n' in (ROOT / "lab/pyproject.toml").read_text()
    assert (installed / "lib").is_dir()
    assert [f.name for f in installed.rglob(f"libgossamer.so.{version}")] == [
        f"libgossamer.so.{version}"
    ]


def test_the_installed_program_needs_no_library_of_ours(installed: Path) -> None:
    needed = libraries_needed(installed / "bin/gossamer")
    assert not any("gossamer" in name for name in needed)


def test_an_installed_program_has_no_lab_and_says_so(installed: Path) -> None:
    command = f"{installed}/bin/gossamer lab list 2>&1 || test $? = 2"
    said = output("sh", "-c", f"unset GOSSAMER_PYTHON; {command}")
    assert said.startswith("gossamer lab: not in a checkout: ")


def test_the_manual_has_a_page_for_the_program_and_its_commands(installed: Path) -> None:
    pages = {page.name for page in (installed / "share/man/man1").iterdir()}
    commands = {f"gossamer-{name}.1" for name in ("serve", "load", "run", "cc")}
    assert pages >= {"gossamer.1"} | commands
    assert (installed / "share/man/man7/gossamer-thread.7").is_file()


def test_the_reference_of_the_library_is_installed(installed: Path) -> None:
    page = (installed / "share/man/man3/gs_send.3").read_text().removeprefix(".so ").strip()
    assert ".Nm gs_send" in (installed / "share/man" / page).read_text()
    (index,) = (installed / "share/doc").rglob("html/index.html")
    assert 'href="thread.html#gs_thread_spawn"' in index.read_text()


def test_all_but_the_reference_is_built_without_python(tmp_path: Path) -> None:
    compiler = f"-DCMAKE_C_COMPILER={cached('CMAKE_C_COMPILER')}"
    no_python = ("-DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON", "-DBUILD_TESTING=OFF")
    output("cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", compiler, *no_python)
    targets = output("ninja", "-C", tmp_path, "-t", "targets", "all")
    assert "libgossamer.a:" in targets
    assert "docs.stamp" not in targets


def test_no_installed_file_names_a_path_of_this_machine(installed: Path) -> None:
    if SANITIZERS:
        pytest.skip("a sanitizer keeps the names of source files")
    files = [file for file in installed.rglob("*") if file.is_file() and not file.is_symlink()]
    assert len(files) > 40
    for file in files:
        content = file.read_bytes()
        for path in (ROOT, PROGRAM.parent, installed):
            assert bytes(path) not in content, file


def test_no_installed_program_has_a_path_for_libraries(installed: Path) -> None:
    files = [installed / "bin/gossamer", *installed.rglob("libgossamer*.so")]
    assert len(files) > 1
    for file in files:
        listed = output("readelf", "--dynamic", "--wide", file)
        assert "RPATH" not in listed
        assert "RUNPATH" not in listed


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where everything is installed: not moved, as gdb finds the script by its path."""
    folder = tmp_path_factory.mktemp("prefix")
    output("cmake", "--install", PROGRAM.parent, "--prefix", folder)
    return folder


@pytest.mark.skipif(bool(SANITIZERS), reason="gdb does not run programs with sanitizers well")
@pytest.mark.skipif(not shutil.which("gdb"), reason="there is no gdb")
@pytest.mark.parametrize(
    ("is_automatic", "flags"),
    [(True, SHARED), (False, SHARED), (False, STATIC)],
    ids=["auto-load", "source", "static"],
)
def test_gdb_knows_the_threads_of_a_program(
    is_automatic: bool, flags: str, prefix: Path, tmp_path: Path
) -> None:
    share = prefix / "share"
    shutil.copy(ROOT / "examples/many.c", tmp_path)
    shell(f"cc -g many.c {flags} -o many", prefix, tmp_path)
    loading = [f"-ex 'source {share}/gossamer/gdb/gossamer.py'"]
    if is_automatic:
        words = "add-auto-load-scripts-directory", "add-auto-load-safe-path"
        loading = [f"-iex '{word} {share}/gdb/auto-load'" for word in words]
    command = f"""gdb -nx -batch -iex 'set debuginfod enabled off' {" ".join(loading)}
        -ex 'set breakpoint pending on' -ex 'break gs_semaphore_post' -ex 'run 3'
        -ex 'gossamer threads' ./many 2>&1"""
    said = shell(" ".join(command.split("\n")), prefix, tmp_path)
    assert len(re.findall(r"^ +\d+ .* for semaphore", said, re.MULTILINE)) == 3, said
