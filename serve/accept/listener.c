#include "serve/accept/listener.h"

#include "serve/accept/unix_socket.h"

#include <fcntl.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

/* The kernel hands a connection over once bytes have arrived, or after this time. */
#define DEFER_SECONDS 1

static int share_port(int fd)
{
    int on = 1;
    return gs_sys_setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
}

static int set_tcp_options(int fd, const struct serve_options *options)
{
    int on = 1, defer = options->defer_accept ? DEFER_SECONDS : 0, unsent = SERVE_UNSENT_MAX;
    int err = gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!err)
        err = gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    if (!err)
        err = gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer, sizeof defer);
    return err;
}

static int set_options(int fd, const struct serve_options *options, int family)
{
    int on = 1;
    int err = gs_sys_setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!err && family == AF_INET6)
        err = gs_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    return err ? err : set_tcp_options(fd, options);
}

static int listen_unix(struct serve_address *address, const struct serve_options *options)
{
    int fd = gs_sys_socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int err = serve_unix_socket_bind(fd, address);
    if (!err)
        err = gs_sys_listen(fd, (int)options->backlog);
    if (!err)
        return fd;
    gs_sys_close(fd);
    return err;
}

int serve_listen(struct serve_address *address, const struct serve_options *options,
                 enum serve_socket_sharing sharing)
{
    int family = address->storage.ss_family;
    if (family == AF_UNIX)
        return listen_unix(address, options);
    int fd = gs_sys_socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int err = set_options(fd, options, family);
    if (!err && sharing == SERVE_JOIN)
        err = share_port(fd);
    if (!err)
        err = gs_sys_bind(fd, (struct sockaddr *)&address->storage, address->length);
    if (!err && sharing == SERVE_FIRST)
        err = share_port(fd); /* after the bind, which fails if any other socket listens there */
    if (!err)
        err = gs_sys_listen(fd, (int)options->backlog);
    if (!err)
        err = gs_sys_getsockname(fd, (struct sockaddr *)&address->storage, &address->length);
    if (!err)
        return fd;
    gs_sys_close(fd);
    return err;
}

int serve_listener_adopt(int fd, const struct sockaddr_storage *address,
                         const struct serve_options *options)
{
    int err = address->ss_family == AF_UNIX ? 0 : set_tcp_options(fd, options);
    return err ? err : gs_sys_listen(fd, (int)options->backlog);
}

int serve_listen_again(struct serve_address *address, int first,
                       const struct serve_options *options)
{
    return address->storage.ss_family == AF_UNIX ? gs_sys_fcntl(first, F_DUPFD_CLOEXEC, 0)
                                                 : serve_listen(address, options, SERVE_JOIN);
}
