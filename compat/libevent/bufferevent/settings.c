/* What programs set and ask of any bufferevent. */
#include "compat/libevent/buffer/buffer.h"
#include "compat/libevent/bufferevent/bev.h"

#include <event2/bufferevent_compat.h>

/* ---- Callbacks and simple properties ---- */

void bufferevent_setcb(struct bufferevent *bufev, bufferevent_data_cb readcb,
                       bufferevent_data_cb writecb, bufferevent_event_cb eventcb, void *cbarg)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    bufev->readcb = readcb;
    bufev->writecb = writecb;
    bufev->errorcb = eventcb;
    bufev->cbarg = cbarg;
    gs_bev_unlock(bev);
}

void bufferevent_getcb(struct bufferevent *bufev, bufferevent_data_cb *readcb_ptr,
                       bufferevent_data_cb *writecb_ptr, bufferevent_event_cb *eventcb_ptr,
                       void **cbarg_ptr)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    if (readcb_ptr)
        *readcb_ptr = bufev->readcb;
    if (writecb_ptr)
        *writecb_ptr = bufev->writecb;
    if (eventcb_ptr)
        *eventcb_ptr = bufev->errorcb;
    if (cbarg_ptr)
        *cbarg_ptr = bufev->cbarg;
    gs_bev_unlock(bev);
}

struct evbuffer *bufferevent_get_input(struct bufferevent *bufev)
{
    return bufev->input;
}

struct evbuffer *bufferevent_get_output(struct bufferevent *bufev)
{
    return bufev->output;
}

struct event_base *bufferevent_get_base(struct bufferevent *bufev)
{
    return bufev->ev_base;
}

struct bufferevent *bufferevent_get_underlying(struct bufferevent *bufev)
{
    struct gs_bev *underlying = gs_bev_of(bufev)->underlying;
    return underlying ? &underlying->open : NULL;
}

int bufferevent_get_priority(const struct bufferevent *bufev)
{
    return event_get_priority(&bufev->ev_read);
}

/* ---- Bytes ---- */

int bufferevent_write(struct bufferevent *bufev, const void *data, size_t size)
{
    return evbuffer_add(bufev->output, data, size) < 0 ? -1 : 0;
}

int bufferevent_write_buffer(struct bufferevent *bufev, struct evbuffer *buf)
{
    return evbuffer_add_buffer(bufev->output, buf) < 0 ? -1 : 0;
}

size_t bufferevent_read(struct bufferevent *bufev, void *data, size_t size)
{
    return (size_t)evbuffer_remove(bufev->input, data, size);
}

int bufferevent_read_buffer(struct bufferevent *bufev, struct evbuffer *buf)
{
    return evbuffer_add_buffer(buf, bufev->input);
}

/* ---- Enabling and pausing ---- */

int bufferevent_enable(struct bufferevent *bufev, short event)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    short unpaused = event;
    if (bev->read_pauses)
        unpaused &= ~EV_READ;
    if (bev->write_pauses)
        unpaused &= ~EV_WRITE;
    bufev->enabled |= event;
    int result = unpaused ? bufev->be_ops->enable(bev, unpaused) : 0;
    gs_bev_release(bev);
    return result;
}

int bufferevent_disable(struct bufferevent *bufev, short event)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    bufev->enabled &= ~event;
    int result = bufev->be_ops->disable(bev, event);
    gs_bev_unlock(bev);
    return result;
}

short bufferevent_get_enabled(struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    short enabled = bufev->enabled;
    gs_bev_unlock(bev);
    return enabled;
}

static unsigned char *pauses_of(struct gs_bev *bev, short direction)
{
    return direction == EV_READ ? &bev->read_pauses : &bev->write_pauses;
}

void gs_bev_pause(struct gs_bev *bev, short direction, enum gs_bev_pause reason)
{
    unsigned char *pauses = pauses_of(bev, direction);
    if (!*pauses)
        bev->open.be_ops->disable(bev, direction);
    *pauses |= (unsigned char)reason;
}

void gs_bev_resume(struct gs_bev *bev, short direction, enum gs_bev_pause reason)
{
    unsigned char *pauses = pauses_of(bev, direction);
    if (!(*pauses & reason))
        return;
    *pauses &= (unsigned char)~reason;
    if (!*pauses && bev->open.enabled & direction)
        bev->open.be_ops->enable(bev, direction);
}

/* ---- Marks ---- */

static void check_input(struct gs_bev *bev)
{
    size_t high = bev->open.wm_read.high;
    if (high && evbuffer_get_length(bev->open.input) >= high)
        gs_bev_pause(bev, EV_READ, GS_BEV_PAUSE_MARK);
    else
        gs_bev_resume(bev, EV_READ, GS_BEV_PAUSE_MARK);
}

static void on_input_changed(struct evbuffer *input, const struct evbuffer_cb_info *info,
                             void *argument)
{
    (void)input;
    (void)info;
    check_input(argument);
}

/* The callback for the high mark is there only while there is one. */
static void set_read_marks(struct gs_bev *bev, size_t low, size_t high)
{
    bev->open.wm_read.low = low;
    bev->open.wm_read.high = high;
    struct evbuffer *input = bev->open.input;
    if (high && !bev->mark_entry)
        bev->mark_entry = evbuffer_add_cb(input, on_input_changed, bev);
    if (bev->mark_entry && high)
        evbuffer_cb_set_flags(input, bev->mark_entry,
                              EVBUFFER_CB_ENABLED | GS_EV_BUFFER_CB_NODEFER);
    else if (bev->mark_entry)
        evbuffer_cb_clear_flags(input, bev->mark_entry, EVBUFFER_CB_ENABLED);
    check_input(bev);
}

void bufferevent_setwatermark(struct bufferevent *bufev, short events, size_t lowmark,
                              size_t highmark)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    if (events & EV_WRITE) {
        bufev->wm_write.low = lowmark;
        bufev->wm_write.high = highmark;
    }
    if (events & EV_READ)
        set_read_marks(bev, lowmark, highmark);
    gs_bev_release(bev);
}

int bufferevent_getwatermark(struct bufferevent *bufev, short events, size_t *lowmark,
                             size_t *highmark)
{
    if (events != EV_READ && events != EV_WRITE)
        return -1;
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    struct event_watermark marks = events == EV_READ ? bufev->wm_read : bufev->wm_write;
    gs_bev_unlock(bev);
    if (lowmark)
        *lowmark = marks.low;
    if (highmark)
        *highmark = marks.high;
    return 0;
}

/* ---- Timeouts ---- */

int gs_bev_add_event(struct event *event, const struct timeval *timeout)
{
    return event_add(event, evutil_timerisset(timeout) ? timeout : NULL);
}

int bufferevent_set_timeouts(struct bufferevent *bufev, const struct timeval *timeout_read,
                             const struct timeval *timeout_write)
{
    const struct timeval none = {0, 0};
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_hold(bev);
    bufev->timeout_read = timeout_read ? *timeout_read : none;
    bufev->timeout_write = timeout_write ? *timeout_write : none;
    int result = bufev->be_ops->adjust_timeouts ? bufev->be_ops->adjust_timeouts(bev) : 0;
    gs_bev_release(bev);
    return result;
}

void bufferevent_settimeout(struct bufferevent *bufev, int timeout_read, int timeout_write)
{
    struct timeval reading = {timeout_read, 0}, writing = {timeout_write, 0};
    bufferevent_set_timeouts(bufev, timeout_read ? &reading : NULL,
                             timeout_write ? &writing : NULL);
}

static void time_out(struct gs_bev *bev, short direction, short what)
{
    gs_bev_hold(bev);
    bufferevent_disable(&bev->open, direction);
    gs_bev_report(bev, BEV_EVENT_TIMEOUT | what, 0);
    gs_bev_release(bev);
}

static void on_read_timeout(evutil_socket_t fd, short events, void *argument)
{
    (void)fd;
    (void)events;
    time_out(argument, EV_READ, BEV_EVENT_READING);
}

static void on_write_timeout(evutil_socket_t fd, short events, void *argument)
{
    (void)fd;
    (void)events;
    time_out(argument, EV_WRITE, BEV_EVENT_WRITING);
}

void gs_bev_init_timers(struct gs_bev *bev)
{
    struct event_base *base = bev->open.ev_base;
    event_assign(&bev->open.ev_read, base, -1, EV_FINALIZE, on_read_timeout, bev);
    event_assign(&bev->open.ev_write, base, -1, EV_FINALIZE, on_write_timeout, bev);
}

void gs_bev_start_timer(struct event *timer, const struct timeval *timeout)
{
    if (evutil_timerisset(timeout))
        event_add(timer, timeout);
}

static int set_timer(struct event *timer, bool is_waiting, const struct timeval *timeout)
{
    if (is_waiting && evutil_timerisset(timeout))
        return event_add(timer, timeout);
    return event_del(timer);
}

int gs_bev_adjust_timers(struct gs_bev *bev)
{
    struct bufferevent *open = &bev->open;
    bool is_reading = open->enabled & EV_READ && !bev->read_pauses;
    bool is_writing =
        open->enabled & EV_WRITE && !bev->write_pauses && evbuffer_get_length(open->output);
    int reading = set_timer(&open->ev_read, is_reading, &open->timeout_read);
    int writing = set_timer(&open->ev_write, is_writing, &open->timeout_write);
    return reading < 0 || writing < 0 ? -1 : 0;
}

int bufferevent_flush(struct bufferevent *bufev, short iotype, enum bufferevent_flush_mode mode)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (!bufev->be_ops->flush)
        return -1;
    gs_bev_hold(bev);
    int result = bufev->be_ops->flush(bev, iotype, mode);
    gs_bev_release(bev);
    return result;
}
