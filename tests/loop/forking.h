/* Tests that fork while other kernel threads exist. */
#ifndef GS_TESTS_LOOP_FORKING_H
#define GS_TESTS_LOOP_FORKING_H

#include "thread/sanitizer.h"

/* gcc's address sanitizer does not hold its allocator's locks during a fork. A kernel thread that
 * is being started may hold them, and the child would wait for them for ever. */
#ifdef __clang__
#define IS_GCC_ASAN 0
#else
#define IS_GCC_ASAN GS_ASAN
#endif

#endif
