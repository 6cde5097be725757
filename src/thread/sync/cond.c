#include "thread/schedule/wait.h"

static const struct wait_kind waiting = {.name = "condition", WAITS_IN(gs_cond, waiting)};

static __attribute__((noinline)) int wait_releasing(struct gs_cond *cond, struct gs_mutex *mutex,
                                                    uint64_t deadline_ns)
{
    spin_lock(&cond->lock);
    if (mutex)
        gs_mutex_unlock(mutex);
    int err = gs_thread_wait_for_object(thread_current(), cond, &waiting, deadline_ns);
    if (mutex)
        gs_mutex_lock(mutex, GS_NEVER);
    return err;
}

int gs_cond_wait(struct gs_cond *cond, struct gs_mutex *mutex, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    if (mutex)
        IF_CHECKED(gs_checked_mutex_held(THIS_CALL, mutex));
    if (mutex || !worker_is_in_register() || !spin_try_lock(&cond->lock))
        return wait_releasing(cond, mutex, deadline_ns);
    return wait_for_object(worker_from_register(), cond, &waiting, deadline_ns);
}

/* The lock is held. The first waiter's thread, if only this worker makes it ready; otherwise
 * NULL. */
ALWAYS_INLINE struct gs_thread *first_of_worker(struct gs_cond *cond, struct worker *worker)
{
    struct gs_waiter *first = cond->waiting.first;
    if (UNLIKELY(!first))
        return NULL;
    struct gs_thread *thread = first->thread;
    return LIKELY(waiter_is_local(worker, first)) && LIKELY(thread_is_waiting(thread)) ? thread
                                                                                       : NULL;
}

/* The lock is held. In the usual case, what is checked to claim the thread need not be checked
 * again to make it ready. */
ALWAYS_INLINE void signal_locked(struct gs_cond *cond, struct worker *worker)
{
    struct gs_thread *thread = first_of_worker(cond, worker);
    if (LIKELY(thread != NULL)) {
        waiters_pop(&cond->waiting);
        if (cond->waiting.first)
            waiters_prefetch(&cond->waiting, !worker->ready_mask);
        atomic_store_explicit(&thread->claim, CLAIM_WOKEN, memory_order_relaxed);
        spin_unlock_always(&cond->lock); /* a check would cost more with several workers */
        queue_push(worker, &thread->run);
        return;
    }
    struct gs_waiter *waiter = waiters_pop_claimed(worker, &cond->waiting, CLAIM_WOKEN);
    spin_unlock(&cond->lock);
    if (waiter)
        thread_make_ready(worker, waiter->thread);
}

static __attribute__((noinline)) void signal_slowly(struct gs_cond *cond)
{
    struct worker *worker = worker_current();
    spin_lock(&cond->lock);
    signal_locked(cond, worker);
}

void gs_cond_signal(struct gs_cond *cond)
{
    CHECKED_WORKER();
    if (worker_is_in_register() && spin_try_lock(&cond->lock))
        signal_locked(cond, worker_from_register());
    else
        signal_slowly(cond);
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
