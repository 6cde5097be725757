/* The deadlines of threads. Each worker has two queues: one for the threads that stay on it, and
 * one for mobile threads, which other kernel threads may time out, or wake and take away
 * (mobile_wait.c). A timer of its loop expires when the first deadline of a queue passes.
 *
 * A thread that stays is left in the queue when its wait ends early: its next deadline is usually
 * later, and then costs one store. The queue finds out when the earlier one has passed. The thread
 * is then moved, or removed if it does not wait or its wait has no deadline; and it is removed when
 * it ends. A mobile thread is removed before it is made ready. (docs/design/schedules.md) */
#include "thread/schedule/thread.h"

#include <limits.h>

/* The maximum number of threads that are timed out at a time: others must not wait for a
 * million. */
#define BATCH_MAX 1024u

static struct gs_thread *thread_at(const uint32_t *index)
{
    return gs_container_of(index, struct gs_thread, deadline_index);
}

static uint64_t deadline_of(const uint32_t *index)
{
    return __atomic_load_n(&thread_at(index)->deadline_ns, __ATOMIC_RELAXED);
}

static struct deadlines *deadlines_of(const struct gs_thread *thread)
{
    return thread_is_mobile(thread) ? &thread->worker->deadlines : &thread->worker->own_deadlines;
}

/* Time the thread out, if its wait has a deadline and has not ended. Returns false if a mobile
 * thread has not left its stack yet, which only the monitor can see. */
static bool time_out(struct gs_thread *thread, bool *ret_is_claimed)
{
    uint8_t parked = PARK_PARKED;
    *ret_is_claimed = false;
    /* Acquire: pairs with the release in publish (wait.c). */
    int claim = atomic_load_explicit(&thread->claim, memory_order_acquire);
    if ((claim == CLAIM_NONE || claim == CLAIM_LEAVING) && thread_is_mobile(thread))
        return false;
    if (claim != CLAIM_WAITING || !thread->has_deadline)
        return true;
    if (thread->wait_kind->is_park && !thread_clear_parked(thread, &parked))
        return parked == PARK_NOTIFIED;
    *ret_is_claimed = thread_claim(thread, CLAIM_TIMED_OUT);
    return true;
}

/* Remove the next thread that is due and has been claimed by this call. NULL: there is none, or the
 * first due thread is still leaving its stack. The caller holds the lock. */
static struct gs_thread *remove_due(struct deadlines *deadlines, uint64_t now_ns)
{
    const uint32_t *index;
    bool is_claimed;
    while ((index = gs_timer_queue_due(&deadlines->queue, now_ns))) {
        struct gs_thread *thread = thread_at(index);
        if (!time_out(thread, &is_claimed))
            return NULL;
        deadline_remove(deadlines, thread);
        if (is_claimed)
            return thread;
    }
    return NULL;
}

/* Time out at most `max` threads. worker: the caller, or NULL if it is the monitor. Returns how
 * many there were. */
static unsigned expire(struct worker *worker, struct deadlines *deadlines, uint64_t now_ns,
                       unsigned max)
{
    unsigned count = 0;
    for (; count < max; count++) {
        spin_lock(&deadlines->lock);
        struct gs_thread *thread = remove_due(deadlines, now_ns);
        spin_unlock(&deadlines->lock);
        if (!thread)
            break;
        gs_chaos(CHAOS_CLAIM);
        gs_thread_abandon_wait(thread);
        gs_chaos(CHAOS_WAKE);
        gs_thread_enqueue(worker, thread);
    }
    return count;
}

unsigned gs_deadlines_expire_for_stuck(struct worker *worker, uint64_t now_ns)
{
    return expire(NULL, &worker->deadlines, now_ns, UINT_MAX);
}

static void on_timer(struct gs_timer *timer)
{
    struct deadlines *deadlines = gs_container_of(timer, struct deadlines, timer);
    struct worker *worker = worker_current();
    expire(worker, deadlines, *worker->now_ns, BATCH_MAX);
    spin_lock(&deadlines->lock);
    uint64_t next_ns = gs_timer_queue_next(&deadlines->queue);
    spin_unlock(&deadlines->lock);
    if (next_ns != GS_NEVER)
        (void)!gs_timer_start(timer, next_ns); /* it was active: there is room for it */
}

/* Called under the lock. Returns 0 or -ENOMEM. */
static int insert(struct gs_timer_queue *queue, struct gs_thread *thread, uint64_t deadline_ns)
{
    uint32_t *index = &thread->deadline_index;
    int err = *index ? 0 : gs_timer_queue_reserve(queue, gs_timer_queue_count(queue) + 1);
    if (err)
        return err;
    __atomic_store_n(&thread->deadline_ns, deadline_ns, __ATOMIC_RELAXED);
    if (!*index)
        gs_timer_queue_insert(queue, deadline_ns, index);
    else if (deadline_ns < gs_timer_queue_key(queue, *index))
        gs_timer_queue_decrease_key(queue, index, deadline_ns);
    return 0;
}

int gs_deadline_start(struct gs_thread *thread, uint64_t deadline_ns)
{
    struct deadlines *deadlines = deadlines_of(thread);
    struct gs_timer *timer = &deadlines->timer;
    int err = 0;
    if (!timer->watcher.active || deadline_ns < timer->deadline_ns)
        err = gs_timer_start(timer, deadline_ns);
    if (err)
        return err;
    spin_lock(&deadlines->lock);
    err = insert(&deadlines->queue, thread, deadline_ns);
    spin_unlock(&deadlines->lock);
    return err;
}

void gs_deadline_stop(struct gs_thread *thread)
{
    struct deadlines *deadlines = deadlines_of(thread);
    spin_lock(&deadlines->lock);
    deadline_remove(deadlines, thread);
    spin_unlock(&deadlines->lock);
}

static void init(struct worker *worker, struct deadlines *deadlines)
{
    gs_timer_queue_done(&deadlines->queue);
    deadlines->queue.key_of = deadline_of;
    gs_timer_init(&deadlines->timer, worker->loop, on_timer);
}

void gs_deadlines_init(struct worker *worker)
{
    init(worker, &worker->own_deadlines);
    init(worker, &worker->deadlines);
}

void gs_deadlines_done(struct worker *worker)
{
    gs_timer_queue_done(&worker->own_deadlines.queue);
    gs_timer_queue_done(&worker->deadlines.queue);
}
