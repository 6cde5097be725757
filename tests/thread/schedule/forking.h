/* Tests that fork. */
#ifndef GS_TESTS_THREAD_FORKING_H
#define GS_TESTS_THREAD_FORKING_H

#include "tests/thread/fixture.h"
#include "thread/context/sanitizer.h"

#ifdef __clang__
#define IS_GCC_ASAN 0
#else
#define IS_GCC_ASAN GS_ASAN
#endif

static inline void skip_without_fork(void)
{
    if (IS_EMULATED)
        SKIP("the emulator crashes in a fork with several kernel threads");
    if (GS_TSAN)
        SKIP("the thread sanitizer does not support user threads in a child");
    if (IS_GCC_ASAN)
        SKIP("gcc's address sanitizer does not hold its allocator's locks during a fork");
}

#endif
