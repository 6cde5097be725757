/* gs_thread_call_on_worker_stack: a thread that has little stack of its own calls a function on its
 * worker's. */
#include "thread/schedule/thread.h"

#include <gossamer/sync.h>

_Static_assert(GS_THREADS_ON_WORKER_STACK == 2, "as in the assembler");

/* If the worker's stack is in use, the thread runs on it already. Sanitizers track the stack of the
 * running thread, so it must not change there.
 *
 * The switch back is gs_context_call's, as a tail call: a return after a system call is
 * mispredicted where the kernel protects its own returns by calls (Safe RET). */
void *gs_thread_call_on_worker_stack(void *(*fn)(void *argument), void *argument)
{
    CHECKED_THREAD();
    struct worker *worker = worker_current();
    if (GS_ASAN || GS_TSAN || UNLIKELY(gs_runtime.tells_asan) ||
        UNLIKELY(worker->has_thread_tls_base) || UNLIKELY(worker->is_stack_in_use))
        return fn(argument);
    unsigned *mode = &worker->unused_mode;
    /* With one worker the owner of a mutex is an address on its stack (gs_mutex_self): not here. */
    if (!gs_runtime.is_multi)
        mode = &gs_threads_mode;
    worker->is_stack_in_use = true;
    *mode |= GS_THREADS_ON_WORKER_STACK;
    void *sp = (void *)((uintptr_t)worker->sp & ~(uintptr_t)15);
    return gs_context_call(fn, argument, sp, &worker->is_stack_in_use, mode);
}
