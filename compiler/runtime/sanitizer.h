/* What the runtime tells the sanitizers of a program. There are two more builds of it for that,
 * neither of which is instrumented itself: with GS_CC_ASAN, each record and each block is one of
 * malloc, so that the address sanitizer knows its bounds; with GS_CC_TSAN, each thread of the
 * program is a fiber of the thread sanitizer, and the locks of the runtime order what the threads
 * do. In the usual build all of this is nothing.
 *
 * A fiber acquires nothing from the worker that switches to it, so two threads race even if one
 * worker runs both. */
#ifndef GS_COMPILER_SANITIZER_H
#define GS_COMPILER_SANITIZER_H

#include <stdbool.h>
#include <stddef.h>

struct thread;

#if defined GS_CC_ASAN || defined GS_CC_TSAN
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

#ifdef GS_CC_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);

/* The running thread sees what others did before they called sanitizer_release for the address. */
static inline void sanitizer_acquire(void *address)
{
    __tsan_acquire(address);
}

static inline void sanitizer_release(void *address)
{
    __tsan_release(address);
}

/* The worker runs the thread from now on, or goes on itself. */
void gs_cc_sanitizer_enter(struct thread *thread);
void gs_cc_sanitizer_leave(struct thread *thread);

void gs_cc_sanitizer_new(struct thread *thread);
/* It will not run again, and does not run. */
void gs_cc_sanitizer_done(struct thread *thread);
#else
static inline void sanitizer_acquire(void *address)
{
    (void)address;
}

static inline void sanitizer_release(void *address)
{
    (void)address;
}

static inline void gs_cc_sanitizer_enter(struct thread *thread)
{
    (void)thread;
}

static inline void gs_cc_sanitizer_leave(struct thread *thread)
{
    (void)thread;
}

static inline void gs_cc_sanitizer_new(struct thread *thread)
{
    (void)thread;
}

static inline void gs_cc_sanitizer_done(struct thread *thread)
{
    (void)thread;
}
#endif

#ifdef GS_CC_ASAN
/* The calling stack, of the size, begins or ends: heap memory to which it points is no leak. */
void gs_cc_sanitizer_begin_stack(size_t size);
void gs_cc_sanitizer_end_stack(size_t size);
#else
static inline void gs_cc_sanitizer_begin_stack(size_t size)
{
    (void)size;
}

static inline void gs_cc_sanitizer_end_stack(size_t size)
{
    (void)size;
}
#endif

#endif
