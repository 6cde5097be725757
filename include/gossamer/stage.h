/* Staged event-driven servers, after SEDA (Welsh, Culler, Brewer: SOSP 2001): a program is a graph of
 * stages, each a queue of events, a handler that is called with several of them at once, and kernel
 * threads that call it.
 *
 *     static void greet(struct gs_batch *batch, void *data)
 *     {
 *         struct gs_event *event;
 *         while ((event = gs_batch_take(batch)))
 *             if (gs_outbox_put(batch->outbox, next_stage, event))
 *                 refuse(event);
 *     }
 *     const struct gs_stage_options options = {.name = "greet", .handle = greet, .threads_most = 4};
 *     gs_stage_new(&options, &stage);
 *
 * A queue may be bounded, and a stage may refuse events before they wait: so overload is noticed, and
 * answered, where an event is put, while it is still cheap to do so. What is put goes to its stage
 * with others: a handler's events when it returns, so that a whole batch costs the next stage one
 * lock and wakes at most one thread.
 *
 * Three controllers, each of them on or off for each stage, adapt it to the load: how many threads it
 * has, how many events they handle at a time, and how many it admits a second.
 *
 * A stage has threads of its own, or is served by an event loop (`loop`): then its handler runs in
 * the loop's kernel thread, beside the loop's other callbacks.
 *
 * Any kernel thread may put events and read figures. An event is in one queue at a time, or belongs
 * to whoever has taken it.
 */
#ifndef GOSSAMER_STAGE_H
#define GOSSAMER_STAGE_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_loop;
struct gs_stage;
struct gs_outbox;

/* ---- Events: in the caller's storage, usually inside the caller's own struct ---- */

struct gs_event {
    struct gs_event *next;
    uint64_t arrived_ns; /* when it came into the queue in which it is, or was last */
};

/* What a handler is called with. */
struct gs_batch {
    struct gs_event *first; /* in the order in which they came; NULL: none is left */
    unsigned count;
    uint64_t now_ns; /* when the handler was called */
    struct gs_outbox *outbox;
};

/* The next event of the batch, which is then the caller's; NULL: none is left. A handler takes all. */
static inline struct gs_event *gs_batch_take(struct gs_batch *batch)
{
    struct gs_event *event = batch->first;
    if (event) {
        batch->first = event->next;
        batch->count--;
    }
    return event;
}

/* ---- Stages ---- */

enum {
    GS_STAGE_THREADS = 1,   /* a thread more when 10 events wait; one that is idle for 1 s ends */
    GS_STAGE_BATCHES = 2,   /* smaller batches as long as that costs no throughput */
    GS_STAGE_ADMISSION = 4, /* events are admitted at the rate at which 90 of 100 are handled within
                             * the target */
};

typedef void gs_stage_fn(struct gs_batch *batch, void *data);

struct gs_stage_options {
    const char *name; /* borrowed */
    gs_stage_fn *handle;
    void *data;
    struct gs_loop *loop; /* that serves it; NULL: threads of its own */
    unsigned
        threads_most; /* at least 1. Without GS_STAGE_THREADS there are so many from the start */
    struct gs_stage
        *helps; /* the stage whose events its threads handle before they sleep, where none of
                             * that stage's own is awake; NULL: none. It is freed later */
    unsigned batch_most;  /* events in one call of the handler; 0: 1024 */
    unsigned queue_most;  /* events that wait; 0: no bound */
    unsigned controllers; /* GS_STAGE_... */
    uint64_t target_ns; /* of GS_STAGE_ADMISSION, from an event's arrival to the end of its call */
    uint64_t
        wait_most_ns; /* refuse an event that would be done later than that after its arrival, at
                            * the pace of the last ones, unless nobody waits; 0: no bound */
};

/* The threads begin at once, with all signals blocked. Returns 0, -EINVAL, -ENOMEM or -EAGAIN (no
 * thread can be had). */
GS_API GS_MUST_CHECK int gs_stage_new(const struct gs_stage_options *options,
                                      struct gs_stage **ret_stage);

/* What waits is handled first; nothing may be put any more. For a stage on a loop: in the loop's
 * thread, or when that has ended. NULL is accepted. */
GS_API void gs_stage_free(struct gs_stage *stage);

/* Have the kernel let the calling thread wait, when it wakes, until the processor is free, instead of interrupting another thread
 * for it: so that is not kept from finishing its batch, and what the caller wakes for grows into a batch meanwhile. A stage's own threads
 * are such; a loop's kernel thread may become one. */
GS_API void gs_stage_calm_thread(void);

/* ---- Putting events ----
 * Both return 0: the event is the stage's. Or -EAGAIN: its queue is full, or -EBUSY: it does not admit
 * more now. Then the event stays the caller's. */

/* At once. */
GS_API GS_MUST_CHECK int gs_stage_put(struct gs_stage *stage, struct gs_event *event);

/* With what else is put into the outbox: in a handler when it returns, into a loop's when the loop is
 * about to wait. It keeps its place in the queue from now on. */
GS_API GS_MUST_CHECK int gs_outbox_put(struct gs_outbox *outbox, struct gs_stage *stage,
                                       struct gs_event *event);

/* Deliver now what was put into the outbox, before something that takes long. */
GS_API void gs_outbox_deliver(struct gs_outbox *outbox);

/* The outbox of a stage on a loop, for the loop's other callbacks. */
GS_API struct gs_outbox *gs_stage_outbox(struct gs_stage *stage);

/* ---- Figures ---- */

struct gs_stage_figures {
    const char *name;
    unsigned queued;    /* events that wait now */
    unsigned threads;   /* of its own; 0: on a loop */
    unsigned batch;     /* events that a call gets at most, now */
    uint64_t events;    /* that were handled */
    uint64_t batches;   /* calls of the handler */
    uint64_t wait_ns;   /* of all events together, in the queue */
    uint64_t handle_ns; /* of all calls together */
    uint64_t full;      /* events that were refused: the queue was full, or too slow */
    uint64_t refused;   /* and by the admission controller */
    uint64_t p90_ns;    /* what that goes by: the smoothed 90th percentile; 0: not known yet */
    double rate;        /* admitted a second; 0: without the controller */
};

GS_API void gs_stage_figures(struct gs_stage *stage, struct gs_stage_figures *ret_figures);

#endif
