#include "serve/accept/accept.h"

#include "serve/connection/descriptors.h"
#include "serve/log/error_log.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>

#define WARNING_INTERVAL_NS (10 * GS_SECOND)

void serve_warn_waiting(const char *problem, int err, uint64_t *warned_ns, uint64_t now_ns)
{
    if (*warned_ns && now_ns - *warned_ns < WARNING_INTERVAL_NS)
        return;
    *warned_ns = now_ns;
    serve_warn("%s, new connections wait: %s", problem, strerror(-err));
}

enum serve_accept_action serve_accept_failed(int err, uint64_t *warned_ns, uint64_t now_ns)
{
    switch (-err) {
    case EAGAIN:
    case ETIMEDOUT:
        return SERVE_ACCEPT_WAIT;
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
        return SERVE_ACCEPT_AGAIN;
    default:
        serve_warn_waiting("can't accept", err, warned_ns, now_ns);
        return SERVE_ACCEPT_PAUSE;
    }
}

void serve_refuse_accepted(int fd)
{
    gs_sys_close(fd);
    serve_descriptors_closed(false);
}

bool serve_is_connection_pending(int listener)
{
    struct pollfd poll = {.fd = listener, .events = POLLIN};
    return gs_sys_poll(&poll, 1, 0) > 0;
}

/* Of a listening socket, tcpi_unacked is the length of the queue. The kernel queues one connection
 * more than the backlog. */
uint64_t serve_accept_queue_length(int listener, uint64_t backlog)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    if (gs_sys_getsockopt(listener, IPPROTO_TCP, TCP_INFO, &info, &length))
        return backlog + 1;
    return info.tcpi_unacked;
}
