/* The loop's own state, and what its files ask of each other. A loop is used by one kernel thread;
 * only what stands in `struct mailbox` is touched by others.
 *
 * Invariants, asserted by gs_loop_check:
 *   1. A watcher that is pending is active.
 *   2. references is the number of active watchers that are not unreferenced.
 *   3. An active I/O watcher is in the list of its descriptor's slot; so is none that is inactive.
 *      (A cancelled operation has left the list, and is pending.)
 *   4. A descriptor is in `changed` once if its slot has SLOT_CHANGED, else not at all.
 *   5. Once interest is settled, the kernel watches a descriptor for all that its watchers want.
 *   6. A descriptor is in `ready` once if its slot has SLOT_LISTED, else not at all.
 *   7. An active timer is on the agenda, or is pending; an inactive one is neither.
 *   8. The key that the agenda knows of a timer is at most its deadline.
 *   9. The agenda has room for every active timer.
 *  10. A periodic that is not to be called yet is in the heap of periodics under its time.
 *  11. special_count is the number of active periodics, children, files and embedded loops.
 */
#ifndef GS_LOOP_STATE_H
#define GS_LOOP_STATE_H

#include "base/agenda.h"
#include "loop/poller.h"

#include <gossamer/loop.h>
#include <stdatomic.h>

#define LIKELY(condition_) __builtin_expect(!!(condition_), 1)
#define UNLIKELY(condition_) __builtin_expect(!!(condition_), 0)

/* The numbers of the bits of enum gs_kind. Those up to KIND_OP begin with a struct gs_io. */
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
};

/* Beside the events of a watcher that is fed by hand. */
#define FED 128u

#define READ_WRITE (GS_READ | GS_WRITE)
#define PRIORITIES 5

enum slot_flag {
    SLOT_CHANGED = 1, /* in `changed` */
    SLOT_VERIFY = 2,  /* the number may mean another file than the kernel was told of */
    SLOT_NARROW = 4,  /* the kernel reported what nobody wants */
    SLOT_FILE = 8,    /* the kernel cannot watch it: always ready */
    SLOT_LISTED = 16, /* in `ready` */
    SLOT_REUSED = 32, /* the kernel was told of several files under this number, and may know all */
    SLOT_POLLABLE = 64, /* io_uring's poller has seen that the kernel can watch it */
};

/* What the loop knows of a descriptor; the number is the index. */
struct slot {
    struct gs_io *first;
    uint32_t generation; /* of the registration: tells its events from those of former ones */
    uint8_t registered;  /* what the kernel watches: GS_READ, GS_WRITE, GS_EDGE */
    uint8_t flags;
};

/* A growing array of descriptors. */
struct descriptors {
    int *fds;
    unsigned count, capacity;
};

/* What other threads and signal handlers leave for the loop. */
struct mailbox {
    /* The loop waits or is about to. Whoever leaves something looks at `asleep` afterwards; the
     * loop sets `asleep` and looks at the rest afterwards. All four accesses are sequentially
     * consistent, so at least one of the two sides sees the other. What is written is exchanged
     * rather than stored: QEMU 7.2 lets aarch64's load-acquire pass a store-release before it. */
    atomic_bool asleep;
    atomic_bool woken;
    _Atomic(uint64_t) caught;       /* signals, a bit each */
    _Atomic(uint64_t) watched;      /* the same: those that handlers are to leave here */
    _Atomic(struct gs_list *) sent; /* asyncs, last first, linked through pending.next */
};

/* Periodics are in a heap by their time, and in a list. */
struct periodics {
    struct gs_heap heap;
    struct gs_list all;
    struct gs_io jump;    /* a descriptor that becomes readable when the clock is set */
    uint64_t computed_ns; /* no periodic's time was computed when the clock showed more */
};

/* Children without a descriptor are looked at when `on_signal` is pending. */
struct children {
    struct gs_list all;
    struct gs_signal on_signal;
    unsigned without_descriptor;
};

struct files {
    struct gs_list all;
    struct gs_io changes;      /* inotify */
    struct gs_timer next_look; /* active while there are files */
};

struct gs_loop {
    uint64_t now_ns;
    const struct poller *poller;
    void *poller_state;
    unsigned batch; /* events that a step takes at most, of a poller that can tell; 0: no limit */
    struct slot *slots;
    unsigned slot_count;
    unsigned collected_mask, running_mask; /* a bit for each list below that may hold something */
    struct gs_list collected[PRIORITIES];  /* pending: to be called in step 8 */
    struct gs_list running[PRIORITIES];    /* pending: being called in this step 8 */
    size_t fetched_before, fetched_after;  /* of the next one's memory, meanwhile */

    struct gs_list under_way; /* operations that the kernel has and has not answered */
    void *scratch;            /* where gs_op_recv_each receives over readiness */

    struct descriptors changed; /* with room for as many as there are slots */
    struct descriptors ready;   /* regular files and the like */
    bool is_set_stale;          /* the kernel reports descriptors that it can't be told to forget */
    bool has_duplicates;        /* it once did */

    struct gs_agenda timers;
    uint32_t active_timers;
    int references;

    struct gs_list idles, prepares, checks, asyncs, forks, cleanups;
    struct gs_list preparing; /* still to be called in this step 1 */
    struct gs_signal *signals;
    _Atomic(struct gs_loop *) next_catcher; /* of the loops that watch signals */

    unsigned special_count; /* watchers of the four kinds below */
    uint32_t set_number;    /* grows when the kernel's set is opened anew */
    struct periodics periodics;
    struct children children;
    struct files files;
    struct gs_list embeds;
    bool is_embedded;

    unsigned runs; /* nested in each other */
    bool is_stopping, is_stopping_all;
    gs_loop_clock_fn *clock, *wall_clock;
    void *clock_data, *wall_clock_data;
    struct gs_loop_counts counts;
    int wake_fd;

    _Alignas(64) struct mailbox mailbox;
};

/* ---- pending.c ---- */

/* Make it pending, unless it is. */
static inline void gs_loop_pend(struct gs_watcher *watcher, unsigned events)
{
    watcher->events |= (uint8_t)events;
    if (gs_list_is_linked(&watcher->pending))
        return;
    unsigned priority = (unsigned)(watcher->priority + 2);
    gs_list_append(&watcher->loop->collected[priority], &watcher->pending);
    watcher->loop->collected_mask |= 1u << priority;
}

/* The same, ahead of all others of its priority. */
void gs_loop_pend_first(struct gs_watcher *watcher);

static inline void gs_loop_unpend(struct gs_watcher *watcher)
{
    watcher->events = 0;
    if (gs_list_is_linked(&watcher->pending))
        gs_list_remove(&watcher->pending);
}

static inline void gs_loop_activate(struct gs_watcher *watcher)
{
    watcher->active = true;
    watcher->loop->references += !watcher->unreferenced;
}

/* Drops what is pending, too. */
static inline void gs_loop_deactivate(struct gs_watcher *watcher)
{
    watcher->active = false;
    watcher->loop->references -= !watcher->unreferenced;
    gs_loop_unpend(watcher);
}

bool gs_loop_has_pending(struct gs_loop *loop);
void gs_loop_call_pending(struct gs_loop *loop);

/* ---- slots.c ---- */

GS_MUST_CHECK int gs_loop_init_slots(struct gs_loop *loop);
void gs_loop_done_slots(struct gs_loop *loop);
GS_MUST_CHECK int gs_loop_reserve_slot(struct gs_loop *loop, int fd);
void gs_loop_settle(struct gs_loop *loop);
void gs_loop_forget_kernel(struct gs_loop *loop);
/* Whether some descriptor is always ready. */
bool gs_loop_has_ready(struct gs_loop *loop);
void gs_loop_collect_ready(struct gs_loop *loop);

/* By all its watchers together. */
static inline unsigned gs_loop_wanted(const struct slot *slot)
{
    unsigned wanted = 0;
    for (const struct gs_io *io = slot->first; io; io = io->next)
        wanted |= io->wanted;
    return wanted & READ_WRITE ? wanted : 0;
}

/* There is always room. */
static inline void gs_loop_mark_changed(struct gs_loop *loop, int fd, unsigned flags)
{
    struct slot *slot = &loop->slots[fd];
    if (!(slot->flags & SLOT_CHANGED))
        loop->changed.fds[loop->changed.count++] = fd;
    slot->flags |= (uint8_t)(SLOT_CHANGED | flags);
}

/* The kernel reports events of the registration that the slot describes. */
static inline void gs_loop_io_ready(struct gs_loop *loop, struct slot *slot, unsigned events)
{
    unsigned wanted = 0;
    for (struct gs_io *io = slot->first; io; io = io->next) {
        wanted |= io->wanted;
        if (LIKELY(events & io->wanted))
            gs_loop_pend(&io->watcher, events & (io->wanted | GS_HANGUP));
    }
    if (UNLIKELY(events & slot->registered & ~wanted))
        gs_loop_mark_changed(loop, (int)(slot - loop->slots), SLOT_NARROW);
}

/* The kernel refuses what was registered, or no longer has it: -EPERM if it can't be watched. */
void gs_loop_io_failed(struct gs_loop *loop, struct slot *slot, int err);

/* The kernel reports events of a former registration. */
static inline void gs_loop_io_stale(struct gs_loop *loop)
{
    loop->is_set_stale = loop->has_duplicates = true;
}

/* ---- io.c ---- */

/* Take it off its descriptor's list, if it is there. */
void gs_loop_unlink_io(struct gs_io *io);

static inline bool gs_loop_is_linked_io(const struct gs_loop *loop, const struct gs_io *io)
{
    const struct gs_io *listed = loop->slots[io->fd].first;
    while (listed && listed != io)
        listed = listed->next;
    return listed;
}

/* ---- timer.c ---- */

void gs_loop_init_timers(struct gs_loop *loop);
/* When the loop must look at its timers again, or GS_NEVER. */
uint64_t gs_loop_next_timer(struct gs_loop *loop);
void gs_loop_collect_timers(struct gs_loop *loop);
/* Before its callback. */
void gs_loop_timer_fires(struct gs_timer *timer);

/* ---- signal.c, async.c ---- */

void gs_loop_collect_signals(struct gs_loop *loop);
void gs_loop_collect_asyncs(struct gs_loop *loop);
/* Before its callback. */
void gs_loop_async_received(struct gs_async *async);
/* Something was left in the mailbox: end the wait if there is one. */
void gs_loop_end_wait(struct gs_loop *loop);
bool gs_loop_has_mail(struct gs_loop *loop);
/* Asks whether the mailbox is empty, once `asleep` is set. */
bool gs_loop_may_sleep(struct gs_loop *loop);
void gs_loop_woke_up(struct gs_loop *loop);

/* ---- points.c ---- */

void gs_loop_call_prepares(struct gs_loop *loop);
void gs_loop_collect_idles(struct gs_loop *loop);
void gs_loop_collect_checks(struct gs_loop *loop);

void gs_loop_call_forks(struct gs_loop *loop);
void gs_loop_call_cleanups(struct gs_loop *loop);

/* ---- loop.c ---- */

/* How long it may wait, by its timers and what is pending: 0 if it has something to do now. */
uint64_t gs_loop_wait_ns(struct gs_loop *loop, uint64_t deadline_ns);
/* Steps 2 and 3, before the system call and after it, also for a loop whose wait is another's. */
uint64_t gs_loop_begin_wait(struct gs_loop *loop, uint64_t deadline_ns);
void gs_loop_after_wait(struct gs_loop *loop);
uint64_t gs_loop_wall_now(const struct gs_loop *loop);

/* ---- periodic.c ---- */

void gs_loop_init_periodics(struct gs_loop *loop);
/* How long until the first is due, or GS_NEVER. */
uint64_t gs_loop_next_periodic(struct gs_loop *loop);
void gs_loop_collect_periodics(struct gs_loop *loop);
/* Before its callback. */
void gs_loop_periodic_fires(struct gs_periodic *periodic);
/* A descriptor that becomes readable when the wall clock is set. */
GS_MUST_CHECK int gs_loop_open_jump(void);

/* ---- child.c ---- */

void gs_loop_init_children(struct gs_loop *loop);
void gs_loop_collect_children(struct gs_loop *loop);
/* After fork: they are not this process's. */
void gs_loop_stop_children(struct gs_loop *loop);

/* ---- file.c ---- */

void gs_loop_init_files(struct gs_loop *loop);
void gs_loop_collect_files(struct gs_loop *loop);
/* Look at it, and call back if there is something to tell. */
void gs_loop_call_file(struct gs_file *file, unsigned events);
/* After fork: what the kernel reports would be the parent's. */
void gs_loop_watch_files_anew(struct gs_loop *loop);

/* ---- embed.c ---- */

/* How long the embedded loops may wait; they must be told when it is over. */
uint64_t gs_loop_begin_embedded_waits(struct gs_loop *loop);
void gs_loop_after_embedded_waits(struct gs_loop *loop);
void gs_loop_collect_embeds(struct gs_loop *loop);

/* ---- watchers.c: any kind ---- */

/* Calls the watcher, which is pending no more. */
void gs_loop_call(struct gs_watcher *watcher, unsigned events);
void gs_loop_stop_watcher(struct gs_watcher *watcher);
void gs_loop_stop_watchers(struct gs_loop *loop);
/* A descriptor's watcher of the loop's own, inactive; its events are looked at in step 5. */
void gs_loop_init_internal(struct gs_io *io, struct gs_loop *loop);
/* Start it with fd, or close that on failure. */
GS_MUST_CHECK int gs_loop_open_internal(struct gs_io *io, int fd);
/* Stop it, and close its descriptor, if it is open. */
void gs_loop_close_internal(struct gs_io *io);
/* Whether it was ready in this iteration; it is pending no more. */
bool gs_loop_take_internal(struct gs_watcher *watcher);

/* ---- walk.c ---- */

/* Call `visit` for each active watcher, the loop's own too. It must change nothing. */
void gs_loop_each(struct gs_loop *loop, gs_walk_fn *visit, void *data);

/* ---- op.c, check.c ---- */

/* No call will follow. */
void gs_loop_op_abandon(struct gs_op *op);
/* Its descriptor is closed. */
void gs_loop_op_closed(struct gs_op *op);
/* The poller has one of many answers for it. */
void gs_loop_op_answered(struct gs_op *op);
/* The poller will have no more. */
void gs_loop_op_ended(struct gs_op *op, int64_t result);
/* The poller has begun anew, and knows of no operation. */
void gs_loop_ops_lost(struct gs_loop *loop);
/* Assert the invariants. */
void gs_loop_check(struct gs_loop *loop);

#endif
