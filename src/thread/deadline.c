/* Deadlines of mobile threads, and how such a thread leaves its worker: whoever wakes it takes it along, even from a worker that
 * is stuck. So its deadline is no timer of the worker's loop, but stands in a heap that has a lock. */
#include "thread/state.h"

#include <errno.h>

static struct gs_thread *first_of(const struct deadlines *deadlines)
{
    return gs_container_of(gs_heap_first(&deadlines->heap)->place, struct gs_thread,
                           deadline_place);
}

/* ---- Going off ---- */

/* Whether the wait has ended by now, by this or before. False: the thread is still leaving its stack. */
static bool time_out(struct gs_thread *thread, bool *ret_is_mine)
{
    unsigned parked = TOKEN_PARKED;
    *ret_is_mine = false;
    /* Acquire: pairs with the release when the thread had left its stack. */
    int claim = atomic_load_explicit(&thread->claim, memory_order_acquire);
    if (claim == CLAIM_NONE || claim == CLAIM_LEAVING)
        return false;
    if (thread->is_token_wait && claim == CLAIM_WAITING &&
        !atomic_compare_exchange_strong(&thread->token, &parked, TOKEN_NONE))
        return parked == TOKEN_KEPT;
    *ret_is_mine = thread_claim(thread, CLAIM_TIMED_OUT);
    return true;
}

/* The next thread to be timed out, which is the caller's then; NULL: none. The lock is held. */
static struct gs_thread *take_due(struct deadlines *deadlines, uint64_t now_ns)
{
    bool is_mine;
    while (deadlines->heap.count && gs_heap_first(&deadlines->heap)->key <= now_ns) {
        struct gs_thread *thread = first_of(deadlines);
        if (!time_out(thread, &is_mine))
            return NULL;
        gs_heap_remove(&deadlines->heap, &thread->deadline_place);
        if (is_mine)
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
        struct gs_thread *thread = take_due(deadlines, now_ns);
        spin_unlock_always(&deadlines->lock);
        if (!thread)
            return count;
        gs_thread_give_up(thread);
        gs_thread_move_on(gs_worker_or_null(), thread);
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
    /* Without memory for the timer, rather too early than never. */
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
        gs_heap_insert(&deadlines->heap, deadline_ns, &thread->deadline_place);
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

/* ---- Leaving ---- */

/* The lock is held. */
static void depart(struct worker *from, struct gs_thread *thread)
{
    if (thread->deadline_place)
        gs_heap_remove(&from->deadlines.heap, &thread->deadline_place);
    if (!thread->is_pinned)
        thread_set_worker(thread, NULL);
}

void gs_thread_move_on(struct worker *worker, struct gs_thread *thread)
{
    struct worker *from = thread->worker;
    if (from) {
        spin_lock_always(&from->deadlines.lock);
        depart(from, thread);
        spin_unlock_always(&from->deadlines.lock);
    }
    if (LIKELY(!from || !thread->is_pinned))
        gs_worker_share(worker, thread);
    else if (worker == from)
        queue_push(from, &thread->run);
    else
        gs_worker_send(from, &thread->run);
}

/* The lock is held. */
static bool claim_canceled(struct worker *worker, struct gs_thread *thread)
{
    unsigned parked = TOKEN_PARKED;
    if (__atomic_load_n(&thread->worker, __ATOMIC_SEQ_CST) != worker ||
        atomic_load_explicit(&thread->claim, memory_order_acquire) != CLAIM_WAITING ||
        !thread_is_interruptible(thread))
        return false;
    if (thread->is_token_wait &&
        !atomic_compare_exchange_strong(&thread->token, &parked, TOKEN_NONE))
        return false;
    return thread_claim(thread, CLAIM_CANCELED);
}

/* Under the lock no other wait can begin for the one that is looked at. */
bool gs_deadline_cancel_wait(struct worker *worker, struct gs_thread *thread)
{
    spin_lock_always(&worker->deadlines.lock);
    bool is_mine = claim_canceled(worker, thread);
    spin_unlock_always(&worker->deadlines.lock);
    if (is_mine)
        gs_thread_give_up(thread);
    return is_mine;
}
