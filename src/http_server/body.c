#include "http_server/streams.h"

#include <errno.h>
#include <gossamer/io.h>

unsigned gs_http_session_failure_status(const struct gs_http_session *session)
{
    switch (-session->body_error) {
    case EFBIG:
        return 413;
    case EPROTO:
    case ECONNRESET: /* the client has ended its stream within the body (RFC 9112, 8) */
        return 400;
    case ETIMEDOUT:
        return 408;
    default:
        return 500;
    }
}

/* ---- Receiving, within the time that reads of this body may wait ---- */

static ssize_t receive_by(struct gs_http_session *session, void *bytes, size_t n,
                          uint64_t deadline_ns)
{
    if (session->stream)
        return gs_http_stream_read(session->stream, bytes, n, deadline_ns);
    return bytes ? gs_recv(session->exchange.fd, bytes, n, 0, deadline_ns)
                 : gs_http_input_receive(session->connection, deadline_ns);
}

/* Into bytes, or, if they are NULL, into the input. The end of the stream is an error; in
 * HTTP/2 it is the end of the body. */
static ssize_t receive(struct gs_http_session *session, void *bytes, size_t n)
{
    uint64_t start_ns = gs_clock_now();
    ssize_t result = receive_by(session, bytes, n, gs_clock_after(start_ns, session->body_wait_ns));
    if (session->body_wait_ns != GS_NEVER) {
        uint64_t waited_ns = gs_clock_now() - start_ns;
        session->body_wait_ns -=
            waited_ns < session->body_wait_ns ? waited_ns : session->body_wait_ns;
    }
    if (!result && !session->stream)
        result = -ECONNRESET;
    /* After a cancellation the body can be read further; after other errors bytes may be missing.
     */
    if (result < 0 && result != -ECANCELED)
        session->body_error = (int)result;
    return result;
}

/* ---- The next bytes of a body ---- */

/* Returns 0 only at the end. */
static ssize_t read_by_length(struct gs_http_session *session, void *bytes, size_t n)
{
    if (n > session->body_left)
        n = (size_t)session->body_left;
    ssize_t result = 1;
    while (session->connection->engine && !gs_http_input_length(session->connection) && result > 0)
        result = receive(session, NULL, 0);
    if (result < 0)
        return result;
    size_t buffered = gs_http_input_length(session->connection);
    if (buffered) {
        result = (ssize_t)(n < buffered ? n : buffered);
        memcpy(bytes, gs_http_input(session->connection), (size_t)result);
        gs_http_input_consume(session->connection, (size_t)result);
    } else {
        result = receive(session, bytes, n);
        if (result < 0)
            return result;
    }
    session->body_left -= (uint64_t)result;
    session->body_done = !session->body_left;
    return result;
}

/* Returns 0 if more has to be received, or at the end. */
static ssize_t decode(struct gs_http_session *session, void *bytes, size_t n)
{
    size_t buffered = gs_http_input_length(session->connection);
    struct gs_http_text data;
    ssize_t consumed =
        gs_http_chunked_next(&session->chunked, gs_http_input(session->connection),
                             n < buffered ? n : buffered, &data, &session->body_done);
    if (consumed < 0)
        return consumed;
    if (session->chunked.total + session->chunked.left > session->sessions->limits.max_body)
        return -EFBIG;
    if (data.n)
        memcpy(bytes, data.bytes, data.n);
    gs_http_input_consume(session->connection, (size_t)consumed);
    return (ssize_t)data.n;
}

static ssize_t read_chunked(struct gs_http_session *session, void *bytes, size_t n)
{
    for (;;) {
        while (gs_http_input_length(session->connection)) {
            ssize_t result = decode(session, bytes, n);
            if (result < 0)
                session->body_error = (int)result;
            if (result || session->body_done)
                return result;
        }
        ssize_t received = receive(session, NULL, 0);
        if (received < 0)
            return received;
    }
}

/* Of HTTP/2. body_left counts down from the limit if the length is not known. */
static ssize_t read_stream(struct gs_http_session *session, void *bytes, size_t n)
{
    ssize_t result = receive(session, bytes, n);
    if (result > 0 && (uint64_t)result > session->body_left)
        result = session->body_error = -EFBIG;
    session->body_left -= result > 0 ? (uint64_t)result : 0;
    session->body_done = !result || (!session->is_chunked && !session->body_left);
    return result;
}

static ssize_t read_body(struct gs_http_session *session, void *bytes, size_t n)
{
    if (session->body_error)
        return session->body_error;
    if (session->body_done || !n)
        return 0;
    if (session->stream)
        return read_stream(session, bytes, n);
    return session->is_chunked ? read_chunked(session, bytes, n)
                               : read_by_length(session, bytes, n);
}

/* ---- Reading by the handler ---- */

ssize_t gs_http_read(struct gs_http_exchange *exchange, void *bytes, size_t n)
{
    struct gs_http_session *session = gs_http_session_of(exchange);
    if (session->expects_continue && session->state == GS_HTTP_RESPONSE_NONE && n) {
        /* RFC 9110, 10.1.1: not needed if the body has begun to arrive. */
        bool has_begun = !session->stream && gs_http_input_length(session->connection);
        int err = has_begun ? 0 : gs_http_session_send_continue(session);
        if (err)
            return err;
        session->expects_continue = false;
    }
    return read_body(session, bytes, n);
}

ssize_t gs_http_read_all(struct gs_http_exchange *exchange, void *bytes, size_t n)
{
    size_t total = 0;
    while (total < n) {
        ssize_t result = gs_http_read(exchange, (char *)bytes + total, n - total);
        if (result < 0)
            return result;
        if (!result)
            return (ssize_t)total;
        total += (size_t)result;
    }
    char more;
    ssize_t result = gs_http_read(exchange, &more, 1);
    return result < 0 ? result : result ? -EMSGSIZE : (ssize_t)total;
}

/* ---- The rest of the body ---- */

bool gs_http_session_can_discard(const struct gs_http_session *session)
{
    if (session->body_done)
        return true;
    if (session->body_error || session->expects_continue)
        return false;
    return session->is_chunked || session->body_left <= GS_HTTP_SERVER_DISCARD_MAX;
}

bool gs_http_session_discard(struct gs_http_session *session)
{
    char bytes[4096];
    size_t total = 0;
    while (!session->body_done) {
        ssize_t n =
            gs_http_session_can_discard(session) ? read_body(session, bytes, sizeof bytes) : -EFBIG;
        total += n > 0 ? (size_t)n : 0;
        if (n < 0 || total > GS_HTTP_SERVER_DISCARD_MAX)
            return false;
    }
    return true;
}
