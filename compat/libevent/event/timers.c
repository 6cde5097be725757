/* Timeouts. A key is the deadline in microseconds with a sequence number below it, so that of equal
 * deadlines the first that was added comes first.
 *
 * To move an event to a later deadline, or to delete it and add it again with one, is a store
 * each: its key in the queue stays what it was until it is due. The event that was deleted last
 * remains in the queue until the queue is used for anything but adding it again. It may have been
 * freed by then, so of its own memory nothing is used. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <gossamer/api.h>

#define SEQUENCE_BITS 14
#define SEQUENCE_MASK ((1u << SEQUENCE_BITS) - 1)

/* The duration of a common timeout says in its microseconds that it is one, and which. */
#define MICROSECONDS_MASK 0xfffff
#define COMMON_MASK 0xf0000000
#define COMMON_MARK 0x50000000
#define COMMON_INDEX_SHIFT 20
#define COMMON_INDEX_MASK 0xff

static struct event *event_of(const uint32_t *index)
{
    return gs_container_of(index, struct event, ev_timeout_index);
}

static uint64_t key_of(const uint32_t *index)
{
    return event_of(index)->ev_deadline;
}

void gs_ev_init_timers(struct event_base *base)
{
    base->timers.queue.key_of = key_of;
}

void gs_ev_free_timers(struct event_base *base)
{
    gs_timer_queue_done(&base->timers.queue);
}

/* Remove the event that was deleted last. */
static void bury(struct gs_ev_timers *timers)
{
    timers->deleted = NULL;
    gs_timer_queue_relocate(&timers->queue, &timers->deleted_index);
    gs_timer_queue_remove(&timers->queue, &timers->deleted_index);
}

static inline struct gs_timer_queue *queue_of(struct event_base *base)
{
    if (base->timers.deleted)
        bury(&base->timers);
    return &base->timers.queue;
}

int gs_ev_reserve_timer(struct event_base *base)
{
    struct gs_timer_queue *queue = &base->timers.queue;
    int err = gs_timer_queue_reserve(queue, gs_timer_queue_count(queue) + 1);
    if (!err)
        return 0;
    errno = -err;
    return -1;
}

/* Move the timeout of an event that is in the queue. No key is later than its event's deadline, so
 * that one needs a look only if this is earlier; the others are compared with the key at index 0,
 * which is 0. */
static inline void move(struct event_base *base, struct event *event, uint64_t key)
{
    uint32_t compared = event->ev_timeout_index & -(uint32_t)(key < event->ev_deadline);
    event->ev_deadline = key;
    if (key < gs_timer_queue_key(&base->timers.queue, compared))
        gs_timer_queue_decrease_key(queue_of(base), &event->ev_timeout_index, key);
}

void gs_ev_set_timer(struct event_base *base, struct event *event, uint64_t deadline_us)
{
    struct gs_ev_timers *timers = &base->timers;
    uint64_t key = deadline_us << SEQUENCE_BITS | (++timers->sequence & SEQUENCE_MASK);
    bool is_back = timers->deleted == event && timers->deleted_index == event->ev_timeout_index;
    if (is_back)
        timers->deleted = NULL;
    if (is_back || event->ev_evcallback.evcb_flags & EVLIST_TIMEOUT) {
        move(base, event, key);
        return;
    }
    event->ev_deadline = key;
    gs_timer_queue_insert(queue_of(base), key, &event->ev_timeout_index);
}

void gs_ev_remove_timer(struct event_base *base, struct event *event)
{
    (void)queue_of(base);
    base->timers.deleted = event;
    base->timers.deleted_index = event->ev_timeout_index;
}

uint64_t gs_ev_next_timer_us(struct event_base *base)
{
    return gs_timer_queue_next(queue_of(base)) >> SEQUENCE_BITS;
}

struct event *gs_ev_due_timer(struct event_base *base, uint64_t now_us)
{
    struct gs_timer_queue *queue = queue_of(base);
    uint64_t key = now_us << SEQUENCE_BITS | SEQUENCE_MASK;
    uint32_t *index;
    while (!(index = gs_timer_queue_due(queue, key)) && gs_timer_queue_next(queue) <= key)
        ;
    return index ? event_of(index) : NULL;
}

unsigned gs_ev_count_timers(struct event_base *base)
{
    return gs_timer_queue_count(queue_of(base));
}

struct event *gs_ev_timer_at(struct event_base *base, unsigned i)
{
    return event_of(gs_timer_queue_at(&base->timers.queue, i));
}

uint64_t gs_ev_deadline_us(const struct event *event)
{
    return event->ev_deadline >> SEQUENCE_BITS;
}

/* ---- Durations ---- */

static bool is_common(const struct event_base *base, const struct timeval *duration)
{
    unsigned long bits = (unsigned long)duration->tv_usec;
    return (bits & COMMON_MASK) == COMMON_MARK &&
           (bits >> COMMON_INDEX_SHIFT & COMMON_INDEX_MASK) < base->common_timeout_count;
}

uint64_t gs_ev_unusual_duration_us(const struct event_base *base, const struct timeval *duration)
{
    long microseconds = duration->tv_usec;
    if (is_common(base, duration))
        microseconds &= MICROSECONDS_MASK;
    if (duration->tv_sec < 0)
        return 0;
    uint64_t us;
    if (__builtin_mul_overflow((uint64_t)duration->tv_sec, UINT64_C(1000000), &us) ||
        us > GS_EV_MAX_TIMEOUT_US)
        return GS_EV_MAX_TIMEOUT_US;
    if (microseconds < 0 && (uint64_t)-microseconds > us)
        return 0;
    return us + (uint64_t)microseconds;
}

static const struct timeval *find_common(const struct event_base *base, uint64_t us)
{
    for (unsigned i = 0; i < base->common_timeout_count; i++)
        if (gs_ev_duration_us(base, base->common_timeouts[i]) == us)
            return base->common_timeouts[i];
    return NULL;
}

static const struct timeval *add_common(struct event_base *base, const struct timeval *duration)
{
    const unsigned max = sizeof base->common_timeouts / sizeof base->common_timeouts[0];
    if (base->common_timeout_count == max) {
        gs_ev_warnx("event_base_init_common_timeout: Too many common timeouts already in use; we "
                    "only support %u per event_base",
                    max);
        return NULL;
    }
    struct timeval *common = gs_ev_malloc(sizeof *common);
    if (!common) {
        gs_ev_warn("event_base_init_common_timeout: calloc");
        return NULL;
    }
    common->tv_sec = duration->tv_sec;
    common->tv_usec = (suseconds_t)((unsigned long)duration->tv_usec | COMMON_MARK |
                                    base->common_timeout_count << COMMON_INDEX_SHIFT);
    base->common_timeouts[base->common_timeout_count++] = common;
    return common;
}

/* All timeouts are as cheap as common ones: a mark in the duration is all that there is. */
const struct timeval *event_base_init_common_timeout(struct event_base *base,
                                                     const struct timeval *duration)
{
    gs_ev_base_lock(base);
    struct timeval plain = *duration;
    if (plain.tv_usec > 1000000) {
        if (is_common(base, &plain))
            plain.tv_usec &= MICROSECONDS_MASK;
        plain.tv_sec += plain.tv_usec / 1000000;
        plain.tv_usec %= 1000000;
    }
    const struct timeval *common = find_common(base, gs_ev_duration_us(base, &plain));
    if (!common)
        common = add_common(base, &plain);
    gs_ev_base_unlock(base);
    return common;
}
