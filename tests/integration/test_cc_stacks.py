"""Stacks of the size that `gossamer cc` has proven for a call that is not converted."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from installation import PROGRAM, ROOT, needs_plugin

pytestmark = needs_plugin

# Calls a variadic function in as many threads as its argument says, which all wait there at once.
# Addresses for small stacks are taken when the program starts, and large ones one by one.
BLOCKED = """
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waiting, may_go;
EXTRA
static int sum(int n, ...)
{
    va_list list;
    int result = 0;
    va_start(list, n);
    for (int i = 0; i < n; i++)
        result += va_arg(list, int);
    va_end(list);
    pthread_mutex_lock(&lock);
    waiting++;
    while (!may_go)
        pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
    return result;
}
static void *run(void *argument)
{
    return (void *)(long)sum(2, 1, (int)(long)argument);
}
static long address_space(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1)
        abort();
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}
int main(int argc, char **argv)
{
    int n = atoi(argv[argc - 1]), all = 0;
    long total = 0, before = address_space();
    pthread_t *threads = calloc(n, sizeof *threads);
    for (int i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)(long)i))
            abort();
    while (all < n) {
        usleep(1000);
        pthread_mutex_lock(&lock);
        all = waiting;
        pthread_mutex_unlock(&lock);
    }
    printf("%ld\\n", (address_space() - before) / n);
    pthread_mutex_lock(&lock);
    may_go = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n; i++) {
        void *result;
        pthread_join(threads[i], &result);
        total += (long)result;
    }
    printf("%ld\\n", total);
    return 0;
}
"""
THREADS = 9000
HANDLER = """
#include <signal.h>
static void on_signal(int number) { char bytes[30000]; memset(bytes, number, sizeof bytes); DEEP }
__attribute__((constructor)) static void set(void) { signal(SIGUSR1, on_signal); }
"""
PUT = "extern int putenv(char *); putenv((char *)0);"
# Bytes of addresses for each thread.
LARGE = (1 << 20, 1 << 24)
WAYS = {
    # What it needs is known: the smallest stack.
    "bound": ("", "", (0, 1 << 16)),
    "handler": (HANDLER.replace("DEEP", ""), "", (0, 1 << 17)),
    # Nothing is known of what else may run there: as large as any.
    "deep_handler": (
        HANDLER.replace("DEEP", "PUT"),
        "on_signal calls putenv",
        LARGE,
    ),
    "handler_of_library": (
        "#include <signal.h>\n"
        "__attribute__((constructor)) static void set(void) { signal(SIGUSR1, exit); }",
        "the need of exit is not known",
        LARGE,
    ),
    # With no prototype, or with a result.
    "handler_of_any_number": (
        HANDLER.replace("(int number)", "()").replace("number", "1").replace("DEEP", "PUT"),
        "on_signal calls putenv",
        LARGE,
    ),
    "handler_with_result": (
        "#include <signal.h>\nstatic int on_signal(int number) { PUT return number; }"
        "__attribute__((constructor)) static void set(void)"
        "{ signal(SIGUSR1, (void (*)(int))on_signal); }",
        "on_signal calls putenv",
        LARGE,
    ),
    "handler_in_assembler": (
        HANDLER.replace("DEEP", '__asm__ volatile("CALL abort");'),
        "on_signal has inline assembler",
        LARGE,
    ),
    "no_handler": (
        "#include <signal.h>\nstatic int callback(int number) { PUT return number; }"
        "int (*volatile called)(int) = callback;"
        "__attribute__((constructor)) static void set(void) { signal(SIGUSR1, SIG_IGN); }",
        "",
        (0, 1 << 16),
    ),
    # It may interrupt itself, again and again.
    "nested_handler": (
        "#include <signal.h>\nstatic void on_signal(int number) { (void)number; }"
        "__attribute__((constructor)) static void set(void) { static struct sigaction action;"
        "action.sa_handler = on_signal, action.sa_flags = SA_NODEFER;"
        "sigaction(SIGUSR1, &action, NULL); }",
        "",
        LARGE,
    ),
    "allocator": (
        "void *malloc(size_t n) { static char at[1 << 28]; static size_t used;"
        "n = (n + 31) / 16 * 16; return &at[__atomic_fetch_add(&used, n, 0)]; }"
        "void free(void *block) { (void)block; }"
        "void *realloc(void *old, size_t n) { return old ? memcpy(malloc(n), old, n) : malloc(n); }"
        "void *calloc(size_t n, size_t size) { return memset(malloc(n * size), 0, n * size); }",
        "an allocator of its own",
        LARGE,
    ),
}


def compile_program(folder: Path, source: Path, *options: str | Path) -> Path:
    """Compile a program of threads, and return its path."""
    program = folder / "program"
    command = [PROGRAM, "cc", "-O2", "-g", "-w", "-pthread", *options, source, "-o", program]
    subprocess.run(command, check=True)
    return program


@pytest.mark.parametrize("way", WAYS)
def test_a_call_has_the_smallest_stack_that_has_its_need(tmp_path: Path, way: str) -> None:
    extra, reason, (least, most) = WAYS[way]
    source, report = tmp_path / "program.c", tmp_path / "report.json"
    source.write_text(BLOCKED.replace("EXTRA", extra).replace("PUT", PUT))
    program = compile_program(tmp_path, source, f"--report={report}")
    stacks = {one["name"]: one for one in json.loads(report.read_text())["on_stacks"]}
    assert (stacks["sum"]["stack_bytes"] is None) == bool(reason)
    assert reason in stacks["sum"]["stack_unknown"]
    done = subprocess.run([program, str(THREADS)], capture_output=True, text=True, check=True)
    space, total = map(int, done.stdout.split())
    assert total == THREADS + THREADS * (THREADS - 1) // 2
    assert least <= space < most


# A handler that nobody refers to, and a function in place of a weak one.
BESIDE = """
#include <signal.h>
#include <unistd.h>
static void on_signal(int number) { volatile char bytes[60000]; bytes[number] = 1; }
__attribute__((constructor)) static void set(void) { signal(SIGUSR1, on_signal); }
"""
WEAK = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((weak, noinline)) int waits(int n) { usleep(1); return 100 + n; }
static void *run(void *argument) { (void)argument; return (void *)(long)waits(1); }
int main(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, &result);
    printf("%ld\\n", (long)result);
    return 0;
}
"""
INSTRUMENTED = """
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void *a, void *b) { PUT }
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void *a, void *b) { }
"""


def compile_beside(folder: Path, source: str, name: str, *options: str) -> Path:
    """Compile what is no program to machine code, with clang."""
    path = folder / name
    path.with_suffix(".c").write_text(source)
    command = ["clang-19", "-O2", *options, path.with_suffix(".c"), "-o", path]
    subprocess.run(command, check=True)
    return path


def space_of(program: Path, **environment: str) -> int:
    """Return the address space that a thread took of 100."""
    command = [program, "100"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return int(done.stdout.split()[0])


@pytest.mark.parametrize("way", ["object", "library", "preloaded"])
def test_a_handler_that_was_not_compiled_has_a_large_stack(tmp_path: Path, way: str) -> None:
    source = tmp_path / "program.c"
    source.write_text(BLOCKED.replace("EXTRA", ""))
    if way == "object":
        beside = compile_beside(tmp_path, BESIDE, "beside.o", "-c")
    else:
        beside = compile_beside(tmp_path, BESIDE, "libbeside.so", "-shared", "-fPIC")
    is_linked = way != "preloaded"
    program = compile_program(tmp_path, source, *(["-Wl,--no-as-needed", beside] * is_linked))
    assert space_of(program, **({} if is_linked else {"LD_PRELOAD": str(beside)})) >= 1 << 20


def test_a_weak_function_is_replaced_by_machine_code(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(WEAK)
    other = "#include <unistd.h>\nint waits(int n) { usleep(1); return 200 + n; }"
    beside = compile_beside(tmp_path, other, "beside.o", "-c")
    for extra, result in (([], "101"), ([beside], "201")):
        program = compile_program(tmp_path, source, *extra)
        done = subprocess.run([program], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == result


@pytest.mark.parametrize(
    ("option", "reason"),
    [("-finstrument-functions-after-inlining", "enter calls putenv"), ("-pg", "calls mcount")],
)
def test_calls_that_are_added_to_functions_count(tmp_path: Path, option: str, reason: str) -> None:
    source, report = tmp_path / "program.c", tmp_path / "report.json"
    source.write_text(BLOCKED.replace("EXTRA", INSTRUMENTED.replace("PUT", PUT)))
    compile_program(tmp_path, source, option, f"--report={report}")
    stacks = {one["name"]: one for one in json.loads(report.read_text())["on_stacks"]}
    assert stacks["sum"]["stack_bytes"] is None
    assert reason in stacks["sum"]["stack_unknown"]


def make_locale(language: str, characters: str, locale: Path) -> None:
    """Make a locale if the system has its source, without the order of words.

    The order is most of the work, and none of the functions that are measured uses it.
    """
    source = Path("/usr/share/i18n/locales") / language
    if not source.is_file():
        return
    order = re.compile(r"(?<=^LC_COLLATE\n).*?(?=^END LC_COLLATE$)", re.DOTALL | re.MULTILINE)
    here = locale.with_suffix(".source")
    here.write_text(order.sub('copy "POSIX"\n', source.read_text()))
    command = ["localedef", "--force", "-i", here, "-f", characters, locale]
    subprocess.run(command, capture_output=True, check=False)


# What is called in the language of a locale loads and converts more.
def test_functions_need_less_than_their_allowance(tmp_path: Path) -> None:
    source = ROOT / "tests/compiler/stacks/allowances.c"
    # What is measured is the library's; optimised more, the measuring takes long to compile.
    program = compile_program(tmp_path, source, "-O1", f"-I{ROOT}")
    environment = {**os.environ, "LOCPATH": str(tmp_path), "TZ": "Europe/Berlin"}
    most: dict[str, int] = {}
    for language, characters in (("C", ""), ("de_DE", "UTF-8"), ("ja_JP", "EUC-JP")):
        locale = tmp_path / f"{language}.{characters}"
        if characters:
            make_locale(language, characters, locale)
        environment["LC_ALL"] = locale.name if locale.is_dir() else "C"
        done = subprocess.run(
            [program], capture_output=True, check=False, env=environment, errors="replace"
        )
        lines = [line.split() for line in done.stdout.splitlines() if line]
        assert len(lines) > 40
        assert [name for name, used, _, allowance in lines if int(used) > int(allowance)] == []
        assert done.returncode == 0
        most[language] = max(int(used) for name, used, *_ in lines if name == "snprintf")
        assert most[language] > most["C"] or not locale.is_dir(), "it is not in its language"
