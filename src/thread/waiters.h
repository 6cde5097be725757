/* Queues of waiting threads, first come first served, which the waited-for object's lock guards. A thread that waits at one object
 * for its turn stands there with the waiter of its own; other waiters are on the stack of the thread that waits. */
#ifndef GS_THREAD_WAITERS_H
#define GS_THREAD_WAITERS_H

#include "thread/state.h"

static inline void waiters_append(struct gs_wait_queue *queue, struct gs_waiter *waiter)
{
    struct gs_waiter *last = queue->first ? queue->last : NULL;
    waiter->next = NULL;
    waiter->previous = last ? last : waiter;
    *(last ? &last->next : &queue->first) = waiter;
    queue->last = waiter;
}

/* Touches no other waiter. */
static inline struct gs_waiter *waiters_take_first(struct gs_wait_queue *queue)
{
    struct gs_waiter *waiter = queue->first;
    queue->first = waiter->next;
    waiter->previous = NULL;
    return waiter;
}

static inline void waiters_remove(struct gs_wait_queue *queue, struct gs_waiter *waiter)
{
    struct gs_waiter *previous = waiter->previous;
    if (queue->first == waiter)
        queue->first = waiter->next;
    else
        previous->next = waiter->next;
    if (waiter->next)
        waiter->next->previous = previous;
    else
        queue->last = previous;
    waiter->previous = NULL;
}

static inline bool waiter_is_queued(const struct gs_waiter *waiter)
{
    return waiter->previous;
}

/* Claim the thread for its waker, who holds the lock. Where the thread waits at this object only, others that may claim it run on
 * its worker: on that worker itself a plain store will do. */
static inline bool waiter_claim(struct worker *worker, struct gs_waiter *waiter, int outcome)
{
    struct gs_thread *thread = waiter->thread;
    bool is_alone =
        !gs_runtime.is_multi || (waiter == &thread->waiter && !thread->migrates &&
                                 __atomic_load_n(&thread->worker, __ATOMIC_RELAXED) == worker);
    if (UNLIKELY(!is_alone))
        return thread_claim(thread, outcome);
    if (UNLIKELY(atomic_load_explicit(&thread->claim, memory_order_relaxed) != CLAIM_WAITING))
        return false;
    atomic_store_explicit(&thread->claim, outcome, memory_order_relaxed);
    return true;
}

/* Who is next was fetched when the last one was taken: now its stack, and who comes then. */
static inline __attribute__((always_inline)) void
waiters_prefetch(const struct gs_wait_queue *queue, bool is_next)
{
    const struct gs_waiter *next = queue->first;
    if (is_next)
        thread_prefetch_stack(next->thread);
    if (next->next)
        thread_prefetch(gs_container_of(next->next, struct gs_thread, waiter));
}

/* The first that can be claimed, claimed with what its call is to return, off the queue; NULL: none. To be made ready by the
 * caller. */
static inline struct gs_waiter *waiters_claim(struct worker *worker, struct gs_wait_queue *queue,
                                              int outcome)
{
    while (queue->first) {
        struct gs_waiter *waiter = waiters_take_first(queue);
        if (queue->first)
            waiters_prefetch(queue, !worker->ready_mask);
        if (LIKELY(waiter_claim(worker, waiter, outcome)))
            return waiter;
    }
    return NULL;
}

/* Queue the caller, with a waiter on its stack, and wait; see gs_thread_wait. The lock is held and released; on failure the waiter
 * is off the queue. */
int gs_waiters_wait(struct gs_wait_queue *queue, struct gs_waiter *waiter, struct gs_spin *lock,
                    const struct wait *wait);

/* Under the lock: claim the first and make it ready. False: nobody waits. */
static inline bool waiters_wake(struct worker *worker, struct gs_wait_queue *queue)
{
    struct gs_waiter *waiter = waiters_claim(worker, queue, CLAIM_WOKEN);
    if (waiter)
        thread_ready(worker, waiter->thread);
    return waiter;
}

#endif
