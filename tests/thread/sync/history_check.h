/* Checks that a history is consistent with the object's specification. Each call took effect at
 * some point between its two ticks, so the order of two calls is only certain if one ended before
 * the other started. Only certain orders are checked. */
#ifndef GS_TESTS_THREAD_HISTORY_CHECK_H
#define GS_TESTS_THREAD_HISTORY_CHECK_H

#include "tests/thread/sync/history.h"

/* ---- Levels ---- */

static int levels[2][TICKS_MAX + 1]; /* a quantity between each tick and the next */

#define EACH(event_, object_)                                                                      \
    for (struct event *event_ = events; event_ < events + atomic_load(&event_count); event_++)     \
        if (event_->object == (object_))

static inline void clear_levels(void)
{
    memset(levels, 0, sizeof levels);
}

/* Add `by` to the quantity between two ticks. */
static inline void raise_to(int *level, unsigned from, unsigned to, int by)
{
    if (from >= to)
        return;
    level[from] += by;
    level[to] -= by;
}

static inline void add_up(void)
{
    for (unsigned i = 1; i < atomic_load(&ticks); i++) {
        levels[0][i] += levels[0][i - 1];
        levels[1][i] += levels[1][i - 1];
    }
}

static inline int least(const int *level, unsigned from, unsigned to)
{
    int found = level[from];
    for (unsigned i = from + 1; i < to; i++)
        found = level[i] < found ? level[i] : found;
    return found;
}

static inline int most(const int *level, unsigned from, unsigned to)
{
    int found = level[from];
    for (unsigned i = from + 1; i < to; i++)
        found = level[i] > found ? level[i] : found;
    return found;
}

/* ---- Channels ---- */

static inline void match_items(unsigned channel, size_t capacity)
{
    EACH(receive, channel)
    {
        if (receive->op != RECEIVE || receive->result)
            continue;
        HOLDS(receive->item >= 0 && receive->item < atomic_load(&event_count), receive);
        struct event *send = &events[receive->item];
        HOLDS_FOR(send->op == SEND && send->object == channel && !send->result, receive, send);
        HOLDS_FOR(!send->partner, receive, send);
        HOLDS_FOR(send->begin < receive->end, receive, send);
        HOLDS_FOR(capacity || receive->begin < send->end, receive, send);
        send->partner = (unsigned)(receive - events) + 1;
    }
}

/* With one worker, if a call starts before another one has returned, the other one waits, and is
 * before it in the queue. */
static inline bool is_queued_before(const struct event *first, const struct event *second)
{
    return first->place && first->place == second->place && first->begin < second->begin &&
           second->begin < first->end;
}

/* Items must be received in the order in which they were sent. */
static inline void check_fifo(const struct event *first)
{
    const struct event *received = &events[first->partner - 1];
    EACH(second, first->object)
    {
        if (second->op != SEND || second->result)
            continue;
        bool is_later = first->end < second->begin || is_queued_before(first, second);
        HOLDS_FOR(!is_later || received->begin < events[second->partner - 1].end, first, second);
    }
}

/* Level 0: the minimum number of items; level 1: the maximum. */
static inline void level_items(unsigned channel)
{
    clear_levels();
    EACH(send, channel)
    {
        if (send->op != SEND || send->result)
            continue;
        raise_to(levels[0], send->end, events[send->partner - 1].begin, 1);
        raise_to(levels[1], send->begin, events[send->partner - 1].end, 1);
    }
    add_up();
}

static inline const struct event *close_of(unsigned channel)
{
    EACH(event, channel)
    {
        if (event->op == CLOSE)
            return event;
    }
    return NULL;
}

static inline void check_end(const struct event *event, const struct event *close, size_t capacity)
{
    if (event->op == CLOSE)
        return;
    if (event->result == -EPIPE) {
        HOLDS(close && close->begin < event->end, event);
        unsigned from = close->begin > event->begin ? close->begin : event->begin;
        HOLDS(event->op == SEND || !least(levels[0], from, event->end), event);
    } else if (is_undone(event) && event->op == RECEIVE) {
        HOLDS(!least(levels[0], event->begin, event->end), event);
    } else if (is_undone(event)) {
        HOLDS(most(levels[1], event->begin, event->end) >= (int)capacity, event);
    } else if (!event->result && event->op == SEND) {
        HOLDS(!close || event->begin < close->end, event);
    }
}

/* All items received after the close must have been in the buffer, and none may be received after
 * the end. */
static inline void check_rest(unsigned channel, const struct event *close, size_t capacity)
{
    const struct event *last = NULL;
    size_t late = 0;
    EACH(event, channel)
    {
        if (event->op == RECEIVE && event->result == -EPIPE && (!last || event->end < last->end))
            last = event;
    }
    EACH(event, channel)
    {
        if (event->op != RECEIVE || event->result)
            continue;
        late += close && close->end < event->begin;
        HOLDS(late <= capacity, event);
        HOLDS(!last || event->begin < last->end, event);
    }
}

static inline void check_channel(unsigned channel, size_t capacity)
{
    const struct event *close = close_of(channel);
    match_items(channel, capacity);
    EACH(event, channel)
    HOLDS(event->op != SEND || event->result || event->partner, event);
    level_items(channel);
    EACH(event, channel)
    {
        HOLDS(most(levels[0], event->begin, event->end) <= (int)capacity, event);
        check_end(event, close, capacity);
        if (event->op == SEND && !event->result)
            check_fifo(event);
    }
    check_rest(channel, close, capacity);
}

/* ---- Counters ---- */

/* Level 0: the minimum number of units; level 1: the maximum. If `takes` is 1, a wait consumes a
 * unit. */
static inline void level_units(unsigned object, int initial, int takes)
{
    unsigned last = atomic_load(&ticks);
    clear_levels();
    levels[0][0] = levels[1][0] = initial;
    EACH(event, object)
    {
        bool is_less = event->op == DONE || (event->op == WAIT && !event->result && takes);
        bool is_more = event->op == POST || event->op == ADD;
        if (is_less) {
            raise_to(levels[0], event->begin, last, -1);
            raise_to(levels[1], event->end, last, -1);
        } else if (is_more) {
            raise_to(levels[0], event->end, last, 1);
            raise_to(levels[1], event->begin, last, 1);
        }
    }
    add_up();
}

static inline void check_semaphore(unsigned object, int initial)
{
    level_units(object, initial, 1);
    EACH(event, object)
    {
        HOLDS(least(levels[1], event->begin, event->end) >= 0, event);
        HOLDS(!is_undone(event) || least(levels[0], event->begin, event->end) <= 0, event);
    }
}

static inline void check_group(unsigned object)
{
    level_units(object, 0, 0);
    EACH(event, object)
    {
        if (event->op != WAIT)
            continue;
        HOLDS(event->result || least(levels[0], event->begin, event->end) <= 0, event);
        HOLDS(!is_undone(event) || most(levels[1], event->begin, event->end) > 0, event);
    }
}

/* ---- Locks ---- */

static inline void check_turns(const struct event *first, unsigned object)
{
    EACH(second, object)
    {
        if (is_queued_before(first, second) && !first->result && !second->result &&
            (first->op == WRITE || second->op == WRITE))
            HOLDS_FOR(second->end > first->until, first, second);
    }
}

/* Level 0: certain holders of the lock, where a writer counts as 1000; level 1: possible holders
 * and waiters. */
static inline void check_lock(unsigned object)
{
    clear_levels();
    EACH(event, object)
    {
        if (!event->result)
            raise_to(levels[0], event->end, event->until, event->op == WRITE ? 1000 : 1);
        raise_to(levels[1], event->begin, event->gone, 1);
    }
    add_up();
    EACH(event, object)
    {
        int holders = event->result ? 0 : most(levels[0], event->end, event->until);
        HOLDS(holders < 1000 || (holders == 1000 && event->op == WRITE), event);
        HOLDS(!is_undone(event) || most(levels[1], event->begin, event->end) > 1, event);
        check_turns(event, object);
    }
}

/* ---- Barrier and once ---- */

/* Level 0: number of threads that have arrived; level 1: number of threads that have returned. */
static inline void check_barrier(unsigned object, int threads)
{
    unsigned last = atomic_load(&ticks);
    int come = 0, lasts = 0;
    clear_levels();
    EACH(event, object)
    {
        if (event->result < 0)
            continue;
        raise_to(levels[0], event->begin, last, 1);
        raise_to(levels[1], event->end, last, 1);
        come++;
        lasts += event->result;
    }
    add_up();
    EACH(event, object)
    HOLDS(levels[1][event->end] <= levels[0][event->end] / threads * threads, event);
    MUST_EQ(come, lasts * threads);
}

static inline void check_once(unsigned object)
{
    const struct event *run = NULL;
    EACH(event, object)
    {
        HOLDS_FOR(event->op != RUN || !run, event, run);
        run = event->op == RUN ? event : run;
    }
    EACH(event, object)
    HOLDS(run && run->end <= event->end, event);
}

#endif
