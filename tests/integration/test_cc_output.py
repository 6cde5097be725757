"""Programs of `gossamer cc` whose standard output is a pipe that nobody reads."""

import fcntl
import os
import select
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from installation import PROGRAM, needs_plugin

SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { LINES = 20000 };
static void *answer(void *unused)
{
    char byte;
    while (read(0, &byte, 1) == 1)
        if (write(3, &byte, 1) != 1)
            abort();
    return unused;
}
static void *fill(void *unused)
{
    for (int i = 0; i < LINES; i++) {
        if (IS_STDOUT && i % 4 == 0)
            printf("line %d\\n", i);
        else if (IS_STDOUT && i % 4 == 1)
            puts("a line");
        else if (i % 4 == 2)
            fputs("of another\\n", FULL);
        else
            fprintf(FULL, "number %d%c", i, '\\n');
    }
    if (IS_STDOUT) {
        putchar('x');
        putchar('\\n');
    }
    fflush(FULL);
    return unused;
}
int main(int argc, char **argv)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, answer, NULL);
    (void)argv;
    if (argc > 1)
        fill(NULL);
    else if (pthread_create(&threads[1], NULL, fill, NULL) || pthread_join(threads[1], NULL))
        return 1;
    return pthread_join(threads[0], NULL);
}
"""
LINES = 20000
PIPE_SIZE = 65536

pytestmark = needs_plugin


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs, each named after the stream to which it writes."""
    folder = tmp_path_factory.mktemp("output")
    (folder / "program.c").write_text(SOURCE)
    for stream in ("stdout", "stderr"):
        is_output = int(stream == "stdout")
        options = ["-O2", "-pthread", f"-DFULL={stream}", f"-DIS_STDOUT={is_output}"]
        command = [PROGRAM, "cc", *options, "program.c", "-o", stream]
        subprocess.run(command, cwd=folder, check=True)
    return folder


def line(number: int, stream: str) -> str:
    """Return a line that the program writes."""
    kind = number % 4
    if stream == "stdout" and kind < 2:
        return f"line {number}\n" if kind == 0 else "a line\n"
    return "of another\n" if kind == 2 else f"number {number}\n"


def waiting_bytes(descriptor: int) -> int:
    """Return how many bytes the pipe has."""
    answer = fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4)
    return int(struct.unpack("i", answer)[0])


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("where", [[], ["main"]])
def test_other_threads_run_while_the_output_waits_for_its_reader(
    folder: Path, stream: str, where: list[str]
) -> None:
    full, write_end = os.pipe()
    answers, answer_end = os.pipe()
    if answer_end != 3:
        os.set_inheritable(answer_end, True)
    script = f'exec "$@" 3>&{answer_end} {answer_end}>&-' if answer_end != 3 else 'exec "$@"'
    other = "stderr" if stream == "stdout" else "stdout"
    outputs = {stream: write_end, other: subprocess.DEVNULL}
    with subprocess.Popen(
        ["bash", "-c", script, "bash", folder / stream, *where],
        stdin=subprocess.PIPE,
        pass_fds=[answer_end],
        **outputs,
    ) as running:
        try:
            assert running.stdin
            while waiting_bytes(full) < PIPE_SIZE - 4096:
                assert running.poll() is None
                select.select([], [], [], 0.01)
            for byte in (b"a", b"b"):
                running.stdin.write(byte)
                running.stdin.flush()
                assert select.select([answers], [], [], 60)[0], "the other thread waits, too"
                assert os.read(answers, 1) == byte
            assert not fcntl.fcntl(write_end, fcntl.F_GETFL) & os.O_NONBLOCK
            os.close(write_end)
            running.stdin.close()
            with os.fdopen(full, "r") as reader:
                said = reader.read()
            assert running.wait(timeout=60) == 0
        finally:
            running.kill()
    os.close(answers)
    os.close(answer_end)
    expected = "".join(line(number, stream) for number in range(LINES))
    assert said == expected + ("x\n" if stream == "stdout" else "")
