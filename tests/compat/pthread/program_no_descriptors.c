/* Threads that are created when all descriptors are open: by the process, and by a child that was
 * created so; with a limit that a process may raise, and with one that it may not; and when few are
 * left. */
#include "tests/compat/pthread/program.h"

#include <sys/resource.h>

enum { THREADS = 4, LIMIT = 32 };

static int ends[2];

static void *pass_byte(void *unused)
{
    char byte;
    return read(ends[0], &byte, 1) == 1 && write(ends[1], &byte, 1) == 1 ? unused : &ends;
}

static int pass_bytes(void)
{
    pthread_t threads[THREADS];
    int failures = 0;
    for (int i = 0; i < THREADS; i++)
        threads[i] = start(pass_byte, NULL);
    if (write(ends[1], "x", 1) != 1)
        return -1;
    for (int i = 0; i < THREADS; i++)
        failures += finish(threads[i]) != 0;
    char byte;
    return read(ends[0], &byte, 1) == 1 ? failures : -1;
}

static int status_of_child(int (*fn)(void))
{
    int status = 0;
    pid_t child = fork();
    if (!child)
        _exit(fn());
    waitpid(child, &status, 0);
    return status;
}

static int open_all(void)
{
    int count = 0;
    while (dup(0) >= 0)
        count++;
    return count;
}

static int run(rlim_t hard)
{
    struct rlimit limit = {LIMIT, hard};
    SHOW(setrlimit(RLIMIT_NOFILE, &limit));
    open_all();
    SHOW(status_of_child(pass_bytes));
    SHOW(pass_bytes());
    SHOW(getrlimit(RLIMIT_NOFILE, &limit));
    SHOW((int)limit.rlim_cur);
    SHOW((int)limit.rlim_max);
    SHOW(dup(0));
    SHOW(errno);
    fflush(stdout);
    return 0;
}

/* All that are left are the program's. */
static int run_with_some_left(void)
{
    const struct rlimit limit = {LIMIT, 256};
    SHOW(setrlimit(RLIMIT_NOFILE, &limit));
    int count = open_all();
    for (int i = 1; i <= 3 && i <= count; i++)
        close(LIMIT - i);
    SHOW(pass_bytes());
    SHOW(open_all());
    fflush(stdout);
    return 0;
}

static int run_with_room(void)
{
    return run(256);
}

static int run_without_room(void)
{
    return run(LIMIT);
}

int main(void)
{
    if (pipe(ends))
        return 1;
    SHOW(status_of_child(run_with_some_left));
    fflush(stdout);
    SHOW(status_of_child(run_with_room));
    fflush(stdout);
    SHOW(status_of_child(run_without_room));
    fflush(stdout);
    return 0;
}
