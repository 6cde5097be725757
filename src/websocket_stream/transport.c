/* Between the frames and the socket, or the stream of TLS or of HTTP/2. */
#include "websocket_stream/stream.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>
#include <sys/uio.h>

/* ---- Receiving ---- */

ssize_t gs_websocket_recv(struct gs_websocket *socket, void *bytes, size_t n, uint64_t deadline_ns)
{
    const struct gs_http_transport *transport = &socket->transport;
    if (transport->stream)
        return gs_http_upgraded_recv(transport->stream, bytes, n, deadline_ns);
    return transport->tls ? transport->operations->recv(transport->tls, bytes, n, deadline_ns)
                          : gs_recv(transport->fd, bytes, n, 0, deadline_ns);
}

/* A gs_received_fn. Without memory the bytes are lost, and the input stays empty. */
static ssize_t keep(void *data, const void *bytes, size_t n)
{
    struct gs_websocket *socket = data;
    if (!n)
        return 0;
    socket->input = malloc(n);
    if (!socket->input)
        return (ssize_t)n;
    memcpy(socket->input, bytes, n);
    socket->input_start = 0;
    socket->input_end = n;
    return (ssize_t)n;
}

/* What a thread that waits has on its stack for it. */
#define STREAM_PART 128u

static ssize_t recv_stream(struct gs_websocket *socket, uint64_t deadline_ns)
{
    char bytes[STREAM_PART];
    ssize_t n = gs_websocket_recv(socket, bytes, sizeof bytes, deadline_ns);
    return n > 0 ? keep(socket, bytes, (size_t)n) : n;
}

ssize_t gs_websocket_recv_input(struct gs_websocket *socket, uint64_t deadline_ns)
{
    ssize_t n = gs_websocket_has_stream(socket)
                    ? recv_stream(socket, deadline_ns)
                    : gs_recv_with(socket->transport.fd, keep, socket, deadline_ns);
    return n > 0 && !socket->input ? -ENOMEM : n;
}

/* ---- Sending ---- */

static ssize_t send_all(const struct gs_http_transport *transport, const void *bytes, size_t n,
                        uint64_t deadline_ns)
{
    return transport->stream
               ? gs_http_upgraded_send_all(transport->stream, bytes, n, deadline_ns)
               : transport->operations->send_all(transport->tls, bytes, n, deadline_ns);
}

/* Header and payload are one record of TLS, or frame of HTTP/2, if they are small. */
#define JOINED_MAX 16384u

static int transmit_stream(const struct gs_http_transport *transport, struct gs_http_text header,
                           struct gs_http_text payload, uint64_t deadline_ns)
{
    size_t first = payload.n < JOINED_MAX - header.n ? payload.n : JOINED_MAX - header.n;
    char *joined = malloc(header.n + first);
    if (!joined)
        return -ENOMEM;
    memcpy(joined, header.bytes, header.n);
    if (first)
        memcpy(joined + header.n, payload.bytes, first);
    ssize_t n = send_all(transport, joined, header.n + first, deadline_ns);
    free(joined);
    if (n >= 0 && first < payload.n)
        n = send_all(transport, payload.bytes + first, payload.n - first, deadline_ns);
    return n < 0 ? (int)n : 0;
}

static int transmit_plain(int fd, struct gs_http_text header, struct gs_http_text payload,
                          uint64_t deadline_ns, bool *ret_is_partial)
{
    struct iovec pieces[] = {{(char *)header.bytes, header.n}, {(char *)payload.bytes, payload.n}};
    const struct msghdr message = {.msg_iov = pieces, .msg_iovlen = payload.n ? 2 : 1};
    ssize_t n = gs_sendmsg(fd, &message, 0, deadline_ns);
    if (n < 0)
        return (int)n;
    *ret_is_partial = true;
    size_t sent = (size_t)n;
    if (sent < header.n) {
        n = gs_send_all(fd, header.bytes + sent, header.n - sent, deadline_ns);
        sent = header.n;
    }
    if (n >= 0 && sent < header.n + payload.n)
        n = gs_send_all(fd, payload.bytes + (sent - header.n), header.n + payload.n - sent,
                        deadline_ns);
    return n < 0 ? (int)n : 0;
}

int gs_websocket_transmit(struct gs_websocket *socket, struct gs_http_text header,
                          struct gs_http_text payload, uint64_t deadline_ns, bool *ret_is_partial)
{
    *ret_is_partial = gs_websocket_has_stream(socket);
    return *ret_is_partial
               ? transmit_stream(&socket->transport, header, payload, deadline_ns)
               : transmit_plain(socket->transport.fd, header, payload, deadline_ns, ret_is_partial);
}
