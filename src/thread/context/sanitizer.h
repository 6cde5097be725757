/* Annotations of stacks for the address and thread sanitizers; no-ops without them. A function that
 * is NOT_FOR_ a sanitizer is not inlined into an instrumented one: neither gcc nor clang does
 * that. */
#ifndef GS_THREAD_SANITIZER_H
#define GS_THREAD_SANITIZER_H

#include "base/sanitized.h"

#include <stddef.h>

#if GS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if GS_TSAN
#include <sanitizer/tsan_interface.h>
#include <signal.h>
#define NOT_FOR_TSAN __attribute__((no_sanitize("thread")))
#else
#define NOT_FOR_TSAN
#endif
#if GS_ASAN
#define NOT_FOR_ASAN __attribute__((no_sanitize("address")))
#else
#define NOT_FOR_ASAN
#endif

/* The sanitizers' state of a stack. */
#define FIBERS (GS_ASAN || GS_TSAN) /* whether the sanitizer must know the stack of each thread */

struct fiber {
#if GS_ASAN
    const void *bottom;
    size_t size;
    void *fake_stack;
#endif
#if GS_TSAN
    void *tsan;
#endif
    char unused[0];
};

/* Defined in programs with the sanitizer, which may use a library without it. */
extern void lsan_root(const void *memory, size_t size) __asm__("__lsan_register_root_region")
    __attribute__((weak));

/* Mapped memory that is never unmapped: heap memory to which it points is no leak. */
static inline void sanitizer_root(const void *memory, size_t size)
{
    if (lsan_root)
        lsan_root(memory, size);
}

/* Called for a new stack. */
static inline void fiber_init(struct fiber *fiber, void *bottom, size_t size)
{
    (void)fiber, (void)bottom, (void)size;
#if GS_ASAN
    fiber->bottom = bottom;
    fiber->size = size;
    fiber->fake_stack = NULL;
    __asan_unpoison_memory_region(bottom, size);
#endif
#if GS_TSAN
    fiber->tsan = __tsan_create_fiber(0);
#endif
}

/* The native stack of the calling kernel thread. */
static inline void fiber_init_native(struct fiber *fiber, const void *bottom, size_t size)
{
    (void)fiber, (void)bottom, (void)size;
#if GS_ASAN
    fiber->bottom = bottom;
    fiber->size = size;
    fiber->fake_stack = NULL;
#endif
#if GS_TSAN
    fiber->tsan = __tsan_get_current_fiber();
#endif
}

/* The stack will not run again, and is not running. */
static inline void fiber_done(struct fiber *fiber)
{
    (void)fiber;
#if GS_ASAN
    __asan_unpoison_memory_region(fiber->bottom, fiber->size);
#endif
#if GS_TSAN
    __tsan_destroy_fiber(fiber->tsan);
#endif
}

/* Called right before switching from `from` to `to`. is_last: `from` will not run again.
 *
 * The thread sanitizer counts the calls on each fiber: a call of this function would begin on one
 * and end on the other. It defers a signal until the fiber that was interrupted makes a call that
 * the sanitizer intercepts, so a fiber that is left would keep the signal for as long as it waits:
 * what was deferred is handled by the first call here, what comes during the switch after it. */
static inline __attribute__((always_inline)) void fiber_leave(struct fiber *from, struct fiber *to,
                                                              int is_last)
{
    (void)from, (void)to, (void)is_last;
#if GS_ASAN
    __sanitizer_start_switch_fiber(is_last ? NULL : &from->fake_stack, to->bottom, to->size);
#endif
#if GS_TSAN
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    __tsan_switch_to_fiber(to->tsan, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
}

/* Called first when a stack runs. */
static inline void fiber_enter(struct fiber *fiber)
{
    (void)fiber;
#if GS_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL);
#endif
}

#endif
