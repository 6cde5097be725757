/* gs_thread_call_on_worker_stack: a thread that has little stack of its own calls a function on its
 * worker's. */
#include "thread/thread.h"

/* If the worker's stack is in use, the thread runs on it already. Sanitizers track the stack of the
 * running thread, so it must not change there. */
void *gs_thread_call_on_worker_stack(void *(*fn)(void *argument), void *argument)
{
    CHECKED_THREAD();
    struct worker *worker = worker_current();
    if (GS_ASAN || GS_TSAN || UNLIKELY(worker->has_thread_tls_base) ||
        UNLIKELY(worker->is_stack_in_use))
        return fn(argument);
    unsigned mode = gs_threads_mode;
    worker->is_stack_in_use = true;
    /* With one worker the owner of a mutex is an address on its stack (gs_mutex_self): not here. */
    if (!gs_runtime.is_multi)
        gs_threads_mode =
            GS_THREADS_ON_WORKER_STACK | (gs_runtime.uses_gsbase ? 0 : GS_THREADS_NO_GS);
    void *result = gs_context_call(fn, argument, (void *)((uintptr_t)worker->sp & ~(uintptr_t)15));
    worker->is_stack_in_use = false;
    if (!gs_runtime.is_multi)
        gs_threads_mode = mode;
    return result;
}
