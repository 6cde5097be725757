/* Timeouts. A key is the deadline in microseconds with a sequence number below it, so that of equal
 * deadlines the first that was added comes first.
 *
 * To move an event to a later deadline, or to delete it and add it again with one, is a store each:
 * its key in the heap stays what it was until it is the first. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <string.h>

#define SEQUENCE_BITS 14
#define CHILDREN 4
#define GRAVE 1u
#define MIN_GRAVES 64
#define FIRST_CAPACITY 32

/* The duration of a common timeout says in its microseconds that it is one, and which. */
#define MICROSECONDS_MASK 0xfffff
#define COMMON_MASK 0xf0000000
#define COMMON_MARK 0x50000000
#define COMMON_INDEX_SHIFT 20
#define COMMON_INDEX_MASK 0xff

static inline bool is_grave(const struct gs_ev_timer *timer)
{
    return timer->event & GRAVE;
}

static inline void place(struct gs_ev_timers *timers, unsigned index, struct gs_ev_timer timer)
{
    timers->heap[index] = timer;
    struct event *event = gs_ev_timer_event(&timer);
    if (event)
        event->ev_timeout_index = index;
}

static void sift_up(struct gs_ev_timers *timers, unsigned index, struct gs_ev_timer timer)
{
    while (index) {
        unsigned parent = (index - 1) / CHILDREN;
        if (timers->heap[parent].key <= timer.key)
            break;
        place(timers, index, timers->heap[parent]);
        index = parent;
    }
    place(timers, index, timer);
}

static void sift_down(struct gs_ev_timers *timers, unsigned index, struct gs_ev_timer timer)
{
    for (;;) {
        unsigned child = index * CHILDREN + 1, least = child;
        if (child >= timers->count)
            break;
        unsigned end = child + CHILDREN < timers->count ? child + CHILDREN : timers->count;
        for (unsigned i = child + 1; i < end; i++)
            if (timers->heap[i].key < timers->heap[least].key)
                least = i;
        if (timers->heap[least].key >= timer.key)
            break;
        place(timers, index, timers->heap[least]);
        index = least;
    }
    place(timers, index, timer);
}

/* Remove the graves, and take the keys of the events. */
static void rebuild(struct gs_ev_timers *timers)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < timers->count; i++) {
        struct gs_ev_timer timer = timers->heap[i];
        if (is_grave(&timer))
            continue;
        timer.key = gs_ev_timer_event(&timer)->ev_deadline;
        place(timers, kept++, timer);
    }
    timers->count = kept;
    timers->graves = 0;
    if (kept < 2)
        return;
    for (unsigned i = (kept - 2) / CHILDREN + 1; i-- > 0;)
        sift_down(timers, i, timers->heap[i]);
}

int gs_ev_reserve_timer(struct event_base *base)
{
    struct gs_ev_timers *timers = &base->timers;
    if (timers->count < timers->capacity)
        return 0;
    unsigned capacity = timers->capacity ? 2 * timers->capacity : FIRST_CAPACITY;
    struct gs_ev_timer *heap = gs_ev_realloc(timers->heap, capacity * sizeof *heap);
    if (!heap)
        return -1;
    timers->heap = heap;
    timers->capacity = capacity;
    return 0;
}

/* Whether the event's timer, live or in its grave, is where the event last knew it. */
static bool is_in_place(const struct gs_ev_timers *timers, const struct event *event)
{
    unsigned index = event->ev_timeout_index;
    return index < timers->count &&
           (timers->heap[index].event | GRAVE) == ((uintptr_t)event | GRAVE);
}

void gs_ev_set_timer(struct event_base *base, struct event *event, uint64_t deadline_us)
{
    struct gs_ev_timers *timers = &base->timers;
    uint64_t key =
        deadline_us << SEQUENCE_BITS | (++timers->sequence & ((1u << SEQUENCE_BITS) - 1));
    event->ev_deadline = key;
    struct gs_ev_timer timer = {.key = key, .event = (uintptr_t)event};
    if (!is_in_place(timers, event)) {
        sift_up(timers, timers->count++, timer);
        return;
    }
    struct gs_ev_timer *found = &timers->heap[event->ev_timeout_index];
    timers->graves -= is_grave(found);
    found->event = (uintptr_t)event;
    if (key < found->key)
        sift_up(timers, event->ev_timeout_index, timer);
}

void gs_ev_remove_timer(struct event_base *base, struct event *event)
{
    struct gs_ev_timers *timers = &base->timers;
    timers->heap[event->ev_timeout_index].event |= GRAVE;
    timers->graves++;
    if (timers->graves > MIN_GRAVES && timers->graves > timers->count / 2)
        rebuild(timers);
}

struct event *gs_ev_first_timer(struct event_base *base)
{
    struct gs_ev_timers *timers = &base->timers;
    while (timers->count) {
        struct gs_ev_timer first = timers->heap[0];
        struct event *event = gs_ev_timer_event(&first);
        if (event && event->ev_deadline == first.key)
            return event;
        if (event) {
            first.key = event->ev_deadline;
        } else {
            timers->graves--;
            first = timers->heap[--timers->count];
            if (!timers->count)
                break;
        }
        sift_down(timers, 0, first);
    }
    return NULL;
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

uint64_t gs_ev_duration_us(const struct event_base *base, const struct timeval *duration)
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
