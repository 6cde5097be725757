/* Hooks: watchers that are called at a point of an iteration, after a fork, or when the loop is
 * freed. Part of gossamer/loop.h. */
#ifndef GOSSAMER_LOOP_HOOK_H
#define GOSSAMER_LOOP_HOOK_H

#include <gossamer/loop_watcher.h>

GS_BEGIN_DECLS

/* ---- Idle, prepare and check watchers: called in each iteration ----
 * Idle watchers are called if no other watcher is pending; while one is active, the loop does not
 * wait. Prepare watchers are called before the loop waits, check watchers after it has waited,
 * ahead of all other watchers of their priority.
 *
 *     gs_check_init(&check, loop, on_waited);
 *     gs_check_start(&check);
 */

struct gs_idle;
typedef void gs_idle_fn(struct gs_idle *idle);
struct gs_idle {
    struct gs_watcher watcher;
    gs_idle_fn *callback;
    struct gs_list link; /* in the loop's list */
};

struct gs_prepare;
typedef void gs_prepare_fn(struct gs_prepare *prepare);
struct gs_prepare {
    struct gs_watcher watcher;
    gs_prepare_fn *callback;
    struct gs_list link; /* in the loop's list */
};

struct gs_check;
typedef void gs_check_fn(struct gs_check *check);
struct gs_check {
    struct gs_watcher watcher;
    gs_check_fn *callback;
    struct gs_list link; /* in the loop's list */
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

/* ---- Fork watchers: called in the child process after a fork ----
 * gs_loop_after_fork calls them once the loop is usable again: by priority and then in the order in
 * which they were started. Unreferenced by default.
 *
 *     gs_fork_init(&in_child, loop, on_fork);
 *     gs_fork_start(&in_child);
 */

struct gs_fork;
typedef void gs_fork_fn(struct gs_fork *fork);
struct gs_fork {
    struct gs_watcher watcher;
    gs_fork_fn *callback;
    struct gs_list link; /* in the loop's list */
};

GS_API void gs_fork_init(struct gs_fork *fork, struct gs_loop *loop, gs_fork_fn *callback);
GS_API void gs_fork_start(struct gs_fork *fork);
GS_API void gs_fork_stop(struct gs_fork *fork);

/* ---- Cleanup watchers: called when a loop is freed ----
 * gs_loop_free calls them before it stops the other watchers: in reverse order of their start, each
 * stopped before its call. The callback may stop and start watchers, but must not run the loop.
 * Unreferenced by default.
 *
 *     gs_loop_cleanup_init(&cleanup, loop, on_free);
 *     gs_loop_cleanup_start(&cleanup);
 */

struct gs_loop_cleanup;
typedef void gs_loop_cleanup_fn(struct gs_loop_cleanup *cleanup);
struct gs_loop_cleanup {
    struct gs_watcher watcher;
    gs_loop_cleanup_fn *callback;
    struct gs_list link; /* in the loop's list */
};

GS_API void gs_loop_cleanup_init(struct gs_loop_cleanup *cleanup, struct gs_loop *loop,
                                 gs_loop_cleanup_fn *callback);
GS_API void gs_loop_cleanup_start(struct gs_loop_cleanup *cleanup);
GS_API void gs_loop_cleanup_stop(struct gs_loop_cleanup *cleanup);

GS_END_DECLS

#endif
