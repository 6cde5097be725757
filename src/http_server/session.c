#include "http_server/streams.h"
#include "tls/operations.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/sys.h>

/* Maximum time from the last response until the client closes: as long as bytes keep coming, and
 * altogether. */
#define LINGER_TIMEOUT_NS (5 * GS_SECOND)
#define LINGER_MAX_NS (30 * GS_SECOND)

/* ---- The end of a connection ---- */

static ssize_t discard(void *unused, const void *bytes, size_t n)
{
    (void)unused;
    (void)bytes;
    return (ssize_t)n;
}

/* A reset, which would follow from unread input, could overtake the response (RFC 9112, 9.6), or an
 * alert of TLS. */
static void linger(struct gs_http_session *session)
{
    int fd = session->exchange.fd;
    uint64_t now_ns = gs_clock_now(), end_ns = gs_clock_after(now_ns, LINGER_MAX_NS), deadline_ns;
    if (gs_sys_shutdown(fd, SHUT_WR))
        return;
    do {
        deadline_ns = gs_clock_after(now_ns, LINGER_TIMEOUT_NS);
        if (gs_recv_with(fd, discard, NULL, deadline_ns < end_ns ? deadline_ns : end_ns) <= 0)
            return;
        now_ns = gs_clock_now();
    } while (now_ns < end_ns);
}

static void reset_at_close(int fd)
{
    const struct linger reset = {.l_onoff = 1};
    gs_sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

/* The stream closes the socket. */
static void close_tls_stream(struct gs_http_session *session, struct gs_tls *tls)
{
    struct gs_http_connection *connection = session->connection;
    const struct gs_tls_stream_operations *operations = gs_http_tls_stream(connection);
    if (session->state == GS_HTTP_RESPONSE_ABORTED)
        reset_at_close(connection->fd);
    else if (!operations->shutdown(tls, gs_http_write_deadline(connection)))
        linger(session);
    operations->abort(tls);
}

static void close_connection(struct gs_http_session *session)
{
    struct gs_http_connection *connection = session->connection;
    int fd = session->exchange.fd;
    bool has_failed = gs_http_tls_has_failed(connection);
    if (connection->upgraded.tls) {
        close_tls_stream(session, connection->upgraded.tls);
        return;
    }
    if (connection->engine && session->state != GS_HTTP_RESPONSE_ABORTED)
        gs_http_tls_end(connection, gs_http_write_deadline(connection));
    if (session->state == GS_HTTP_RESPONSE_ABORTED && !has_failed)
        reset_at_close(fd);
    else if (has_failed || session->must_linger || !session->body_done ||
             gs_http_input_length(connection))
        linger(session);
    gs_close(fd);
}

/* ---- Requests ---- */

/* Refuse a request, and all input behind it. */
static void refuse(struct gs_http_session *session, unsigned status)
{
    session->keep_alive = false;
    session->must_linger = true;
    gs_http_session_respond_status(session, status);
}

bool gs_http_session_serve(struct gs_http_session *session)
{
    const struct gs_http_server *options = &session->sessions->options;
    unsigned status = gs_http_session_read_head(session);
    if (status) {
        refuse(session, status);
        return false;
    }
    options->handler(&session->exchange, options->data);
    gs_http_session_finish_response(session);
    return session->state == GS_HTTP_RESPONSE_DONE && session->keep_alive && !session->stream &&
           gs_http_session_discard(session);
}

/* ---- The life of a session ---- */

/* What a request sets is left as it is. */
void gs_http_session_init(struct gs_http_session *session, struct gs_http_connection *connection,
                          struct gs_http_stream *stream)
{
    session->connection = connection;
    session->stream = stream;
    session->sessions = connection->sessions;
    session->exchange.fd = connection->fd;
    session->exchange.is_tls = connection->sessions->options.tls;
    session->must_linger = false;
    session->head = session->fields = NULL;
    session->fields_length = session->fields_size = 0;
    session->state = GS_HTTP_RESPONSE_NONE;
    session->body_done = true;
}

/* Called when the thread ends, also by a handler that calls gs_thread_exit: a response that it has
 * not completed is broken off. */
static void end(void *argument)
{
    struct gs_http_session *session = argument;
    if (session->state == GS_HTTP_RESPONSE_HEAD || session->state == GS_HTTP_RESPONSE_BODY)
        gs_http_abort(&session->exchange);
    close_connection(session);
    gs_http_session_release(session);
    gs_http_connection_free(session->connection);
}

/* Serve the requests that are there. Returns whether others may follow, or HTTP/2. */
static bool serve_requests(struct gs_http_session *session)
{
    enum gs_http_progress progress;
    while ((progress = gs_http_connection_next(session->connection)) == GS_HTTP_READY) {
        if (gs_http_streams_detect(session->connection))
            return true;
        if (!gs_http_session_serve(session))
            return false;
        gs_http_session_release(session);
    }
    return progress == GS_HTTP_INCOMPLETE && !gs_thread_is_canceled();
}

int gs_http_session_run(void *connection)
{
    struct gs_http_session session;
    gs_http_session_init(&session, connection, NULL);
    gs_cleanup_push(&session.cleanup, end, &session);
    bool is_kept = gs_http_tls_start(connection) && serve_requests(&session);
    gs_cleanup_pop(!is_kept);
    if (is_kept)
        gs_http_connection_wait(connection);
    return 0;
}
