"""Programs that use the installed library under valgrind and sanitizers, and their dumps."""

import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from installation import SANITIZERS, cached, environment, output, shell

ROOT = Path(__file__).resolve().parents[2]
SHARED = "$(pkg-config --cflags --libs gossamer)"
STATIC = "$(pkg-config --static --cflags --libs gossamer | sed s/-lgossamer/-l:libgossamer.a/)"
LINKED = pytest.mark.parametrize("flags", [SHARED, STATIC], ids=["shared", "static"])
NOT_SANITIZED = pytest.mark.skipif(
    bool(SANITIZERS), reason="the library itself is built with a sanitizer"
)

# Threads that migrate between two workers, one on a stack of its own, locks, channels, heap memory
# and I/O; with an argument, one reads the heap beyond its end.
EXERCISE = r"""
#include <gossamer/io.h>
#include <gossamer/sync.h>
#include <gossamer/thread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { THREADS = 50, ROUNDS = 20, STACK = 65536 };
static struct gs_mutex mutex;
static struct gs_wait_group done;
static long sum;
static volatile int is_wrong;

static long fill(char *bytes, int n)
{
    memset(bytes, n, 2000);
    gs_thread_yield();
    return bytes[is_wrong ? 2000 : 1999];
}

static void *work(void *number)
{
    for (int i = 0; i < ROUNDS; i++) {
        char *bytes = malloc(2000), local[2000];
        long found = fill(bytes, 1) + fill(local, 1) - (is_wrong != 0);
        free(bytes);
        if (gs_thread_sleep(gs_clock_now() + 10000) || gs_mutex_lock(&mutex, GS_NEVER))
            abort();
        sum += found;
        gs_mutex_unlock(&mutex);
    }
    gs_wait_group_done(&done);
    return number;
}

static void *echo(void *fd)
{
    char bytes[100];
    ssize_t n;
    while ((n = gs_recv((int)(long)fd, bytes, sizeof bytes, 0, GS_NEVER)) > 0)
        if (gs_send_all((int)(long)fd, bytes, (size_t)n, GS_NEVER) < 0)
            abort();
    return fd;
}

static void *first(void *unused)
{
    static struct gs_thread_attributes attributes = {.migrates = true, .stack_size = STACK};
    struct gs_thread *echoing;
    char bytes[5] = "", *stack = malloc(STACK);
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
        abort();
    gs_wait_group_add(&done, THREADS + 1);
    for (long i = 0; i < THREADS; i++)
        if (gs_thread_spawn(&attributes, work, (void *)i, NULL))
            abort();
    struct gs_thread_attributes own = {.stack = stack, .stack_size = STACK};
    struct gs_thread *worker;
    if (gs_thread_spawn(&own, work, NULL, &worker) || gs_thread_join(worker, GS_NEVER, NULL))
        abort();
    free(stack);
    if (gs_thread_spawn(NULL, echo, (void *)(long)fds[1], &echoing))
        abort();
    if (gs_send_all(fds[0], "ping", 5, GS_NEVER) < 0 || gs_recv(fds[0], bytes, 5, 0, GS_NEVER) != 5)
        abort();
    if (gs_close(fds[0]) || gs_thread_join(echoing, GS_NEVER, NULL) || gs_close(fds[1]))
        abort();
    if (gs_wait_group_wait(&done, GS_NEVER))
        abort();
    printf("%s %ld\n", bytes, sum);
    return unused;
}

int main(int count, char **words)
{
    struct gs_threads_options options = {.workers = 2, .stuck_ns = GS_NEVER};
    is_wrong = count > 1;
    (void)words;
    return gs_threads_run(&options, first, NULL, NULL) != 0;
}
"""
EXPECTED = f"ping {51 * 20 * 2}\n"


def run(
    command: list[str], installed: Path, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder that may fail."""
    found = {**environment(installed, folder), **variables}
    return subprocess.run(
        command, cwd=folder, env=found, capture_output=True, text=True, check=False, timeout=300
    )


def build_exercise(compiler: str, flags: str, installed: Path, folder: Path) -> None:
    """Compile EXERCISE in the folder; flags: those of the library."""
    (folder / "exercise.c").write_text(EXERCISE)
    shell(f"{compiler} exercise.c {flags} -o exercise", installed, folder)


HAS_VALGRIND = pytest.mark.skipif(
    not shutil.which("valgrind") or not cached("GS_HAS_VALGRIND_H"),
    reason="there is no valgrind, or its header was not found in the build",
)
VALGRIND = ["valgrind", "--error-exitcode=9", "--leak-check=full"]


@NOT_SANITIZED
@HAS_VALGRIND
@LINKED
def test_valgrind_reports_the_errors_of_a_program_and_no_others(
    flags: str, installed: Path, tmp_path: Path
) -> None:
    build_exercise("cc -g", flags, installed, tmp_path)
    done = run([*VALGRIND, "./exercise"], installed, tmp_path)
    assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr
    assert "ERROR SUMMARY: 0 errors from 0 contexts" in done.stderr
    assert "client switching stacks" not in done.stderr

    wrong = run([*VALGRIND, "./exercise", "wrong"], installed, tmp_path)
    assert wrong.returncode == 9
    assert re.search(r"Invalid read of size 1\n.*: fill \(exercise.c:", wrong.stderr)


@NOT_SANITIZED
@HAS_VALGRIND
def test_valgrind_reports_no_error_of_the_example_of_a_server(
    installed: Path, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "examples/server.c", tmp_path)
    shell(f"cc -g server.c {SHARED} -o server", installed, tmp_path)
    found = environment(installed, tmp_path)
    command = [*VALGRIND, "--log-file=valgrind.log", "./server"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=found, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        port = int(server.stdout.readline().split()[-1])
        clients = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
        for client in clients:
            client.sendall(b"hello")
        for client in clients:
            with client, client.makefile("rb") as answers:
                assert answers.read(5) == b"hello"
        server.send_signal(signal.SIGTERM)
        status = server.wait(timeout=60)
    log = (tmp_path / "valgrind.log").read_text()
    assert status == 0, log
    assert "ERROR SUMMARY: 0 errors from 0 contexts" in log


COMPILERS = [name for name in ("gcc", "clang-19") if shutil.which(name)]


@NOT_SANITIZED
@LINKED
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_address_sanitizer_reports_the_errors_of_a_program_and_no_others(
    compiler: str, flags: str, installed: Path, tmp_path: Path
) -> None:
    build_exercise(f"{compiler} -g -O1 -fsanitize=address", flags, installed, tmp_path)
    done = run(["./exercise"], installed, tmp_path)
    assert (done.returncode, done.stdout) == (0, EXPECTED), done.stderr
    assert done.stderr == ""
    wrong = run(["./exercise", "wrong"], installed, tmp_path)
    assert "heap-buffer-overflow" in wrong.stderr
    assert re.search(r"in fill .*exercise\.c:", wrong.stderr)


@NOT_SANITIZED
@pytest.mark.parametrize("compiler", [name for name in ("g++", "clang++-19") if shutil.which(name)])
def test_the_address_sanitizer_knows_the_stacks_of_threads(
    compiler: str, installed: Path, tmp_path: Path
) -> None:
    source = Path(__file__).parent / "leaving.cpp"
    options = "-std=c++20 -g -O1 -fsanitize=address"
    shell(f"{compiler} {options} {source} {STATIC} -o leaving", installed, tmp_path)
    for keeps_frames in "01":
        asan = f"ASAN_OPTIONS=detect_stack_use_after_return={keeps_frames}"
        done = run(["env", asan, "./leaving"], installed, tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "396 left, 7\n", "")
    wrong = run(["./leaving", "wrong"], installed, tmp_path)
    assert "stack-buffer-overflow" in wrong.stderr


@NOT_SANITIZED
@LINKED
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_program_with_the_thread_sanitizer_is_told_to_use_a_library_with_it(
    compiler: str, flags: str, installed: Path, tmp_path: Path
) -> None:
    build_exercise(f"{compiler} -g -O1 -fsanitize=thread", flags, installed, tmp_path)
    done = run(["./exercise"], installed, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "thread sanitizer: the library must be built with it, too" in done.stderr
    assert "WARNING" not in done.stderr


@pytest.mark.skipif(SANITIZERS != "thread", reason="the library is not built with that sanitizer")
def test_the_thread_sanitizer_reports_nothing_with_a_library_that_has_it(
    installed: Path, tmp_path: Path
) -> None:
    build_exercise("cc -g -O1", SHARED, installed, tmp_path)
    done = run(["./exercise"], installed, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, EXPECTED, "")


DUMPED = r"""
#include <gossamer/sync.h>
#include <gossamer/thread.h>

static struct gs_semaphore semaphore;

static void *serve(void *unused)
{
    return gs_semaphore_wait(&semaphore, GS_NEVER) ? &semaphore : unused; /* here */
}

static void *first(void *unused)
{
    for (int i = 0; i < 5000; i++)
        if (gs_thread_spawn(NULL, serve, NULL, NULL))
            return &semaphore;
    gs_thread_yield();
    gs_threads_dump(1);
    for (int i = 0; i < 5000; i++)
        gs_semaphore_post(&semaphore);
    return unused;
}

int main(void)
{
    struct gs_threads_options options = {.stuck_ns = GS_NEVER};
    return gs_threads_run(&options, first, NULL, NULL) != 0;
}
"""


@NOT_SANITIZED
@LINKED
def test_a_dump_of_many_threads_is_short_and_gets_source_lines(
    flags: str, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "dumped.c").write_text(DUMPED)
    shell(f"cc -g -O1 dumped.c {flags} -o dumped && ./dumped >dump", installed, tmp_path)
    dump = (tmp_path / "dump").read_text()
    assert len(dump.splitlines()) < 16
    assert re.search(
        r"^5000 threads like this one, .*:\n.*: has waited .* for semaphore at ", dump, re.MULTILINE
    )
    functions = re.findall(r"^ {6}(\S+) \(", dump, re.MULTILINE)
    starts = {"run_first", "run", "gs_context_start"}
    assert [name for name in functions if name not in starts][-1] == "serve"
    assert set(functions) <= {"first", "serve", "gs_threads_dump", "gs_semaphore_wait", *starts}

    script = installed / "share/gossamer/source-lines"
    with_lines = output("sh", "-c", f"{script} dumped <dump", cwd=tmp_path)
    here = 1 + DUMPED.splitlines().index(
        "    return gs_semaphore_wait(&semaphore, GS_NEVER) ? &semaphore : unused; /* here */"
    )
    assert re.search(rf"^ +serve \(dumped\+0x[0-9a-f]+\) \S*dumped\.c:{here}$", with_lines, re.M)

    # Without a symbol table, the exported functions of the library are still known to be its own.
    shell("strip dumped && ./dumped >dump", installed, tmp_path)
    stripped = (tmp_path / "dump").read_text()
    assert len(stripped.splitlines()) < 60
    if flags == SHARED:
        assert re.search(
            r"^5000 threads like this one, .*:\n.*: has waited .* for semaphore at ",
            stripped,
            re.MULTILINE,
        )
