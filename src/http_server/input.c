#include "http_server/session.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

bool gs_http_input_make_room(struct gs_http_connection *connection, size_t n)
{
    size_t length = gs_http_input_length(connection);
    if (connection->input_size - connection->input_end >= n)
        return true;
    if (connection->input_start) {
        memmove(connection->input, connection->input + connection->input_start, length);
        connection->input_start = 0;
        connection->input_end = length;
    }
    if (connection->input_size - length >= n)
        return true;
    size_t size = connection->input_size ? connection->input_size : 1024;
    while (size - length < n)
        size *= 2;
    char *input = realloc(connection->input, size);
    if (!input)
        return false;
    connection->input = input;
    connection->input_size = size;
    return true;
}

#define RECEIVED_NOW_MAX 8192

/* Returns 1 with bytes, 0 at the end of the stream. */
static ssize_t on_received(void *data, const void *bytes, size_t n)
{
    struct gs_http_connection *connection = data;
    if (!n)
        return 0;
    if (connection->engine)
        return gs_http_tls_decrypt(connection, bytes, n);
    if (!gs_http_input_make_room(connection, n)) {
        connection->received_error = -ENOMEM;
        return 1;
    }
    memcpy(connection->input + connection->input_end, bytes, n);
    connection->input_end += n;
    return 1;
}

ssize_t gs_http_input_receive(struct gs_http_connection *connection, uint64_t deadline_ns)
{
    if (connection->received_error || connection->has_ended)
        return connection->received_error;
    ssize_t result = gs_recv_with(connection->fd, on_received, connection, deadline_ns);
    if (result > 0 && gs_http_tls_has_output(connection))
        (void)!gs_http_tls_flush(connection, gs_http_write_deadline(connection));
    return connection->received_error ? connection->received_error : result;
}

ssize_t gs_http_input_receive_now(struct gs_http_connection *connection)
{
    char bytes[RECEIVED_NOW_MAX];
    if (connection->received_error || connection->has_ended)
        return connection->received_error;
    ssize_t n = gs_sys_recv(connection->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    gs_resumable_called(connection->fd, GS_READ, n, sizeof bytes);
    if (n > 0)
        n = on_received(connection, bytes, (size_t)n);
    return connection->received_error ? connection->received_error : n;
}

void gs_http_input_consume(struct gs_http_connection *connection, size_t n)
{
    connection->input_start += n;
    if (connection->input_start < connection->input_end)
        return;
    free(connection->input);
    connection->input = NULL;
    connection->input_start = connection->input_end = connection->input_size = 0;
}
