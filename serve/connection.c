#include "serve/connection.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#define PIECES 8
#define FILE_CHUNK (1u << 20) /* one call sends no more, so that others get their turn */

void serve_connection_init(struct serve_connection *connection, int fd,
                           struct gs_http_service *service, const struct sockaddr *address,
                           uint64_t now_ns)
{
    gs_http_conn_init(&connection->http, service, now_ns);
    connection->fd = fd;
    connection->family = AF_UNSPEC;
    if (!address)
        return;
    connection->family = address->sa_family;
    if (address->sa_family == AF_INET6)
        memcpy(connection->host, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
    else
        memcpy(connection->host, &((const struct sockaddr_in *)address)->sin_addr, 4);
}

void serve_connection_done(struct serve_connection *connection)
{
    gs_http_conn_done(&connection->http);
    gs_sys_close(connection->fd);
}

ssize_t serve_connection_receive(struct serve_connection *connection, char *buffer, size_t size,
                                 uint64_t now_ns)
{
    ssize_t n;
    do
        n = gs_sys_recv(connection->fd, buffer, size, 0);
    while (n == -EINTR);
    if (n > 0) {
        gs_http_conn_receive(&connection->http, buffer, (size_t)n, now_ns);
        return n;
    }
    if (n == -EAGAIN)
        return n;
    if (n == 0)
        gs_http_conn_receive_end(&connection->http, now_ns);
    else
        gs_http_conn_abort(&connection->http);
    return 0;
}

/* Send pieces of memory; more: a file follows, so that the last packet had better wait. */
static ssize_t send_memory(int fd, const struct gs_http_piece *pieces, unsigned count, bool more)
{
    int flags = more ? MSG_MORE : 0;
    if (count == 1)
        return gs_sys_send(fd, pieces[0].bytes, pieces[0].n, flags);
    struct iovec iov[PIECES];
    for (unsigned i = 0; i < count; i++)
        iov[i] = (struct iovec){(void *)pieces[i].bytes, pieces[i].n};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    return gs_sys_sendmsg(fd, &message, flags);
}

static ssize_t send_pieces(int fd, const struct gs_http_piece *pieces, unsigned count)
{
    unsigned memory = 0;
    while (memory < count && pieces[memory].bytes)
        memory++;
    if (memory)
        return send_memory(fd, pieces, memory, memory < count);
    off_t offset = (off_t)pieces[0].offset;
    return gs_sys_sendfile(fd, pieces[0].fd, &offset,
                           pieces[0].n < FILE_CHUNK ? pieces[0].n : FILE_CHUNK);
}

ssize_t serve_connection_send(struct serve_connection *connection, uint64_t now_ns)
{
    struct gs_http_piece pieces[PIECES];
    unsigned count = gs_http_conn_output(&connection->http, pieces, PIECES);
    ssize_t n;
    do
        n = send_pieces(connection->fd, pieces, count);
    while (n == -EINTR);
    if (n > 0) {
        gs_http_conn_sent(&connection->http, (uint64_t)n, now_ns);
        return n;
    }
    if (n == -EAGAIN)
        return n;
    gs_http_conn_abort(
        &connection->http); /* the peer is gone; or the file ended before its announced length */
    return 0;
}

void serve_connection_shut_down(struct serve_connection *connection, uint64_t now_ns)
{
    gs_sys_shutdown(connection->fd, SHUT_WR);
    gs_http_conn_shut_down(&connection->http, now_ns);
}

void serve_connection_expire(struct serve_connection *connection, uint64_t now_ns)
{
    struct gs_http_conn *http = &connection->http;
    bool is_judged = gs_http_conn_wants(http) & GS_HTTP_WRITE || gs_http_conn_is_idle(http);
    int queued = 0;
    if (gs_sys_ioctl(connection->fd, SIOCOUTQ, &queued) || queued < 0)
        queued = 0;
    gs_http_conn_expire(http, (uint64_t)queued, now_ns);
    if (!queued || !is_judged || !(gs_http_conn_wants(http) & GS_HTTP_CLOSE))
        return;
    /* A reset drops what the peer does not read; an ordinary close would leave it in the kernel's
     * memory for as long as the peer likes. Who has all and was only waited for keeps it. */
    struct linger reset = {.l_onoff = 1};
    gs_sys_setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

void serve_connection_log(const struct gs_http_conn *http, const struct gs_http_log_entry *entry,
                          void *data)
{
    const struct serve_connection *connection = (const struct serve_connection *)http;
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.any.sa_family = connection->family};
    if (connection->family == AF_INET6)
        memcpy(&address.six.sin6_addr, connection->host, 16);
    else
        memcpy(&address.four.sin_addr, connection->host, 4);
    char host[SERVE_ADDRESS_TEXT];
    serve_address_host(&address.any, host);
    serve_log_write(data, host, entry);
}

_Static_assert(offsetof(struct serve_connection, http) == 0,
               "serve_connection_log finds the connection by its HTTP");
