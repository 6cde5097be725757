/* Waits of mobile threads. The kernel thread that wakes such a thread makes it ready on any worker,
 * even if the one on which it waits is stuck (tests/model/claim.pml, hand_over.pml). First it
 * removes the thread from the deadlines of that worker, under their lock. */
#include "thread/schedule/thread.h"

/* The caller holds the lock. An unparked thread is claimed only here (thread.h): from now on
 * nobody else makes it ready. */
static void detach_from_worker(struct worker *from, struct gs_thread *thread)
{
    if (thread->deadline_index)
        deadline_remove(&from->deadlines, thread);
    if (thread_is_waiting(thread))
        atomic_store_explicit(&thread->claim, CLAIM_WOKEN, memory_order_relaxed);
    if (!thread->is_pinned)
        thread_set_worker(thread, NULL);
}

void gs_thread_make_ready_mobile(struct worker *worker, struct gs_thread *thread)
{
    struct worker *from = thread->worker;
    if (from) {
        spin_lock_always(&from->deadlines.lock);
        detach_from_worker(from, thread);
        spin_unlock_always(&from->deadlines.lock);
    }
    gs_chaos(CHAOS_MIGRATE);
    if (LIKELY(!from || !thread->is_pinned))
        gs_worker_share(worker, thread);
    else if (worker == from)
        queue_push(from, &thread->run);
    else
        gs_worker_send(from, &thread->run);
}

/* The caller holds the lock. */
static bool claim_canceled(struct worker *worker, struct gs_thread *thread)
{
    uint8_t parked = PARK_PARKED;
    if (__atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST) != worker ||
        atomic_load_explicit(&thread->claim, memory_order_acquire) != CLAIM_WAITING ||
        !thread_wait_is_cancelable(thread))
        return false;
    if (thread->wait_kind->is_park && !thread_clear_parked(thread, &parked))
        return false;
    return thread_claim(thread, CLAIM_CANCELED);
}

/* While the lock is held, the thread cannot begin another wait: gs_thread_make_ready_mobile takes
 * this lock first. */
bool gs_mobile_cancel_wait(struct worker *worker, struct gs_thread *thread)
{
    spin_lock_always(&worker->deadlines.lock);
    bool is_claimed = claim_canceled(worker, thread);
    spin_unlock_always(&worker->deadlines.lock);
    if (is_claimed)
        gs_thread_abandon_wait(thread);
    return is_claimed;
}
