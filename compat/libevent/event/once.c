/* Events that are called once, without storage of the program. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/memory.h"

struct gs_ev_once {
    LIST_ENTRY(gs_ev_once) next;
    struct event event;
    event_callback_fn callback;
    void *argument;
};

static void on_event(evutil_socket_t fd, short events, void *argument)
{
    struct gs_ev_once *once = argument;
    once->callback(fd, events, once->argument);
    struct event_base *base = once->event.ev_base;
    gs_ev_lock(base->lock);
    LIST_REMOVE(once, next);
    gs_ev_unlock(base->lock);
    gs_ev_debug_unassigned(&once->event);
    gs_ev_free(once);
}

static bool is_now(const struct timeval *timeout)
{
    return !timeout || (!timeout->tv_sec && !timeout->tv_usec);
}

int event_base_once(struct event_base *base, evutil_socket_t fd, short events,
                    event_callback_fn callback, void *argument, const struct timeval *timeout)
{
    if (!base || events & (EV_SIGNAL | EV_PERSIST))
        return -1;
    bool is_timer = (events & (EV_TIMEOUT | GS_EV_IO)) == EV_TIMEOUT;
    if (!is_timer && !(events & GS_EV_IO))
        return -1;
    struct gs_ev_once *once = gs_ev_calloc(1, sizeof *once);
    if (!once)
        return -1;
    once->callback = callback;
    once->argument = argument;
    int result =
        event_assign(&once->event, base, is_timer ? -1 : fd, events & GS_EV_IO, on_event, once);
    gs_ev_lock(base->lock);
    if (!result && is_timer && is_now(timeout))
        gs_ev_activate(&once->event, EV_TIMEOUT, 1);
    else if (!result)
        result = gs_ev_add(&once->event, timeout, UINT64_MAX);
    if (!result)
        LIST_INSERT_HEAD(&base->onces, once, next);
    gs_ev_unlock(base->lock);
    if (result) {
        gs_ev_debug_unassigned(&once->event);
        gs_ev_free(once);
    }
    return result;
}

void gs_ev_free_onces(struct event_base *base)
{
    struct gs_ev_once *once;
    while ((once = LIST_FIRST(&base->onces))) {
        LIST_REMOVE(once, next);
        gs_ev_debug_unassigned(&once->event);
        gs_ev_free(once);
    }
}
