/* What goes on beside a run: signals that end it, and a line on a terminal that tells how far it is.
 * User threads, on the first worker. */
#ifndef GS_LOAD_WATCH_H
#define GS_LOAD_WATCH_H

#include <gossamer/thread.h>
#include <signal.h>

struct load_counts {
    uint64_t requests, errors;
};

struct load_watch {
    void (*interrupt)(void *data);           /* SIGINT or SIGTERM has come */
    struct load_counts (*count)(void *data); /* asked four times a second; NULL: show nothing */
    void *data;

    struct gs_thread *threads[3];
    unsigned count_of_threads, waiting;
};

/* From zero but for the first members. When this returns, the signals are waited for, and the
 * calling kernel thread's are blocked as `mask` says. Returns 0, -ENOMEM or -EAGAIN. */
GS_MUST_CHECK int gs_load_watch_start(struct load_watch *watch, const sigset_t *mask);

/* Remove the line. */
void gs_load_watch_stop(struct load_watch *watch);

#endif
