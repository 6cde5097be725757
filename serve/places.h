/* Places for connections: so many in all, whichever worker accepts them.
 *
 *     if (serve_places_take(&places))
 *         ... accept; when that fails or the connection ends: serve_places_leave(&places);
 *     else
 *         serve_places_wait(&places, &waiter);        the async is sent once there may be one
 *
 * All functions may be called by any kernel thread. */
#ifndef GS_SERVE_PLACES_H
#define GS_SERVE_PLACES_H

#include <gossamer/list.h>
#include <gossamer/loop.h>
#include <pthread.h>
#include <stdatomic.h>

struct serve_places {
    uint64_t most;
    _Atomic(uint64_t) taken;
    atomic_bool awaited; /* somebody is in `waiters` */
    pthread_mutex_t lock;
    struct gs_list waiters;
};

/* In the caller's storage: the async is the caller's to set up, and stays active while it waits. */
struct serve_waiter {
    struct gs_list link;
    struct gs_async async;
};

void serve_places_init(struct serve_places *places, uint64_t most);

/* False: none is free. */
bool serve_places_take(struct serve_places *places);
void serve_places_leave(struct serve_places *places);

/* Take one even if none is free: for who is there already. */
void serve_places_exceed(struct serve_places *places);

/* Whether so many are free. */
bool serve_places_are_free(const struct serve_places *places, uint64_t count);

/* Send the waiter's async once, as soon as a place is free, which another may then take first. */
void serve_places_wait(struct serve_places *places, struct serve_waiter *waiter);

/* From now on, its async is not sent. One that does not wait is accepted. */
void serve_places_forget(struct serve_places *places, struct serve_waiter *waiter);

#endif
