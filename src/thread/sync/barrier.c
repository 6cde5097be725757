#include "thread/schedule/wait.h"

/* If the last thread has arrived in the meantime, it has counted this one but not woken it: the
 * wait succeeds. */
static void abandon(void *object, struct gs_thread *thread, bool was_queued,
                    struct claimed *claimed)
{
    struct gs_barrier *barrier = object;
    (void)claimed;
    if (was_queued)
        barrier->arrived--;
    else
        atomic_store_explicit(&thread->claim, CLAIM_WOKEN, memory_order_relaxed);
}

int gs_barrier_wait(struct gs_barrier *barrier, uint64_t deadline_ns)
{
    CHECKED_WAIT(deadline_ns);
    static const struct wait_kind waiting = {
        .name = "barrier", .abandon = abandon, WAITS_IN(gs_barrier, waiting)};
    spin_lock(&barrier->lock);
    CHECKED(barrier->arrived < barrier->threads, "barrier %p is for %u threads", (void *)barrier,
            barrier->threads);
    if (barrier->arrived + 1 == barrier->threads) {
        barrier->arrived = 0;
        gs_waiters_wake_all_and_unlock(&barrier->lock, &barrier->waiting);
        return 1;
    }
    barrier->arrived++;
    return wait_for_object(worker_current(), barrier, &waiting, deadline_ns);
}
