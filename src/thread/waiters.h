/* Queues of waiting threads, first come first served, which the waited-for object's lock guards. A waiter stands on the stack of
 * the thread that waits. */
#ifndef GS_THREAD_WAITERS_H
#define GS_THREAD_WAITERS_H

#include "thread/state.h"

static inline void waiters_append(struct gs_wait_queue *queue, struct gs_waiter *waiter)
{
    waiter->next = NULL;
    waiter->previous = queue->last;
    *(queue->last ? &queue->last->next : &queue->first) = waiter;
    queue->last = waiter;
    waiter->is_queued = true;
}

static inline void waiters_remove(struct gs_wait_queue *queue, struct gs_waiter *waiter)
{
    *(waiter->previous ? &waiter->previous->next : &queue->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &queue->last) = waiter->previous;
    waiter->is_queued = false;
}

/* The first that can be claimed, claimed, off the queue; NULL: none. To be made ready by the caller. */
static inline struct gs_waiter *waiters_claim(struct gs_wait_queue *queue)
{
    struct gs_waiter *waiter;
    while ((waiter = queue->first)) {
        waiters_remove(queue, waiter);
        if (LIKELY(thread_claim(waiter->thread, CLAIM_WOKEN)))
            return waiter;
    }
    return NULL;
}

/* Queue the caller and wait; see gs_thread_wait. The lock is held and released; on failure the waiter is off the queue. */
int gs_waiters_wait(struct gs_wait_queue *queue, struct gs_waiter *waiter, struct gs_spin *lock,
                    const struct wait *wait);
/* Claim the first and make it ready. False: nobody waits. */
bool gs_waiters_wake(struct gs_wait_queue *queue);

#endif
