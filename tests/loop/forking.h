/* Tests that fork while other kernel threads exist. */
#ifndef GS_TESTS_LOOP_FORKING_H
#define GS_TESTS_LOOP_FORKING_H

#include "thread/sanitizer.h"

#include <sys/stat.h>
#include <unistd.h>

/* gcc's address sanitizer does not hold its allocator's locks during a fork. A kernel thread that
 * is being started may hold them, and the child would wait for them for ever. */
#ifdef __clang__
#define IS_GCC_ASAN 0
#else
#define IS_GCC_ASAN GS_ASAN
#endif

/* Wait until the process has no other kernel thread: those that were abandoned cannot be joined. */
static inline void await_end_of_threads(void)
{
    struct stat tasks; /* has two links, and one for each kernel thread */
    while (!stat("/proc/self/task", &tasks) && tasks.st_nlink > 3)
        usleep(1000);
}

#endif
