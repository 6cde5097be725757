"""gossamer run: which programs it refuses, its statuses, its options, and the children."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from installation import PROGRAM, output

LIBRARY = PROGRAM.parent / "libgossamer_run.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="built without its library")

SCRIPT = """
import subprocess, sys, threading
ran = []
threads = [threading.Thread(target=ran.append, args=(i,)) for i in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(sorted(ran), flush=True)
subprocess.run([sys.executable, "-c", "import os; print(os.environ.get('LD_PRELOAD'))"])
"""

# The second thread makes a system call that the library does not know, and the first one ends it.
WAITS = """
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static unsigned word, waits;
static int error;
__attribute__((noinline)) long wait_by_call(void)
{
    waits = 1;
    return syscall(455, &word, 0ul, ~0u, 2 | 128, NULL, CLOCK_MONOTONIC);
}
static void *wait(void *unused)
{
    while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
        if (wait_by_call() && (error = errno) != EAGAIN) break;
    return unused;
}
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait, NULL);
    while (!__atomic_load_n(&waits, __ATOMIC_SEQ_CST)) sched_yield();
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    while (!error && syscall(454, &word, ~0u, 1, 2 | 128) == 0)
        if (pthread_tryjoin_np(thread, NULL) == 0) return 0;
    pthread_join(thread, NULL);
    if (error == ENOSYS) puts("no such call");
    return 0;
}
"""

THREAD = """
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *sleep_a_little(void *unused)
{
    usleep(20000);
    return unused;
}
int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, sleep_a_little, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    puts("end");
    return 0;
}
"""

# Two threads pass a byte to and fro, and look for it without waiting.
SPINS = """
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
enum { TURNS = 300 };
static int ends[2][2];
static void *pass(void *which)
{
    char byte;
    long i = (long)which;
    for (int turn = 0; turn < TURNS; turn++) {
        while (read(ends[i][0], &byte, 1) != 1)
            ;
        if (write(ends[!i][1], &byte, 1) != 1) return which;
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        if (pipe2(ends[i], O_NONBLOCK)) return 1;
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, pass, (void *)i);
    if (write(ends[0][1], "a", 1) != 1) return 2;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
"""


def run(*words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    command = [PROGRAM, "run", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=60, check=False
    )


def test_a_program_that_is_not_found_has_status_127() -> None:
    done = run("no-such-program")
    assert done.returncode == 127
    assert done.stderr == "gossamer run: no-such-program: No such file or directory\n"


def test_a_static_program_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 0; }\n")
    output("cc", "-static", source, "-o", tmp_path / "static")
    done = run(tmp_path / "static")
    assert done.returncode == 126
    assert done.stderr == f"gossamer run: {tmp_path / 'static'}: it is statically linked\n"


def test_a_program_that_sets_the_user_is_refused(tmp_path: Path) -> None:
    program = Path(shutil.copy("/bin/true", tmp_path / "true"))
    program.chmod(0o4755)
    done = run(program)
    assert done.returncode == 126
    assert done.stderr.count("\n") == 1
    assert "set-user-ID" in done.stderr


# As if it were built with the thread sanitizer.
THREAD_SANITIZED = """
#include <pthread.h>
void __tsan_init(void) {}
static void *run(void *unused) { return unused; }
int main(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, run, NULL) || pthread_join(thread, NULL);
}
"""


def test_a_program_with_the_thread_sanitizer_runs_natively(tmp_path: Path) -> None:
    source = tmp_path / "sanitized.c"
    source.write_text(THREAD_SANITIZED)
    output("cc", "-rdynamic", "-pthread", source, "-o", tmp_path / "sanitized")
    done = run("--explain", tmp_path / "sanitized")
    assert done.returncode == 0
    assert "the threads are the kernel's: the program is built with the thread" in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        "os.setuid(os.getuid())",
        "os.setgroups(os.getgroups())",
        # Only of the thread that makes the call:
        "c.setfsuid(os.getuid())",
        "c.setfsgid(os.getgid())",
        "c.syscall(117, os.getuid(), -1, -1)",  # setresuid
        "c.syscall(126, bytes(8), bytes(24))",  # capset
    ],
)
def test_a_program_that_changes_its_user_with_threads_is_told_so(change: str) -> None:
    script = "import ctypes, os, threading\nc = ctypes.CDLL(None)\nthreading.Thread().start()\n"
    done = run(sys.executable, "-c", f"{script}{change}\nprint(1)")
    assert (done.returncode, done.stdout) == (126, "")
    assert done.stderr == (
        "gossamer run: the program changes its user or groups when it has threads\n"
    )


def test_a_program_with_threads_may_ask_for_its_user_and_a_child_may_change_it() -> None:
    script = (
        "import ctypes, os, subprocess, sys, threading\n"
        "threading.Thread().start()\n"
        "ask = ctypes.CDLL(None).setfsuid\n"
        "print(ask(-1) == os.geteuid(), os.getresuid() == (os.getuid(),) * 3)\n"
        "change = lambda: os.setresuid(os.getuid(), -1, -1)\n"
        "print(subprocess.run(['true'], preexec_fn=change).returncode)"
    )
    done = run(sys.executable, "-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n0\n", "")


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x01" + bytes(100), b"text\n"])
def test_a_file_that_is_no_program_for_this_processor_is_refused(
    content: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    file.chmod(0o755)
    done = run(file)
    assert done.returncode == 126
    assert done.stderr.count("\n") == 1


def test_the_status_is_that_of_the_program() -> None:
    assert run("sh", "-c", "exit 42").returncode == 42
    assert run("--", "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_options_of_run_stand_before_the_program() -> None:
    assert run("echo", "--stats", "--workers", "x").stdout == "--stats --workers x\n"
    done = run("--workers", "x", "true")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_children_run_in_the_same_way_unless_told_otherwise() -> None:
    done = run("--workers", "2", sys.executable, "-c", SCRIPT)
    assert done.stdout.splitlines() == ["[0, 1, 2]", str(LIBRARY)]
    done = run("--no-children", sys.executable, "-c", SCRIPT, LD_PRELOAD="")
    assert done.stdout.splitlines() == ["[0, 1, 2]", "None"]
    done = run("--no-children", sys.executable, "-c", SCRIPT, LD_PRELOAD="libm.so.6")
    assert done.stdout.splitlines() == ["[0, 1, 2]", "libm.so.6"]


def test_the_reports_go_to_standard_error() -> None:
    done = run("--stats", "--no-children", sys.executable, "-c", SCRIPT)
    assert done.stdout.startswith("[0, 1, 2]\n")
    assert re.search(r"^gossamer run: 4 threads, \d+ switches, \d+ calls ", done.stderr, re.M)
    done = run("--trace", sys.executable, "-c", SCRIPT)
    assert re.search(r"^gossamer run: \[\d+\] (clone|clone3)$", done.stderr, re.M)


def test_a_call_that_blocked_a_kernel_thread_is_named_once(tmp_path: Path) -> None:
    script = (
        "import fcntl, threading\n"
        "def lock():\n"
        f"    with open({str(tmp_path / 'lock')!r}, 'w') as file:\n"
        "        fcntl.flock(file, fcntl.LOCK_EX)\n"
        "for _ in range(3):\n"
        "    thread = threading.Thread(target=lock)\n"
        "    thread.start()\n"
        "    thread.join()\n"
    )
    done = run("--explain", sys.executable, "-c", script)
    calls = [line for line in done.stderr.splitlines() if not line.startswith("    0x")]
    lines = [line for line in calls if " measured: " not in line]
    assert all(
        re.fullmatch(r"gossamer run: \w+ (waits|was handed over|has held) .*", x) for x in lines
    )
    assert len(lines) == len(set(lines))


# Threads that wait for bytes, or compute, as many as the first argument says.
GAINS = """
import os, socket, sys, threading, time
def wait(ends):
    while ends[0].recv(1): pass
def compute(_):
    end = time.monotonic() + 0.5
    while time.monotonic() < end: sum(range(10000))
pairs = [socket.socketpair() for _ in range(int(sys.argv[1]))]
function = wait if sys.argv[2] == "wait" else compute
threads = [threading.Thread(target=function, args=(pair,)) for pair in pairs]
[thread.start() for thread in threads]
for _ in range(20):
    [pair[1].send(b"x") for pair in pairs]
    time.sleep(0.02)
[pair[1].close() for pair in pairs]
[thread.join() for thread in threads]
"""


@pytest.mark.parametrize(
    ("threads", "kind", "advice"),
    [
        (100, "wait", "it gains: most"),
        (3, "wait", "it gains little"),
        (40, "compute", "its threads compute$"),
    ],
)
def test_explain_says_whether_a_program_gains(threads: int, kind: str, advice: str) -> None:
    done = run("--explain", "--workers", "1", sys.executable, "-c", GAINS, str(threads), kind)
    assert done.returncode == 0
    # On a busy machine, the monitor may have named calls that held a worker.
    line = rf"^gossamer run: measured: \d+ threads, {2 * threads} connections, .*: .*{advice}"
    assert len(re.findall(line, done.stderr, re.M)) == 1, done.stderr


def test_an_emulator_is_refused_with_a_way_out(tmp_path: Path) -> None:
    emulator = shutil.which("qemu-x86_64")
    if not emulator:
        pytest.skip("no qemu-x86_64")
    source = tmp_path / "thread.c"
    source.write_text(THREAD)
    output("cc", "-pthread", source, "-o", tmp_path / "thread")
    done = run(emulator, tmp_path / "thread")
    assert done.returncode == 126
    assert "--no-children" in done.stderr
    assert run("--no-children", emulator, tmp_path / "thread").stdout == "end\n"


def test_gdb_does_not_stop_at_the_signals_of_the_library(tmp_path: Path) -> None:
    if not shutil.which("gdb"):
        pytest.skip("no gdb")
    source = tmp_path / "thread.c"
    source.write_text(THREAD)
    output("cc", "-g", "-pthread", source, "-o", tmp_path / "thread")
    script = PROGRAM.parents[2] / "tools/gdb/gossamer.py"
    commands = ("-ex", f"source {script}", "-ex", "run", "-ex", "info program")
    done = subprocess.run(
        ("gdb", "-q", "-nx", "-batch", *commands, "--args", PROGRAM, "run", tmp_path / "thread"),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "ptrace" in done.stderr:
        pytest.skip("no ptrace")
    assert "received signal" not in done.stdout
    assert "exited normally" in done.stdout


def test_a_call_that_was_handed_over_is_named_with_the_calls_that_lead_to_it(
    tmp_path: Path,
) -> None:
    source = tmp_path / "waits.c"
    source.write_text(WAITS)
    flags = ["-O1", "-fno-optimize-sibling-calls", "-rdynamic", "-pthread", "-D_GNU_SOURCE"]
    output("cc", *flags, source, "-o", tmp_path / "waits")
    done = run("--explain", "--stats", "--workers", "1", tmp_path / "waits")
    assert done.returncode == 0
    if done.stdout == "no such call\n":
        pytest.skip("futex_wait needs Linux 6.7")
    assert re.search(
        r"^gossamer run: 455 was handed over by its worker\n(    0x.*\n)*?    0x\S+ wait_by_call",
        done.stderr,
        re.M,
    )
    assert re.search(r" [1-9]\d* hand-overs, ", done.stderr)


def test_a_thread_whose_calls_are_in_vain_lets_others_run(tmp_path: Path) -> None:
    source = tmp_path / "spins.c"
    source.write_text(SPINS)
    output("cc", "-O1", "-pthread", "-D_GNU_SOURCE", source, "-o", tmp_path / "spins")
    done = run("--stats", "--workers", "1", tmp_path / "spins")
    assert done.returncode == 0
    preemptions = re.search(r" (\d+) preemptions ", done.stderr)
    assert preemptions
    assert int(preemptions[1]) < 300  # of 600 turns, each of which would need one


# Two threads that pass a turn to each other without calls, or, with an argument, one that computes.
TURNS = """
#include <pthread.h>
#include <stdatomic.h>
enum { ROUNDS = 40 };
static atomic_long turn;
static void *take_turns(void *first)
{
    for (long i = first ? 0 : 1; i < ROUNDS; i += 2) {
        while (turn != i)
            ;
        turn = i + 1;
    }
    return 0;
}
static void *compute(void *unused)
{
    for (int i = 0; i < 100000000; i++)
        __asm__ volatile("");
    return unused;
}
int main(int argc, char **argv)
{
    pthread_t threads[2];
    pthread_create(&threads[0], 0, argc > 1 ? compute : take_turns, argv);
    if (argc == 1)
        pthread_create(&threads[1], 0, take_turns, 0);
    for (int i = 0; i < 3 - argc; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"""


def test_threads_that_wait_without_calls_have_short_turns(tmp_path: Path) -> None:
    (tmp_path / "turns.c").write_text(TURNS)
    output("cc", "-O1", "-pthread", tmp_path / "turns.c", "-o", tmp_path / "turns")
    counts = []
    for arguments in [], ["computes"]:
        done = run("--stats", "--workers", "1", tmp_path / "turns", *arguments)
        assert done.returncode == 0
        found = re.search(r" (\d+) preemptions \((\d+) after a short turn\), ", done.stderr)
        assert found
        counts.append((int(found[1]), int(found[2])))
    (preemptions, short), (_, short_alone) = counts
    assert preemptions >= 30  # of 40 turns, each of which ends by one
    assert short >= preemptions / 2
    assert short_alone == 0


MANY = PROGRAM.parent / "tests/compat/pthread/compat_many_threads"
MAPPINGS = """
import threading
threading.stack_size(64 << 10)
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(400)]
[thread.start() for thread in threads]
print(len(open("/proc/self/maps").readlines()))
end.set()
"""
OUT_OF_MEMORY = """
import resource, threading
end, ready = threading.Event(), threading.Event()
def wait():
    threading.Lock()  # malloc maps memory for this thread, and gives a part of it back
    ready.set()
    end.wait()
threading.Thread(target=wait).start()
ready.wait()
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, ((pages + 100) * resource.getpagesize(),) * 2)
try:
    threading.Thread(target=end.wait).start()
except RuntimeError as error:
    print(error)
end.set()
"""


@pytest.mark.skipif(not MANY.exists(), reason="built without the program of many threads")
def test_ten_thousand_threads_wait_without_kernel_threads() -> None:
    done = run("--workers", "2", MANY, "10000")
    assert done.stderr == ""
    assert done.stdout == "10000 wait, few kernel threads: 1\n10000 ended\n"


def test_stacks_without_guards_are_few_mappings() -> None:
    guarded = int(run("--stack-policy", "guarded", sys.executable, "-c", MAPPINGS).stdout)
    unguarded = int(run("--stack-policy", "unguarded", sys.executable, "-c", MAPPINGS).stdout)
    assert guarded > 800
    assert unguarded < guarded - 350
    done = run("--stack-policy", "none", "true")
    assert done.returncode == 2
    assert done.stderr.startswith("gossamer run: --stack-policy: guarded or unguarded, not none")


def test_a_mapping_that_cannot_be_had_is_explained_once() -> None:
    done = run("--explain", sys.executable, "-c", OUT_OF_MEMORY)
    assert done.stdout == "can't start new thread\n"
    assert done.stderr.count("vm.max_map_count") == 1
