"""gossamer run --dump-signal: what each thread of an unchanged program does."""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from installation import PROGRAM, output

LIBRARY = PROGRAM.parent / "libgossamer_run.so"
pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="built without its library")

# It blocks the signal, and fails if any thread's wait ends before the main thread has read a line.
SOURCE = """
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static int ends[2];
static volatile int may_end;
void check(void) { if (!may_end) abort(); }
void wait_for_mutex(void) { pthread_mutex_lock(&mutex); check(); pthread_mutex_unlock(&mutex); }
void wait_for_condition(void)
{
    pthread_mutex_lock(&other);
    while (!may_end) pthread_cond_wait(&condition, &other);
    pthread_mutex_unlock(&other);
}
void wait_for_semaphore(void) { sem_wait(&semaphore); check(); }
void wait_for_pipe(void) { char byte; if (read(ends[0], &byte, 1) != 1) abort(); check(); }
void compute(void) { while (!may_end) ; }
static void (*const works[])(void) = {
    wait_for_mutex, wait_for_condition, wait_for_semaphore, wait_for_pipe, compute};
static void *work(void *which)
{
    works[(long)which]();
    __asm__ volatile("");
    return NULL;
}
int main(void)
{
    pthread_t threads[5];
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    if (pipe(ends) || sem_init(&semaphore, 0, 0) || pthread_mutex_lock(&mutex)) return 1;
    for (long i = 0; i < 5; i++) if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    pthread_setname_np(threads[0], "first");
    puts("ready");
    fflush(stdout);
    getchar();
    may_end = 1;
    pthread_mutex_unlock(&mutex);
    pthread_mutex_lock(&other);
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&other);
    sem_post(&semaphore);
    if (write(ends[1], "x", 1) != 1) return 1;
    for (int i = 0; i < 5; i++) pthread_join(threads[i], NULL);
    puts("end");
    return 7;
}
"""
BLOCK = r"^thread (\d+) \"[^\n]*\" {}\n(?:    [^\n]*\n)*?    0x[0-9a-f]+ {}\+0x"
EXPECTED = [
    (r"has waited \d+\.\d+ ms in read\(0, [^\n]*\)", "main"),
    (r"has waited \d+\.\d+ ms in mutex 0x[0-9a-f]+, held by thread \d+", "wait_for_mutex"),
    (r"has waited \d+\.\d+ ms in condition 0x[0-9a-f]+", "wait_for_condition"),
    (r"has waited \d+\.\d+ ms in semaphore 0x[0-9a-f]+", "wait_for_semaphore"),
    (r"has waited \d+\.\d+ ms in read\([1-9][^\n]*\)", "wait_for_pipe"),
    ("runs", "compute"),
]


def dump(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGUSR2)
    lines = []
    while not lines or lines[-1] != "gossamer run: end of the threads\n":
        lines.append(process.stderr.readline())
        assert lines[-1]
    return "".join(lines)


def is_complete(text: str) -> bool:
    if not text.startswith("gossamer run: 6 threads\n") or '"first" ' not in text:
        return False
    found = [re.search(BLOCK.format(*expected), text, re.M) for expected in EXPECTED]
    return all(found) and len({match[1] for match in found if match}) == len(EXPECTED)


@pytest.mark.parametrize("workers", ["1", "2", "4"])
def test_the_signal_has_all_threads_written(workers: str, tmp_path: Path) -> None:
    source = tmp_path / "threads.c"
    source.write_text(SOURCE)
    flags = ["-O1", "-fno-optimize-sibling-calls", "-rdynamic", "-pthread", "-D_GNU_SOURCE"]
    output("cc", *flags, source, "-o", tmp_path / "threads")
    words = ["run", "--workers", workers, "--dump-signal", "USR2", tmp_path / "threads"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([PROGRAM, *words], text=True, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        texts = [dump(process)]
        # Some thread may not wait yet.
        while not is_complete(texts[-1]) and len(texts) < 200:
            texts.append(dump(process))
        assert is_complete(texts[-1]), texts[-1]
        rest, errors = process.communicate("\n", timeout=60)
    assert (rest, errors, process.returncode) == ("end\n", "", 7)


def test_before_there_are_threads_the_signal_does_not_end_the_program() -> None:
    words = ["run", "--dump-signal", "SIGUSR1", "sh", "-c", "kill -USR1 $$; echo after; exit 3"]
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("after\n", 3)
    assert "gossamer run: 1 thread: the program has not created any\n" in done.stderr


@pytest.mark.parametrize("name", ["KILL", "SIGSEGV", "33", "64", "0", "-1", "USR3", ""])
def test_a_signal_that_cannot_be_used_is_refused(name: str) -> None:
    words = [PROGRAM, "run", "--dump-signal", name, "true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--dump-signal" in done.stderr
