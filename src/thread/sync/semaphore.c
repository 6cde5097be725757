#include "thread/schedule/wait.h"

static const struct wait_kind waiting = {.name = "semaphore", WAITS_IN(gs_semaphore, waiting)};

int gs_semaphore_wait(struct gs_semaphore *semaphore, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    spin_lock(&semaphore->lock);
    if (!semaphore->count)
        return wait_for_object(worker_current(), semaphore, &waiting, deadline_ns);
    semaphore->count--;
    spin_unlock(&semaphore->lock);
    return 0;
}

void gs_semaphore_post(struct gs_semaphore *semaphore)
{
    CHECKED_WORKER();
    struct worker *worker = worker_current();
    spin_lock(&semaphore->lock);
    struct gs_waiter *waiter = waiters_pop_claimed(worker, &semaphore->waiting, CLAIM_WOKEN);
    semaphore->count += !waiter;
    spin_unlock(&semaphore->lock);
    if (waiter)
        thread_make_ready(worker, waiter->thread);
}
