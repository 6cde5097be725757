/* Waits of mobile threads. The kernel thread that wakes such a thread makes it ready on any worker,
 * even if the one on which it waits is stuck (tests/model/claim.pml, hand_over.pml). So its
 * deadline is no timer of the worker's loop, but an entry of a heap that has a lock. */
#include "thread/schedule/thread.h"

#include <errno.h>

static struct gs_thread *first_of(const struct deadlines *deadlines)
{
    return gs_container_of(gs_heap_first(&deadlines->heap)->index, struct gs_thread,
                           deadline_index);
}

/* ---- Deadlines ---- */

/* Time the thread out. Returns whether its wait has ended, by this call or before; false: the
 * thread has not left its stack yet, which only the monitor can see. */
static bool time_out(struct gs_thread *thread, bool *ret_is_claimed)
{
    unsigned parked = PARK_PARKED;
    *ret_is_claimed = false;
    /* Acquire: pairs with the release in publish (wait.c). */
    int claim = atomic_load_explicit(&thread->claim, memory_order_acquire);
    if (claim == CLAIM_NONE || claim == CLAIM_LEAVING)
        return false;
    if (thread->is_parking && claim == CLAIM_WAITING && !thread_clear_parked(thread, &parked))
        return parked == PARK_NOTIFIED;
    *ret_is_claimed = thread_claim(thread, CLAIM_TIMED_OUT);
    return true;
}

/* Pop the next thread that is due and has been claimed by this call. NULL: there is none, or the
 * first due thread is still leaving its stack. The caller holds the lock. */
static struct gs_thread *pop_due(struct deadlines *deadlines, uint64_t now_ns)
{
    bool is_claimed;
    while (deadlines->heap.count && gs_heap_first(&deadlines->heap)->key <= now_ns) {
        struct gs_thread *thread = first_of(deadlines);
        if (!time_out(thread, &is_claimed))
            return NULL;
        gs_heap_remove(&deadlines->heap, &thread->deadline_index);
        if (is_claimed)
            return thread;
    }
    return NULL;
}

unsigned gs_deadlines_expire(struct worker *worker, uint64_t now_ns)
{
    struct deadlines *deadlines = &worker->deadlines;
    unsigned count = 0;
    for (;; count++) {
        spin_lock_always(&deadlines->lock);
        struct gs_thread *thread = pop_due(deadlines, now_ns);
        spin_unlock_always(&deadlines->lock);
        if (!thread)
            return count;
        gs_chaos(CHAOS_CLAIM);
        gs_thread_abandon_wait(thread);
        gs_chaos(CHAOS_MIGRATE);
        gs_thread_make_ready_mobile(gs_worker_or_null(), thread);
    }
}

static void on_timer(struct gs_timer *timer)
{
    struct worker *worker = gs_container_of(timer, struct worker, deadlines.timer);
    struct gs_heap *heap = &worker->deadlines.heap;
    gs_deadlines_expire(worker, *worker->now_ns);
    spin_lock_always(&worker->deadlines.lock);
    uint64_t next_ns = heap->count ? gs_heap_first(heap)->key : GS_NEVER;
    spin_unlock_always(&worker->deadlines.lock);
    /* If memory for the timer is exhausted, time out too early rather than never. */
    if (next_ns != GS_NEVER && gs_timer_start(timer, next_ns))
        gs_deadlines_expire(worker, GS_NEVER);
}

int gs_deadline_start(struct gs_thread *thread, uint64_t deadline_ns)
{
    struct deadlines *deadlines = &thread->worker->deadlines;
    if (!deadlines->timer.watcher.active || deadline_ns < deadlines->timer.deadline_ns) {
        int err = gs_timer_start(&deadlines->timer, deadline_ns);
        if (err)
            return err;
    }
    spin_lock_always(&deadlines->lock);
    int err = gs_heap_reserve(&deadlines->heap, deadlines->heap.count + 1);
    if (!err)
        gs_heap_insert(&deadlines->heap, deadline_ns, &thread->deadline_index);
    spin_unlock_always(&deadlines->lock);
    return err;
}

void gs_deadlines_init(struct worker *worker)
{
    gs_timer_init(&worker->deadlines.timer, worker->loop, on_timer);
}

void gs_deadlines_done(struct worker *worker)
{
    gs_heap_done(&worker->deadlines.heap);
}

/* ---- Making ready and canceling ---- */

/* The caller holds the lock. An unparked thread is claimed only here (thread.h): from now on its
 * stack must not be given back, wherever it runs. */
static void detach_from_worker(struct worker *from, struct gs_thread *thread)
{
    if (thread->deadline_index)
        gs_heap_remove(&from->deadlines.heap, &thread->deadline_index);
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
    unsigned parked = PARK_PARKED;
    if (__atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST) != worker ||
        atomic_load_explicit(&thread->claim, memory_order_acquire) != CLAIM_WAITING ||
        !thread_wait_is_cancelable(thread))
        return false;
    if (thread->is_parking && !thread_clear_parked(thread, &parked))
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
