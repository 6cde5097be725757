/* Sockets and their options. */
#include "compat/libevent/event/log.h"

#include <event2/util.h>
#include <fcntl.h>
#include <gossamer/sys.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

/* Returns result, or -1 with errno for -errno. */
static int with_errno(int result)
{
    if (result >= 0)
        return result;
    errno = -result;
    return -1;
}

int evutil_socketpair(int d, int type, int protocol, evutil_socket_t sv[2])
{
    return with_errno(gs_sys_socketpair(d, type, protocol, sv));
}

/* Add a flag to those that fcntl reads and writes by two commands. */
static int add_flag(int fd, const char *name, const int commands[2], int flag)
{
    int flags = with_errno(gs_sys_fcntl(fd, commands[0], 0));
    if (flags >= 0 && (flags & flag || !with_errno(gs_sys_fcntl(fd, commands[1], flags | flag))))
        return 0;
    gs_ev_warn("fcntl(%d, F_%sET%s)", fd, flags < 0 ? "G" : "S", name);
    return -1;
}

int evutil_make_socket_nonblocking(evutil_socket_t sock)
{
    return add_flag(sock, "FL", (const int[]){F_GETFL, F_SETFL}, O_NONBLOCK);
}

int evutil_make_socket_closeonexec(evutil_socket_t sock)
{
    return add_flag(sock, "FD", (const int[]){F_GETFD, F_SETFD}, FD_CLOEXEC);
}

static int set_option(evutil_socket_t sock, int level, int option)
{
    int one = 1;
    return with_errno(gs_sys_setsockopt(sock, level, option, &one, sizeof one));
}

int evutil_make_listen_socket_reuseable(evutil_socket_t sock)
{
    return set_option(sock, SOL_SOCKET, SO_REUSEADDR);
}

int evutil_make_listen_socket_reuseable_port(evutil_socket_t sock)
{
    return set_option(sock, SOL_SOCKET, SO_REUSEPORT);
}

int evutil_make_listen_socket_ipv6only(evutil_socket_t sock)
{
    return set_option(sock, IPPROTO_IPV6, IPV6_V6ONLY);
}

int evutil_make_tcp_listen_socket_deferred(evutil_socket_t sock)
{
    return set_option(sock, IPPROTO_TCP, TCP_DEFER_ACCEPT);
}

int evutil_closesocket(evutil_socket_t sock)
{
    return with_errno(gs_sys_close(sock));
}
