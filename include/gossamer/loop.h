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
 * A loop belongs to one kernel thread at a time. From other threads and from signal handlers, only
 * gs_async_send and gs_loop_wake may be called. Calls that can fail return 0 or -errno; one that
 * fails runs no callback and changes nothing.
 *
 * One iteration, in this order:
 *   1. Prepare watchers are called, by priority and then in the order in which they were started.
 *   2. Interest that changed is settled with the kernel, in one pass over the descriptors that
 *      changed.
 *   3. The loop waits: until the next timer, not at all if an idle watcher is active, something is
 *      pending or the loop was told to stop, else without limit.
 *   4. The cached time is updated.
 *   5. What happened is collected: descriptors, then signals and asyncs, then the timers that are
 *      due, by deadline.
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
#include <gossamer/list.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gs_loop;
struct gs_io;
struct gs_timer;
struct gs_signal;
struct gs_async;
struct gs_idle;
struct gs_prepare;
struct gs_check;

/* ---- Events of descriptors ---- */

enum {
    GS_READ = 1,  /* readable, or the peer has shut down, or an error waits to be read */
    GS_WRITE = 2, /* writable, or an error waits to be read */
    GS_HANGUP =
        4, /* reported only, with the others: the peer has shut down its sending side, or the
                    * connection is gone */
    GS_FAILED = 8, /* reported only: the kernel refuses to watch this descriptor; the watcher has
                    * been stopped and gs_io_error tells why */
    GS_EDGE = 16,  /* asked for with the others: report each readiness once, until it comes anew.
                    * Such a watcher must be its descriptor's only one. To stop and start it does
                    * not make readiness new that was reported to its callback; to set it does. */
};

/* ---- Watchers ----
 * Their members belong to the functions below, except `data`, which is the caller's. */

/* What all watchers begin with. */
struct gs_watcher {
    struct gs_loop *loop;
    void *data;
    struct gs_list pending; /* among those to be called; of an async: among those sent */
    uint32_t index;         /* timer: place in the heap; async: whether it was sent */
    uint8_t kind;
    bool active : 1;
    bool unreferenced : 1;
    int8_t priority; /* -2 to 2, 0 at first */
    uint8_t events;  /* that are pending */
};

typedef void gs_io_fn(struct gs_io *io, unsigned events);
struct gs_io {
    struct gs_watcher watcher;
    gs_io_fn *callback;
    struct gs_io *next; /* of the watchers of this descriptor */
    int fd;
    uint8_t wanted; /* GS_READ, GS_WRITE, GS_EDGE */
    bool is_anew;   /* set since it was last started */
    int16_t error;
};

typedef void gs_timer_fn(struct gs_timer *timer);
struct gs_timer {
    struct gs_watcher watcher;
    gs_timer_fn *callback;
    uint64_t deadline_ns;
    uint64_t interval_ns; /* 0: once */
};

typedef void gs_signal_fn(struct gs_signal *signal);
struct gs_signal {
    struct gs_watcher watcher;
    gs_signal_fn *callback;
    struct gs_signal *next; /* of the loop's */
    int number;
};

typedef void gs_async_fn(struct gs_async *async);
struct gs_async {
    struct gs_watcher watcher;
    gs_async_fn *callback;
    struct gs_list link; /* of the loop's */
};

typedef void gs_idle_fn(struct gs_idle *idle);
struct gs_idle {
    struct gs_watcher watcher;
    gs_idle_fn *callback;
    struct gs_list link; /* of the loop's */
};

typedef void gs_prepare_fn(struct gs_prepare *prepare);
struct gs_prepare {
    struct gs_watcher watcher;
    gs_prepare_fn *callback;
    struct gs_list link; /* of the loop's */
};

typedef void gs_check_fn(struct gs_check *check);
struct gs_check {
    struct gs_watcher watcher;
    gs_check_fn *callback;
    struct gs_list link; /* of the loop's */
};

/* ---- The loop ---- */

/* Returns 0, -ENOMEM, -EMFILE, -ENFILE, or -EINVAL for a GS_POLLER in the environment that names no
 * poller. */
GS_API GS_MUST_CHECK int gs_loop_new(struct gs_loop **ret_loop);

/* Watchers that are still active are stopped without a call. NULL is accepted. */
GS_API void gs_loop_free(struct gs_loop *loop);

/* Run until gs_loop_stop, or until no active watcher is left that keeps the loop (see
 * gs_watcher_unref). May be called again from a callback: gs_loop_stop then ends the innermost run.
 * Returns 0, or -errno when the poller fails for good. */
GS_API int gs_loop_run(struct gs_loop *loop);

/* One iteration that waits until deadline_ns at the most (0: does not wait), for those who have a
 * loop of their own. Returns the number of callbacks called, or -errno. */
GS_API int gs_loop_step(struct gs_loop *loop, uint64_t deadline_ns);

/* The innermost run returns once the callbacks that are pending now have been called. */
GS_API void gs_loop_stop(struct gs_loop *loop);

/* The time of this iteration, on the monotonic clock; no system call. */
GS_API uint64_t gs_loop_now(const struct gs_loop *loop);

/* Read the clock again, after a callback that took long. */
GS_API void gs_loop_update_now(struct gs_loop *loop);

/* Ask `clock` for the time instead of the monotonic clock; NULL: the monotonic clock again. For
 * tests and simulations: the loop still waits in real time, so advance the clock and call
 * gs_loop_step(loop, 0). */
typedef uint64_t gs_loop_clock_fn(void *data);
GS_API void gs_loop_set_clock(struct gs_loop *loop, gs_loop_clock_fn *clock, void *data);

/* End the wait of the present or next iteration. Any thread, and signal handlers. */
GS_API void gs_loop_wake(struct gs_loop *loop);

/* To be called in the child process after fork, before any other use of the loop there; the child
 * then has a loop of its own that waits for the same as the parent's. No gs_async_send may be under
 * way during the fork. What was caught of signals and not yet called back stays with the parent.
 * Returns 0, -ENOMEM, -EMFILE or -ENFILE. */
GS_API GS_MUST_CHECK int gs_loop_forked(struct gs_loop *loop);

/* The poller's name: "epoll". */
GS_API const char *gs_loop_poller(const struct gs_loop *loop);

/* How often the loop did what it tries to avoid, since it was made. */
struct gs_loop_counts {
    uint64_t iterations;
    uint64_t interest_calls; /* system calls to set interest */
    uint64_t callbacks;
};
GS_API void gs_loop_counts(const struct gs_loop *loop, struct gs_loop_counts *ret_counts);

/* ---- Any watcher ---- */

/* Started and not stopped since. A timer that fires once is inactive when its callback is called,
 * and so is a descriptor's watcher that is called with GS_FAILED. */
static inline bool gs_watcher_is_active(const struct gs_watcher *watcher)
{
    return watcher->active;
}

/* priority: -2 (last) to 2 (first). Only while inactive. */
GS_API void gs_watcher_set_priority(struct gs_watcher *watcher, int priority);

/* An unreferenced active watcher does not keep gs_loop_run from returning. Once for each; undone by
 * gs_watcher_ref. */
GS_API void gs_watcher_unref(struct gs_watcher *watcher);
GS_API void gs_watcher_ref(struct gs_watcher *watcher);

/* Make the watcher pending, as if `events` had happened (of a descriptor; others have none). Does
 * nothing when inactive. */
GS_API void gs_watcher_feed(struct gs_watcher *watcher, unsigned events);

/* ---- Descriptors ----
 * Any number of watchers for the same descriptor. The contract of a descriptor's lifetime: between
 * gs_io_stop and gs_io_start of the same watcher the descriptor was not closed, or
 * gs_loop_fd_closed said so; a descriptor that is set with gs_io_set is always verified with the
 * kernel when interest is settled next. So a reused number neither delivers an old event nor loses
 * a new one. */

GS_API void gs_io_init(struct gs_io *io, struct gs_loop *loop, gs_io_fn *callback);

/* Only while inactive. wanted: GS_READ, GS_WRITE, both, or with GS_EDGE. fd stays the caller's. */
GS_API void gs_io_set(struct gs_io *io, int fd, unsigned wanted);

/* Change what is wanted of the same descriptor, active or not; 0 is allowed: nothing for now. What
 * was pending and is no longer wanted is dropped. */
GS_API void gs_io_want(struct gs_io *io, unsigned wanted);

/* Returns 0, -EBADF (no descriptor set, or a number far from any open one), -ENOMEM, or -EBUSY
 * (another watcher has the descriptor by edges, or this one wants it so and there is another). What
 * the kernel itself refuses comes as GS_FAILED. A descriptor that can't be waited for, such as a
 * regular file, is always ready. */
GS_API GS_MUST_CHECK int gs_io_start(struct gs_io *io);
GS_API void gs_io_stop(struct gs_io *io);

/* Why GS_FAILED: -errno. */
GS_API int gs_io_error(const struct gs_io *io);

/* fd is about to be closed, or was, while watchers may name it: those are stopped (operations under
 * way are cancelled), and the loop forgets what the kernel knew of it. Better before the close than
 * after: a descriptor that lives on as a duplicate can then be taken from the kernel's set. Costs
 * no system call, except in a program that has such duplicates. */
GS_API void gs_loop_fd_closed(struct gs_loop *loop, int fd);

/* ---- Timers: deadlines on the monotonic clock ---- */

GS_API void gs_timer_init(struct gs_timer *timer, struct gs_loop *loop, gs_timer_fn *callback);

/* Start to fire once at deadline_ns, or move an active one: to a later deadline, that is one store.
 * One that is moved before it was called is not called for its former deadline. Returns 0, or
 * -ENOMEM, never when active. */
GS_API int gs_timer_start(struct gs_timer *timer, uint64_t deadline_ns);

/* Every interval_ns from first_ns on. Intervals that passed unseen are dropped, not made up for.
 * Returns 0, -ENOMEM, or -EINVAL for an interval of 0. */
GS_API GS_MUST_CHECK int gs_timer_start_every(struct gs_timer *timer, uint64_t first_ns,
                                              uint64_t interval_ns);
GS_API void gs_timer_stop(struct gs_timer *timer);

/* ---- Signals ----
 * A signal is watched by one loop at a time, with any number of watchers; occurrences may coalesce.
 * The signal's former action comes back when the last watcher stops. */

GS_API void gs_signal_init(struct gs_signal *signal, struct gs_loop *loop, gs_signal_fn *callback);

/* Returns 0, -EINVAL (no such signal, or one that can't be caught), -EBUSY (another loop watches
 * it). */
GS_API GS_MUST_CHECK int gs_signal_start(struct gs_signal *signal, int number);
GS_API void gs_signal_stop(struct gs_signal *signal);

/* ---- Wake-ups from other threads ---- */

GS_API void gs_async_init(struct gs_async *async, struct gs_loop *loop, gs_async_fn *callback);
GS_API void gs_async_start(struct gs_async *async);

/* No gs_async_send may be under way or follow. */
GS_API void gs_async_stop(struct gs_async *async);

/* Have the callback called in the loop's thread; sends before it is called coalesce. What was
 * written before the send is seen by the callback. Nothing happens while the watcher is inactive.
 * Any thread, and signal handlers. */
GS_API void gs_async_send(struct gs_async *async);

/* ---- Points of the iteration: when nothing else happened, before the wait, after it ---- */

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

/* ---- Completions: an operation is started and called back when it is done ----
 *
 *     gs_op_init(&op, loop, on_received);
 *     gs_op_recv(&op, fd, buffer, sizeof buffer, 0);
 *
 * The operation, its buffer and its descriptor must stay until the callback; then the operation may
 * be started again, in the callback itself too. The callback is never called from within the
 * starting call. result: as of the system call, or -errno; -ECANCELED after gs_op_cancel. On
 * pollers that only know readiness, the operation is tried when its descriptor is ready; one
 * operation for each direction of a descriptor at a time, and no readiness watcher beside them. An
 * operation that is started again with the same descriptor relies on the contract of its lifetime,
 * as above. */

struct gs_op;
typedef void gs_op_fn(struct gs_op *op, int64_t result);
enum gs_op_kind { GS_OP_ACCEPT = 1, GS_OP_RECV, GS_OP_SEND, GS_OP_READ, GS_OP_WRITE };
struct gs_op {
    struct gs_io io;
    gs_op_fn *callback;
    void *bytes;
    size_t n;
    uint64_t offset;
    uint8_t kind; /* 0: not under way */
    bool canceled;
    int flags;
};

GS_API void gs_op_init(struct gs_op *op, struct gs_loop *loop, gs_op_fn *callback);

/* Each returns 0, -EBUSY (under way already), -ENOMEM or -EBADF. flags: those of accept4, recv and
 * send. The result of accept is a new descriptor, the callback's; a listening descriptor that
 * others accept from too must not block. */
GS_API GS_MUST_CHECK int gs_op_accept(struct gs_op *op, int fd, int flags);
GS_API GS_MUST_CHECK int gs_op_recv(struct gs_op *op, int fd, void *bytes, size_t n, int flags);
GS_API GS_MUST_CHECK int gs_op_send(struct gs_op *op, int fd, const void *bytes, size_t n,
                                    int flags);

/* offset: GS_OP_HERE for the file's own position, and for what has none. */
#define GS_OP_HERE UINT64_MAX
GS_API GS_MUST_CHECK int gs_op_read(struct gs_op *op, int fd, void *bytes, size_t n,
                                    uint64_t offset);
GS_API GS_MUST_CHECK int gs_op_write(struct gs_op *op, int fd, const void *bytes, size_t n,
                                     uint64_t offset);

/* Ask for its end: the callback still comes, once, with -ECANCELED or with the result if it was
 * already done. */
GS_API void gs_op_cancel(struct gs_op *op);

#endif
