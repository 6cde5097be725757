"""A program of `gossamer cc` that joins threads that have detached themselves, and have ended.

POSIX leaves it undefined; stunnel does it when it ends.
"""

import subprocess
from pathlib import Path

from installation import PROGRAM, needs_plugin

SOURCE = """
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *detaches_itself(void *unused)
{
    pthread_detach(pthread_self());
    return unused;
}
static void *returns(void *argument)
{
    usleep(100);
    return argument;
}
int main(void)
{
    pthread_t old[5], threads[5];
    void *result;
    for (int i = 0; i < 5; i++) pthread_create(&old[i], NULL, detaches_itself, NULL);
    usleep(1000);
    for (int i = 0; i < 5; i++) printf("%d", pthread_join(old[i], NULL) == EINVAL);
    for (long i = 0; i < 5; i++) pthread_create(&threads[i], NULL, returns, (void *)i);
    for (long i = 0; i < 5; i++)
        printf(" %d", pthread_join(threads[i], &result) || (long)result != i);
    puts(" end");
    return 0;
}
"""

pytestmark = needs_plugin


def test_a_thread_that_has_detached_itself_cannot_be_joined_after_its_end(tmp_path: Path) -> None:
    source = tmp_path / "stale.c"
    source.write_text(SOURCE)
    program = tmp_path / "stale"
    subprocess.run([PROGRAM, "cc", "-O1", "-pthread", source, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "11111 0 0 0 0 0 end\n"), done.stderr
