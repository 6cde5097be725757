/* Slots for connections: so many in all, whichever worker accepts them.
 *
 *     if (serve_slots_acquire(&slots))
 *         ... accept; when that fails or the connection ends: serve_slots_release(&slots);
 *     else
 *         serve_slots_wait(&slots, &waiter);          the async is sent once one may be free
 *
 * All functions may be called by any kernel thread. */
#ifndef GS_SERVE_SLOTS_H
#define GS_SERVE_SLOTS_H

#include <gossamer/list.h>
#include <gossamer/loop.h>
#include <pthread.h>
#include <stdatomic.h>

struct serve_slots {
    uint64_t max;
    _Atomic(uint64_t) used;
    atomic_bool has_waiters;
    pthread_mutex_t lock;
    struct gs_list waiters;
};

/* In the caller's storage. The caller initialises the async and keeps it active while it waits. */
struct serve_slot_waiter {
    struct gs_list link;
    struct gs_async async;
};

void serve_slots_init(struct serve_slots *slots, uint64_t max);

/* Returns false if none is free. */
bool serve_slots_acquire(struct serve_slots *slots);
void serve_slots_release(struct serve_slots *slots);

/* Acquire one even if none is free, for a connection that is accepted already. */
void serve_slots_acquire_extra(struct serve_slots *slots);

/* Whether at least so many are free. */
bool serve_slots_have_free(const struct serve_slots *slots, uint64_t count);

/* Send the waiter's async once, as soon as a slot is free; another thread may acquire it first. */
void serve_slots_wait(struct serve_slots *slots, struct serve_slot_waiter *waiter);

/* From now on the async is not sent. The waiter need not be waiting. */
void serve_slots_cancel_wait(struct serve_slots *slots, struct serve_slot_waiter *waiter);

#endif
