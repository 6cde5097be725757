/* The life of an event: assigned, added, active, deleted. */
#include "compat/libevent/event/base.h"
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <event2/event_compat.h>

static void warn_no_base(const char *caller)
{
    gs_ev_warnx("%s: event has no event_base set.", caller);
}

/* ---- Assigning ---- */

void *event_self_cbarg(void)
{
    static char mark;
    return &mark;
}

static void fill(struct event *event, struct event_base *base, int fd, short events)
{
    enum gs_ev_closure closure = events & EV_SIGNAL    ? GS_EV_CALL_SIGNAL
                                 : events & EV_PERSIST ? GS_EV_CALL_PERSISTENT
                                                       : GS_EV_CALL;
    *event = (struct event){
        .ev_evcallback = {.evcb_flags = EVLIST_INIT, .evcb_closure = (ev_uint8_t)closure},
        .ev_base = base,
        .ev_fd = fd,
        .ev_events = events,
    };
    if (base)
        event->ev_evcallback.evcb_pri = (ev_uint8_t)(base->queue_count / 2);
}

int event_assign(struct event *event, struct event_base *base, evutil_socket_t fd, short events,
                 event_callback_fn callback, void *argument)
{
    if (!base)
        base = gs_ev_current_base;
    gs_ev_debug_must_not_be_added(event, __func__);
    if (events & EV_SIGNAL && events & GS_EV_IO) {
        gs_ev_warnx("%s: EV_SIGNAL is not compatible with EV_READ, EV_WRITE or EV_CLOSED",
                    __func__);
        return -1;
    }
    fill(event, base, fd, events);
    event->ev_evcallback.evcb_cb_union.evcb_callback = callback;
    event->ev_evcallback.evcb_arg = argument == event_self_cbarg() ? event : argument;
    gs_ev_debug_assigned(event);
    return 0;
}

void event_set(struct event *event, evutil_socket_t fd, short events,
               void (*callback)(evutil_socket_t, short, void *), void *argument)
{
    event_assign(event, gs_ev_current_base, fd, events, callback, argument);
}

int event_base_set(struct event_base *base, struct event *event)
{
    if (event->ev_evcallback.evcb_flags != EVLIST_INIT)
        return -1;
    gs_ev_debug_must_be_assigned(event, __func__);
    event->ev_base = base;
    event->ev_timeout_index = 0;
    event->ev_evcallback.evcb_pri = (ev_uint8_t)(base->queue_count / 2);
    return 0;
}

struct event *event_new(struct event_base *base, evutil_socket_t fd, short events,
                        event_callback_fn callback, void *argument)
{
    struct event *event = gs_ev_malloc(sizeof *event);
    if (event && event_assign(event, base, fd, events, callback, argument)) {
        gs_ev_free(event);
        return NULL;
    }
    return event;
}

void event_free(struct event *event)
{
    event_del(event);
    gs_ev_debug_unassigned(event);
    gs_ev_free(event);
}

void event_debug_unassign(struct event *event)
{
    gs_ev_debug_must_not_be_added(event, __func__);
    gs_ev_debug_unassigned(event);
    event->ev_evcallback.evcb_flags &= ~EVLIST_INIT;
}

int event_priority_set(struct event *event, int priority)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    if (event->ev_evcallback.evcb_flags & EVLIST_ACTIVE)
        return -1;
    if (priority < 0 || priority >= event->ev_base->queue_count)
        return -1;
    event->ev_evcallback.evcb_pri = (ev_uint8_t)priority;
    return 0;
}

/* ---- Adding ---- */

static int insert(struct event *event)
{
    struct event_base *base = event->ev_base;
    if (gs_ev_is_stray(event))
        return gs_ev_insert_stray(base, event);
    int err = event->ev_events & EV_SIGNAL ? gs_ev_insert_signal(base, event)
                                           : gs_ev_insert_io(base, event);
    if (err)
        return err;
    event->ev_evcallback.evcb_flags |= EVLIST_INSERTED;
    if (!(event->ev_evcallback.evcb_flags & EVLIST_INTERNAL))
        gs_ev_count(&base->added);
    return 0;
}

static void remove_timeout(struct event *event)
{
    gs_ev_remove_timer(event->ev_base, event);
    event->ev_evcallback.evcb_flags &= ~EVLIST_TIMEOUT;
    if (!(event->ev_evcallback.evcb_flags & EVLIST_INTERNAL))
        event->ev_base->added.now--;
}

/* Calls of a signal's callback that have not been made yet, are not. The count is on the stack of
 * the loop, which ends the calls then: it is not written again. */
static void drop_calls(struct event *event)
{
    if (event->ev_events & EV_SIGNAL && event->ev_ncalls && event->ev_pncalls) {
        *event->ev_pncalls = 0;
        event->ev_pncalls = NULL;
    }
}

static void set_timeout(struct event *event, uint64_t deadline_us)
{
    struct event_base *base = event->ev_base;
    struct event_callback *callback = &event->ev_evcallback;
    bool was_set = callback->evcb_flags & EVLIST_TIMEOUT;
    /* An event that is active because of its timeout, is moved. */
    if (callback->evcb_flags & EVLIST_ACTIVE && event->ev_res & EV_TIMEOUT) {
        drop_calls(event);
        gs_ev_unqueue(base, callback);
    }
    gs_ev_set_timer(base, event, deadline_us);
    if (!was_set) {
        callback->evcb_flags |= EVLIST_TIMEOUT;
        if (!(callback->evcb_flags & EVLIST_INTERNAL))
            gs_ev_count(&base->added);
    }
    if (!gs_ev_is_in_loop(base) && gs_ev_next_timer_us(base) >= deadline_us)
        gs_ev_wake(base);
}

static inline int add(struct event *event, const struct timeval *timeout, uint64_t deadline_us)
{
    struct event_base *base = event->ev_base;
    struct event_callback *callback = &event->ev_evcallback;
    gs_ev_debug_must_be_assigned(event, "event_add");
    if (callback->evcb_flags & EVLIST_FINALIZING)
        return -1;
    bool is_timed = timeout || deadline_us != UINT64_MAX;
    if (is_timed && !(callback->evcb_flags & EVLIST_TIMEOUT) && gs_ev_reserve_timer(base))
        return -1;
    if (event->ev_events & EV_SIGNAL)
        gs_ev_wait_for_current(base, callback);
    if (event->ev_events & (GS_EV_IO | EV_SIGNAL) &&
        (!(callback->evcb_flags & (EVLIST_INSERTED | GS_EV_ACTIVE)) || gs_ev_is_stray(event)) &&
        insert(event))
        return -1;
    if (is_timed) {
        if (timeout) {
            uint64_t duration_us = gs_ev_duration_us(base, timeout);
            if (callback->evcb_closure == GS_EV_CALL_PERSISTENT)
                event->ev_interval = duration_us;
            deadline_us = gs_ev_now_us(base) + duration_us;
        }
        set_timeout(event, deadline_us);
    }
    gs_ev_debug_added(event, true);
    return 0;
}

int gs_ev_add(struct event *event, const struct timeval *timeout, uint64_t deadline_us)
{
    return add(event, timeout, deadline_us);
}

int gs_ev_add_locked(struct event *event, const struct timeval *timeout)
{
    return gs_ev_add(event, timeout, UINT64_MAX);
}

int event_add(struct event *event, const struct timeval *timeout)
{
    struct event_base *base = event->ev_base;
    if (!base) {
        warn_no_base(__func__);
        return -1;
    }
    gs_ev_lock(base->lock);
    int result = add(event, timeout, UINT64_MAX);
    gs_ev_unlock(base->lock);
    return result;
}

int event_remove_timer(struct event *event)
{
    struct event_base *base = event->ev_base;
    if (!base) {
        warn_no_base(__func__);
        return -1;
    }
    gs_ev_lock(base->lock);
    gs_ev_debug_must_be_assigned(event, __func__);
    if (event->ev_evcallback.evcb_flags & EVLIST_TIMEOUT) {
        remove_timeout(event);
        event->ev_interval = 0;
    }
    gs_ev_unlock(base->lock);
    return 0;
}

/* ---- Deleting ---- */

/* A caller that frees what the callback uses has to wait until it has returned. */
static void wait_after_del(struct event *event, enum gs_ev_blocking blocking)
{
    if (blocking == GS_EV_NEVER_BLOCKS)
        return;
    if (blocking != GS_EV_BLOCKS && event->ev_events & EV_FINALIZE)
        return;
    gs_ev_wait_for_current(event->ev_base, &event->ev_evcallback);
}

int gs_ev_del(struct event *event, enum gs_ev_blocking blocking)
{
    struct event_base *base = event->ev_base;
    if (!base)
        return -1;
    gs_ev_debug_must_be_assigned(event, "event_del");
    struct event_callback *callback = &event->ev_evcallback;
    if (blocking != GS_EV_EVEN_IF_FINALIZING && callback->evcb_flags & EVLIST_FINALIZING)
        return 0;
    drop_calls(event);
    if (callback->evcb_flags & EVLIST_TIMEOUT)
        remove_timeout(event);
    gs_ev_unqueue(base, callback);
    if (callback->evcb_flags & EVLIST_INSERTED) {
        callback->evcb_flags &= ~EVLIST_INSERTED;
        if (!(callback->evcb_flags & EVLIST_INTERNAL))
            base->added.now--;
        if (event->ev_events & EV_SIGNAL)
            gs_ev_remove_signal(base, event);
        else
            gs_ev_remove_io(base, event);
        gs_ev_wake(base);
    }
    gs_ev_debug_added(event, false);
    wait_after_del(event, blocking);
    return 0;
}

static int del(struct event *event, enum gs_ev_blocking blocking, const char *caller)
{
    struct event_base *base = event->ev_base;
    if (!base) {
        warn_no_base(caller);
        return -1;
    }
    gs_ev_lock(base->lock);
    int result = gs_ev_del(event, blocking);
    gs_ev_unlock(base->lock);
    return result;
}

int event_del(struct event *event)
{
    return del(event, GS_EV_BLOCKS_UNLESS_FINALIZED, "event_del_");
}

int event_del_block(struct event *event)
{
    return del(event, GS_EV_BLOCKS, "event_del_");
}

int event_del_noblock(struct event *event)
{
    return del(event, GS_EV_NEVER_BLOCKS, "event_del_");
}

static int finalize(struct event *event, enum gs_ev_closure closure,
                    event_finalize_callback_fn callback, const char *caller)
{
    struct event_base *base = event->ev_base;
    if (!base) {
        warn_no_base(caller);
        return -1;
    }
    gs_ev_lock(base->lock);
    gs_ev_del(event, GS_EV_NEVER_BLOCKS);
    event->ev_evcallback.evcb_closure = (ev_uint8_t)closure;
    event->ev_evcallback.evcb_cb_union.evcb_evfinalize = callback;
    gs_ev_activate(event, EV_FINALIZE, 1);
    event->ev_evcallback.evcb_flags |= EVLIST_FINALIZING;
    gs_ev_unlock(base->lock);
    return 0;
}

int event_finalize(unsigned flags, struct event *event, event_finalize_callback_fn callback)
{
    (void)flags;
    return finalize(event, GS_EV_FINALIZE_EVENT, callback, "event_finalize_impl_");
}

int event_free_finalize(unsigned flags, struct event *event, event_finalize_callback_fn callback)
{
    (void)flags;
    return finalize(event, GS_EV_FINALIZE_AND_FREE, callback, "event_finalize_impl_");
}

/* ---- Active events ---- */

void gs_ev_activate(struct event *event, int result, short calls)
{
    struct event_base *base = event->ev_base;
    struct event_callback *callback = &event->ev_evcallback;
    if (callback->evcb_flags & EVLIST_FINALIZING)
        return;
    if (callback->evcb_flags & GS_EV_ACTIVE)
        event->ev_res |= (short)result;
    else
        event->ev_res = (short)result;
    if (callback->evcb_flags & EVLIST_ACTIVE)
        return;
    if (callback->evcb_pri < base->running_priority)
        base->must_continue = true;
    if (event->ev_events & EV_SIGNAL) {
        gs_ev_wait_for_current(base, callback);
        event->ev_ncalls = calls;
        event->ev_pncalls = NULL;
    }
    gs_ev_queue_active(base, callback);
}

void event_active(struct event *event, int result, short calls)
{
    struct event_base *base = event->ev_base;
    if (!base) {
        warn_no_base(__func__);
        return;
    }
    gs_ev_lock(base->lock);
    gs_ev_debug_must_be_assigned(event, __func__);
    gs_ev_activate(event, result, calls);
    gs_ev_unlock(base->lock);
}

static void get_deadline(const struct event *event, struct timeval *ret_time)
{
    uint64_t us = gs_ev_deadline_us(event) + (uint64_t)event->ev_base->wall_offset_us;
    ret_time->tv_sec = (time_t)(us / 1000000);
    ret_time->tv_usec = (suseconds_t)(us % 1000000);
}

int event_pending(const struct event *event, short events, struct timeval *tv)
{
    if (!event->ev_base) {
        warn_no_base(__func__);
        return 0;
    }
    gs_ev_lock(event->ev_base->lock);
    gs_ev_debug_must_be_assigned(event, __func__);
    short flags = event->ev_evcallback.evcb_flags;
    int pending = 0;
    if (flags & EVLIST_INSERTED)
        pending |= event->ev_events & (GS_EV_IO | EV_SIGNAL);
    if (flags & GS_EV_ACTIVE)
        pending |= event->ev_res;
    if (flags & EVLIST_TIMEOUT)
        pending |= EV_TIMEOUT;
    pending &= events & (EV_TIMEOUT | GS_EV_IO | EV_SIGNAL);
    if (tv && pending & EV_TIMEOUT)
        get_deadline(event, tv);
    gs_ev_unlock(event->ev_base->lock);
    return pending;
}

/* ---- Properties ---- */

int event_initialized(const struct event *event)
{
    return event->ev_evcallback.evcb_flags & EVLIST_INIT ? 1 : 0;
}

evutil_socket_t event_get_fd(const struct event *event)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    return event->ev_fd;
}

struct event_base *event_get_base(const struct event *event)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    return event->ev_base;
}

short event_get_events(const struct event *event)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    return event->ev_events;
}

event_callback_fn event_get_callback(const struct event *event)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    return event->ev_evcallback.evcb_cb_union.evcb_callback;
}

void *event_get_callback_arg(const struct event *event)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    return event->ev_evcallback.evcb_arg;
}

int event_get_priority(const struct event *event)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    return event->ev_evcallback.evcb_pri;
}

void event_get_assignment(const struct event *event, struct event_base **base_out,
                          evutil_socket_t *fd_out, short *events_out,
                          event_callback_fn *callback_out, void **arg_out)
{
    gs_ev_debug_must_be_assigned(event, __func__);
    if (base_out)
        *base_out = event->ev_base;
    if (fd_out)
        *fd_out = event->ev_fd;
    if (events_out)
        *events_out = event->ev_events;
    if (callback_out)
        *callback_out = event->ev_evcallback.evcb_cb_union.evcb_callback;
    if (arg_out)
        *arg_out = event->ev_evcallback.evcb_arg;
}
