#include "thread/schedule/wait.h"

static const struct wait_kind waiting = {.name = "semaphore", WAITS_IN(gs_semaphore, waiting)};

/* The lock is held. Returns false if the caller has to wait, with the lock. */
static inline bool take_locked(struct gs_semaphore *semaphore)
{
    if (!semaphore->count)
        return false;
    semaphore->count--;
    spin_unlock(&semaphore->lock);
    return true;
}

static __attribute__((noinline)) int wait_slowly(struct gs_semaphore *semaphore,
                                                 uint64_t deadline_ns)
{
    spin_lock(&semaphore->lock);
    if (take_locked(semaphore))
        return 0;
    return gs_thread_wait_for_object(thread_current(), semaphore, &waiting, deadline_ns);
}

int gs_semaphore_wait(struct gs_semaphore *semaphore, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    if (!worker_is_in_register() || !spin_try_lock(&semaphore->lock))
        return wait_slowly(semaphore, deadline_ns);
    if (take_locked(semaphore))
        return 0;
    return wait_for_object(worker_from_register(), semaphore, &waiting, deadline_ns);
}

/* The lock is held. */
ALWAYS_INLINE void post_locked(struct gs_semaphore *semaphore, struct worker *worker)
{
    struct gs_waiter *waiter = waiters_pop_claimed(worker, &semaphore->waiting, CLAIM_WOKEN);
    semaphore->count += !waiter;
    spin_unlock(&semaphore->lock);
    if (waiter)
        thread_make_ready(worker, waiter->thread);
}

static __attribute__((noinline)) void post_slowly(struct gs_semaphore *semaphore)
{
    struct worker *worker = worker_current();
    spin_lock(&semaphore->lock);
    post_locked(semaphore, worker);
}

void gs_semaphore_post(struct gs_semaphore *semaphore)
{
    CHECKED_WORKER();
    if (worker_is_in_register() && spin_try_lock(&semaphore->lock))
        post_locked(semaphore, worker_from_register());
    else
        post_slowly(semaphore);
}
