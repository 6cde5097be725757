/* The events of a base: visited, printed, counted, and activated by descriptor or signal. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/lock.h"

static int visit_list(struct event_base *base, const struct event_dlist *events,
                      event_base_foreach_event_cb visit, void *argument)
{
    struct event *event;
    int result = 0;
    for (event = LIST_FIRST(events); event && !result; event = LIST_NEXT(event, ev_next))
        result = visit(base, event, argument);
    return result;
}

static int visit_inserted(struct event_base *base, event_base_foreach_event_cb visit,
                          void *argument)
{
    int result = 0;
    for (unsigned i = 0; i < base->chunk_count * GS_EV_CHUNK && !result; i++) {
        const struct gs_ev_slot *slot = gs_ev_find_slot(base, (int)i);
        if (slot)
            result = visit_list(base, &slot->events, visit, argument);
    }
    if (!result)
        result = visit_list(base, &base->strays, visit, argument);
    for (int i = 0; i < GS_EV_SIGNALS && !result; i++) {
        const struct event_dlist *events = gs_ev_signal_events(base, i);
        if (events)
            result = visit_list(base, events, visit, argument);
    }
    return result;
}

static int visit_timers(struct event_base *base, event_base_foreach_event_cb visit, void *argument)
{
    int result = 0;
    unsigned count = gs_ev_count_timers(base);
    for (unsigned i = 0; i < count && !result; i++) {
        const struct event *event = gs_ev_timer_at(base, i);
        if (!(event->ev_evcallback.evcb_flags & EVLIST_INSERTED))
            result = visit(base, event, argument);
    }
    return result;
}

/* Those that are neither inserted nor among the timers. */
static int visit_active(struct event_base *base, event_base_foreach_event_cb visit, void *argument)
{
    const short mask = EVLIST_INIT | EVLIST_INSERTED | EVLIST_TIMEOUT;
    int result = 0;
    for (int i = 0; i < base->queue_count; i++) {
        struct event_callback *callback = TAILQ_FIRST(&base->queues[i]);
        for (; callback && !result; callback = TAILQ_NEXT(callback, evcb_active_next))
            if ((callback->evcb_flags & mask) == EVLIST_INIT)
                result = visit(base, gs_ev_event_of(callback), argument);
    }
    return result;
}

static int visit_all(struct event_base *base, event_base_foreach_event_cb visit, void *argument)
{
    int result = visit_inserted(base, visit, argument);
    if (!result)
        result = visit_timers(base, visit, argument);
    if (!result)
        result = visit_active(base, visit, argument);
    return result;
}

int event_base_foreach_event(struct event_base *base, event_base_foreach_event_cb fn, void *arg)
{
    if (!fn || !base)
        return -1;
    gs_ev_lock(base->lock);
    int result = visit_all(base, fn, arg);
    gs_ev_unlock(base->lock);
    return result;
}

/* ---- Printing ---- */

static const char *if_set(int bits, int bit, const char *text)
{
    return bits & bit ? text : "";
}

static const char *kind_of(const struct event *event)
{
    return event->ev_events & EV_SIGNAL ? "sig" : "fd ";
}

static int print_inserted(const struct event_base *base, const struct event *event, void *argument)
{
    FILE *output = argument;
    short flags = event->ev_evcallback.evcb_flags;
    if (!(flags & (EVLIST_INSERTED | EVLIST_TIMEOUT)))
        return 0;
    short events = event->ev_events;
    fprintf(output, "  %p [%s %d]%s%s%s%s%s%s%s", (const void *)event, kind_of(event), event->ev_fd,
            if_set(events, EV_READ, " Read"), if_set(events, EV_WRITE, " Write"),
            if_set(events, EV_CLOSED, " EOF"), if_set(events, EV_SIGNAL, " Signal"),
            if_set(events, EV_PERSIST, " Persist"), if_set(events, EV_ET, " ET"),
            if_set(flags, EVLIST_INTERNAL, " Internal"));
    if (flags & EVLIST_TIMEOUT) {
        uint64_t us = gs_ev_deadline_us(event) + (uint64_t)base->wall_offset_us;
        fprintf(output, " Timeout=%ld.%06d", (long)(us / 1000000), (int)(us % 1000000));
    }
    fputc('\n', output);
    return 0;
}

static int print_active(const struct event_base *base, const struct event *event, void *argument)
{
    (void)base;
    FILE *output = argument;
    short flags = event->ev_evcallback.evcb_flags, result = event->ev_res;
    if (!(flags & GS_EV_ACTIVE))
        return 0;
    fprintf(output, "  %p [%s %d, priority=%d]%s%s%s%s%s active%s%s\n", (const void *)event,
            kind_of(event), event->ev_fd, event->ev_evcallback.evcb_pri,
            if_set(result, EV_READ, " Read"), if_set(result, EV_WRITE, " Write"),
            if_set(result, EV_CLOSED, " EOF"), if_set(result, EV_SIGNAL, " Signal"),
            if_set(result, EV_TIMEOUT, " Timeout"), if_set(flags, EVLIST_INTERNAL, " [Internal]"),
            if_set(flags, EVLIST_ACTIVE_LATER, " [NextTime]"));
    return 0;
}

void event_base_dump_events(struct event_base *base, FILE *output)
{
    gs_ev_lock(base->lock);
    fprintf(output, "Inserted events:\n");
    visit_all(base, print_inserted, output);
    fprintf(output, "Active events:\n");
    visit_all(base, print_active, output);
    gs_ev_unlock(base->lock);
}

/* ---- Counts ---- */

int event_base_get_num_events(struct event_base *base, unsigned int type)
{
    gs_ev_lock(base->lock);
    int count = (type & EVENT_BASE_COUNT_ACTIVE ? base->active.now : 0) +
                (type & EVENT_BASE_COUNT_VIRTUAL ? base->virtual.now : 0) +
                (type & EVENT_BASE_COUNT_ADDED ? base->added.now : 0);
    gs_ev_unlock(base->lock);
    return count;
}

static int get_max(struct gs_ev_max *count, int clears)
{
    int max = count->max;
    if (clears)
        count->max = 0;
    return max;
}

int event_base_get_max_events(struct event_base *base, unsigned int type, int clears)
{
    gs_ev_lock(base->lock);
    int count = (type & EVENT_BASE_COUNT_ACTIVE ? get_max(&base->active, clears) : 0) +
                (type & EVENT_BASE_COUNT_VIRTUAL ? get_max(&base->virtual, clears) : 0) +
                (type & EVENT_BASE_COUNT_ADDED ? get_max(&base->added, clears) : 0);
    gs_ev_unlock(base->lock);
    return count;
}

/* ---- Activating ---- */

static void activate_timers(struct event_base *base, int fd)
{
    unsigned count = gs_ev_count_timers(base);
    for (unsigned i = 0; i < count; i++) {
        struct event *event = gs_ev_timer_at(base, i);
        if (event->ev_fd == fd)
            gs_ev_activate(event, EV_TIMEOUT, 1);
    }
}

void event_base_active_by_fd(struct event_base *base, evutil_socket_t fd, short events)
{
    gs_ev_lock(base->lock);
    if (events & EV_TIMEOUT)
        activate_timers(base, fd);
    else
        gs_ev_activate_io(base, fd, events & GS_EV_IO);
    gs_ev_unlock(base->lock);
}

void event_base_active_by_signal(struct event_base *base, int number)
{
    gs_ev_lock(base->lock);
    gs_ev_activate_signal(base, number, 1);
    gs_ev_unlock(base->lock);
}

struct event *event_base_get_running_event(struct event_base *base)
{
    gs_ev_lock(base->lock);
    struct event *event = NULL;
    if (base->is_running && base->owner == gs_ev_thread_id() && base->current &&
        base->current->evcb_flags & EVLIST_INIT)
        event = gs_ev_event_of(base->current);
    gs_ev_unlock(base->lock);
    return event;
}
