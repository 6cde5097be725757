/* The cases of a gs_select that are no channels: descriptors, signals, children and threads
 * (select.c, select_events.c). A thread has a queue of the selects that wait for its end; each of
 * the others is waited for with a descriptor, a signalfd or a pidfd. What happened is only taken by
 * gs_select_try_events. */
#ifndef GS_THREAD_SELECT_H
#define GS_THREAD_SELECT_H

#include "thread/io/poll.h"
#include "thread/schedule/thread_extra.h"

#include <gossamer/sync.h>

#define FEW_EVENTS 4

struct select_events {
    struct gs_select *cases;
    unsigned count;   /* cases that are no channels: the first ones in sorted order */
    bool is_external; /* some of them are no threads */
    struct poll_waiters waiters;
    struct gs_poll few_polls[FEW_EVENTS];
    struct poll_waiter few_waiters[FEW_EVENTS];
};

static inline struct gs_select *select_sorted(struct gs_select *cases, unsigned i_sorted)
{
    return &cases[cases[i_sorted].order];
}

/* Note which files the descriptors refer to. */
void gs_select_begin_events(struct gs_select *cases, unsigned count);

/* Try without waiting. Returns the index of the case that was done, -EAGAIN (none is possible), or
 * another error. */
int gs_select_try_events(struct gs_select *cases, unsigned count, unsigned start);

/* Open the descriptors. `cases` and `count` are set. Returns 0, -EAGAIN (try again), or another
 * error. */
int gs_select_open_events(struct select_events *events, struct gs_thread *self);
void gs_select_close_events(struct select_events *events);

/* Queue waiters that notify, of descriptors and of threads. Returns 0 or -errno; then none is
 * queued. */
int gs_select_enqueue_events(struct select_events *events);
void gs_select_dequeue_events(struct select_events *events);

/* Called under the lock of a thread that has ended, with its extra: claim the threads that wait for
 * its end in gs_select. */
void gs_select_claim_watchers(struct thread_extra *ended, struct claimed *claimed);

#endif
