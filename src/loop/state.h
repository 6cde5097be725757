/* The state of a loop, and the functions that its files call in each other; the sections below are
 * named after the files. docs/design/loop.md has an overview. One kernel thread uses a loop; other
 * threads only access `struct mailbox`.
 *
 * Invariants, asserted by gs_loop_check:
 *   1. A pending watcher is active.
 *   2. references is the number of active watchers that are not unreferenced.
 *   3. A descriptor watcher is active if and only if it is in the list of its descriptor's slot.
 *      (A cancelled operation that has left the list is pending.)
 *   4. A descriptor is in `changed` once if its slot has SLOT_CHANGED, else not at all.
 *   5. After changes were applied, the kernel watches a descriptor for all events that its watchers
 *      want; or it is in `changed`, and its only watcher is called in this iteration.
 *   6. A descriptor is in `ready` once if its slot has SLOT_IN_READY, else not at all.
 *   7. An active timer is in the timer queue or pending; an inactive one is neither.
 *   8. The key of a timer in the timer queue is at most its deadline.
 *   9. The timer queue has room for every active timer.
 *  10. A periodic that is not due is in the heap of periodics, with its time as the key.
 *  11. special_count is the number of active periodics, children, files and embedded loops.
 */
#ifndef GS_LOOP_STATE_H
#define GS_LOOP_STATE_H

#include "base/pool.h"
#include "base/timer_queue.h"
#include "loop/checked.h"
#include "loop/poller.h"

#include <gossamer/loop.h>
#include <stdatomic.h>

#define LIKELY(condition_) __builtin_expect(!!(condition_), 1)
#define UNLIKELY(condition_) __builtin_expect(!!(condition_), 0)

/* The numbers of the bits of enum gs_watcher_kind. Those up to KIND_OP begin with a struct
 * gs_io. */
enum kind {
    KIND_IO,
    KIND_CHILD,
    KIND_EMBED,
    KIND_OP,
    KIND_TIMER,
    KIND_PERIODIC,
    KIND_SIGNAL,
    KIND_FILE,
    KIND_IDLE,
    KIND_PREPARE,
    KIND_CHECK,
    KIND_ASYNC,
    KIND_FORK,
    KIND_CLEANUP,
    KIND_WORK,
};

/* Set beside the pending events of a child or file watcher: gs_watcher_feed was called for it. */
#define FED 128u

#define READ_WRITE (GS_READ | GS_WRITE)
#define INTEREST (READ_WRITE | GS_HANGUP)
#define PRIORITIES 5

enum slot_flag {
    SLOT_CHANGED = 1,      /* in `changed` */
    SLOT_VERIFY = 2,       /* the number may refer to another file than the registered one */
    SLOT_SPURIOUS = 4,     /* the kernel reported events that no watcher wants */
    SLOT_ALWAYS_READY = 8, /* the kernel cannot watch it: a regular file */
    SLOT_IN_READY = 16,    /* in `ready` */
    SLOT_REUSED = 32,      /* the kernel may have registrations of several files for this number */
    SLOT_POLLABLE = 64,    /* io_uring: the kernel is known to be able to watch it */
};

/* The state of a descriptor; the descriptor number is the index. */
struct slot {
    struct gs_io *first; /* the list of its active watchers */
    uint32_t generation; /* of the registration: distinguishes its events from stale ones */
    uint8_t registered;  /* what the kernel watches: GS_READ, GS_WRITE, GS_HANGUP, GS_EDGE */
    uint8_t flags;       /* enum slot_flag */
    uint8_t poll_flags;  /* of the io_uring poller */
    uint8_t files;       /* see gs_io_files */
#ifdef GS_CHECKED
    struct gs_file_identity identity; /* of the file that was registered */
#endif
};

/* A growing array of descriptors. */
struct descriptors {
    int *fds;
    unsigned count, capacity;
};

/* Messages of other threads and signal handlers to the loop. */
struct mailbox {
    /* The loop is waiting or about to wait. A sender first writes its message and then reads
     * `asleep`; the loop first sets `asleep` and then reads the messages. All four accesses are
     * sequentially consistent, so at least one of the two sides sees the other. The writes are
     * exchanges rather than stores: QEMU 7.2 lets aarch64's load-acquire pass an earlier
     * store-release. */
    atomic_bool asleep;
    atomic_bool woken;
    _Atomic(uint64_t) caught_signals;      /* one bit per signal */
    _Atomic(uint64_t) watched_signals;     /* those that handlers report to this loop */
    _Atomic(struct gs_list *) sent_asyncs; /* last sent first, linked through pending.next */
};

struct periodics {
    struct gs_heap heap; /* by time */
    struct gs_list all;
    struct gs_io clock_jump; /* a timerfd that becomes readable when the clock is set */
    uint64_t computed_ns;    /* the latest wall-clock time at which a next time was computed */
};

struct children {
    struct gs_list all;
    struct gs_signal on_signal; /* SIGCHLD; active while sigchld_count is not 0 */
    unsigned sigchld_count;     /* children without a pidfd */
};

struct files {
    struct gs_list all;
    struct gs_io inotify;
    struct gs_timer next_check; /* active while there are files */
};

struct gs_loop {
    uint64_t now_ns;
    const struct poller *poller;
    void *poller_state;
    unsigned batch; /* maximum number of events per iteration, if the poller has one; 0: no limit */
    struct slot *slots;
    unsigned slot_count;
    unsigned collected_mask, running_mask; /* a bit for each list below that may be nonempty */
    struct gs_list collected[PRIORITIES];  /* pending: to be called in step 8 */
    struct gs_list running[PRIORITIES];    /* pending: being called in this step 8 */
    size_t prefetch_before, prefetch_after;

    struct gs_list active_ops; /* operations that the kernel executes and that are not pending */
    int stopped_ops;           /* operations that the poller has to end (gs_loop_op_stop) */
    void *scratch;             /* buffer of gs_op_recv_multishot over readiness */

    struct descriptors changed; /* its capacity is at least slot_count */
    struct descriptors ready;   /* always ready: regular files */
    bool needs_reopen;          /* the poller reports stale registrations that it cannot remove */
    bool has_duplicates;        /* it has reported such a registration before */

    struct gs_timer_queue timers;
    uint32_t active_timers;
    int references;

    struct gs_list idles, prepares, checks, asyncs, forks, cleanups; /* asyncs: and work */
    struct gs_list preparing; /* still to be called in this step 1 */
    struct gs_signal *signals;
    _Atomic(struct gs_loop *) next_signal_loop; /* list of the loops that watch signals */

    unsigned special_count;     /* active watchers of the four kinds below */
    uint32_t poller_generation; /* incremented when the poller is reopened */
    struct periodics periodics;
    struct children children;
    struct files files;
    struct gs_list embeds;
    bool is_embedded;
    bool uses_pool;
    struct pool_user pool_user;

    unsigned runs; /* depth of nested runs */
    bool is_stopping, is_stopping_all;
    gs_loop_clock_fn *clock, *wall_clock;
    void *clock_data, *wall_clock_data;
    struct gs_loop_counts counts;
    int wake_fd;
#ifdef GS_CHECKED
    struct gs_loop_state state;
#endif

    _Alignas(64) struct mailbox mailbox;
};

/* ---- loop.c ---- */

/* Make the watcher pending, with these events. */
static inline void gs_loop_set_pending(struct gs_watcher *watcher, unsigned events)
{
    watcher->events |= (uint8_t)events;
    if (gs_list_is_linked(&watcher->pending))
        return;
    unsigned priority = (unsigned)(watcher->priority + 2);
    gs_list_append(&watcher->loop->collected[priority], &watcher->pending);
    watcher->loop->collected_mask |= 1u << priority;
}

/* Whether a watcher is to be called in this iteration. */
bool gs_loop_has_pending(struct gs_loop *loop);
/* Make it pending ahead of all others of its priority. */
void gs_loop_set_pending_first(struct gs_watcher *watcher);

static inline void gs_loop_clear_pending(struct gs_watcher *watcher)
{
    watcher->events = 0;
    if (gs_list_is_linked(&watcher->pending))
        gs_list_remove(&watcher->pending);
}

static inline void gs_loop_activate(struct gs_watcher *watcher)
{
    watcher->active = true;
    watcher->loop->references += !watcher->unreferenced;
    CHECKED_ACTIVATE(watcher);
}

/* Also clears its pending events. */
static inline void gs_loop_deactivate(struct gs_watcher *watcher)
{
    CHECKED_DEACTIVATE(watcher);
    watcher->active = false;
    watcher->loop->references -= !watcher->unreferenced;
    gs_loop_clear_pending(watcher);
}

/* How long the loop may wait, considering its own timers and pending watchers. */
uint64_t gs_loop_wait_ns(struct gs_loop *loop, uint64_t deadline_ns);
/* Steps 2 and 3, before and after the system call that waits. An outer loop calls them for the
 * loops embedded in it. gs_loop_before_wait returns the timeout. */
uint64_t gs_loop_before_wait(struct gs_loop *loop, uint64_t deadline_ns);
void gs_loop_after_wait(struct gs_loop *loop);
uint64_t gs_loop_wall_now(const struct gs_loop *loop);

/* ---- io.c ---- */

GS_MUST_CHECK int gs_loop_init_slots(struct gs_loop *loop);
void gs_loop_done_slots(struct gs_loop *loop);
GS_MUST_CHECK int gs_loop_reserve_slot(struct gs_loop *loop, int fd);
/* Step 2: register the changes of interest with the kernel. */
void gs_loop_apply_changes(struct gs_loop *loop);
/* The poller was reopened and has no registrations: register all descriptors again. */
void gs_loop_clear_registrations(struct gs_loop *loop);
/* Whether a descriptor is always ready. */
bool gs_loop_has_ready(struct gs_loop *loop);
void gs_loop_collect_ready(struct gs_loop *loop);

/* The events that its watchers want. */
static inline unsigned gs_loop_wanted(const struct slot *slot)
{
    unsigned wanted = 0;
    for (const struct gs_io *io = slot->first; io; io = io->next)
        wanted |= io->wanted;
    return wanted & INTEREST ? wanted : 0;
}

/* `changed` has room for every slot. */
static inline void gs_loop_mark_changed(struct gs_loop *loop, int fd, unsigned flags)
{
    struct slot *slot = &loop->slots[fd];
    if (!(slot->flags & SLOT_CHANGED))
        loop->changed.fds[loop->changed.count++] = fd;
    slot->flags |= (uint8_t)(SLOT_CHANGED | flags);
}

/* The kernel reports events of the current registration. */
static inline void gs_loop_io_ready(struct gs_loop *loop, struct slot *slot, unsigned events)
{
    unsigned wanted = 0;
    for (struct gs_io *io = slot->first; io; io = io->next) {
        wanted |= io->wanted;
        if (LIKELY(events & io->wanted))
            gs_loop_set_pending(&io->watcher, events & (io->wanted | GS_HANGUP | GS_URGENT));
    }
    if (UNLIKELY(events & slot->registered & ~wanted))
        gs_loop_mark_changed(loop, (int)(slot - loop->slots), SLOT_SPURIOUS);
}

/* The kernel has refused or dropped the registration; err: -EPERM if it cannot watch the file. */
void gs_loop_io_failed(struct gs_loop *loop, struct slot *slot, int err);

/* The kernel reports events of a former registration. */
static inline void gs_loop_io_stale(struct gs_loop *loop)
{
    loop->needs_reopen = loop->has_duplicates = true;
}

/* Remove the watcher from its descriptor's list, if it is in it. */
void gs_loop_unlink_io(struct gs_io *io);

static inline bool gs_loop_is_linked_io(const struct gs_loop *loop, const struct gs_io *io)
{
    const struct gs_io *listed = io->fd < 0 ? NULL : loop->slots[io->fd].first;
    while (listed && listed != io)
        listed = listed->next;
    return listed;
}

/* ---- timer.c ---- */

void gs_loop_init_timers(struct gs_loop *loop);
/* When the loop must look at its timers again, or GS_NEVER. */
uint64_t gs_loop_next_timer(struct gs_loop *loop);
void gs_loop_collect_timers(struct gs_loop *loop);
/* Called before its callback. */
void gs_loop_timer_expired(struct gs_timer *timer);

/* ---- periodic.c ---- */

void gs_loop_init_periodics(struct gs_loop *loop);
/* Nanoseconds until the first one is due, or GS_NEVER. */
uint64_t gs_loop_next_periodic(struct gs_loop *loop);
void gs_loop_collect_periodics(struct gs_loop *loop);
/* Called before its callback. */
void gs_loop_periodic_expired(struct gs_periodic *periodic);
/* Open a timerfd that becomes readable when the wall clock is set. */
GS_MUST_CHECK int gs_loop_open_clock_jump(void);

/* ---- signal.c ---- */

void gs_loop_collect_signals(struct gs_loop *loop);
/* Called after a fork for a loop whose kernel thread does not exist in the child: the loop watches
 * no signals any longer, and is never freed. */
void gs_loop_forget_signals(struct gs_loop *loop);

/* ---- async.c ---- */

void gs_loop_collect_asyncs(struct gs_loop *loop);
/* Called before its callback. */
void gs_loop_async_received(struct gs_async *async);
/* Called after a message was left in the mailbox. */
void gs_loop_wake_if_asleep(struct gs_loop *loop);
bool gs_loop_has_messages(struct gs_loop *loop);
/* Set `asleep`. Returns whether the mailbox is empty, so that the loop may wait. */
bool gs_loop_try_sleep(struct gs_loop *loop);
void gs_loop_end_sleep(struct gs_loop *loop);

/* ---- child.c ---- */

void gs_loop_init_children(struct gs_loop *loop);
void gs_loop_collect_children(struct gs_loop *loop);
/* After a fork: the children are the parent's. */
void gs_loop_stop_children(struct gs_loop *loop);

/* ---- file.c ---- */

void gs_loop_init_files(struct gs_loop *loop);
void gs_loop_collect_files(struct gs_loop *loop);
/* Check the file, and call the callback if it has changed. */
void gs_loop_call_file(struct gs_file *file, unsigned events);
/* After a fork: the inotify instance is shared with the parent. */
void gs_loop_rewatch_files(struct gs_loop *loop);

/* ---- hooks.c ---- */

void gs_loop_call_prepares(struct gs_loop *loop);
void gs_loop_collect_idles(struct gs_loop *loop);
void gs_loop_collect_checks(struct gs_loop *loop);
void gs_loop_call_forks(struct gs_loop *loop);
void gs_loop_call_cleanups(struct gs_loop *loop);

/* ---- embed.c ---- */

/* Returns how long the embedded loops may wait. gs_loop_after_embedded_waits must follow. */
uint64_t gs_loop_before_embedded_waits(struct gs_loop *loop);
void gs_loop_after_embedded_waits(struct gs_loop *loop);
void gs_loop_collect_embeds(struct gs_loop *loop);

/* ---- op.c ---- */

/* End the operation without a call. */
void gs_loop_op_reset(struct gs_op *op);
/* The loop is being freed. */
void gs_loop_op_stop(struct gs_op *op);
/* Its descriptor is closed. */
void gs_loop_op_closed(struct gs_op *op);
/* The poller has a result of a multishot operation. */
void gs_loop_op_result_ready(struct gs_op *op);
/* The poller has finished the operation; result: the last one. */
void gs_loop_op_finished(struct gs_op *op, int64_t result);
/* In the child process after a fork: cancel all operations. The poller was reopened and knows none
 * of them. */
void gs_loop_cancel_ops_after_fork(struct gs_loop *loop);
/* Submit the cancellations that the poller had no room for. Returns false if there is still too
 * little room. */
bool gs_loop_retry_cancels(struct gs_loop *loop);

/* ---- work.c ---- */

/* Called when its async was received. */
void gs_loop_work_done(struct gs_work *work);
/* End work without a call. No kernel thread of the pool uses it. */
void gs_loop_stop_work(struct gs_work *work);
/* Wait until no kernel thread of the pool uses work of the loop. */
void gs_loop_end_works(struct gs_loop *loop);
/* In the child process after a fork: the kernel threads do not exist. */
void gs_loop_cancel_works_after_fork(struct gs_loop *loop);

/* Start it, with a function that frees what the work is in: so it can be abandoned. */
GS_MUST_CHECK int gs_loop_start_work(struct gs_work *work, enum job_kind kind, gs_work_fn *fn,
                                     gs_work_fn *discard);
/* Returns JOB_QUEUED if it will not be called, and is inactive; JOB_ABANDONED if it will be
 * discarded and must not be used any more; otherwise its callback follows. */
enum job_state gs_loop_abandon_work(struct gs_work *work);

/* ---- op_call.c ---- */

/* Returns whether the call is not made or was abandoned. */
bool gs_loop_op_drop_call(struct gs_op *op);
/* The operation ends without the result of its call. */
void gs_loop_op_leave_call(struct gs_op *op);
/* Called when the loop is freed: end the operation of internal work without a call. */
void gs_loop_op_end_call(struct gs_work *work);

/* ---- watchers.c ---- */

/* Call the watcher, which is no longer pending. */
void gs_loop_call(struct gs_watcher *watcher, unsigned events);
void gs_loop_stop_watcher(struct gs_watcher *watcher);
void gs_loop_stop_watchers(struct gs_loop *loop);
/* Call `visit` for each active watcher, including internal ones. It must not start, stop or move
 * watchers. */
void gs_loop_for_each(struct gs_loop *loop, gs_walk_fn *visit, void *data);
/* Internal watchers belong to the loop itself and are handled in step 5 instead of being called. */
void gs_loop_init_internal(struct gs_io *io, struct gs_loop *loop);
/* Start the watcher on fd. Closes fd on failure. */
GS_MUST_CHECK int gs_loop_open_internal(struct gs_io *io, int fd);
/* Stop the watcher and close its descriptor, if it is open. */
void gs_loop_close_internal(struct gs_io *io);
/* Returns whether the watcher was pending, and clears that. */
bool gs_loop_consume_internal(struct gs_watcher *watcher);

/* ---- check.c ---- */

/* Assert the invariants. */
void gs_loop_check(struct gs_loop *loop);

#endif
