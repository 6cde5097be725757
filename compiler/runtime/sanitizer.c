/* Fibers of the thread sanitizer, and stacks that the leak sanitizer would not find. Both
 * sanitizers are in the program: their functions are declared here, as each is in one build. */
#include "compiler/runtime/sanitizer.h"
#include "compiler/runtime/thread.h"

#ifdef GS_CC_TSAN
enum { NO_SYNC = 1 };
void *__tsan_create_fiber(unsigned flags);
void *__tsan_get_current_fiber(void);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_destroy_fiber(void *fiber);

/* Read by the library (src/thread/report.c): its switches are known to the sanitizer. */
const char gs_cc_tells_tsan __attribute__((visibility("default"))) = 1;

/* The worker itself. */
static _Thread_local void *native;

/* The sanitizer defers a signal until the fiber that it interrupted makes a call that is
 * intercepted; so that a fiber keeps none while it waits, none comes during the switch. */
static void switch_to(void *fiber, unsigned flags)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    __tsan_switch_to_fiber(fiber, flags);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void gs_cc_sanitizer_new(struct thread *thread)
{
    thread->fiber = __tsan_create_fiber(0);
}

/* What woke the thread has released it. */
void gs_cc_sanitizer_enter(struct thread *thread)
{
    native = __tsan_get_current_fiber();
    switch_to(thread->fiber, NO_SYNC);
    sanitizer_acquire(thread);
}

void gs_cc_sanitizer_leave(struct thread *thread)
{
    if (thread->is_exiting)
        sanitizer_release(&thread->join);
    switch_to(native, 0);
}

void gs_cc_sanitizer_done(struct thread *thread)
{
    __tsan_destroy_fiber(thread->fiber);
}
#endif

#ifdef GS_CC_ASAN
#define PAGE ((size_t)4096)
/* Not of its whole size: where it begins within its first page is not known. */
#define UNKNOWN (2 * PAGE)

void __lsan_register_root_region(const void *start, size_t size);
void __lsan_unregister_root_region(const void *start, size_t size);

static char *end_of_stack(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return (char *)((here + PAGE - 1) / PAGE * PAGE);
}

void gs_cc_sanitizer_begin_stack(size_t size)
{
    __lsan_register_root_region(end_of_stack() - size + UNKNOWN, size - UNKNOWN);
}

void gs_cc_sanitizer_end_stack(size_t size)
{
    __lsan_unregister_root_region(end_of_stack() - size + UNKNOWN, size - UNKNOWN);
}
#endif
