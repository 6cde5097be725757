/* The end of a server that drains, even if a part of it is stuck.
 *
 *     serve_watchdog_start(server);       the server begins to drain
 *     ... close all connections
 *     serve_watchdog_stop(server);
 *
 * Connections that are still busy at the drain timeout are closed by the architecture. A worker
 * that computes, or that the kernel does not let go, can't do that: so a thread of the watchdog's
 * own ends the process soon after the drain timeout. Meanwhile it does what is to be done
 * regularly: it counts the connections that are left, for the next generation's metrics, and
 * reopens the log at SIGUSR1. If that thread is stuck, too, because of the file that standard
 * error leads to, the kernel kills the process. */
#ifndef GS_SERVE_WATCHDOG_H
#define GS_SERVE_WATCHDOG_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct serve_server;

/* The exit status of a server whose drain timeout has cut off connections. */
#define SERVE_EXIT_CUT_OFF 3

/* In memory that the server's processes share; initially zero. */
struct serve_drain {
    atomic_bool is_draining;
    atomic_bool hands_over;    /* another generation has the listeners (generation.h) */
    _Atomic(uint64_t) cut_off; /* connections that were closed during an answer since then */
};

/* The members are private. */
struct serve_watchdog {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    timer_t kill;
    uint64_t until_ns;
    bool has_thread, has_timer;
    bool is_over, is_log_over;
};

/* Called once, in the process that waits for signals. What can't be started, because memory or
 * threads are exhausted, is left out: the thread or the kernel's timer. */
void serve_watchdog_start(struct serve_server *server);

/* The log is closed now: SIGUSR1 no longer reopens it. */
void serve_watchdog_leave_log(struct serve_server *server);

/* All connections are closed. It may not have been started. */
void serve_watchdog_stop(struct serve_server *server);

#endif
