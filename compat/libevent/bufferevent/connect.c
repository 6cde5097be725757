/* Connecting a socket, to an address or to a host by name. */
#include "compat/libevent/bufferevent/bev.h"
#include "compat/libevent/bufferevent/lookup.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum outcome { CONNECTING, IS_CONNECTED, IS_REFUSED, FAILED };

static enum outcome connect_fd(int fd, const struct sockaddr *address, int length)
{
    int err = gs_sys_connect(fd, address, (socklen_t)length);
    errno = -err;
    switch (err) {
    case 0:
        return IS_CONNECTED;
    case -EINTR:
    case -EINPROGRESS:
        return CONNECTING;
    case -ECONNREFUSED:
        return IS_REFUSED;
    default:
        return FAILED;
    }
}

/* The descriptor is set, and writing enabled, before the outcome is reported: so a connection that
 * is there at once is reported when the loop finds the socket writable. */
static int follow(struct gs_bev *bev, enum outcome outcome)
{
    if (outcome == IS_REFUSED) {
        gs_bev_report(bev, BEV_EVENT_ERROR, BEV_OPT_DEFER_CALLBACKS);
        bufferevent_disable(&bev->open, EV_WRITE | EV_READ);
        return 0;
    }
    bev->is_connecting = true;
    if (outcome == IS_CONNECTED) {
        gs_bev_trigger(bev, EV_WRITE, BEV_OPT_DEFER_CALLBACKS);
        return 0;
    }
    return gs_bev_socket_ops.enable(bev, EV_WRITE);
}

int gs_bev_socket_connect(struct gs_bev *bev, const struct sockaddr *address, int length)
{
    int fd = event_get_fd(&bev->open.ev_read), new_fd = -1;
    if (fd < 0 && !address)
        return -1;
    if (fd < 0) {
        fd = new_fd =
            gs_sys_socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            errno = -fd;
            return -1;
        }
    }
    enum outcome outcome = address ? connect_fd(fd, address, length) : CONNECTING;
    if (outcome == FAILED) {
        if (new_fd >= 0)
            (void)gs_sys_close(new_fd);
        return -1;
    }
    int error = errno;
    gs_bev_socket_set_fd(bev, fd);
    errno = error;
    return follow(bev, outcome);
}

int bufferevent_socket_connect(struct bufferevent *bufev, const struct sockaddr *address,
                               int length)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (bufev->be_ops != &gs_bev_socket_ops)
        return -1;
    gs_bev_hold(bev);
    int result = gs_bev_socket_connect(bev, address, length);
    gs_bev_release(bev);
    return result;
}

/* ---- By name ---- */

/* Releases the reference of the lookup. If that is the last one, the program has freed the
 * bufferevent, and nobody wants the connection. */
static void on_found(void *argument, int error, struct evutil_addrinfo *addresses)
{
    struct gs_bev *bev = argument;
    gs_bev_lock(bev);
    if (error == GS_LOOKUP_ABANDONED || bev->references == 1) {
        gs_bev_release(bev);
        return;
    }
    gs_bev_resume(bev, EV_WRITE, GS_BEV_PAUSE_LOOKUP);
    gs_bev_resume(bev, EV_READ, GS_BEV_PAUSE_LOOKUP);
    bev->dns_error = error;
    if (error || gs_bev_socket_connect(bev, addresses->ai_addr, (int)addresses->ai_addrlen) < 0)
        gs_bev_report(bev, BEV_EVENT_ERROR, 0);
    gs_bev_release(bev);
}

int bufferevent_socket_connect_hostname(struct bufferevent *bufev, struct evdns_base *evdns_base,
                                        int family, const char *hostname, int port)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    if (evdns_base || bufev->be_ops != &gs_bev_socket_ops)
        return -1;
    if (family != AF_INET && family != AF_INET6 && family != AF_UNSPEC)
        return -1;
    if (port < 1 || port > 65535)
        return -1;
    gs_bev_hold(bev);
    bev->dns_error = 0;
    gs_bev_pause(bev, EV_WRITE, GS_BEV_PAUSE_LOOKUP);
    gs_bev_pause(bev, EV_READ, GS_BEV_PAUSE_LOOKUP);
    gs_bev_unlock(bev);
    const struct gs_lookup_target target = {hostname, family, port};
    gs_lookup_start(bufev->ev_base, &target, on_found, bev);
    return 0;
}

int bufferevent_socket_get_dns_error(struct bufferevent *bufev)
{
    struct gs_bev *bev = gs_bev_of(bufev);
    gs_bev_lock(bev);
    int error = bev->dns_error;
    gs_bev_unlock(bev);
    return error;
}
