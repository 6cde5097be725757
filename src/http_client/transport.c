#include "http_client/transport.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* ---- The input ---- */

bool gs_http_client_make_room(struct gs_http_client_connection *connection, size_t n)
{
    size_t length = gs_http_client_input_n(connection);
    if (connection->size - connection->end >= n)
        return true;
    if (connection->start) {
        memmove(connection->input, connection->input + connection->start, length);
        connection->start = 0;
        connection->end = length;
    }
    if (connection->size - length >= n)
        return true;
    /* What arrives byte by byte is not copied each time. */
    size_t size = length + n > 2 * connection->size ? length + n : 2 * connection->size;
    char *input = realloc(connection->input, size);
    if (!input)
        return false;
    connection->input = input;
    connection->size = size;
    return true;
}

void gs_http_client_input_consume(struct gs_http_client_connection *connection, size_t n)
{
    connection->start += n;
    if (connection->start < connection->end)
        return;
    free(connection->input);
    connection->input = NULL;
    connection->start = connection->end = connection->size = 0;
}

/* ---- Receiving ---- */

/* A gs_received_fn. Returns 1, or 0 at the end of the stream. */
static ssize_t on_received(void *data, const void *bytes, size_t n)
{
    struct gs_http_client_connection *connection = data;
    if (!n)
        return 0;
    if (connection->engine) {
        gs_http_client_decrypt(connection, bytes, n);
        return 1;
    }
    if (!gs_http_client_make_room(connection, n)) {
        connection->receive_error = -ENOMEM;
        return 1;
    }
    memcpy(connection->input + connection->end, bytes, n);
    connection->end += n;
    return 1;
}

/* Records without plaintext do not prolong the call, nor keep the worker. */
static int check_limits(uint64_t deadline_ns)
{
    if (deadline_ns != GS_NEVER && gs_clock_now() >= deadline_ns)
        return -ETIMEDOUT;
    return gs_thread_sleep(0);
}

int gs_http_client_receive(struct gs_http_client_connection *connection, uint64_t deadline_ns)
{
    size_t before = gs_http_client_input_n(connection);
    int err = 0;
    while (!err && gs_http_client_input_n(connection) == before) {
        if (connection->receive_error)
            return gs_http_client_tls_fail(connection, connection->receive_error);
        if (connection->has_ended)
            return 0;
        ssize_t n = gs_recv_with(connection->fd, on_received, connection, deadline_ns);
        if (n <= 0)
            return n || !connection->engine ? (int)n : -ECONNRESET;
        if (connection->engine)
            err = gs_http_client_tls_flush(connection, deadline_ns);
        if (!err && connection->engine && gs_http_client_input_n(connection) == before)
            err = check_limits(deadline_ns);
    }
    return err ? err : 1;
}

/* ---- Sending ---- */

int gs_http_client_transmit(struct gs_http_client_connection *connection, const void *bytes,
                            size_t n, uint64_t deadline_ns)
{
    ssize_t result = connection->engine
                         ? gs_http_client_tls_transmit(connection, bytes, n, deadline_ns)
                         : gs_send_all(connection->fd, bytes, n, deadline_ns);
    if (result < 0)
        connection->has_failed = true;
    return result < 0 ? (int)result : 0;
}

/* ---- An idle connection ---- */

struct probe {
    struct gs_http_client_connection *connection;
    bool is_alive;
};

/* Only records without plaintext may have arrived, such as tickets. */
static void *probe(void *argument)
{
    struct probe *probe = argument;
    struct gs_http_client_connection *connection = probe->connection;
    char bytes[4096];
    ssize_t n;
    int flags = MSG_DONTWAIT | (connection->engine ? 0 : MSG_PEEK);
    while ((n = gs_sys_recv(connection->fd, bytes, sizeof bytes, flags)) > 0) {
        if (!connection->engine)
            return NULL;
        gs_http_client_decrypt(connection, bytes, (size_t)n);
        if (connection->receive_error || connection->has_ended ||
            gs_http_client_input_n(connection))
            return NULL;
    }
    probe->is_alive = n == -EAGAIN;
    return NULL;
}

bool gs_http_client_is_alive(struct gs_http_client_connection *connection)
{
    if (connection->http2)
        return gs_http_client_http2_is_alive(connection);
    struct probe state = {.connection = connection};
    gs_thread_call_on_worker_stack(probe, &state);
    return state.is_alive;
}

/* ---- The end ---- */

static void *end_tls(void *connection)
{
    gs_http_client_tls_end(connection);
    return NULL;
}

void gs_http_client_connection_free(struct gs_http_client_connection *connection)
{
    if (connection->http2)
        gs_http_client_http2_end(connection);
    if (connection->engine && gs_thread_self())
        gs_thread_call_on_worker_stack(end_tls, connection);
    else if (connection->engine)
        gs_http_client_tls_end(connection);
    if (connection->fd >= 0)
        gs_close(connection->fd);
    free(connection->input);
    free(connection);
}
