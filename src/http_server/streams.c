/* Connections of HTTP/2. */
#include "http_server/streams_state.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdlib.h>

/* In one go, so that others have their turn. */
#define READS_MAX 8
#define SENDS_MAX 8

/* What libnghttp2 has of a stream that waits for its handler, or whose response waits for a window,
 * is some 500 bytes. */
#define STREAM_MEMORY ((size_t)1024)

/* The bytes of frames that are built ahead. */
#define OUTPUT_MAX ((size_t)64 << 10)

static const char preface[] = "PRI * HTTP/2.0\r\n\r\n";

bool gs_http_streams_detect(struct gs_http_connection *connection)
{
    if (!connection->is_first || connection->head_length != sizeof preface - 1 ||
        memcmp(gs_http_input(connection), preface, sizeof preface - 1))
        return false;
    connection->head_length = connection->scanned = 0;
    connection->has_begun = false;
    connection->speaks_http2 = true;
    return true;
}

/* ---- The life of a connection ---- */

static bool start(struct gs_http_connection *connection)
{
    struct gs_http_worker *worker = connection->worker;
    unsigned streams_max = connection->sessions->options.max_streams;
    struct gs_http_streams *streams = malloc(sizeof *streams);
    if (!streams)
        return false;
    *streams = (struct gs_http_streams){
        .connection = connection,
        .session.user = &gs_http_streams_user,
        .session.options = &connection->sessions->limits,
        .session.counts = &worker->http2_counts,
        .session.block = &worker->http2_block,
        .session.streams_max = streams_max,
        .session.memory_more = streams_max * STREAM_MEMORY,
        .session.is_consumed_by_user = true,
        .session.has_websocket = true,
        .session.now_ns = gs_clock_now(),
    };
    if (gs_http2_session_init(&streams->session)) {
        free(streams);
        return false;
    }
    gs_list_init(&streams->requests);
    gs_list_init(&streams->heads);
    gs_list_append(&worker->http2, &streams->link);
    connection->http2 = streams;
    return true;
}

/* End the resumable, and close the connection. */
static void end(struct gs_http_connection *connection)
{
    struct gs_http_streams *streams = connection->http2;
    if (connection->state == GS_HTTP_CONNECTION_WAITING)
        gs_http_worker_remove(connection, GS_HTTP_CONNECTION_SERVED);
    if (streams) {
        gs_list_remove(&streams->link);
        gs_http2_session_done(&streams->session);
        free(streams->output);
        free(streams);
    }
    gs_resumable_end(&connection->resumable);
    gs_http_connection_close(connection);
}

void gs_http_streams_wake(struct gs_http_worker *worker)
{
    GS_LIST_FOREACH (link, &worker->http2)
        gs_resumable_wake(
            &gs_container_of(link, struct gs_http_streams, link)->connection->resumable);
}

/* ---- Receiving ---- */

static void take_input(struct gs_http_streams *streams)
{
    struct gs_http_connection *connection = streams->connection;
    size_t n = gs_http_input_length(connection);
    while (n && !streams->is_lingering && !streams->has_failed) {
        size_t taken = gs_http2_take(&streams->session, gs_http_input(connection), n);
        if (!taken)
            gs_http_streams_fail(streams);
        gs_http_input_consume(connection, taken);
        n -= taken;
    }
    gs_http_input_consume(connection, n);
}

/* Returns whether there may be more. */
static bool receive(struct gs_http_streams *streams)
{
    struct gs_http_connection *connection = streams->connection;
    take_input(streams);
    for (int i = 0; i < READS_MAX; i++) {
        if (streams->has_failed || streams->has_ended)
            return false;
        if (!connection->has_ended && !gs_resumable_may_call(connection->fd, GS_READ))
            return false;
        ssize_t n = gs_http_input_receive_now(connection);
        if (n == -EAGAIN || n == -EINTR)
            return n == -EINTR;
        take_input(streams);
        if (n < 0)
            gs_http_streams_fail(streams);
        if (!n)
            gs_http_streams_end_input(streams);
    }
    return true;
}

/* ---- Sending ---- */

static bool has_output(const struct gs_http_streams *streams)
{
    return streams->output || gs_http_tls_has_output(streams->connection);
}

static void drop_output(struct gs_http_streams *streams)
{
    free(streams->output);
    streams->output = NULL;
    streams->output_start = streams->output_end = streams->output_size = 0;
}

static bool put(struct gs_http_streams *streams, const uint8_t *bytes, size_t n)
{
    if (!streams->output || streams->output_size - streams->output_end < n) {
        size_t size = streams->output_size ? streams->output_size : 512;
        while (size - streams->output_end < n)
            size *= 2;
        char *output = realloc(streams->output, size);
        if (!output)
            return false;
        streams->output = output;
        streams->output_size = size;
    }
    memcpy(streams->output + streams->output_end, bytes, n);
    streams->output_end += n;
    return true;
}

/* A response is given to libnghttp2, which copies its fields, only when they can be sent: those of
 * all handlers at once would exceed what a session may have. */
static void build(struct gs_http_streams *streams)
{
    const uint8_t *bytes;
    ssize_t n = 1;
    bool was_head = true;
    while ((n || was_head) && !streams->has_failed && streams->output_end < OUTPUT_MAX) {
        was_head = gs_http_streams_submit_head(streams);
        n = nghttp2_session_mem_send(streams->session.nghttp2, &bytes);
        if (n < 0 || (n > 0 && !put(streams, bytes, (size_t)n)))
            gs_http_streams_fail(streams);
    }
}

/* Returns the bytes that were taken, or -errno. */
static ssize_t send_some(struct gs_http_streams *streams)
{
    struct gs_http_connection *connection = streams->connection;
    const char *bytes = streams->output ? streams->output + streams->output_start : NULL;
    size_t n = streams->output_end - streams->output_start;
    if (connection->engine)
        return gs_http_tls_send_now(connection, bytes, n);
    return gs_sys_send(connection->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* It waits again from now on. */
static void note_progress(struct gs_http_connection *connection)
{
    if (connection->state == GS_HTTP_CONNECTION_WAITING &&
        connection->waits_for == GS_HTTP_WAITS_SEND)
        gs_http_worker_remove(connection, GS_HTTP_CONNECTION_SERVED);
}

/* Send what is built, and build more, until the socket takes nothing more. Returns whether there is
 * more for a socket that may take it. */
static bool send_all(struct gs_http_streams *streams)
{
    for (int i = 0; i < SENDS_MAX; i++) {
        if (!streams->output && !streams->has_failed)
            build(streams);
        if (!has_output(streams) || streams->has_failed)
            return false;
        ssize_t n = send_some(streams);
        if (n < 0) {
            if (n != -EAGAIN && n != -EINTR)
                gs_http_streams_fail(streams);
            return false;
        }
        note_progress(streams->connection);
        streams->output_start += (size_t)n;
        if (streams->output_start == streams->output_end)
            drop_output(streams);
    }
    return true;
}

/* ---- Waiting ---- */

/* GS_HTTP_WAITS: for its threads, which have deadlines of their own. */
static enum gs_http_wait wait_of(const struct gs_http_streams *streams)
{
    const struct gs_http2 *http2 = &streams->session.base;
    if (streams->is_lingering)
        return GS_HTTP_WAITS_CLOSE;
    if (has_output(streams))
        return GS_HTTP_WAITS_SEND;
    if (streams->count)
        return GS_HTTP_WAITS;
    if (http2->is_in_header)
        return GS_HTTP_WAITS_HEAD;
    if (http2->streams) /* the end of a response waits for a window */
        return GS_HTTP_WAITS_SEND;
    if (http2->is_draining)
        return GS_HTTP_WAITS_CLOSE;
    return streams->connection->is_first ? GS_HTTP_WAITS_FIRST : GS_HTTP_WAITS_NEXT;
}

/* ---- Deadlines and the phase of the server ---- */

/* The client was too slow, or gives way to another one, unless it has sent in time what it should.
 * Returns whether the connection ends. */
static bool obey_worker(struct gs_http_streams *streams)
{
    struct gs_http_connection *connection = streams->connection;
    enum gs_http_connection_state state = connection->state;
    enum gs_http_wait waits_for = connection->waits_for;
    bool is_draining = atomic_load(&connection->sessions->phase) >= GS_HTTP_DRAINING;
    if (state <= GS_HTTP_CONNECTION_WAITING)
        return false;
    connection->state = GS_HTTP_CONNECTION_SERVED;
    if (wait_of(streams) != waits_for || (state == GS_HTTP_CONNECTION_CLOSING && is_draining))
        return false;
    gs_http2_terminate(&streams->session, NGHTTP2_NO_ERROR);
    return true;
}

static void obey_phase(struct gs_http_streams *streams)
{
    int phase = atomic_load(&streams->connection->sessions->phase);
    if (phase >= GS_HTTP_DRAINING)
        gs_http2_drain(&streams->session);
    if (phase >= GS_HTTP_CANCELED)
        gs_http2_terminate(&streams->session, NGHTTP2_NO_ERROR);
}

/* Returns 0; 1: go on, the server has started to drain meanwhile; or -errno. */
static int keep(struct gs_http_streams *streams)
{
    struct gs_http_connection *connection = streams->connection;
    enum gs_http_wait waits_for = wait_of(streams);
    if (waits_for == GS_HTTP_WAITS) {
        if (connection->state == GS_HTTP_CONNECTION_WAITING)
            gs_http_worker_remove(connection, GS_HTTP_CONNECTION_SERVED);
        return 0;
    }
    int err = gs_http_worker_keep(connection, waits_for);
    bool drains_now = err == -ECANCELED && !streams->session.base.is_draining &&
                      atomic_load(&connection->sessions->phase) == GS_HTTP_DRAINING;
    return drains_now ? 1 : err;
}

/* Returns 0; 1: go on; or -errno. */
static int watch(struct gs_http_streams *streams)
{
    struct gs_http_connection *connection = streams->connection;
    if (has_output(streams))
        return gs_resumable_watch(&connection->resumable, connection->fd, GS_WRITE);
    if (streams->has_ended)
        return 0;
    return gs_resumable_watch(&connection->resumable, connection->fd, GS_READ);
}

/* A reset, which would follow from unread input, could overtake what was sent. */
static void linger(struct gs_http_streams *streams)
{
    gs_http_tls_end_now(streams->connection);
    streams->is_lingering = true;
    if (streams->has_ended || gs_sys_shutdown(streams->connection->fd, SHUT_WR))
        gs_http_streams_fail(streams);
}

/* Whether nothing more can be done for the requests that are left. */
static bool is_over(const struct gs_http_streams *streams)
{
    return !has_output(streams) &&
           (gs_http2_is_over(&streams->session) || (streams->has_ended && !streams->count));
}

/* Make the transitions that need no event. Returns whether the connection has ended. */
static bool settle(struct gs_http_streams *streams, bool is_behind)
{
    if (streams->has_ended && !is_behind && !has_output(streams))
        gs_http_streams_end_output(streams);
    if (streams->is_lingering && streams->has_ended)
        gs_http_streams_fail(streams);
    if (!streams->has_failed && !streams->is_lingering && is_over(streams)) {
        gs_http_streams_leave(streams);
        linger(streams);
    }
    return streams->has_failed && !streams->count;
}

/* Receive, and send. Returns whether there is more to be done at once. */
static bool advance(struct gs_http_streams *streams)
{
    streams->session.now_ns = gs_clock_now();
    bool is_behind = receive(streams);
    bool is_ending = obey_worker(streams);
    obey_phase(streams);
    bool may_send = send_all(streams);
    if (is_ending)
        gs_http_streams_fail(streams);
    return may_send || (is_behind && !has_output(streams));
}

/* Arrange what will resume it. Returns 0; 1: go on; or -errno. */
static int wait(struct gs_http_streams *streams, bool is_behind)
{
    int err = streams->has_failed ? 0 : keep(streams);
    if (err || streams->has_failed) /* then the last mail of its threads resumes it */
        return err;
    /* Nor is the descriptor watched while it takes more: no event would report that. */
    if (!is_behind)
        return watch(streams);
    gs_resumable_again(&streams->connection->resumable);
    return 0;
}

void gs_http_streams_resume(struct gs_http_connection *connection)
{
    if (!connection->http2 && !start(connection)) {
        end(connection);
        return;
    }
    struct gs_http_streams *streams = connection->http2;
    int result = 1;
    while (result) {
        bool is_behind = advance(streams);
        if (settle(streams, is_behind)) {
            end(connection);
            return;
        }
        result = wait(streams, is_behind);
        if (result < 0)
            gs_http_streams_fail(streams);
    }
}
