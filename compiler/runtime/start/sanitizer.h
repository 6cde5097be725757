/* What the runtime tells the address sanitizer of a program. It has one more build for that,
 * which is not instrumented: with GS_CC_ASAN, each record and each block is one of malloc, so the
 * sanitizer knows its bounds. In the usual build all of this is nothing. */
#ifndef GS_COMPILER_SANITIZER_H
#define GS_COMPILER_SANITIZER_H

#include <stdbool.h>
#include <stddef.h>

struct thread;

#ifdef GS_CC_ASAN
#define IS_SANITIZED true

/* A thread with a stack runs on it from now on, or leaves it; is_last: for ever. */
void gs_cc_sanitizer_enter_stack(struct thread *thread);
void gs_cc_sanitizer_leave_stack(struct thread *thread, bool is_last);

/* The calling stack, of the size, begins or ends: heap memory to which it points is no leak, and
 * other threads use the same stack before and after. */
void gs_cc_sanitizer_begin_stack(struct thread *thread, size_t size);
void gs_cc_sanitizer_end_stack(struct thread *thread);
#else
#define IS_SANITIZED false

static inline void gs_cc_sanitizer_enter_stack(struct thread *thread)
{
    (void)thread;
}

static inline void gs_cc_sanitizer_leave_stack(struct thread *thread, bool is_last)
{
    (void)thread, (void)is_last;
}

static inline void gs_cc_sanitizer_begin_stack(struct thread *thread, size_t size)
{
    (void)thread, (void)size;
}

static inline void gs_cc_sanitizer_end_stack(struct thread *thread)
{
    (void)thread;
}
#endif

#endif
