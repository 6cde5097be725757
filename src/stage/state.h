/* Internals of a stage.
 *
 *     gs_outbox_add --> outbox --> queue --> batch --> handler --> outbox of the batch
 *       reserves a slot     flush      pop: releases the slots
 *
 * Invariants, while no thread holds the lock:
 *   S1  queued is the length of the list from first; last points to its end
 *   S2  reserved >= queued: events in outboxes have reserved a slot already
 *   S3  idle_threads <= threads <= max_threads, and threads >= 1 until is_ending
 *   S4  if events are queued and a thread sleeps, then a thread has been woken for them or another
 *       thread will check the queue before it sleeps
 */
#ifndef GS_STAGE_STATE_H
#define GS_STAGE_STATE_H

#include "stage/controllers.h"

#include <gossamer/loop.h>
#include <gossamer/stage.h>
#include <pthread.h>
#include <stdatomic.h>

/* Events that will be enqueued when the outbox is flushed, by stage. */
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
    _Atomic(unsigned) reserved;    /* slots in the queue */
    _Atomic(uint64_t) service_ns;  /* time to handle one event, smoothed */
    _Atomic(uint64_t) interval_ns; /* service_ns divided by the number of threads */
    _Atomic(uint64_t) refused_full;

    pthread_mutex_t lock; /* protects the members below */
    pthread_cond_t queue_not_empty, threads_ended;
    struct gs_event *first, **last;
    unsigned queued;
    unsigned threads, idle_threads;
    bool is_wakeup_pending; /* a thread was woken and does not run yet */
    bool is_ending;
    unsigned batch;
    struct gs_pool_control pool;
    struct gs_batch_control batches;
    struct gs_admission_control admission;
    struct gs_stage_stats stats;

    /* Used by a stage on a loop. */
    struct gs_async wakeup;
    struct gs_prepare before_wait;
    struct gs_outbox outbox;
};

static inline bool gs_stage_has(const struct gs_stage *stage, unsigned controller)
{
    return stage->options.controllers & controller;
}

/* Create a thread, which `threads` counts already. Returns 0, or -EAGAIN or -ENOMEM: then it is not
 * counted any more. */
GS_MUST_CHECK int gs_stage_add_thread(struct gs_stage *stage);

/* Handle a batch; events must be queued. The caller holds the lock, which is released while the
 * handler runs. No thread of the stage no_wakeup is woken for events that the handler adds. */
void gs_stage_handle(struct gs_stage *stage, struct gs_outbox *outbox,
                     const struct gs_stage *no_wakeup);

/* Wake an idle thread for the queued events, unless a wakeup is pending. The caller holds the lock.
 */
void gs_stage_wake_one(struct gs_stage *stage);

#endif
