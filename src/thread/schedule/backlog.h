/* What waits for a stuck worker, for the monitor's report. */
#ifndef GS_THREAD_BACKLOG_H
#define GS_THREAD_BACKLOG_H

#include "thread/schedule/worker.h"

struct backlog {
    uint64_t ready;       /* threads in its run queue and its shared queue */
    bool has_messages;    /* in its inbox: threads that others have woken, cancellations, ... */
    unsigned deadlines;   /* that have passed, of threads that wait on it */
    unsigned descriptors; /* that are ready, and for which threads wait on it */
};

/* Called by the monitor. The worker may resume meanwhile, so the numbers may be out of date. */
void gs_backlog_count(struct worker *worker, uint64_t now_ns, struct backlog *ret_backlog);

bool gs_backlog_is_empty(const struct backlog *backlog);

/* Describe it in words: "3 threads are ready and 1 deadline has passed". It must not be empty. */
void gs_backlog_describe(const struct backlog *backlog, char *ret_text, size_t size);

#endif
