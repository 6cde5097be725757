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
 *   7. An active timer is in the heap, or is pending; an inactive one is neither.
 *   8. The key of a timer's node is at most the timer's deadline.
 *   9. The heap has room for every active timer.
 */
#ifndef GS_LOOP_STATE_H
#define GS_LOOP_STATE_H

#include "base/heap.h"
#include "loop/poller.h"

#include <gossamer/loop.h>
#include <stdatomic.h>

#define LIKELY(condition_) __builtin_expect(!!(condition_), 1)
#define UNLIKELY(condition_) __builtin_expect(!!(condition_), 0)

enum kind {
    KIND_IO,
    KIND_OP,
    KIND_TIMER,
    KIND_SIGNAL,
    KIND_ASYNC,
    KIND_IDLE,
    KIND_PREPARE,
    KIND_CHECK,
};

#define READ_WRITE (GS_READ | GS_WRITE)
#define PRIORITIES 5

enum slot_flag {
    SLOT_CHANGED = 1, /* in `changed` */
    SLOT_VERIFY = 2,  /* the number may mean another file than the kernel was told of */
    SLOT_NARROW = 4,  /* the kernel reported what nobody wants */
    SLOT_FILE = 8,    /* the kernel cannot watch it: always ready */
    SLOT_LISTED = 16, /* in `ready` */
    SLOT_REUSED = 32, /* the kernel was told of several files under this number, and may know all */
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
     * consistent, so at least one of the two sides sees the other. */
    atomic_bool asleep;
    atomic_bool woken;
    _Atomic(uint64_t) caught;       /* signals, a bit each */
    _Atomic(struct gs_list *) sent; /* asyncs, last first, linked through pending.next */
};

struct gs_loop {
    uint64_t now_ns;
    const struct poller *poller;
    void *poller_state;
    struct slot *slots;
    unsigned slot_count;
    unsigned collected_mask, running_mask; /* a bit for each list below that may hold something */
    struct gs_list collected[PRIORITIES];  /* pending: to be called in step 8 */
    struct gs_list running[PRIORITIES];    /* pending: being called in this step 8 */

    struct descriptors changed; /* with room for as many as there are slots */
    struct descriptors ready;   /* regular files and the like */
    bool is_set_stale;          /* the kernel reports descriptors that it can't be told to forget */
    bool has_duplicates;        /* it once did */

    struct gs_heap timers;
    uint32_t active_timers;
    int references;

    struct gs_list idles, prepares, checks, asyncs;
    struct gs_list preparing; /* still to be called in this step 1 */
    struct gs_signal *signals;

    unsigned runs; /* nested in each other */
    bool is_stopping;
    gs_loop_clock_fn *clock;
    void *clock_data;
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

/* The kernel reports events of a former registration. */
static inline void gs_loop_io_stale(struct gs_loop *loop)
{
    loop->is_set_stale = loop->has_duplicates = true;
}

/* ---- io.c ---- */

/* Take it off its descriptor's list, if it is there. */
void gs_loop_unlink_io(struct gs_io *io);

/* ---- timer.c ---- */

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
/* Asks whether the mailbox is empty, once `asleep` is set. */
bool gs_loop_may_sleep(struct gs_loop *loop);
void gs_loop_woke_up(struct gs_loop *loop);

/* ---- points.c ---- */

void gs_loop_call_prepares(struct gs_loop *loop);
void gs_loop_collect_idles(struct gs_loop *loop);
void gs_loop_collect_checks(struct gs_loop *loop);

/* ---- watchers.c: any kind ---- */

/* Calls the watcher, which is pending no more. */
void gs_loop_call(struct gs_watcher *watcher, unsigned events);
void gs_loop_stop_all(struct gs_loop *loop);

/* ---- op.c, check.c ---- */

/* No call will follow. */
void gs_loop_op_abandon(struct gs_op *op);
/* Its descriptor is closed. */
void gs_loop_op_closed(struct gs_op *op);
/* Assert the invariants. */
void gs_loop_check(struct gs_loop *loop);

#endif
