#include "thread/wait.h"

static const struct wait_kind waiting = {.what = "condition", WAITS_IN(gs_cond, waiting)};

static int wait_without(struct gs_cond *cond, struct gs_mutex *mutex, uint64_t deadline_ns,
                        const void *site)
{
    spin_lock(&cond->lock);
    gs_mutex_unlock(mutex);
    int err = gs_thread_wait_in(thread_current(), cond, &waiting, deadline_ns, site);
    gs_mutex_lock(mutex, GS_NEVER);
    return err;
}

int gs_cond_wait(struct gs_cond *cond, struct gs_mutex *mutex, uint64_t deadline_ns)
{
    if (mutex)
        return wait_without(cond, mutex, deadline_ns, __builtin_return_address(0));
    spin_lock(&cond->lock);
    return wait_in(thread_current(), cond, &waiting, deadline_ns);
}

void gs_cond_signal(struct gs_cond *cond)
{
    struct worker *worker = worker_current();
    spin_lock(&cond->lock);
    struct gs_waiter *waiter = waiters_claim(worker, &cond->waiting, CLAIM_WOKEN);
    spin_unlock(&cond->lock);
    if (waiter)
        thread_ready(worker, waiter->thread);
}

void gs_cond_broadcast(struct gs_cond *cond)
{
    struct worker *worker = worker_current();
    spin_lock(&cond->lock);
    while (waiters_wake(worker, &cond->waiting))
        ;
    spin_unlock(&cond->lock);
}
