/* What comes from other processes and threads: signals, children and wake-ups. Part of
 * gossamer/loop.h. */
#ifndef GOSSAMER_LOOP_SIGNAL_H
#define GOSSAMER_LOOP_SIGNAL_H

#include <gossamer/loop_io.h>
#include <gossamer/loop_watcher.h>
#include <sys/resource.h>
#include <sys/types.h>

/* ---- Signals ----
 * Any number of watchers, in any number of loops, for the same signal: all of them are called.
 * Occurrences may coalesce. The signal's former action comes back when the last watcher stops. */

struct gs_signal;
typedef void gs_signal_fn(struct gs_signal *signal);
struct gs_signal {
    struct gs_watcher watcher;
    gs_signal_fn *callback;
    struct gs_signal *next; /* of the loop's */
    int number;
};

GS_API void gs_signal_init(struct gs_signal *signal, struct gs_loop *loop, gs_signal_fn *callback);

/* Returns 0, or -EINVAL: no such signal, or one that can't be caught. */
GS_API GS_MUST_CHECK int gs_signal_start(struct gs_signal *signal, int number);
GS_API void gs_signal_stop(struct gs_signal *signal);

/* ---- Child processes ----
 * A child's end is waited for with a descriptor of the process, so that the watchers of several
 * loops, and those who wait for processes of their own, do not meet; or, where the kernel has no
 * such descriptors, with SIGCHLD, which then must not be blocked. The watcher reaps the process:
 * nobody else may wait for it. */

/* How a process has ended. */
struct gs_child_exit {
    pid_t pid;
    int code;            /* CLD_EXITED, CLD_KILLED or CLD_DUMPED; 0: unknown */
    int status;          /* of exit, or the signal; unknown: -ECHILD if somebody else has waited for
                          * it, 0 if it runs and the watcher was fed by hand */
    struct rusage usage; /* of the process and of those that it has waited for */
};

struct gs_child;
typedef void gs_child_fn(struct gs_child *child, const struct gs_child_exit *exit);
struct gs_child {
    union {
        struct gs_watcher watcher;
        struct gs_io io;
    };
    gs_child_fn *callback;
    struct gs_list link; /* of the loop's */
    pid_t pid;
};

GS_API void gs_child_init(struct gs_child *child, struct gs_loop *loop, gs_child_fn *callback);

/* Wait for the end of a child of this process, which may have ended already. Several watchers of
 * one loop may wait for the same; the last one to be called reaps it. Returns 0, -EINVAL (pid is
 * not positive), -ESRCH or -ECHILD (no such child), -EMFILE, -ENFILE or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_child_start(struct gs_child *child, pid_t pid);

/* The process goes on, and is the caller's to wait for. */
GS_API void gs_child_stop(struct gs_child *child);

/* ---- Wake-ups from other threads ---- */

struct gs_async;
typedef void gs_async_fn(struct gs_async *async);
struct gs_async {
    struct gs_watcher watcher;
    gs_async_fn *callback;
    struct gs_list link; /* of the loop's */
};

GS_API void gs_async_init(struct gs_async *async, struct gs_loop *loop, gs_async_fn *callback);
GS_API void gs_async_start(struct gs_async *async);

/* No gs_async_send may be under way or follow. */
GS_API void gs_async_stop(struct gs_async *async);

/* Have the callback called in the loop's thread; sends before it is called coalesce. What was
 * written before the send is seen by the callback. Nothing happens while the watcher is inactive.
 * Any thread, and signal handlers. */
GS_API void gs_async_send(struct gs_async *async);

#endif
