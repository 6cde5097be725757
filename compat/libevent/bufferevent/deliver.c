/* The callbacks of the program: at once, or deferred to the loop. */
#include "compat/libevent/bufferevent/bev.h"
#include "compat/libevent/event/callback.h"

#include <errno.h>

static void defer(struct gs_bev *bev)
{
    if (gs_ev_callback_schedule(bev->open.ev_base, &bev->deferred))
        bev->references++;
}

static bool is_deferred(const struct gs_bev *bev, int options)
{
    return (bev->options | options) & BEV_OPT_DEFER_CALLBACKS;
}

/* After a read callback: if it has left the input at the high mark, no more input will come to
 * bring about another call. */
static void check_high_mark(struct gs_bev *bev)
{
    size_t high = bev->open.wm_read.high;
    if (high && bev->open.enabled & EV_READ && evbuffer_get_length(bev->open.input) >= high)
        gs_bev_trigger(bev, EV_READ, BEV_TRIG_DEFER_CALLBACKS);
}

static void run_read(struct gs_bev *bev, int options)
{
    if (!bev->open.readcb)
        return;
    if (is_deferred(bev, options)) {
        bev->is_read_pending = true;
        defer(bev);
        return;
    }
    bev->open.readcb(&bev->open, bev->open.cbarg);
    check_high_mark(bev);
}

static void run_write(struct gs_bev *bev, int options)
{
    if (!bev->open.writecb)
        return;
    if (is_deferred(bev, options)) {
        bev->is_write_pending = true;
        defer(bev);
        return;
    }
    bev->open.writecb(&bev->open, bev->open.cbarg);
}

void gs_bev_report(struct gs_bev *bev, short what, int options)
{
    if (!bev->open.errorcb)
        return;
    if (is_deferred(bev, options)) {
        bev->pending_events |= what;
        bev->pending_error = errno;
        defer(bev);
        return;
    }
    bev->open.errorcb(&bev->open, what, bev->open.cbarg);
}

void gs_bev_trigger(struct gs_bev *bev, short events, int options)
{
    const struct bufferevent *open = &bev->open;
    bool ignores_marks = options & BEV_TRIG_IGNORE_WATERMARKS;
    if (events & EV_READ &&
        (ignores_marks || evbuffer_get_length(open->input) >= open->wm_read.low))
        run_read(bev, options);
    if (events & EV_WRITE &&
        (ignores_marks || evbuffer_get_length(open->output) <= open->wm_write.low))
        run_write(bev, options);
}

/* Deferred callbacks may run without the lock: each is then called with the function and argument
 * of the moment, and the next one is looked at again. */
static void call_data(struct gs_bev *bev, bufferevent_data_cb fn)
{
    void *argument = bev->open.cbarg;
    bool is_unlocked = bev->options & BEV_OPT_UNLOCK_CALLBACKS;
    if (is_unlocked)
        gs_bev_unlock(bev);
    fn(&bev->open, argument);
    if (is_unlocked)
        gs_bev_lock(bev);
}

static void call_event(struct gs_bev *bev, short what, int error)
{
    bufferevent_event_cb fn = bev->open.errorcb;
    void *argument = bev->open.cbarg;
    bool is_unlocked = bev->options & BEV_OPT_UNLOCK_CALLBACKS;
    if (is_unlocked)
        gs_bev_unlock(bev);
    errno = error;
    fn(&bev->open, what, argument);
    if (is_unlocked)
        gs_bev_lock(bev);
}

/* The connection comes first, then data, then what ends it. */
static void run_deferred(struct event_callback *callback, void *argument)
{
    (void)callback;
    struct gs_bev *bev = argument;
    gs_bev_lock(bev);
    if (bev->pending_events & BEV_EVENT_CONNECTED && bev->open.errorcb) {
        bev->pending_events &= ~BEV_EVENT_CONNECTED;
        call_event(bev, BEV_EVENT_CONNECTED, errno);
    }
    if (bev->is_read_pending && bev->open.readcb) {
        bev->is_read_pending = false;
        call_data(bev, bev->open.readcb);
        check_high_mark(bev);
    }
    if (bev->is_write_pending && bev->open.writecb) {
        bev->is_write_pending = false;
        call_data(bev, bev->open.writecb);
    }
    if (bev->pending_events && bev->open.errorcb) {
        short what = bev->pending_events;
        int error = bev->pending_error;
        bev->pending_events = 0;
        bev->pending_error = 0;
        call_event(bev, what, error);
    }
    gs_bev_release(bev);
}

void gs_bev_init_deferred(struct gs_bev *bev)
{
    int priorities = event_base_get_npriorities(bev->open.ev_base);
    gs_ev_callback_init(&bev->deferred, (unsigned)priorities / 2, run_deferred, bev);
}

void bufferevent_trigger(struct bufferevent *bufev, short iotype, int options)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    gs_bev_trigger(bev, iotype, options);
    gs_bev_release(bev);
}

void bufferevent_trigger_event(struct bufferevent *bufev, short what, int options)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    gs_bev_report(bev, what, options);
    gs_bev_release(bev);
}
