/* Calls that block, made by the pool of kernel threads while a user thread waits. */
#ifndef GS_THREAD_BLOCKING_H
#define GS_THREAD_BLOCKING_H

#include "base/pool.h"
#include "thread/schedule/thread.h"

struct blocking_call {
    struct job job; /* its kind, fn, argument and discard are the caller's */
    struct runnable message;
    struct gs_thread *thread;
    struct worker *worker;
    bool is_done; /* used by the worker only */
};

/* Make the call. Returns 0 when fn has returned. If it fails, fn was not called, or is not waited
 * for: the job was or will be discarded. Returns -ETIMEDOUT, -ECANCELED, -ENOMEM or -EAGAIN (a
 * kernel thread cannot be created). */
int gs_blocking_run(struct blocking_call *call, uint64_t deadline_ns);

/* gs_run_blocking, by the kernel threads for this kind. `size` bytes at `argument` may be on a
 * stack that is shared (off_stack.h). */
int gs_run_blocking_as(enum job_kind kind, void (*fn)(void *argument), void *argument, size_t size,
                       uint64_t deadline_ns);

#endif
