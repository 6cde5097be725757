/* Calls that block, made by the pool of kernel threads while a user thread waits. */
#ifndef GS_THREAD_BLOCKING_H
#define GS_THREAD_BLOCKING_H

#include "base/pool.h"
#include "thread/schedule/thread.h"

/* A wait for what a kernel thread completes. */
struct blocking_wait {
    /* Called when the thread has left its stack: the wait may be completed at once. Returns 0, or
     * -errno: then nothing completes it. */
    int (*start)(struct blocking_wait *wait);
    /* Called when the wait was timed out or canceled. Returns whether nothing completes it any
     * more; otherwise that is waited for. */
    bool (*withdraw)(struct blocking_wait *wait);
    const void *at; /* for reports */

    struct runnable message;
    struct gs_thread *thread;
    struct worker *worker;
    bool is_done; /* used by the worker only */
};

/* Start, and wait until the wait is completed. Returns 0 then; otherwise it was not started or was
 * withdrawn: -ETIMEDOUT, -ECANCELED, or the error of start. */
int gs_blocking_wait(struct blocking_wait *wait, uint64_t deadline_ns);

/* Called by a kernel thread. */
void gs_blocking_complete(struct blocking_wait *wait);

/* The runtime as a user of the pool. */
struct pool_user *gs_blocking_user(void);

/* gs_run_blocking, by the kernel threads for this kind. `size` bytes at `argument` may be on a
 * stack that is shared (off_stack.h). */
int gs_run_blocking_as(enum job_kind kind, void (*fn)(void *argument), void *argument, size_t size,
                       uint64_t deadline_ns);

#endif
