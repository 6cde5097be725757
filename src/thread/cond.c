#include "thread/wait.h"

static const struct wait_kind waiting = {.name = "condition", WAITS_IN(gs_cond, waiting)};

static int wait_releasing(struct gs_cond *cond, struct gs_mutex *mutex, uint64_t deadline_ns,
                          const void *call_site)
{
    spin_lock(&cond->lock);
    gs_mutex_unlock(mutex);
    int err = gs_thread_wait_for_object(thread_current(), cond, &waiting, deadline_ns, call_site);
    gs_mutex_lock(mutex, GS_NEVER);
    return err;
}

int gs_cond_wait(struct gs_cond *cond, struct gs_mutex *mutex, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    if (mutex)
        CHECKED_MUTEX_HELD(mutex);
    if (mutex)
        return wait_releasing(cond, mutex, deadline_ns, __builtin_return_address(0));
    spin_lock(&cond->lock);
    return wait_for_object(thread_current(), cond, &waiting, deadline_ns);
}

void gs_cond_signal(struct gs_cond *cond)
{
    CHECKED_WORKER();
    struct worker *worker = worker_current();
    spin_lock(&cond->lock);
    struct gs_waiter *waiter = waiters_pop_claimed(worker, &cond->waiting, CLAIM_WOKEN);
    spin_unlock(&cond->lock);
    if (waiter)
        thread_make_ready(worker, waiter->thread);
}

void gs_cond_broadcast(struct gs_cond *cond)
{
    CHECKED_WORKER();
    struct worker *worker = worker_current();
    struct claimed claimed = {.first = NULL};
    spin_lock(&cond->lock);
    waiters_claim_all(worker, &cond->waiting, &claimed);
    spin_unlock(&cond->lock);
    claimed_make_ready(worker, &claimed);
}
