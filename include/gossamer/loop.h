/* The event loop: it waits for many things at once, and calls back for those that happen.
 *
 *     struct gs_io io;
 *     gs_io_init(&io, loop, on_readable);
 *     gs_io_set(&io, fd, GS_READ);
 *     gs_io_start(&io);
 *     gs_loop_run(loop);      until gs_loop_stop, or until nothing is left to wait for
 *
 * What is waited for is a watcher: a struct in the caller's storage, usually inside the caller's
 * own object, which the callback finds again with container_of or through `data`. A watcher must
 * stay where it is while it is active, and may be freed or reused in any callback, its own
 * included, once it is stopped. Stopping an inactive watcher and starting an active one do nothing.
 * A stopped watcher's callback is not called, not even for what had already happened before it was
 * stopped.
 *
 * The kinds of watchers, each in a header of its own that this one includes:
 *   loop_io.h      descriptors, by level and by edge; once: a descriptor or a deadline
 *   loop_timer.h   timers on the monotonic clock, and periodics on the wall clock
 *   loop_signal.h  signals, child processes, and asyncs: wake-ups from other threads
 *   loop_file.h    what becomes of a path
 *   loop_point.h   idle, prepare and check; fork and cleanup
 *   loop_embed.h   a loop inside another
 *   loop_op.h      completions: operations that are started and called back when done
 * What they have in common, and the walk over those that are active: loop_watcher.h.
 *
 * A loop belongs to one kernel thread at a time. From other threads and from signal handlers, only
 * gs_async_send and gs_loop_wake may be called. Calls that can fail return 0 or -errno; one that
 * fails runs no callback and changes nothing.
 *
 * One iteration, in this order:
 *   1. Prepare watchers are called, by priority and then in the order in which they were started.
 *   2. Interest that changed is settled with the kernel, in one pass over the descriptors that
 *      changed.
 *   3. The loop waits: until the next timer or periodic, not at all if an idle watcher is active,
 *      something is pending or the loop was told to stop, else without limit.
 *   4. The cached time is updated.
 *   5. What happened is collected: descriptors, then signals and asyncs, then the timers that are
 *      due, by deadline, then the periodics, by time, then files and embedded loops. What is due by
 *      the thousand is collected in several iterations, of which none waits.
 *   6. Idle watchers become pending if nothing else is.
 *   7. Check watchers become pending, ahead of all others of their priority.
 *   8. Pending watchers are called, higher priority first, then in the order in which they were
 *      collected. What becomes pending during this step waits for the next iteration: no watcher is
 *      called twice in this step.
 *
 * A change of interest costs no system call before it is settled: to stop a watcher and start it
 * again is free.
 */
#ifndef GOSSAMER_LOOP_H
#define GOSSAMER_LOOP_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <gossamer/loop_embed.h>
#include <gossamer/loop_file.h>
#include <gossamer/loop_io.h>
#include <gossamer/loop_op.h>
#include <gossamer/loop_point.h>
#include <gossamer/loop_signal.h>
#include <gossamer/loop_timer.h>
#include <gossamer/loop_watcher.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* On the poller that GS_POLLER in the environment names, or else on epoll. Returns 0, -ENOMEM,
 * -EMFILE, -ENFILE, or -EINVAL for a GS_POLLER that names no poller. */
GS_API GS_MUST_CHECK int gs_loop_new(struct gs_loop **ret_loop);

/* On the poller of that name (NULL: as above):
 *   epoll     the default
 *   io_uring  interest costs no system call, and operations (loop_op.h) are the kernel's work.
 *             Needs Linux 6.1, and may be forbidden: the loop is then on epoll. The kernel keeps a
 *             watched file open until the iteration after the last watcher's stop, even if its
 *             descriptor is closed. The loop stays with the kernel thread that ran it first.
 *   poll      one array, handed over whole at each wait
 *   select    the same with bits: descriptors below FD_SETSIZE only (GS_FAILED with -EMFILE), and
 *             no GS_HANGUP
 * Descriptors that are wanted by edges are in a set of epoll's on the last two also. */
GS_API GS_MUST_CHECK int gs_loop_new_on(const char *poller, struct gs_loop **ret_loop);

/* First the cleanup watchers are called, the last started first. Then all watchers that are still
 * active are stopped without a call: descriptors by number, timers, periodics, children, files,
 * embedded loops, signals (whose former actions come back), and the rest. Then the kernel's set is
 * closed. An embedded loop stays. NULL is accepted. */
GS_API void gs_loop_free(struct gs_loop *loop);

/* Run until gs_loop_stop, or until no active watcher is left that keeps the loop (see
 * gs_watcher_unref). May be called again from a callback: gs_loop_stop then ends the innermost run,
 * gs_loop_stop_all that and all around it.
 * Returns 0, or -errno when the poller fails for good. */
GS_API int gs_loop_run(struct gs_loop *loop);

/* One iteration that waits until deadline_ns at the most (0: does not wait), for those who have a
 * loop of their own. Returns the number of callbacks called, or -errno. */
GS_API int gs_loop_step(struct gs_loop *loop, uint64_t deadline_ns);

/* The innermost run returns once the callbacks that are pending now have been called. */
GS_API void gs_loop_stop(struct gs_loop *loop);

/* The same for all runs, however deep they are nested; those begun before the outermost has
 * returned return at once. */
GS_API void gs_loop_stop_all(struct gs_loop *loop);

/* The time of this iteration, on the monotonic clock; no system call. */
GS_API uint64_t gs_loop_now(const struct gs_loop *loop);

/* Read the clock again, after a callback that took long. */
GS_API void gs_loop_update_now(struct gs_loop *loop);

/* Ask `clock` for the time instead of the monotonic clock; NULL: the monotonic clock again. For
 * tests and simulations: the loop still waits in real time, so advance the clock and call
 * gs_loop_step(loop, 0). */
typedef uint64_t gs_loop_clock_fn(void *data);
GS_API void gs_loop_set_clock(struct gs_loop *loop, gs_loop_clock_fn *clock, void *data);

/* The same for the wall clock, which periodics follow. It may jump. */
GS_API void gs_loop_set_wall_clock(struct gs_loop *loop, gs_loop_clock_fn *clock, void *data);

/* End the wait of the present or next iteration. Any thread, and signal handlers. */
GS_API void gs_loop_wake(struct gs_loop *loop);

/* To be called in the child process after fork, before any other use of the loop there; the child
 * then has a loop of its own that waits for the same as the parent's, but for child processes: it
 * has none, and their watchers are stopped without a call. Embedded loops are told first, each by a
 * call of its own. During the fork, no other thread may be in gs_async_send, or be starting or
 * stopping a signal's watcher. What was caught of signals and not yet called back stays with the
 * parent. Then the fork watchers are called. Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
GS_API GS_MUST_CHECK int gs_loop_forked(struct gs_loop *loop);

/* While a watcher is called, have the memory around the next one to be called fetched into the
 * cache: `before` bytes before its watcher, `after` from there on; 0 and 0, at first: none. For
 * programs with thousands of watchers, each inside an object that its callback uses, and that has
 * left the cache when its turn comes. */
GS_API void gs_loop_fetch_ahead(struct gs_loop *loop, size_t before, size_t after);

/* The name of the poller that it is on. */
GS_API const char *gs_loop_poller(const struct gs_loop *loop);

/* Whether the kernel keeps what is watched open until an iteration has followed the last watcher's
 * stop (io_uring): who closes it in another thread had better wake the loop. */
GS_API bool gs_loop_holds_files(const struct gs_loop *loop);

/* How often the loop did what it tries to avoid, since it was made. */
struct gs_loop_counts {
    uint64_t iterations;
    uint64_t interest_calls; /* system calls to set interest */
    uint64_t callbacks;
};
GS_API void gs_loop_counts(const struct gs_loop *loop, struct gs_loop_counts *ret_counts);

#endif
