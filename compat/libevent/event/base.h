/* The state of a base, and what the files of this folder call of each other.
 *
 *     event.c        events: assign, add, del, active, pending
 *     active.c       what is active: the queues, and callbacks that are no events
 *     run.c          the loop
 *     descriptors.c  the events of each descriptor; their interest, which is passed to the loop
 *     timers.c       timeouts
 *     signals.c      signals
 *     base.c         life cycle, after a fork; config.c: configurations
 *     walk.c         lists and counts of events; debug.c: checks of how events are used
 *
 * The loop of Gossamer only waits: it belongs to the thread that runs the base. Everything else is
 * under the base's lock, so that other threads may add and delete events while it waits:
 *
 * 1. Only the thread that runs the base uses `loop` and the watchers in `slots`, except for
 *    gs_loop_wake.
 * 2. A descriptor whose events have changed since its watcher was adjusted is in `changed`, once.
 *    They are adjusted before the wait (gs_ev_settle_descriptors), and are in `settling` until the
 *    kernel has met them (gs_ev_see_files). Those in `verified` have their interest still: the loop
 *    asks the kernel before the wait whether the file is the same.
 * 3. The lock is released for the wait only. The first watcher that is called takes it again.
 * 4. An event has EVLIST_INSERTED if it is in the list of its descriptor or signal, EVLIST_TIMEOUT
 *    if it is among the timers, and EVLIST_ACTIVE or EVLIST_ACTIVE_LATER if it is in a queue. The
 *    three counts of `added` are the sum of these.
 * 5. The event that was deleted last stays in the list of its descriptor, `vacated`, if it is alone
 *    there: most are added again next. Its memory may have been freed. Whatever uses the lists has
 *    it removed before (gs_ev_leave_vacated). */
#ifndef GS_COMPAT_LIBEVENT_BASE_H
#define GS_COMPAT_LIBEVENT_BASE_H

#include "base/timer_queue.h"
#include "compat/libevent/event/callback.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <gossamer/loop.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define GS_EV_IO (EV_READ | EV_WRITE | EV_CLOSED)
#define GS_EV_ACTIVE (EVLIST_ACTIVE | EVLIST_ACTIVE_LATER)
#define GS_EV_SIGNALS NSIG
/* A longer timeout is reduced to this: 30 years. */
#define GS_EV_MAX_TIMEOUT_US (UINT64_C(30) * 365 * 86400 * 1000000)

/* What is to be done with an active callback. */
enum gs_ev_closure {
    GS_EV_CALL,
    GS_EV_CALL_SIGNAL,
    GS_EV_CALL_PERSISTENT,
    GS_EV_CALL_SELF,
    GS_EV_FINALIZE_CALLBACK,
    GS_EV_FINALIZE_EVENT,
    GS_EV_FINALIZE_AND_FREE,
};

enum gs_ev_method {
    GS_EV_EPOLL,
    GS_EV_POLL,
    GS_EV_SELECT,
    GS_EV_METHODS,
};

TAILQ_HEAD(gs_ev_queue, event_callback);
LIST_HEAD(gs_ev_onces, gs_ev_once);
LIST_HEAD(gs_ev_tasks, gs_ev_task);

#define GS_EV_LINE 64

/* A descriptor: a cache line of the processor for events, and one for the loop. */
struct gs_ev_slot {
    struct event_dlist events; /* the last one that was added first */
    uint16_t readers, writers, closers;
    uint8_t interest;    /* GS_EV_IO of all events */
    bool is_changed : 1; /* in `changed` */
    bool is_set : 1;     /* the number may refer to another file than the watcher knows */
    bool is_watched : 1; /* the watcher is active */
    bool is_edge : 1;    /* the interest is edge-triggered */
    uint8_t files;       /* the loop's count of the files that it registered */
    int fd;
    uint32_t file; /* the number of the file, from 1 */
    /* The settlings at which the file was identified, the watcher adjusted, and the first event
     * added. */
    uint32_t identified, settled, began;
    uint64_t inode; /* of the file when it was identified */
    void *memory;   /* of the first slot: of all in the chunk */
    alignas(GS_EV_LINE) struct gs_io io;
};

/* 32 slots each: a watcher must not be moved. */
#define GS_EV_CHUNK 32

/* The timeouts of a base. */
struct gs_ev_timers {
    struct gs_timer_queue queue;
    const struct event
        *deleted; /* the last one, while it is in the queue; it may have been freed */
    uint32_t deleted_index;
    unsigned sequence; /* of the last one that was added */
};

struct gs_ev_limits {
    uint64_t max_us; /* UINT64_MAX: none */
    int max_callbacks;
    int min_priority;
};

struct gs_ev_max {
    int now, max;
};

struct event_base {
    struct gs_loop *loop;
    void *lock, *called; /* called: the callback that others wait for has returned */
    struct gs_check relock;
    unsigned long owner; /* the thread that runs the base, while is_running */

    struct gs_ev_queue *queues;
    int queue_count;
    struct gs_ev_queue later;
    struct event_callback *current;
    int current_waiters;
    int running_priority; /* -1: none */
    unsigned deferred;    /* callbacks that became active in this iteration, and are no events */

    bool is_running, is_locked_again, is_wake_pending;
    bool has_exited, has_broken, must_continue;
    int flags;
    enum gs_ev_method method;
    struct gs_ev_limits limits;
    struct gs_ev_max active, added, virtual;

    struct gs_ev_slot **chunks;
    unsigned chunk_count;
    struct gs_ev_slot **changed, **settling, **verified;
    struct gs_ev_slot *vacated; /* invariant 5 */
    short vacated_events;
    unsigned changed_count, settling_count, verified_count, changed_capacity;
    bool is_settling;          /* the kernel has the interest, and was not looked at yet */
    uint64_t files;            /* the loop's count of the files that it registered */
    uint32_t settlings;        /* how often `changed` was passed on, and one more */
    struct event_dlist strays; /* whose files were closed, and the numbers reused */
    int identities;            /* an epoll set that tells files apart; -1: none yet */

    struct gs_ev_timers timers;
    struct timeval *common_timeouts[256];
    unsigned common_timeout_count;
    uint64_t now_us;              /* of this iteration; 0: the clock is read */
    uint64_t read_us, read_ticks; /* the clock as it was last read outside, and when */
    bool has_ticks;
    int64_t wall_offset_us;
    uint64_t wall_offset_since_us;

    struct gs_ev_signals *signals; /* NULL until the first one is watched */

    struct gs_ev_onces onces;
    struct gs_ev_tasks tasks;
};

/* The base of programs that name none. */
extern struct event_base *gs_ev_current_base;

static inline struct event *gs_ev_event_of(struct event_callback *callback)
{
    return (struct event *)callback;
}

/* Returns whether this thread may be the one that runs the base. */
bool gs_ev_is_in_loop(const struct event_base *base);

/* ---- base.c ---- */

/* Raise a count, and its maximum. */
static inline void gs_ev_count(struct gs_ev_max *count)
{
    if (++count->now > count->max)
        count->max = count->now;
}

/* End the wait of the loop, if another thread runs it. */
void gs_ev_wake_other(struct event_base *base);
static inline void gs_ev_wake(struct event_base *base)
{
    if (base->lock)
        gs_ev_wake_other(base);
}

/* Wait until the callback that runs in another thread has returned, or for less. Returns 0, or -1
 * if this is the thread, or it cannot wait. */
int gs_ev_wait_for_other(struct event_base *base);
static inline void gs_ev_wait_for_current(struct event_base *base,
                                          const struct event_callback *callback)
{
    while (base->current == callback && base->called && !gs_ev_wait_for_other(base))
        ;
}

/* ---- event.c: with the lock ---- */

enum gs_ev_blocking {
    GS_EV_BLOCKS_UNLESS_FINALIZED,
    GS_EV_NEVER_BLOCKS,
    GS_EV_BLOCKS,
    GS_EV_EVEN_IF_FINALIZING,
};

/* deadline_us: in place of `timeout`, which is relative; UINT64_MAX: none. */
int gs_ev_add(struct event *event, const struct timeval *timeout, uint64_t deadline_us);
int gs_ev_del(struct event *event, enum gs_ev_blocking blocking);
void gs_ev_activate(struct event *event, int result, short calls);

/* ---- active.c: with the lock ---- */

int gs_ev_init_queues(struct event_base *base, int count);
/* Returns whether it was not active. */
bool gs_ev_queue_active(struct event_base *base, struct event_callback *callback);
void gs_ev_unqueue_active(struct event_base *base, struct event_callback *callback);
static inline void gs_ev_unqueue(struct event_base *base, struct event_callback *callback)
{
    if (callback->evcb_flags & GS_EV_ACTIVE)
        gs_ev_unqueue_active(base, callback);
}
void gs_ev_activate_later(struct event_base *base);
void gs_ev_finalize(struct event_base *base, struct event_callback *callback,
                    gs_ev_callback_fn *fn);
/* Remove everything that is active; returns the number. */
int gs_ev_clear_queues(struct event_base *base, bool runs_finalizers);

/* ---- run.c ---- */

/* Whether the processor has a counter of time that is cheaper than the clock. */
bool gs_ev_has_ticks(void);
/* Returns the time of this iteration, or the current one: microseconds of the monotonic clock. */
uint64_t gs_ev_read_now_us(struct event_base *base);
static inline uint64_t gs_ev_now_us(struct event_base *base)
{
    return base->now_us ? base->now_us : gs_ev_read_now_us(base);
}

/* ---- descriptors.c: with the lock ---- */

/* Each returns 0, or -1 with errno. */
int gs_ev_insert_io(struct event_base *base, struct event *event);
void gs_ev_remove_io(struct event_base *base, struct event *event);
/* Whether its file was closed and the number reused: the event gets nothing until it is added. */
static inline bool gs_ev_is_stray(const struct event *event)
{
    return !event->ev_file && event->ev_evcallback.evcb_flags & EVLIST_INSERTED &&
           event->ev_events & GS_EV_IO && event->ev_fd >= 0;
}
int gs_ev_insert_stray(struct event_base *base, struct event *event);
/* After a fork. Returns whether all descriptors that have events are open. */
bool gs_ev_identify_all(struct event_base *base);
/* Pass on what has changed; the thread that runs the base. */
void gs_ev_settle_descriptors(struct event_base *base);
/* After the wait, likewise: which files has the kernel met? */
void gs_ev_see_files(struct event_base *base);
void gs_ev_activate_io(struct event_base *base, int fd, short events);
/* Remove the event that was deleted last. */
void gs_ev_leave_vacated(struct event_base *base);
/* Returns the slot, or NULL. */
struct gs_ev_slot *gs_ev_find_slot(struct event_base *base, int fd);
/* Returns the event that was added last, or NULL. */
static inline struct event *gs_ev_first_of(struct event_base *base, struct gs_ev_slot *slot)
{
    if (base->vacated)
        gs_ev_leave_vacated(base);
    return slot->events.lh_first;
}
void gs_ev_free_slots(struct event_base *base);

/* ---- timers.c: with the lock ---- */

void gs_ev_init_timers(struct event_base *base);
void gs_ev_free_timers(struct event_base *base);
/* Make room for one more. Returns 0, or -1 with errno. */
int gs_ev_reserve_timer(struct event_base *base);
/* The room must be there if the event has no timeout. */
void gs_ev_set_timer(struct event_base *base, struct event *event, uint64_t deadline_us);
void gs_ev_remove_timer(struct event_base *base, struct event *event);
/* Returns when the first timeout is due, or something earlier; UINT64_MAX >> 14: there is none. */
uint64_t gs_ev_next_timer_us(struct event_base *base);
/* Returns the event whose timeout is first, if it is due, or NULL. */
struct event *gs_ev_due_timer(struct event_base *base, uint64_t now_us);
/* Those that have timeouts, in no particular order. */
unsigned gs_ev_count_timers(struct event_base *base);
struct event *gs_ev_timer_at(struct event_base *base, unsigned i);
uint64_t gs_ev_deadline_us(const struct event *event);
/* Returns the duration, without the mark of a common timeout. */
uint64_t gs_ev_unusual_duration_us(const struct event_base *base, const struct timeval *duration);
static inline uint64_t gs_ev_duration_us(const struct event_base *base,
                                         const struct timeval *duration)
{
    if ((uint64_t)duration->tv_sec < GS_EV_MAX_TIMEOUT_US / 1000000 &&
        (uint64_t)duration->tv_usec < 1000000)
        return (uint64_t)duration->tv_sec * 1000000 + (uint64_t)duration->tv_usec;
    return gs_ev_unusual_duration_us(base, duration);
}
/* ---- signals.c: with the lock ---- */

int gs_ev_insert_signal(struct event_base *base, struct event *event);
void gs_ev_remove_signal(struct event_base *base, struct event *event);
void gs_ev_activate_signal(struct event_base *base, int number, short calls);
/* The base's loop begins: it has the signals that it watches from now on. */
void gs_ev_take_signals(struct event_base *base);
/* Activate the events of the signals that were caught. */
void gs_ev_collect_signals(struct event_base *base);
/* Returns the events of a signal, or NULL. */
struct event_dlist *gs_ev_signal_events(struct event_base *base, int number);
void gs_ev_free_signals(struct event_base *base);

/* ---- config.c ---- */

/* Choose the method, and fill in what the configuration (NULL: none) says. Returns 0, or -1 if
 * every method is avoided. */
int gs_ev_configure(struct event_base *base, const struct event_config *config);
const char *gs_ev_poller_name(enum gs_ev_method method);

/* ---- once.c ---- */

void gs_ev_free_onces(struct event_base *base);

/* ---- debug.c ---- */

/* Noted by debug mode, which ends the program at a misuse. */
void gs_ev_debug_assigned(const struct event *event);
void gs_ev_debug_unassigned(const struct event *event);
void gs_ev_note_added(const struct event *event, bool is_added);
void gs_ev_check_assigned(const struct event *event, const char *caller);
void gs_ev_debug_must_not_be_added(const struct event *event, const char *caller);
/* It is too late to enable debug mode: there is a base, or an event. */
void gs_ev_debug_begin(void);
void gs_ev_debug_shutdown(void);
extern bool gs_ev_is_debugging;

static inline void gs_ev_debug_added(const struct event *event, bool is_added)
{
    if (gs_ev_is_debugging)
        gs_ev_note_added(event, is_added);
}

static inline void gs_ev_debug_must_be_assigned(const struct event *event, const char *caller)
{
    if (gs_ev_is_debugging)
        gs_ev_check_assigned(event, caller);
}

#endif
