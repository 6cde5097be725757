#include "http_server/session.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>

/* Make room for n more bytes, behind those that are left. */
static bool make_room(struct gs_http_session *session, size_t n)
{
    size_t length = gs_http_session_input_length(session);
    if (session->input_size - session->input_end >= n)
        return true;
    if (session->input_start) {
        memmove(session->input, session->input + session->input_start, length);
        session->input_start = 0;
        session->input_end = length;
    }
    if (session->input_size - length >= n)
        return true;
    size_t size = session->input_size ? session->input_size : 1024;
    while (size - length < n)
        size *= 2;
    char *input = realloc(session->input, size);
    if (!input)
        return false;
    session->input = input;
    session->input_size = size;
    return true;
}

/* Returns 1 with bytes, 0 at the end of the stream. */
static ssize_t on_received(void *data, const void *bytes, size_t n)
{
    struct gs_http_session *session = data;
    if (!n)
        return 0;
    if (!make_room(session, n)) {
        session->received_error = -ENOMEM;
        return 1;
    }
    memcpy(session->input + session->input_end, bytes, n);
    session->input_end += n;
    return 1;
}

ssize_t gs_http_session_receive(struct gs_http_session *session, uint64_t deadline_ns)
{
    if (session->received_error)
        return session->received_error;
    ssize_t result = gs_recv_with(session->exchange.fd, on_received, session, deadline_ns);
    return session->received_error ? session->received_error : result;
}

void gs_http_session_consume(struct gs_http_session *session, size_t n)
{
    session->input_start += n;
    if (session->input_start < session->input_end)
        return;
    free(session->input);
    session->input = NULL;
    session->input_start = session->input_end = session->input_size = 0;
}
