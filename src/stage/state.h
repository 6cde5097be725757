/* The inside of a stage.
 *
 *     gs_outbox_put --> outbox --> queue --> batch --> handler --> outbox of the batch
 *        place taken      deliver      take: place given back
 *
 * Invariants, while the lock is not held:
 *   S1  queued is the length of the list from first; last points to its end
 *   S2  places >= queued: what is in outboxes has a place already
 *   S3  sleepers <= threads <= threads_most, and threads >= 1 until it is ending
 *   S4  if events wait and a thread sleeps, a thread has been woken for them or another will look before it sleeps
 */
#ifndef GS_STAGE_STATE_H
#define GS_STAGE_STATE_H

#include "stage/controllers.h"

#include <gossamer/loop.h>
#include <gossamer/stage.h>
#include <pthread.h>
#include <stdatomic.h>

/* Events on their way, by stage. */
#define GS_OUTBOX_ROWS 8
struct gs_outbox {
    struct gs_outbox_row {
        struct gs_stage *stage;
        struct gs_event *first, **last;
        unsigned count;
    } rows[GS_OUTBOX_ROWS];
    unsigned used;
};

struct gs_stage {
    struct gs_stage_options options;
    _Atomic(unsigned) places;
    _Atomic(uint64_t) handled_ns; /* what an event takes, smoothed */
    _Atomic(uint64_t) pace_ns;    /* and for which it keeps all threads together */
    _Atomic(uint64_t) full;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t come, over;
    struct gs_event *first, **last;
    unsigned queued;
    unsigned threads, sleepers;
    bool is_waking; /* a thread was woken and has not looked yet */
    bool is_ending;
    unsigned batch;
    struct gs_pool_control pool;
    struct gs_batch_control batches;
    struct gs_admission_control admission;
    struct gs_stage_figures figures;

    struct gs_async called; /* on a loop */
    struct gs_prepare before_wait;
    struct gs_outbox outbox;
};

static inline bool gs_stage_has(const struct gs_stage *stage, unsigned controller)
{
    return stage->options.controllers & controller;
}

/* Another thread, which is counted already. Returns 0, or -EAGAIN or -ENOMEM: then it is not counted any more. */
GS_MUST_CHECK int gs_stage_add_thread(struct gs_stage *stage);

/* Handle a batch: the lock is held, before and after; events wait. What goes to the stage `spared` wakes none of its threads. */
void gs_stage_handle(struct gs_stage *stage, struct gs_outbox *outbox,
                     const struct gs_stage *spared);

/* Wake a thread for what waits, if one sleeps and none is on its way. The lock is held. */
void gs_stage_wake_one(struct gs_stage *stage);

#endif
