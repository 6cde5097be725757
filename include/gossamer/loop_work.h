/* Work: functions that block or compute, which kernel threads of a pool run, and which call back on
 * the loop when they have returned. Part of gossamer/loop.h.
 *
 *     static void hash(struct gs_work *work)                 in another kernel thread
 *     {
 *         struct request *request = gs_container_of(work, struct request, work);
 *         ...
 *     }
 *     gs_work_init(&request->work, loop, on_hashed);
 *     err = gs_work_start(&request->work, hash);
 *
 * The process has one pool, which all loops and the runtime of user threads (gs_run_blocking, io.h)
 * share; its kernel threads are created when there is work, with all signals blocked, and end with
 * the last loop that has used it. Work runs in the order of its start. Waiting work needs only the
 * caller's memory and a small block each.
 */
#ifndef GOSSAMER_LOOP_WORK_H
#define GOSSAMER_LOOP_WORK_H

#include <gossamer/loop_signal.h>
#include <gossamer/loop_watcher.h>

GS_BEGIN_DECLS

/* ---- Work ---- */

struct gs_work;
typedef void gs_work_fn(struct gs_work *work);

/* result: 0 when the function has returned, or -ECANCELED: it was not called, or it was the work of
 * the parent (gs_loop_after_fork). */
typedef void gs_work_done_fn(struct gs_work *work, int result);

struct gs_work {
    union {
        struct gs_watcher watcher;
        struct gs_async async;
    };
    gs_work_done_fn *callback;
    gs_work_fn *run;
    void *job; /* the pool's; NULL: inactive */
    bool is_canceled;
};

GS_API void gs_work_init(struct gs_work *work, struct gs_loop *loop, gs_work_done_fn *callback);

/* Have `run` called by a kernel thread of the pool; its only argument is `work`, which must not be
 * changed before the callback. What either function has written is visible to the one that is
 * called later. Of the loop's functions, `run` may only call those that any kernel thread may call.
 * Work is inactive when its callback is called, and can be started again there. Returns 0, -EBUSY
 * (it is active), -ENOMEM, or -EAGAIN (there is no kernel thread, and none can be created). */
GS_API GS_MUST_CHECK int gs_work_start(struct gs_work *work, gs_work_fn *run);

/* If the function was not called yet, it will not be, and the callback gets -ECANCELED in the next
 * iteration. Otherwise this has no effect: the callback follows when the function has returned. */
GS_API void gs_work_cancel(struct gs_work *work);

/* Set how many kernel threads the pool may have when work of this loop is started, 64 at most; 0,
 * the default: four. Opens and look-ups of names (loop_op.h) have kernel threads of their own: as
 * many for each of the two, or 64 by default. */
GS_API void gs_loop_set_work_threads(struct gs_loop *loop, unsigned max);

GS_END_DECLS

#endif
