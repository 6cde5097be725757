/* The event loop: it waits for many events at once and calls the callbacks of those that occur.
 *
 *     struct gs_io io;
 *     gs_io_init(&io, loop, on_readable);
 *     gs_io_set(&io, fd, GS_READ);
 *     err = gs_io_start(&io);
 *     err = gs_loop_run(loop);      until gs_loop_stop, or until no active watcher is left
 *
 * A watcher stands for one event source. It is a struct in the caller's storage, usually a member
 * of the caller's own object, which the callback finds with gs_container_of or through `data`.
 *
 * Watchers: each kind has an init function, which sets the loop and the callback, a start and a
 * stop function. An active watcher must not be moved. Once it is stopped it may be freed or reused,
 * also in its own callback. Stopping an inactive watcher and starting an active one have no effect.
 * A stopped watcher's callback is not called, even if its event occurred before the stop.
 *
 * Each kind of watcher has a header, which this one includes:
 *   loop_io.h      descriptors, level- and edge-triggered; once: a descriptor or a deadline
 *   loop_timer.h   timers on the monotonic clock, and periodics on the wall clock
 *   loop_signal.h  signals, child processes, and asyncs: wake-ups from other threads
 *   loop_file.h    changes of a file
 *   loop_hook.h    idle, prepare and check; fork and cleanup
 *   loop_embed.h   a loop inside another
 *   loop_op.h      completions: operations that are started, and call back when they are done
 *   loop_work.h    functions that other kernel threads run
 * loop_watcher.h has what all watchers share, and the walk over the active ones.
 *
 * Threads: a loop belongs to one kernel thread at a time. Other threads and signal handlers may
 * only call gs_async_send and gs_loop_wake. The library gossamer_checked stops at calls that break
 * this and other rules (docs/debugging.md).
 *
 * Failure: a function that fails returns -errno, calls no callback and changes nothing.
 *
 * One iteration has these steps:
 *   1. Prepare watchers are called, by priority and then in the order in which they were started.
 *   2. Changes of interest are passed to the kernel, in one pass over the descriptors that changed.
 *   3. The loop waits until the next timer or periodic. It does not wait if an idle watcher is
 *      active, a watcher is pending or the loop was stopped.
 *   4. The cached time is updated.
 *   5. Events are collected, and their watchers become pending: descriptors, then signals and
 *      asyncs, then the timers that are due, by deadline, then the periodics, by time, then files
 *      and embedded loops. If thousands of timers are due, they are collected in several
 *      iterations, of which none waits.
 *   6. Idle watchers become pending if no other watcher is.
 *   7. Check watchers become pending, ahead of all others of their priority.
 *   8. Pending watchers are called, higher priority first, then in the order in which they were
 *      collected. A watcher that becomes pending during this step is called in the next iteration:
 *      no watcher is called twice in one step.
 *
 * A change of interest makes no system call before step 2: stopping a watcher and starting it again
 * is free.
 */
#ifndef GOSSAMER_LOOP_H
#define GOSSAMER_LOOP_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <gossamer/loop_embed.h>
#include <gossamer/loop_file.h>
#include <gossamer/loop_hook.h>
#include <gossamer/loop_io.h>
#include <gossamer/loop_op.h>
#include <gossamer/loop_signal.h>
#include <gossamer/loop_timer.h>
#include <gossamer/loop_watcher.h>
#include <gossamer/loop_work.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

GS_BEGIN_DECLS

/* ---- Creating and freeing a loop ---- */

/* Create a loop on the poller named by the environment variable GS_POLLER, or on epoll. Returns 0,
 * -ENOMEM, -EMFILE, -ENFILE, or -EINVAL if GS_POLLER names no poller. */
GS_API GS_MUST_CHECK int gs_loop_new(struct gs_loop **ret_loop);

/* Create a loop on the named poller (NULL: as above):
 *   epoll     the default
 *   io_uring  A change of interest makes no system call, and the kernel executes operations
 *             (loop_op.h). It needs Linux 6.1; where it is missing or forbidden, the loop uses
 *             epoll. The kernel keeps a watched file open, even if its descriptor is closed, until
 *             the iteration after its last watcher was stopped. The loop stays with the kernel
 *             thread that ran it first.
 *   poll      one array, passed to the kernel at each wait
 *   select    The same with bit sets: only descriptors below FD_SETSIZE (others get GS_FAILED with
 *             -EMFILE), and no GS_HANGUP.
 * poll and select keep edge-triggered descriptors in an epoll set.
 *
 * Returns 0, -ENOMEM, -EMFILE, -ENFILE, or -EINVAL if there is no poller of this name. */
GS_API GS_MUST_CHECK int gs_loop_new_with(const char *poller, struct gs_loop **ret_loop);

/* Free the loop. First the cleanup watchers are called, in reverse order of their start. Work that
 * has started is waited for. Then all watchers that are still active are stopped, without a call;
 * the previous actions of signals are restored. Then the poller is closed, when the kernel uses no
 * memory of operations any more. Embedded loops are not freed. NULL is accepted. */
GS_API void gs_loop_free(struct gs_loop *loop);

/* ---- Running a loop ---- */

/* Run until gs_loop_stop, or until no referenced watcher is active (see gs_watcher_unref). It may
 * be called from a callback: gs_loop_stop then ends the innermost run, and gs_loop_stop_all ends
 * all of them. Returns 0, or the error with which the poller failed permanently. */
GS_API int gs_loop_run(struct gs_loop *loop);

/* Run one iteration, which waits until deadline_ns at most (0: it does not wait). For programs that
 * have a loop of their own. Returns the number of callbacks called, or the error with which the
 * poller failed permanently. */
GS_API int gs_loop_run_once(struct gs_loop *loop, uint64_t deadline_ns);

/* The innermost run returns once the callbacks that are pending now have been called. */
GS_API void gs_loop_stop(struct gs_loop *loop);

/* Like gs_loop_stop, for all nested runs. Runs that are started before the outermost one has
 * returned, return at once. */
GS_API void gs_loop_stop_all(struct gs_loop *loop);

/* End the wait of the current or next iteration. Any thread, and signal handlers. */
GS_API void gs_loop_wake(struct gs_loop *loop);

/* ---- The time of a loop ---- */

/* Returns the time of this iteration, on the monotonic clock; makes no system call. Before the
 * first iteration it is the time of gs_loop_new: use gs_clock_now there. */
GS_API uint64_t gs_loop_now(const struct gs_loop *loop);

/* Read the clock again, after a callback that took long. */
GS_API void gs_loop_update_now(struct gs_loop *loop);

/* Use `clock` instead of the monotonic clock; NULL: use the monotonic clock again. For tests and
 * simulations. The loop still waits in real time, so advance the clock and call
 * gs_loop_run_once(loop, 0). */
typedef uint64_t gs_loop_clock_fn(void *data);
GS_API void gs_loop_set_clock(struct gs_loop *loop, gs_loop_clock_fn *clock, void *data);

/* The same for the wall clock, which periodics follow. It may be set back or forward. */
GS_API void gs_loop_set_wall_clock(struct gs_loop *loop, gs_loop_clock_fn *clock, void *data);

/* ---- A loop after a fork ----
 *
 *     if (fork() == 0)
 *         err = gs_loop_after_fork(loop);
 */

/* Call this in the child process after fork, before any other use of the loop there. The child then
 * has a loop of its own with the same active watchers, except those of child processes: the child
 * has none, and these watchers are stopped without a call. Embedded loops need their own call, and
 * it comes first. Operations stay with the parent: in the child each ends with -ECANCELED in the
 * next iteration, and connections that were accepted but not yet passed to a callback are closed.
 * So does work that had not returned by then: its function may have been called in part.
 * No other thread may be in gs_async_send for this loop during the fork. Signals that were caught
 * but not yet passed to a callback stay with the parent. Finally the fork watchers are called.
 * Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
GS_API GS_MUST_CHECK int gs_loop_after_fork(struct gs_loop *loop);

/* ---- Properties of a loop ---- */

/* While a watcher is called, prefetch the memory around the next one: `before` bytes ahead of the
 * watcher and `after` bytes from its start. 0 and 0, the default: no prefetch. For programs with
 * thousands of watchers, each in an object that its callback uses and that has left the cache by
 * the time of its call. */
GS_API void gs_loop_set_prefetch(struct gs_loop *loop, size_t before, size_t after);

/* Returns the name of the poller in use. */
GS_API const char *gs_loop_poller(const struct gs_loop *loop);

/* Returns whether the kernel keeps a watched file open until an iteration has followed the stop of
 * its last watcher (io_uring). A thread that closes descriptors of another thread's loop should
 * then wake that loop. */
GS_API bool gs_loop_holds_files(const struct gs_loop *loop);

/* Get the counters since the loop was created. */
struct gs_loop_counts {
    uint64_t iterations;
    uint64_t interest_calls; /* system calls that change interest */
    uint64_t callbacks;
    uint64_t files; /* that epoll has accepted: the sum of gs_io_files */
};
GS_API void gs_loop_counts(const struct gs_loop *loop, struct gs_loop_counts *ret_counts);

GS_END_DECLS

#endif
