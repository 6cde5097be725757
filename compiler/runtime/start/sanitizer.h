/* What the runtime tells the sanitizers of a program. There are two more builds of it for that,
 * neither of which is instrumented itself: with GS_CC_ASAN, each record and each block is one of
 * malloc, so that the address sanitizer knows its bounds; with GS_CC_TSAN, each thread of the
 * program is a fiber of the thread sanitizer, and the locks of the runtime order what the threads
 * do. In the usual build all of this is nothing.
 *
 * A fiber acquires nothing from the worker that switches to it, so two threads race even if one
 * worker runs both. For the same reason each runs on a stack of its own: what they leave on that of
 * the worker would be taken for shared data. */
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

#if defined GS_CC_ASAN || defined GS_CC_TSAN
/* A thread with a stack runs on it from now on, or leaves it; is_last: for ever. */
void gs_cc_sanitizer_enter_stack(struct thread *thread);
void gs_cc_sanitizer_leave_stack(struct thread *thread, bool is_last);
#else
static inline void gs_cc_sanitizer_enter_stack(struct thread *thread)
{
    (void)thread;
}

static inline void gs_cc_sanitizer_leave_stack(struct thread *thread, bool is_last)
{
    (void)thread, (void)is_last;
}
#endif

#ifdef GS_CC_TSAN
void tsan_acquire(void *address) __asm__("__tsan_acquire");
void tsan_release(void *address) __asm__("__tsan_release");

/* The running thread sees what others did before they called sanitizer_release for the address. */
static inline void sanitizer_acquire(void *address)
{
    tsan_acquire(address);
}

static inline void sanitizer_release(void *address)
{
    tsan_release(address);
}

/* The worker runs the thread from now on, or goes on itself. */
void gs_cc_sanitizer_enter(struct thread *thread);
void gs_cc_sanitizer_leave(struct thread *thread);

/* Call the function on a stack of the thread's own, between gs_cc_sanitizer_enter and
 * gs_cc_sanitizer_leave. Returns its result. */
bool gs_cc_sanitizer_run(struct thread *thread, bool (*fn)(struct thread *thread));

/* The runtime calls a function of the program: accesses are those of the program then. */
void gs_cc_sanitizer_call(void (*fn)(void *), void *argument);

/* The worker will not run threads any more. */
void gs_cc_sanitizer_stop(void);

/* Before a fork, and after it, in the parent and in the child. */
void *gs_cc_sanitizer_fork(void);
void gs_cc_sanitizer_forked(void *fiber, bool is_child);

/* Around a call of the runtime, as the plugin has it around those of the program. */
void sanitizer_begin_call(void) __asm__("__tsan_ignore_thread_begin");
void sanitizer_end_call(void) __asm__("__tsan_ignore_thread_end");

/* The lowest address of the stack on which a thread runs that has no other. */
void *gs_cc_sanitizer_stack(const struct thread *thread, size_t *ret_size);

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

static inline bool gs_cc_sanitizer_run(struct thread *thread, bool (*fn)(struct thread *thread))
{
    return fn(thread);
}

static inline void gs_cc_sanitizer_call(void (*fn)(void *), void *argument)
{
    fn(argument);
}

static inline void gs_cc_sanitizer_stop(void)
{
}

static inline void *gs_cc_sanitizer_fork(void)
{
    return NULL;
}

static inline void gs_cc_sanitizer_forked(void *fiber, bool is_child)
{
    (void)fiber, (void)is_child;
}

static inline void sanitizer_begin_call(void)
{
}

static inline void sanitizer_end_call(void)
{
}

static inline void *gs_cc_sanitizer_stack(const struct thread *thread, size_t *ret_size)
{
    (void)thread, (void)ret_size;
    return NULL;
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

#if defined GS_CC_ASAN || defined GS_CC_TSAN
/* The calling stack, of the size, begins or ends: heap memory to which it points is no leak, and
 * other threads use the same stack before and after. */
void gs_cc_sanitizer_begin_stack(struct thread *thread, size_t size);
void gs_cc_sanitizer_end_stack(struct thread *thread);
#else
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
