/* What the address and thread sanitizers are told about stacks. Without them all of it is nothing. */
#ifndef GS_THREAD_SANITIZER_H
#define GS_THREAD_SANITIZER_H

#include <stddef.h>

#ifndef __has_feature
#define __has_feature(feature_) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define GS_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define GS_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define GS_TSAN 1
#include <sanitizer/tsan_interface.h>
#define NOT_FOR_TSAN __attribute__((no_sanitize("thread"), noinline))
#else
#define GS_TSAN 0
#define NOT_FOR_TSAN
#endif
#if GS_ASAN
#define NOT_FOR_ASAN __attribute__((no_sanitize("address"), noinline))
#else
#define NOT_FOR_ASAN
#endif

/* Of each stack. */
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

/* A new stack. */
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

/* The stack that the kernel gave the running thread. */
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

/* It will not run again, and does not run. */
static inline void fiber_done(struct fiber *fiber)
{
    (void)fiber;
#if GS_TSAN
    __tsan_destroy_fiber(fiber->tsan);
#endif
}

/* Right before `from` is left for `to`. is_last: `from` will not come back. */
static inline void fiber_leave(struct fiber *from, struct fiber *to, int is_last)
{
    (void)from, (void)to, (void)is_last;
#if GS_ASAN
    __sanitizer_start_switch_fiber(is_last ? NULL : &from->fake_stack, to->bottom, to->size);
#endif
#if GS_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
}

/* First thing on the stack that is run. */
static inline void fiber_enter(struct fiber *fiber)
{
    (void)fiber;
#if GS_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, NULL, NULL);
#endif
}

#endif
