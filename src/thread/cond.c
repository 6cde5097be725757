#include "thread/wait.h"
#include "thread/waiters.h"

#include <errno.h>

int gs_cond_wait(struct gs_cond *cond, struct gs_mutex *mutex, uint64_t deadline_ns)
{
    static const struct wait_kind waiting = {"condition", false};
    const struct wait wait = {&waiting, cond, deadline_ns, false};
    struct gs_waiter waiter;
    waiter.thread = thread_current();
    spin_lock(&cond->lock);
    waiters_append(&cond->waiting, &waiter);
    if (mutex)
        gs_mutex_unlock(mutex);
    int err = wait_with(waiter.thread, &cond->lock, &wait);
    if (UNLIKELY(err)) {
        spin_lock(&cond->lock);
        if (waiter.is_queued)
            waiters_remove(&cond->waiting, &waiter);
        spin_unlock(&cond->lock);
    }
    if (mutex)
        gs_mutex_lock(mutex, GS_NEVER);
    return err;
}

void gs_cond_signal(struct gs_cond *cond)
{
    spin_lock(&cond->lock);
    struct gs_waiter *waiter = waiters_claim(&cond->waiting);
    struct gs_thread *thread = waiter ? waiter->thread : NULL;
    spin_unlock(&cond->lock);
    if (thread)
        thread_ready(worker_current(), thread);
}

void gs_cond_broadcast(struct gs_cond *cond)
{
    spin_lock(&cond->lock);
    while (gs_waiters_wake(&cond->waiting))
        ;
    spin_unlock(&cond->lock);
}
