"""A program of `gossamer cc` that passes the address of an `int` for the result of a thread."""

import subprocess
from pathlib import Path

import pytest
from installation import PROGRAM, needs_plugin

SOURCE = """
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
static void *run(void *argument)
{
    sched_yield();
    return argument;
}
__attribute__((noinline)) static void set(int *variable, int value)
{
    *variable = value;
}
static pthread_t start(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, (void *)0x700000005);
    return thread;
}
static void join(int way)
{
    const struct timespec late = {.tv_sec = 1000000000000};
    const pthread_t thread = start();
    int one, result, other, last, err;
    set(&one, 1);
    set(&result, 2);
    set(&other, 3);
    set(&last, 4);
    if (way == 0)
        err = pthread_join(thread, (void **)&result);
    else if (way == 1)
        err = pthread_timedjoin_np(thread, (void **)&result, &late);
    else if (way == 2)
        err = pthread_clockjoin_np(thread, (void **)&result, CLOCK_MONOTONIC, &late);
    else
        while ((err = pthread_tryjoin_np(thread, (void **)&result)))
            sched_yield();
    set(&result, err ? -1 : result);
    sched_yield();
    printf("%d %d %d %d\\n", one, result, other, last);
}
int main(void)
{
    int before = 8, result, after = 9;
    set(&before, 6);
    set(&after, 7);
    if (pthread_join(start(), (void **)&result))
        return 1;
    sched_yield();
    printf("%d %d %d\\n", before, result, after);
    for (int way = 0; way < 4; way++)
        join(way);
    return 0;
}
"""

pytestmark = needs_plugin


@pytest.mark.parametrize(
    "options", ["-O0", "-O2", "-O1 -fgossamer-main=converted -fgossamer-frames=slots"]
)
def test_a_result_overwrites_no_variable_behind_its_own(tmp_path: Path, options: str) -> None:
    (tmp_path / "program.c").write_text(SOURCE)
    command = [PROGRAM, "cc", *options.split(), "-w", "program.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "6 5 7\n" + "1 5 3 4\n" * 4
