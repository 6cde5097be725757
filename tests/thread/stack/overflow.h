/* Stack overflows of user threads, in child processes (report.h). */
#ifndef GS_TESTS_THREAD_OVERFLOW_H
#define GS_TESTS_THREAD_OVERFLOW_H

#include "tests/thread/report/report.h"
#include "thread/context/sanitizer.h"

/* A sanitizer prints its own report and exits. */
static inline bool is_segv(int status)
{
    if (GS_ASAN || GS_TSAN)
        return WIFEXITED(status) ? WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3 : true;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

__attribute__((noinline)) static int recurse_without_end(volatile char *above)
{
    volatile char bytes[512];
    bytes[0] = *above;
    if (!bytes[0])
        return 0;
    bytes[511] = (char)(recurse_without_end(bytes) + bytes[0]);
    return bytes[511];
}

static inline void *overflow_stack(void *unused)
{
    char start = 1;
    (void)unused;
    return (void *)(intptr_t)recurse_without_end(&start);
}

#endif
