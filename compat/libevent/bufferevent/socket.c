/* Bufferevents of sockets. */
#include "compat/libevent/bufferevent/bev.h"
#include "compat/libevent/event/callback.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <event2/bufferevent_compat.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <sys/socket.h>

static struct evbuffer *input_of(struct gs_bev *bev)
{
    return bev->open.input;
}

static bool is_temporary(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* errno is the program's to read. */
static void fail(struct gs_bev *bev, short direction, short what)
{
    int error = errno;
    bufferevent_disable(&bev->open, direction);
    errno = error;
    gs_bev_report(bev, what | (direction == EV_READ ? BEV_EVENT_READING : BEV_EVENT_WRITING), 0);
}

/* ---- Reading ---- */

/* Returns how many bytes may be read, 0 for none: reading is paused. */
static ev_ssize_t wanted_input(struct gs_bev *bev)
{
    size_t high = bev->open.wm_read.high, length = evbuffer_get_length(input_of(bev));
    if (high && length >= high) {
        gs_bev_pause(bev, EV_READ, GS_BEV_PAUSE_MARK);
        return 0;
    }
    ev_ssize_t max = gs_bev_read_max(bev);
    if (bev->read_pauses)
        return 0;
    return high && high - length < (size_t)max ? (ev_ssize_t)(high - length) : max;
}

static void read_input(struct gs_bev *bev, int fd)
{
    ev_ssize_t wanted = wanted_input(bev);
    if (bev->read_pauses)
        return;
    evbuffer_unfreeze(input_of(bev), 0);
    int n = evbuffer_read(input_of(bev), fd, (int)wanted);
    int error = errno;
    evbuffer_freeze(input_of(bev), 0);
    if (n > 0) {
        gs_bev_count_read(bev, n);
        gs_bev_trigger(bev, EV_READ, 0);
        return;
    }
    if (n < 0 && is_temporary(error))
        return;
    if (n < 0 && error == ECONNREFUSED) { /* reported where the connection is */
        bev->is_refused = true;
        return;
    }
    errno = error;
    fail(bev, EV_READ, n < 0 ? BEV_EVENT_ERROR : BEV_EVENT_EOF);
}

static void on_readable(evutil_socket_t fd, short events, void *argument)
{
    struct gs_bev *bev = argument;
    gs_bev_hold(bev);
    if (events == EV_TIMEOUT)
        fail(bev, EV_READ, BEV_EVENT_TIMEOUT);
    else
        read_input(bev, fd);
    gs_bev_release(bev);
}

/* ---- Writing ----
 *
 * The socket usually has room, so output is written in this iteration without asking the kernel
 * whether it has: ev_write is made active rather than added. Only if the socket was full, is not
 * connected yet or would block, is it added. */

static void wait_to_write(struct gs_bev *bev)
{
    gs_bev_add_event(&bev->open.ev_write, &bev->open.timeout_write);
}

static bool can_write_at_once(struct gs_bev *bev)
{
    int fd = event_get_fd(&bev->open.ev_write);
    if (fd < 0 || bev->is_connecting || bev->output_state == GS_BEV_OUTPUT_WAITS)
        return false;
    if (bev->output_state == GS_BEV_OUTPUT_UNKNOWN) {
        int flags = gs_sys_fcntl(fd, F_GETFL, 0);
        bool is_blocking = flags < 0 || !(flags & O_NONBLOCK);
        bev->output_state = is_blocking ? GS_BEV_OUTPUT_BLOCKING : GS_BEV_OUTPUT_IS_READY;
    }
    return bev->output_state == GS_BEV_OUTPUT_IS_READY;
}

static void start_writing(struct gs_bev *bev)
{
    if (can_write_at_once(bev))
        event_active(&bev->open.ev_write, EV_WRITE, 1);
    else
        wait_to_write(bev);
}

static void on_output_changed(struct evbuffer *output, const struct evbuffer_cb_info *info,
                              void *argument)
{
    (void)output;
    struct gs_bev *bev = argument;
    if (info->n_added && bev->open.enabled & EV_WRITE && !bev->write_pauses &&
        !event_pending(&bev->open.ev_write, EV_WRITE, NULL))
        start_writing(bev);
}

/* Returns the error of the connection, 0, or -EINPROGRESS. */
static int connection_error(int fd)
{
    int error = 0;
    socklen_t length = sizeof error;
    int err = gs_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    return err ? err : -error;
}

/* Returns whether it is connected now. */
static bool finish_connecting(struct gs_bev *bev, int fd)
{
    int err = bev->is_refused ? -ECONNREFUSED : connection_error(fd);
    bev->is_refused = false;
    if (err == -EINPROGRESS || err == -EINTR)
        return false;
    bev->is_connecting = false;
    if (err) {
        event_del(&bev->open.ev_write);
        event_del(&bev->open.ev_read);
        errno = -err;
        gs_bev_report(bev, BEV_EVENT_ERROR, 0);
        return false;
    }
    gs_bev_report(bev, BEV_EVENT_CONNECTED, 0);
    if (bev->open.enabled & EV_WRITE && !bev->write_pauses)
        return true;
    event_del(&bev->open.ev_write);
    return false;
}

/* Returns how many bytes were written, or -errno. */
static int write_output(struct gs_bev *bev, int fd)
{
    struct evbuffer *output = bev->open.output;
    ev_ssize_t max = gs_bev_write_max(bev);
    if (bev->write_pauses)
        return -EAGAIN;
    evbuffer_unfreeze(output, 1);
    int n = evbuffer_write_atmost(output, fd, max);
    int err = n < 0 ? -errno : n;
    evbuffer_freeze(output, 1);
    return err;
}

/* After a write: stop, or go on when the socket is writable again. */
static void rearm(struct gs_bev *bev)
{
    struct event *event = &bev->open.ev_write;
    bool is_done = !evbuffer_get_length(bev->open.output);
    if (bev->output_state != GS_BEV_OUTPUT_BLOCKING)
        bev->output_state = is_done ? GS_BEV_OUTPUT_IS_READY : GS_BEV_OUTPUT_WAITS;
    if (is_done)
        event_del(event);
    else if (!bev->write_pauses && bev->open.enabled & EV_WRITE &&
             !event_pending(event, EV_WRITE, NULL))
        wait_to_write(bev);
}

static void advance_output(struct gs_bev *bev, int fd)
{
    bool has_connected = bev->is_connecting;
    if (has_connected && !finish_connecting(bev, fd))
        return;
    int n = 0;
    if (evbuffer_get_length(bev->open.output)) {
        n = write_output(bev, fd);
        if (n < 0 && is_temporary(-n)) {
            rearm(bev);
            return;
        }
        if (n <= 0) {
            errno = -n;
            fail(bev, EV_WRITE, n ? BEV_EVENT_ERROR : BEV_EVENT_EOF);
            return;
        }
        gs_bev_count_written(bev, n);
    }
    rearm(bev);
    if (n || !has_connected)
        gs_bev_trigger(bev, EV_WRITE, 0);
}

static void on_writable(evutil_socket_t fd, short events, void *argument)
{
    struct gs_bev *bev = argument;
    gs_bev_hold(bev);
    if (events == EV_TIMEOUT)
        fail(bev, EV_WRITE, BEV_EVENT_TIMEOUT);
    else
        advance_output(bev, fd);
    gs_bev_release(bev);
}

/* ---- The kind ---- */

static int enable(struct gs_bev *bev, short events)
{
    struct bufferevent *open = &bev->open;
    if (events & EV_READ && gs_bev_add_event(&open->ev_read, &open->timeout_read) < 0)
        return -1;
    if (events & EV_WRITE && gs_bev_add_event(&open->ev_write, &open->timeout_write) < 0)
        return -1;
    return 0;
}

/* A connection goes on without writing. */
static int disable(struct gs_bev *bev, short events)
{
    if (events & EV_READ && event_del(&bev->open.ev_read) < 0)
        return -1;
    if (events & EV_WRITE && !bev->is_connecting && event_del(&bev->open.ev_write) < 0)
        return -1;
    return 0;
}

static int adjust_timeout(struct event *event, short direction, const struct timeval *timeout)
{
    if (!event_pending(event, direction, NULL))
        return 0;
    return evutil_timerisset(timeout) ? event_add(event, timeout) : event_remove_timer(event);
}

static int adjust_timeouts(struct gs_bev *bev)
{
    struct bufferevent *open = &bev->open;
    int reading = adjust_timeout(&open->ev_read, EV_READ, &open->timeout_read);
    int writing = adjust_timeout(&open->ev_write, EV_WRITE, &open->timeout_write);
    return reading < 0 || writing < 0 ? -1 : 0;
}

/* The kernel flushes a socket. */
static int flush(struct gs_bev *bev, short events, enum bufferevent_flush_mode mode)
{
    (void)bev;
    (void)events;
    (void)mode;
    return 0;
}

static void destroy(struct gs_bev *bev)
{
    int fd = event_get_fd(&bev->open.ev_read);
    if (bev->options & BEV_OPT_CLOSE_ON_FREE && fd >= 0)
        evutil_closesocket(fd);
}

const struct bufferevent_ops gs_bev_socket_ops = {
    .enable = enable,
    .disable = disable,
    .adjust_timeouts = adjust_timeouts,
    .flush = flush,
    .destroy = destroy,
};

static void assign_events(struct gs_bev *bev, struct event_base *base, int fd)
{
    const short options = EV_PERSIST | EV_FINALIZE;
    event_assign(&bev->open.ev_read, base, fd, EV_READ | options, on_readable, bev);
    event_assign(&bev->open.ev_write, base, fd, EV_WRITE | options, on_writable, bev);
}

struct bufferevent *bufferevent_socket_new(struct event_base *base, evutil_socket_t fd, int options)
{
    struct gs_bev *bev = gs_ev_calloc(1, sizeof *bev);
    if (!bev)
        return NULL;
    assign_events(bev, base, fd);
    base = event_get_base(&bev->open.ev_read); /* the current one, if it was NULL */
    if (!base || gs_bev_init(bev, base, &gs_bev_socket_ops, NULL, options) < 0) {
        gs_ev_free(bev);
        return NULL;
    }
    evbuffer_freeze(bev->open.input, 0);
    evbuffer_freeze(bev->open.output, 1);
    if (!evbuffer_add_cb(bev->open.output, on_output_changed, bev)) {
        bufferevent_free(&bev->open);
        return NULL;
    }
    return &bev->open;
}

struct bufferevent *bufferevent_new(evutil_socket_t fd, evbuffercb readcb, evbuffercb writecb,
                                    everrorcb errorcb, void *cbarg)
{
    struct bufferevent *bufev = bufferevent_socket_new(NULL, fd, 0);
    if (bufev)
        bufferevent_setcb(bufev, readcb, writecb, errorcb, cbarg);
    return bufev;
}

/* ---- What only sockets have ---- */

/* Both ends of the buffers are open until the next read or write. */
int gs_bev_socket_set_fd(struct gs_bev *bev, int fd)
{
    event_del(&bev->open.ev_read);
    event_del(&bev->open.ev_write);
    evbuffer_unfreeze(bev->open.input, 0);
    evbuffer_unfreeze(bev->open.output, 1);
    bev->output_state = GS_BEV_OUTPUT_UNKNOWN;
    assign_events(bev, bev->open.ev_base, fd);
    return fd >= 0 ? bufferevent_enable(&bev->open, bev->open.enabled) : 0;
}

/* The socket at the bottom, which may be `bev` itself; NULL: there is none. */
static struct gs_bev *socket_below(struct gs_bev *bev)
{
    while (bev->underlying)
        bev = bev->underlying;
    return bev->open.be_ops == &gs_bev_socket_ops ? bev : NULL;
}

int bufferevent_setfd(struct bufferevent *bufev, evutil_socket_t fd)
{
    struct gs_bev *bev = socket_below(gs_bev_of(bufev));
    if (!bev)
        return -1;
    gs_bev_hold(bev);
    int result = gs_bev_socket_set_fd(bev, fd);
    gs_bev_release(bev);
    return result;
}

evutil_socket_t bufferevent_getfd(struct bufferevent *bufev)
{
    struct gs_bev *bev = socket_below(gs_bev_of(bufev));
    if (!bev)
        return -1;
    gs_bev_lock(bev);
    evutil_socket_t fd = event_get_fd(&bev->open.ev_read);
    gs_bev_unlock(bev);
    return fd;
}

int bufferevent_base_set(struct event_base *base, struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (bufev->be_ops != &gs_bev_socket_ops)
        return -1;
    gs_bev_lock(bev);
    bufev->ev_base = base;
    int result = event_base_set(base, &bufev->ev_read);
    if (result == 0)
        result = event_base_set(base, &bufev->ev_write);
    gs_bev_unlock(bev);
    return result;
}

int bufferevent_priority_set(struct bufferevent *bufev, int pri)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (bufev->be_ops != &gs_bev_socket_ops)
        return -1;
    gs_bev_lock(bev);
    int result = event_priority_set(&bufev->ev_read, pri);
    if (result == 0)
        result = event_priority_set(&bufev->ev_write, pri);
    if (result == 0)
        gs_ev_callback_set_priority(&bev->deferred, (unsigned)pri);
    gs_bev_unlock(bev);
    return result;
}
