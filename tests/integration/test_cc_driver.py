"""How `gossamer cc` reads its command line: as clang does."""

import subprocess
from pathlib import Path

import pytest
from installation import PROGRAM, needs_plugin

MAIN = """
#include <pthread.h>
#include "part.h"
static void *run(void *argument) { return argument; }
int main(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL) || part() != PART;
}
"""

pytestmark = needs_plugin


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a program of two files and a header."""
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "part.c").write_text('#include "part.h"\nint part(void) { return PART; }\n')
    (tmp_path / "part.h").write_text("int part(void);\n#define PART 4\n")
    return tmp_path


def compile_in(folder: Path, *arguments: str) -> None:
    """Run the compiler, which must succeed without a word."""
    command = [PROGRAM, "cc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def is_converted(program: Path) -> bool:
    """Return whether the program has the runtime, and works."""
    subprocess.run([program], check=True)
    return b"GOSSAMER_WORKERS" in program.read_bytes()


def test_a_file_of_arguments_is_read(folder: Path) -> None:
    compile_in(folder, "-c", "main.c", "part.c")
    (folder / "objects").write_text('main.o "part.o"\n')
    (folder / "all").write_text("-pthread -o 'the program' @objects")
    compile_in(folder, "@all")
    assert is_converted(folder / "the program")


def test_lists_of_headers_are_beside_the_program(folder: Path) -> None:
    compile_in(folder, "-MMD", "main.c", "part.c", "-o", "program")
    rule = (folder / "program.d").read_text().replace("\\\n", "")
    assert rule.split(":")[0] == "program"
    assert "part.h" in rule
    assert is_converted(folder / "program")


def test_an_option_that_only_the_linker_needs_is_no_error(folder: Path) -> None:
    compile_in(folder, "-Werror", "-fuse-ld=bfd", "-Wl,-O1", "main.c", "part.c", "-o", "program")
    assert is_converted(folder / "program")


def test_options_beside_which_a_program_is_still_converted(folder: Path) -> None:
    options = ["-fembed-bitcode", "-dumpdir", "x."]
    compile_in(folder, *options, "main.c", "part.c", "-o", "program")
    assert is_converted(folder / "program")


def test_a_device_is_not_removed(folder: Path) -> None:
    compile_in(folder, "main.c", "part.c", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_weak_references_are_to_the_runtime(folder: Path) -> None:
    weak = "#pragma weak pthread_create\n#pragma weak pthread_join\n"
    (folder / "main.c").write_text(MAIN.replace("\nstatic", f"\n{weak}static", 1))
    compile_in(folder, "main.c", "part.c", "-o", "program")
    assert is_converted(folder / "program")


def test_the_main_function_may_be_in_an_archive(folder: Path) -> None:
    compile_in(folder, "-c", "main.c", "part.c")
    (folder / "empty.c").write_text("int nothing;\n")
    subprocess.run(["ar", "rcs", "libmain.a", "main.o", "part.o"], cwd=folder, check=True)
    compile_in(folder, "empty.c", "libmain.a", "-o", "program")
    assert is_converted(folder / "program")


def partial(folder: Path, *arguments: str) -> None:
    """Make an object of objects by the compiler."""
    compile_in(folder, "-r", "-nostdlib", *arguments, "-o", "both.o")


def test_an_object_of_objects_has_the_bitcode_of_all(folder: Path) -> None:
    compile_in(folder, "-c", "main.c", "part.c")
    partial(folder, "main.o", "part.o")
    (folder / "main.o").unlink()
    compile_in(folder, "both.o", "-o", "program")
    assert is_converted(folder / "program")


def test_an_object_of_objects_is_made_of_sources(folder: Path) -> None:
    partial(folder, "main.c", "part.c")
    compile_in(folder, "both.o", "-o", "program")
    assert is_converted(folder / "program")


def test_an_object_of_objects_without_bitcode_is_machine_code(folder: Path) -> None:
    subprocess.run(["clang-19", "-c", "part.c"], cwd=folder, check=True)
    compile_in(folder, "-c", "main.c")
    partial(folder, "main.o", "part.o")
    command = [PROGRAM, "cc", "both.o", "-o", "program"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    assert "both.o: it starts threads" in done.stderr
    subprocess.run([folder / "program"], check=True)


def test_the_linker_may_call_functions_in_place_of_others(folder: Path) -> None:
    (folder / "part.c").write_text(
        '#include <stdlib.h>\n#include "part.h"\nvoid *__real_malloc(size_t);\n'
        "static int count;\n"
        "void *__wrap_malloc(size_t n) { count++; return __real_malloc(n); }\n"
        "int part(void) { int n = count; void *volatile at = malloc(9); free(at);\n"
        "return count == n + 1 ? PART : 0; }\n"
    )
    compile_in(folder, "-O1", "-w", "main.c", "part.c", "-Wl,--wrap=malloc", "-o", "program")
    assert is_converted(folder / "program")


QUESTIONS = [
    ["-print-prog-name=ld", "main.c"],
    ["--version", "main.c"],
    ["-dumpmachine", "main.c", "-o", "program"],
    ["-MM", "main.c"],
    ["-"],
    ["-emit-llvm", "main.c", "part.c"],
    ["-c", "main.c", "part.c", "-o", "program"],
    ["-ccc-print-phases", "main.c"],
    ["-cc1", "-version"],
    ["nothing.c"],
    [],
]


@pytest.mark.parametrize("arguments", QUESTIONS, ids=" ".join)
def test_questions_and_errors_are_answered_by_clang(folder: Path, arguments: list[str]) -> None:
    before = sorted(folder.iterdir())
    answers = [
        subprocess.run([*command, *arguments], capture_output=True, cwd=folder, check=False)
        for command in (["clang-19"], [PROGRAM, "cc"])
    ]
    expected, answer = [(done.returncode, done.stdout, done.stderr) for done in answers]
    assert answer == expected
    assert sorted(folder.iterdir()) == before


def test_commands_are_shown_and_not_run(folder: Path) -> None:
    command = [PROGRAM, "cc", "-###", "main.c", "part.c", "-o", "program"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    assert done.stderr.count('"-cc1"') == 2
    assert not (folder / "program").exists()


def test_languages_are_those_of_the_inputs_behind_them(folder: Path) -> None:
    (folder / "main.c").rename(folder / "main.text")
    compile_in(folder, "-x", "c", "main.text", "-x", "none", "part.c", "--output=program")
    assert is_converted(folder / "program")
    compile_in(folder, "-c", "-xc", "main.text", "-xnone", "part.c")
    compile_in(folder, "main.o", "part.o", "-o", "again")
    assert is_converted(folder / "again")


def test_a_source_may_come_from_the_standard_input(folder: Path) -> None:
    command = [PROGRAM, "cc", "part.c", "-x", "c", "-", "-o", "program"]
    subprocess.run(command, input=MAIN, text=True, cwd=folder, check=True)
    assert is_converted(folder / "program")


def test_a_header_is_precompiled(folder: Path) -> None:
    compile_in(folder, "part.h")
    assert (folder / "part.h.pch").is_file()
    assert not (folder / "a.out").exists()


def test_a_program_may_have_shared_libraries_of_its_own(folder: Path) -> None:
    compile_in(folder, "-shared", "-fPIC", "part.c", "-o", "libpart.so")
    compile_in(folder, "main.c", "-L.", "-lpart", f"-Wl,-rpath,{folder}", "-o", "program")
    assert is_converted(folder / "program")


ENDS = """
#include <unistd.h>
static int ends;
struct kept { int n; ~kept() { usleep(1); ends += n; } };
static thread_local kept here = {4};
static thread_local int depth;
extern "C" int part(void)
{
    try {
        throw 3;
    } catch (int) { /* what was thrown belongs to the thread, too */
        depth++;
        usleep(1);
        return here.n + depth - 1;
    }
}
extern "C" int ended(void) { return ends; }
"""

THREADS = """
#include <pthread.h>
int part(void);
int ended(void);
static void *run(void *argument) { return (char *)argument + part(); }
int main(void)
{
    pthread_t threads[3];
    void *result;
    long sum = part();
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &result);
        sum += (long)result;
    }
    return sum != 16 || ended() != 12;
}
"""


@pytest.mark.parametrize("form", ["library", "object", "source"])
def test_objects_of_a_thread_of_cpp_end_with_it(folder: Path, form: str) -> None:
    (folder / "part.cpp").write_text(ENDS)
    (folder / "main.c").write_text(THREADS)
    make = {
        "library": ["-shared", "-fPIC", "-o", "libpart.so", "-lstdc++"],
        "object": ["-c", "-fPIC", "-o", "part.o"],
        "source": ["-fsyntax-only"],
    }
    subprocess.run(["clang-19", "part.cpp", *make[form]], cwd=folder, check=True)
    use = {
        "library": ["-L.", "-lpart", f"-Wl,-rpath,{folder}"],
        "object": ["part.o", "-lstdc++"],
        "source": ["part.cpp", "-lstdc++"],
    }
    compile_in(folder, "main.c", *use[form], "-o", "program")
    assert is_converted(folder / "program")


@pytest.mark.parametrize(
    ("how", "named"),
    [
        (["-shared", "-fPIC", "main.c", "part.c", "-o", "lib.so"], "lib.so: it starts threads"),
        (["native.o", "part.c", "-o", "program"], "native.o: it starts threads"),
        (["-x", "c++", "cpp", "-lstdc++", "-o", "program"], "(std::thread): it starts threads"),
    ],
)
def test_what_starts_threads_and_is_not_converted_is_named(
    folder: Path, how: list[str], named: str
) -> None:
    subprocess.run(["clang-19", "-c", "main.c", "-o", "native.o"], cwd=folder, check=True)
    (folder / "cpp").write_text(
        "#include <thread>\nint main() { std::thread thread([] {}); thread.join(); }\n"
    )
    command = [PROGRAM, "cc", *how]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    assert done.stderr.startswith("gossamer cc: warning: ")
    assert named in done.stderr
    assert done.stderr.count("\n") == 1


DEPARTURES = {
    "gettid()": "gettid",
    "syscall(SYS_gettid)": "syscall(SYS_gettid)",
    "syscall(SYS_tgkill, 1, 1, 0)": "syscall(SYS_tgkill)",
    "clone(0, 0, 0, 0)": "clone",
    "syscall(SYS_clone3, 0, 0)": "syscall(SYS_clone3)",
    "getrusage(RUSAGE_THREAD, 0)": "getrusage(RUSAGE_THREAD)",
    "clock_gettime(CLOCK_THREAD_CPUTIME_ID, 0)": "clock_gettime(CLOCK_THREAD_CPUTIME_ID)",
    "pthread_getcpuclockid(thread, 0)": "pthread_getcpuclockid",
    "unshare(0)": "unshare",
    "setns(0, 0)": "setns",
    "setfsuid(0)": "setfsuid",
    "setpriority(PRIO_PROCESS, 0, 0)": "setpriority",
    "nice(0)": "nice",
    "syscall(SYS_setresuid, 0, 0, 0)": "syscall(SYS_setresuid)",
    "syscall(SYS_capset, 0, 0)": "syscall(SYS_capset)",
    "syscall(SYS_io_uring_enter, 0, 0, 0, 0, 0, 0)": "syscall(SYS_io_uring_enter)",
    'fopencookie(0, "r", (cookie_io_functions_t){0})': "fopencookie",
    "pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT)": "PTHREAD_PRIO_INHERIT",
}

# Their neighbours, of which nothing is to be said.
USUAL = [
    "getpid()",
    "syscall(SYS_getpid)",
    "syscall(SYS_read, 0, 0, 0)",
    "getrusage(RUSAGE_SELF, 0)",
    "clock_gettime(CLOCK_MONOTONIC, 0)",
    "pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_PROTECT)",
    "syscall(SYS_splice, 0, 0, 0, 0, 0, 0)",
    "syscall(SYS_msgrcv, 0, 0, 0, 0, 0)",
]


def departures_of(folder: Path, calls: list[str], *options: str) -> list[str]:
    """Compile functions with the calls, and return the warnings."""
    headers = ["pthread", "sched", "stdio", "sys/fsuid", "sys/resource", "sys/syscall"]
    lines = [f"#include <{header}.h>" for header in [*headers, "time", "unistd"]]
    lines += ["pthread_t thread;", "pthread_mutexattr_t kind;"]
    lines += [f"void call_{i}(void) {{ (void)!{call}; }}" for i, call in enumerate(calls)]
    (folder / "part.c").write_text("#define _GNU_SOURCE\n" + "\n".join(lines))
    (folder / "part.h").write_text("static int part(void) { return 4; }\n#define PART 4\n")
    options = ("-Wno-nonnull", "-rdynamic", "-g", *options)
    command = [PROGRAM, "cc", *options, "main.c", "part.c", "-o", "program"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return done.stderr.splitlines()


def test_what_is_not_done_as_with_posix_threads_is_named(folder: Path) -> None:
    warnings = departures_of(folder, [*USUAL, *DEPARTURES])
    assert len(warnings) == len(DEPARTURES)
    for number, (call, name) in enumerate(DEPARTURES.items()):
        line = 12 + len(USUAL) + number
        found = [text for text in warnings if text.startswith(f"part.c:{line}: warning: ")]
        assert len(found) == 1, call
        assert f"{name}: " in found[0] or f"({name}): " in found[0]
        assert found[0].endswith(" [-Wgossamer-departures]")


@pytest.mark.parametrize("option", ["-w", "-Wno-gossamer-departures"])
def test_the_warnings_can_be_switched_off(folder: Path, option: str) -> None:
    assert departures_of(folder, list(DEPARTURES), option) == []


def test_a_program_may_be_linked_statically(folder: Path) -> None:
    command = [PROGRAM, "cc", "-static", "main.c", "part.c", "-o", "program"]
    subprocess.run(command, capture_output=True, cwd=folder, check=True)
    assert is_converted(folder / "program")
