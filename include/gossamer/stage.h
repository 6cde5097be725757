/* Staged event-driven servers, after SEDA (Welsh, Culler, Brewer: SOSP 2001): a program is a graph
 * of stages. Each stage is a queue of events, a handler that is called with a batch of them, and
 * kernel threads that call it.
 *
 *     static void greet(struct gs_batch *batch, void *data)
 *     {
 *         struct gs_event *event;
 *         while ((event = gs_batch_next(batch)))
 *             if (gs_outbox_add(batch->outbox, next_stage, event))
 *                 reject(event);
 *     }
 *     const struct gs_stage_options options = {.name = "greet", .handle = greet, .max_threads = 4};
 *     gs_stage_new(&options, &stage);
 *
 * A queue may be bounded, and a stage may refuse events before they are queued, so the producer of
 * an event detects overload and responds to it early, while that is cheap. Events are enqueued in
 * groups: a handler adds events to an outbox, which is flushed when the handler returns, so a whole
 * batch costs the next stage one lock and wakes at most one thread.
 *
 * Three controllers, each enabled or disabled per stage, adapt a stage to the load: the number of
 * threads, the size of batches, and the rate at which events are admitted.
 *
 * A stage has threads of its own, or is served by an event loop (`loop`): then its handler runs in
 * the loop's kernel thread, like the loop's other callbacks.
 *
 * Threads: any kernel thread may enqueue events and read statistics. An event is in one queue at a
 * time, or belongs to the handler that took it from its batch.
 */
#ifndef GOSSAMER_STAGE_H
#define GOSSAMER_STAGE_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

GS_BEGIN_DECLS

struct gs_loop;
struct gs_stage;
struct gs_outbox;

/* ---- Events, in the caller's storage, usually embedded in a struct of the caller ---- */

struct gs_event {
    struct gs_event *next;
    uint64_t enqueued_ns; /* when it entered the queue that it is in, or was in last */
};

/* The argument of a handler. */
struct gs_batch {
    struct gs_event *first; /* in FIFO order; NULL: none is left */
    unsigned count;
    uint64_t now_ns; /* when the handler was called */
    struct gs_outbox *outbox;
};

/* Remove the next event from the batch. A handler must remove all events. Returns the event, which
 * then belongs to the caller, or NULL if none is left. */
static inline struct gs_event *gs_batch_next(struct gs_batch *batch)
{
    struct gs_event *event = batch->first;
    if (event) {
        batch->first = event->next;
        batch->count--;
    }
    return event;
}

/* ---- Stages: queues with handlers and threads ---- */

enum {
    /* Add a thread when 10 events are queued; end a thread that was idle for 1 s. */
    GS_STAGE_THREADS = 1,
    /* Make batches smaller as long as throughput does not fall. */
    GS_STAGE_BATCHES = 2,
    /* Admit events at the rate at which 90 of 100 are handled within target_ns. */
    GS_STAGE_ADMISSION = 4,
};

typedef void gs_stage_fn(struct gs_batch *batch, void *data);

struct gs_stage_options {
    const char *name; /* borrowed */
    gs_stage_fn *handle;
    void *data;
    struct gs_loop *loop; /* the loop that serves it; NULL: threads of its own */

    /* At least 1; 0 with a loop. Without GS_STAGE_THREADS all are created at the start. */
    unsigned max_threads;

    /* A stage whose events this stage's threads handle before they sleep, if all threads of that
     * stage sleep; NULL: none. That stage must be freed later. */
    struct gs_stage *steals_from;

    unsigned max_batch;   /* events in one call of the handler; 0: 1024 */
    unsigned max_queue;   /* events that are queued; 0: no bound */
    unsigned controllers; /* GS_STAGE_... */

    /* The target of GS_STAGE_ADMISSION, from an event's arrival to the return of its handler. */
    uint64_t target_ns;

    /* Refuse an event that is expected, from recent service times, to be done later than this after
     * its arrival, unless the queue is empty; 0: no bound. */
    uint64_t max_wait_ns;
};

/* Create a stage. Its threads start at once, with all signals blocked. Returns 0, -ENOMEM, -EAGAIN
 * (a thread cannot be created), or -EINVAL (there is no handler; both threads and a loop, or
 * neither; GS_STAGE_THREADS with a loop; or GS_STAGE_ADMISSION without target_ns). */
GS_API GS_MUST_CHECK int gs_stage_new(const struct gs_stage_options *options,
                                      struct gs_stage **ret_stage);

/* Handle the queued events, then free the stage; no more events may be enqueued. A stage on a loop
 * is freed in the loop's thread, or after that has ended. NULL is accepted. */
GS_API void gs_stage_free(struct gs_stage *stage);

/* Schedule the calling thread with SCHED_BATCH: when it wakes, it does not preempt the thread that
 * runs on its processor. That thread can finish its batch, and the events that the caller waits for
 * accumulate to a larger batch meanwhile. A stage's own threads are scheduled so; a loop's kernel
 * thread may call this for itself. */
GS_API void gs_stage_set_batch_scheduling(void);

/* ---- Enqueueing events ----
 * Each returns 0, and the event belongs to the stage; or -EAGAIN (the queue is full, or max_wait_ns
 * would be exceeded) or -EBUSY (the admission controller refuses it), and the event remains the
 * caller's. */

/* Enqueue an event at once. */
GS_API GS_MUST_CHECK int gs_stage_enqueue(struct gs_stage *stage, struct gs_event *event);

/* Enqueue an event together with the others of the outbox: a handler's outbox is flushed when the
 * handler returns, a loop's before the loop waits. Its slot in the queue is reserved at once. */
GS_API GS_MUST_CHECK int gs_outbox_add(struct gs_outbox *outbox, struct gs_stage *stage,
                                       struct gs_event *event);

/* Enqueue the events of the outbox now, for instance before a long computation. */
GS_API void gs_outbox_flush(struct gs_outbox *outbox);

/* Returns the outbox of a stage on a loop, for the loop's other callbacks. */
GS_API struct gs_outbox *gs_stage_outbox(struct gs_stage *stage);

/* ---- Statistics of a stage ----
 *
 *     struct gs_stage_stats stats;
 *     gs_stage_stats(stage, &stats);
 *     printf("%s: %u events are queued\n", stats.name, stats.queued);
 */

struct gs_stage_stats {
    const char *name;
    unsigned queued;            /* current length of the queue */
    unsigned threads;           /* of its own; 0: on a loop */
    unsigned batch;             /* current maximum of events in a batch */
    uint64_t events;            /* handled */
    uint64_t batches;           /* calls of the handler */
    uint64_t wait_ns;           /* time in the queue, sum over all events */
    uint64_t handle_ns;         /* time in the handler, sum over all calls */
    uint64_t refused_full;      /* events refused with -EAGAIN */
    uint64_t refused_admission; /* events refused with -EBUSY */
    uint64_t p90_ns;            /* smoothed 90th percentile that admission uses; 0: not known yet */
    double rate;                /* events admitted a second; 0: without GS_STAGE_ADMISSION */
};

/* Get the statistics. */
GS_API void gs_stage_stats(struct gs_stage *stage, struct gs_stage_stats *ret_stats);

GS_END_DECLS

#endif
