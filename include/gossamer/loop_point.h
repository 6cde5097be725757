/* Points of the iteration (when nothing else happened, before the wait, after it) and of the loop's
 * life (after a fork, before its end). Part of gossamer/loop.h. */
#ifndef GOSSAMER_LOOP_POINT_H
#define GOSSAMER_LOOP_POINT_H

#include <gossamer/loop_watcher.h>

struct gs_idle;
typedef void gs_idle_fn(struct gs_idle *idle);
struct gs_idle {
    struct gs_watcher watcher;
    gs_idle_fn *callback;
    struct gs_list link; /* of the loop's */
};

struct gs_prepare;
typedef void gs_prepare_fn(struct gs_prepare *prepare);
struct gs_prepare {
    struct gs_watcher watcher;
    gs_prepare_fn *callback;
    struct gs_list link; /* of the loop's */
};

struct gs_check;
typedef void gs_check_fn(struct gs_check *check);
struct gs_check {
    struct gs_watcher watcher;
    gs_check_fn *callback;
    struct gs_list link; /* of the loop's */
};

GS_API void gs_idle_init(struct gs_idle *idle, struct gs_loop *loop, gs_idle_fn *callback);
GS_API void gs_idle_start(struct gs_idle *idle);
GS_API void gs_idle_stop(struct gs_idle *idle);
GS_API void gs_prepare_init(struct gs_prepare *prepare, struct gs_loop *loop,
                            gs_prepare_fn *callback);
GS_API void gs_prepare_start(struct gs_prepare *prepare);
GS_API void gs_prepare_stop(struct gs_prepare *prepare);
GS_API void gs_check_init(struct gs_check *check, struct gs_loop *loop, gs_check_fn *callback);
GS_API void gs_check_start(struct gs_check *check);
GS_API void gs_check_stop(struct gs_check *check);

/* Called in the child process by gs_loop_forked, once the loop can be used again: by priority and
 * then in the order of their start. Does not keep gs_loop_run from returning. */
struct gs_fork;
typedef void gs_fork_fn(struct gs_fork *fork);
struct gs_fork {
    struct gs_watcher watcher;
    gs_fork_fn *callback;
    struct gs_list link; /* of the loop's */
};

GS_API void gs_fork_init(struct gs_fork *fork, struct gs_loop *loop, gs_fork_fn *callback);
GS_API void gs_fork_start(struct gs_fork *fork);
GS_API void gs_fork_stop(struct gs_fork *fork);

/* Called by gs_loop_free, while all else is as it was: the last started first, each stopped before
 * its call. It may stop and start watchers, but not run the loop. Does not keep gs_loop_run from
 * returning. */
struct gs_loop_cleanup;
typedef void gs_loop_cleanup_fn(struct gs_loop_cleanup *cleanup);
struct gs_loop_cleanup {
    struct gs_watcher watcher;
    gs_loop_cleanup_fn *callback;
    struct gs_list link; /* of the loop's */
};

GS_API void gs_loop_cleanup_init(struct gs_loop_cleanup *cleanup, struct gs_loop *loop,
                                 gs_loop_cleanup_fn *callback);
GS_API void gs_loop_cleanup_start(struct gs_loop_cleanup *cleanup);
GS_API void gs_loop_cleanup_stop(struct gs_loop_cleanup *cleanup);

#endif
