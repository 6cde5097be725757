/* Queues of waiting threads, in FIFO order, guarded by the lock of the object waited at. A thread
 * that waits at one object is queued with the waiter in its control block; other waiters are on the
 * stack of the waiting thread, unless it shares that. */
#ifndef GS_THREAD_WAITERS_H
#define GS_THREAD_WAITERS_H

#include "thread/schedule/thread.h"

/* Atomic: may_have_waiters in descriptors.c reads it without the lock. */
static inline void set_first(struct gs_wait_queue *queue, struct gs_waiter *waiter)
{
    __atomic_store_n(&queue->first, waiter, __ATOMIC_RELAXED);
}

static inline void waiters_append(struct gs_wait_queue *queue, struct gs_waiter *waiter)
{
    struct gs_waiter *last = queue->first ? queue->last : NULL;
    waiter->next = NULL;
    waiter->previous = last ? last : waiter;
    if (last)
        last->next = waiter;
    else
        set_first(queue, waiter);
    queue->last = waiter;
}

/* Pop the first waiter without touching the second. The new first waiter's `previous` is stale, but
 * not NULL. */
static inline struct gs_waiter *waiters_pop(struct gs_wait_queue *queue)
{
    struct gs_waiter *waiter = queue->first;
    set_first(queue, waiter->next);
    waiter->previous = NULL;
    return waiter;
}

static inline void waiters_remove(struct gs_wait_queue *queue, struct gs_waiter *waiter)
{
    struct gs_waiter *previous = waiter->previous;
    if (queue->first == waiter)
        set_first(queue, waiter->next);
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

/* Whether the thread waits only here, and only code on this worker, the caller's, may claim it
 * without the lock of the object. */
static inline bool waiter_is_local(const struct worker *worker, const struct gs_waiter *waiter)
{
    const struct gs_thread *thread = waiter->thread;
    return waiter == &thread->waiter && !thread_is_mobile(thread) &&
           __atomic_load_n(&thread->worker, __ATOMIC_RELAXED) == worker;
}

/* Claim the thread. The caller holds the lock of the object. If the thread waits only here and does
 * not migrate, only code on its worker claims it without the lock. On that worker a plain store is
 * sufficient. */
static inline bool waiter_claim(struct worker *worker, struct gs_waiter *waiter, int outcome)
{
    struct gs_thread *thread = waiter->thread;
    if (UNLIKELY(gs_runtime.is_multi && !waiter_is_local(worker, waiter)))
        return thread_claim(thread, outcome);
    if (UNLIKELY(atomic_load_explicit(&thread->claim, memory_order_relaxed) != CLAIM_WAITING))
        return false;
    atomic_store_explicit(&thread->claim, outcome, memory_order_relaxed);
    return true;
}

/* The next waiter was prefetched when the one before was popped: now prefetch its stack, if it is
 * going to run next, and the control block of the thread behind it. */
static inline __attribute__((always_inline)) void
waiters_prefetch(const struct gs_wait_queue *queue, bool is_next)
{
    const struct gs_waiter *next = queue->first;
    if (is_next)
        thread_prefetch_stack(next->thread);
    if (next->next)
        thread_prefetch(gs_container_of(next->next, struct gs_thread, waiter));
}

/* Pop waiters until one can be claimed with the given outcome, and return it; NULL: none. The
 * caller makes its thread ready. */
static inline struct gs_waiter *waiters_pop_claimed(struct worker *worker,
                                                    struct gs_wait_queue *queue, int outcome)
{
    while (queue->first) {
        struct gs_waiter *waiter = waiters_pop(queue);
        if (queue->first)
            waiters_prefetch(queue, !worker->ready_mask);
        if (LIKELY(waiter_claim(worker, waiter, outcome)))
            return waiter;
    }
    return NULL;
}

/* (tests/model/claim.pml) Waiters that were claimed under a lock, in that order, linked by `next`.
 * They are made ready when the lock has been released, and the object is not touched afterwards: a
 * thread that has waited there may free it as soon as its call has returned, on any worker. A
 * waiter and its thread do not change until the thread is made ready. */
struct claimed {
    struct gs_waiter *first, *last;
};

static inline void claimed_add(struct claimed *claimed, struct gs_waiter *waiter)
{
    waiter->next = NULL;
    *(claimed->first ? &claimed->last->next : &claimed->first) = waiter;
    claimed->last = waiter;
}

/* Claim all waiters of the queue. The caller holds the lock. Threads that stay on its worker are
 * made ready at once: before the caller switches they neither run nor free the object. */
static inline void waiters_claim_all(struct worker *worker, struct gs_wait_queue *queue,
                                     struct claimed *claimed)
{
    struct gs_waiter *waiter;
    while ((waiter = waiters_pop_claimed(worker, queue, CLAIM_WOKEN))) {
        struct gs_thread *thread = waiter->thread;
        if (queue->first)
            thread_prefetch_ahead(thread, queue->first->thread);
        if (LIKELY(!thread_is_mobile(thread) && thread->worker == worker))
            queue_push(worker, &thread->run);
        else
            claimed_add(claimed, waiter);
    }
}

/* Make the claimed threads ready. The caller holds no lock. worker: the caller, or NULL if it is no
 * worker. */
static inline void claimed_make_ready(struct worker *worker, const struct claimed *claimed)
{
    for (struct gs_waiter *waiter = claimed->first, *next; waiter; waiter = next) {
        next = waiter->next;
        gs_chaos(CHAOS_WAKE);
        thread_make_ready_from(worker, waiter->thread);
    }
}

/* (wait.c) Claim all waiters, release the lock, and make them ready: the object may be freed from
 * then on. */
void gs_waiters_wake_all_and_unlock(struct gs_spin *lock, struct gs_wait_queue *queue);

#endif
