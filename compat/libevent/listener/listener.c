/* Connection listeners. */
#include "compat/libevent/event/lock.h"
#include "compat/libevent/event/log.h"
#include "compat/libevent/event/memory.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <event2/listener.h>
#include <event2/util.h>
#include <gossamer/sys.h>
#include <stdbool.h>
#include <sys/socket.h>

#define BACKLOG 128

struct evconnlistener {
    struct event event;
    evconnlistener_cb on_accept;
    evconnlistener_errorcb on_error;
    void *argument;
    void *lock;
    unsigned flags;
    unsigned references; /* one of the program, one of each callback under way; under the lock */
    int accept_flags;
    bool is_enabled; /* by the program; the event is added if there is a callback, too */
};

/* Release a reference, and unlock. Returns whether it was the last one. */
static bool release(struct evconnlistener *lev)
{
    bool is_last = --lev->references == 0;
    gs_ev_unlock(lev->lock);
    if (!is_last)
        return false;
    event_del(&lev->event);
    if (lev->flags & LEV_OPT_CLOSE_ON_FREE)
        (void)gs_sys_close(event_get_fd(&lev->event));
    event_debug_unassign(&lev->event);
    gs_ev_lock_free(lev->lock);
    gs_ev_free(lev);
    return true;
}

/* ---- Accepting ---- */

/* With the lock held, but not during the callback. Returns whether to accept another one; if not,
 * the lock is released. */
static bool pass(struct evconnlistener *lev, int fd, struct sockaddr *address, socklen_t length)
{
    evconnlistener_cb on_accept = lev->on_accept;
    void *argument = lev->argument;
    lev->references++;
    gs_ev_unlock(lev->lock);
    on_accept(lev, fd, address, (int)length, argument);
    gs_ev_lock(lev->lock);
    bool was_freed = lev->references == 1, goes_on = lev->is_enabled;
    if (was_freed || !goes_on) {
        release(lev);
        return false;
    }
    lev->references--;
    return true;
}

/* The program hears of each error, as often as the socket is readable: with EMFILE, until it closes
 * descriptors or disables the listener. */
static void report(struct evconnlistener *lev, int err)
{
    evconnlistener_errorcb on_error = lev->on_error;
    void *argument = lev->argument;
    errno = -err;
    if (!on_error) {
        gs_ev_sock_warn(event_get_fd(&lev->event), "Error from accept() call");
        gs_ev_unlock(lev->lock);
        return;
    }
    lev->references++;
    gs_ev_unlock(lev->lock);
    on_error(lev, argument);
    gs_ev_lock(lev->lock);
    release(lev);
}

static bool is_temporary(int err)
{
    return err == -EAGAIN || err == -EINTR || err == -ECONNABORTED;
}

static void on_readable(evutil_socket_t fd, short events, void *argument)
{
    (void)events;
    struct evconnlistener *lev = argument;
    unsigned known = 1; /* the event has announced one */
    gs_ev_lock(lev->lock);
    for (;; known--) {
        if (!known)
            known = gs_sys_accept_queue(fd);
        if (!known)
            break;
        struct sockaddr_storage address;
        socklen_t length = sizeof address;
        int new_fd = gs_sys_accept(fd, (struct sockaddr *)&address, &length, lev->accept_flags);
        if (new_fd < 0 && !is_temporary(new_fd)) {
            report(lev, new_fd);
            return;
        }
        if (new_fd < 0)
            break;
        if (!lev->on_accept) {
            (void)gs_sys_close(new_fd);
            break;
        }
        if (!pass(lev, new_fd, (struct sockaddr *)&address, length))
            return;
    }
    gs_ev_unlock(lev->lock);
}

/* ---- Life ---- */

struct evconnlistener *evconnlistener_new(struct event_base *base, evconnlistener_cb cb, void *ptr,
                                          unsigned flags, int backlog, evutil_socket_t fd)
{
    int err = backlog ? gs_sys_listen(fd, backlog > 0 ? backlog : BACKLOG) : 0;
    if (err) {
        errno = -err;
        return NULL;
    }
    struct evconnlistener *lev = gs_ev_calloc(1, sizeof *lev);
    if (!lev)
        return NULL;
    lev->on_accept = cb;
    lev->argument = ptr;
    lev->flags = flags;
    lev->references = 1;
    if (!(flags & LEV_OPT_LEAVE_SOCKETS_BLOCKING))
        lev->accept_flags |= SOCK_NONBLOCK;
    if (flags & LEV_OPT_CLOSE_ON_EXEC)
        lev->accept_flags |= SOCK_CLOEXEC;
    if (flags & LEV_OPT_THREADSAFE && gs_ev_locks_are_used() && !(lev->lock = gs_ev_lock_new())) {
        gs_ev_free(lev);
        return NULL;
    }
    event_assign(&lev->event, base, fd, EV_READ | EV_PERSIST, on_readable, lev);
    if (!(flags & LEV_OPT_DISABLED))
        evconnlistener_enable(lev);
    return lev;
}

/* Returns 0 or -1. */
static int set_options(int fd, unsigned flags)
{
    const int on = 1;
    if (gs_sys_setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) < 0)
        return -1;
    if (flags & LEV_OPT_REUSEABLE && evutil_make_listen_socket_reuseable(fd) < 0)
        return -1;
    if (flags & LEV_OPT_REUSEABLE_PORT && evutil_make_listen_socket_reuseable_port(fd) < 0)
        return -1;
    if (flags & LEV_OPT_DEFERRED_ACCEPT && evutil_make_tcp_listen_socket_deferred(fd) < 0)
        return -1;
    if (flags & LEV_OPT_BIND_IPV6ONLY && evutil_make_listen_socket_ipv6only(fd) < 0)
        return -1;
    return 0;
}

struct evconnlistener *evconnlistener_new_bind(struct event_base *base, evconnlistener_cb cb,
                                               void *ptr, unsigned flags, int backlog,
                                               const struct sockaddr *sa, int socklen)
{
    if (!backlog)
        return NULL;
    int type = SOCK_STREAM | SOCK_NONBLOCK | (flags & LEV_OPT_CLOSE_ON_EXEC ? SOCK_CLOEXEC : 0);
    int fd = gs_sys_socket(sa ? sa->sa_family : AF_UNSPEC, type, 0);
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    if (set_options(fd, flags) < 0)
        goto close_fd;
    int err = sa ? gs_sys_bind(fd, sa, (socklen_t)socklen) : 0;
    if (err) {
        errno = -err;
        goto close_fd;
    }
    struct evconnlistener *lev = evconnlistener_new(base, cb, ptr, flags, backlog, fd);
    if (lev)
        return lev;

close_fd:
    (void)gs_sys_close(fd);
    return NULL;
}

void evconnlistener_free(struct evconnlistener *lev)
{
    gs_ev_lock(lev->lock);
    lev->on_accept = NULL;
    lev->on_error = NULL;
    release(lev);
}

/* ---- Settings ---- */

int evconnlistener_enable(struct evconnlistener *lev)
{
    gs_ev_lock(lev->lock);
    lev->is_enabled = true;
    int result = lev->on_accept ? event_add(&lev->event, NULL) : 0;
    gs_ev_unlock(lev->lock);
    return result;
}

int evconnlistener_disable(struct evconnlistener *lev)
{
    gs_ev_lock(lev->lock);
    lev->is_enabled = false;
    /* A callback under way needs the lock to return: waiting for it would last for ever. */
    int result = event_del_noblock(&lev->event);
    gs_ev_unlock(lev->lock);
    return result;
}

struct event_base *evconnlistener_get_base(struct evconnlistener *lev)
{
    return event_get_base(&lev->event);
}

evutil_socket_t evconnlistener_get_fd(struct evconnlistener *lev)
{
    return event_get_fd(&lev->event);
}

void evconnlistener_set_cb(struct evconnlistener *lev, evconnlistener_cb cb, void *arg)
{
    gs_ev_lock(lev->lock);
    bool starts = lev->is_enabled && !lev->on_accept;
    lev->on_accept = cb;
    lev->argument = arg;
    if (starts)
        evconnlistener_enable(lev);
    gs_ev_unlock(lev->lock);
}

void evconnlistener_set_error_cb(struct evconnlistener *lev, evconnlistener_errorcb errorcb)
{
    gs_ev_lock(lev->lock);
    lev->on_error = errorcb;
    gs_ev_unlock(lev->lock);
}
