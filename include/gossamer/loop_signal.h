/* Watchers of signals and child processes, and wake-ups from other threads. Part of
 * gossamer/loop.h. */
#ifndef GOSSAMER_LOOP_SIGNAL_H
#define GOSSAMER_LOOP_SIGNAL_H

#include <gossamer/loop_io.h>
#include <gossamer/loop_watcher.h>
#include <sys/resource.h>
#include <sys/types.h>

GS_BEGIN_DECLS

/* ---- Signal watchers ----
 * Several watchers, also of several loops, may watch the same signal: all of them are called.
 * Occurrences may coalesce. The previous action is restored when the last watcher is stopped. The
 * handler runs on the alternate stack (sigaltstack(2)) of the kernel thread that gets the signal,
 * if that has one. */

struct gs_signal;
typedef void gs_signal_fn(struct gs_signal *signal);
struct gs_signal {
    struct gs_watcher watcher;
    gs_signal_fn *callback;
    struct gs_signal *next; /* in the loop's list */
    int number;
};

GS_API void gs_signal_init(struct gs_signal *signal, struct gs_loop *loop, gs_signal_fn *callback);

/* Returns 0, -EINVAL (no such signal, or it cannot be caught) or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_signal_start(struct gs_signal *signal, int number);

GS_API void gs_signal_stop(struct gs_signal *signal);

/* ---- Child watchers: the end of a child process ----
 * The loop waits with a pidfd for each child, so it does not interfere with other loops or with
 * code that waits for its own children. On kernels without pidfds it uses SIGCHLD, which must then
 * not be blocked. The watcher reaps the process: no other code may wait for it. */

/* The exit status of a process. */
struct gs_child_exit {
    pid_t pid;
    int code; /* CLD_EXITED, CLD_KILLED or CLD_DUMPED; 0: unknown */
    /* The exit status, or the signal. If code is 0: -ECHILD if other code has waited for the
     * process, or 0 if it is running and the watcher was fed with gs_watcher_feed. */
    int status;
    struct rusage usage; /* of the process and of the children that it has waited for */
};

struct gs_child;
typedef void gs_child_fn(struct gs_child *child, const struct gs_child_exit *exit);
struct gs_child {
    union {
        struct gs_watcher watcher;
        struct gs_io io;
    };
    gs_child_fn *callback;
    struct gs_list link; /* in the loop's list */
    pid_t pid;
};

GS_API void gs_child_init(struct gs_child *child, struct gs_loop *loop, gs_child_fn *callback);

/* Wait for a child of this process, which may already have ended. Several watchers of one loop may
 * wait for the same process; the last one that is called reaps it. Returns 0, -EINVAL (the
 * process id is not positive), -ECHILD (no such child), -EMFILE, -ENFILE or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_child_start(struct gs_child *child, pid_t pid);

/* The process keeps running, and the caller must wait for it. */
GS_API void gs_child_stop(struct gs_child *child);

/* ---- Asyncs: wake-ups from other threads ---- */

struct gs_async;
typedef void gs_async_fn(struct gs_async *async);
struct gs_async {
    struct gs_watcher watcher;
    gs_async_fn *callback;
    struct gs_list link; /* in the loop's list */
};

GS_API void gs_async_init(struct gs_async *async, struct gs_loop *loop, gs_async_fn *callback);
GS_API void gs_async_start(struct gs_async *async);

/* No thread may be in gs_async_send for this watcher, or call it afterwards. */
GS_API void gs_async_stop(struct gs_async *async);

/* Make the loop call the callback, in the loop's thread. Sends before that call coalesce. The
 * callback sees what was written before the send. Has no effect while the watcher is inactive. Any
 * thread, and signal handlers. */
GS_API void gs_async_send(struct gs_async *async);

GS_END_DECLS

#endif
