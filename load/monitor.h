/* User threads that accompany a run, on the first worker: they wait for SIGINT and SIGTERM, print a
 * progress line if stderr is a terminal, and give up if no response arrives. */
#ifndef GS_LOAD_MONITOR_H
#define GS_LOAD_MONITOR_H

#include <gossamer/thread.h>
#include <signal.h>

struct load_counts {
    uint64_t requests, errors;
    bool has_answer; /* a byte of a response was received */
};

struct load_monitor {
    void (*on_interrupt)(void *data); /* for each SIGINT and SIGTERM */
    /* NULL: another process shows the progress and gives up. */
    struct load_counts (*read_counts)(void *data);
    void (*on_give_up)(void *data); /* no response has arrived within give_up_ns */
    uint64_t give_up_ns;            /* 0: never */
    void *data;

    struct gs_thread *threads[4];
    unsigned thread_count, waiting_count;
};

/* The caller zeroes *monitor and sets the members before `threads`. On return, threads wait for
 * both signals, and the signal mask of the calling kernel thread is `mask`. Returns 0, -ENOMEM or
 * -EAGAIN. */
GS_MUST_CHECK int gs_load_monitor_start(struct load_monitor *monitor, const sigset_t *mask);

/* Join the threads and erase the progress line. */
void gs_load_monitor_stop(struct load_monitor *monitor);

#endif
