/* The files of a service: what http/http2.h knows of a session. */
#include "http/load.h"
#include "http2/http2.h"
#include "http2/session.h"

#include <stdlib.h>

static void fail(struct gs_http2_session *session)
{
    session->conn->state = GS_HTTP_CONN_CLOSED;
}

static void done(struct gs_http2_session *session)
{
    gs_http2_session_done(session);
    gs_http2_release(session, session->unsent);
    session->unsent = NULL;
}

/* Returns NULL if memory is exhausted: then the session is over, and all it has is released. */
static struct gs_http2_session *enter(struct gs_http_conn *conn, uint64_t now_ns)
{
    struct gs_http2_session *session = gs_http2_session_of(conn);
    session->conn = conn;
    session->now_ns = now_ns;
    if (gs_http2_take_desk(session))
        return session;
    fail(session);
    done(session);
    return NULL;
}

/* ---- Output ---- */

/* Returns whether there is an output with room for a frame. */
static bool has_room(struct gs_http2_session *session)
{
    struct gs_http_conn *conn = session->conn;
    if (conn->state == GS_HTTP_CONN_CLOSED)
        return false;
    if (!conn->output) {
        conn->output = gs_http_service_new_output(conn->service);
        session->base.has_response = false;
    }
    if (!conn->output)
        fail(session);
    return conn->output && gs_http2_has_room(conn->output);
}

static void drop_empty_output(struct gs_http_conn *conn)
{
    if (!conn->output || conn->output->end > conn->output->position)
        return;
    gs_http_service_free_output(conn->service, conn->output);
    conn->output = NULL;
}

/* Returns how many of the bytes had room. */
static size_t put(struct gs_http_output *output, const char *bytes, size_t n)
{
    size_t room = output->size - output->used;
    if (n > room)
        n = room;
    gs_http_output_put(output, (struct gs_http_text){bytes, n});
    return n;
}

static void put_unsent(struct gs_http2_session *session)
{
    const char *at = session->unsent + session->unsent_size - session->unsent_n;
    session->unsent_n -= put(session->conn->output, at, session->unsent_n);
    if (session->unsent_n)
        return;
    gs_http2_release(session, session->unsent);
    session->unsent = NULL;
}

/* The frame is in memory that is not the session's after the call: what has no room is copied. */
static void put_frame(struct gs_http2_session *session, const char *bytes, size_t n)
{
    size_t done = put(session->conn->output, bytes, n);
    if (done == n)
        return;
    session->unsent_n = session->unsent_size = n - done;
    session->unsent = gs_http2_realloc(session, NULL, n - done);
    if (session->unsent)
        memcpy(session->unsent, bytes + done, n - done);
    else
        fail(session);
}

static void produce(struct gs_http2_session *session)
{
    while ((session->unsent || nghttp2_session_want_write(session->nghttp2)) && has_room(session)) {
        const uint8_t *bytes;
        if (session->unsent) {
            put_unsent(session);
            continue;
        }
        ssize_t n = nghttp2_session_mem_send(session->nghttp2, &bytes);
        if (n < 0)
            fail(session);
        if (n <= 0)
            break;
        put_frame(session, (const char *)bytes, (size_t)n);
    }
    drop_empty_output(session->conn);
}

/* ---- Requests ---- */

static size_t output_size(const struct gs_http2_session *session)
{
    return sizeof(struct gs_http_output) + GS_HTTP_OUTPUT_BYTES +
           session->conn->service->fields_room +
           GS_HTTP_OUTPUT_SEGMENTS * sizeof(struct gs_http_segment);
}

static bool is_much(size_t memory)
{
    return memory > GS_HTTP2_MEMORY_MAX / 2;
}

static bool is_some(size_t memory)
{
    return memory > GS_HTTP2_MEMORY_MAX / 4;
}

/* Of streams whose windows are closed only some get responses: the peer may open a window when it
 * knows the head of one. */
#define WAITING_MAX ((size_t)1024)

static bool has_window(const struct gs_http2_session *session, const struct gs_http2_stream *stream)
{
    return nghttp2_session_get_remote_window_size(session->nghttp2) > 0 &&
           (session->held < WAITING_MAX || !is_much(gs_http2_memory(session)) ||
            nghttp2_session_get_stream_remote_window_size(session->nghttp2, stream->id) > 0);
}

/* A response that waits takes more memory than the head of its request, unless that is large. It
 * may take an output of its own, as that of a stream whose file is loaded, and must not end the
 * session. */
static bool has_memory(const struct gs_http2_session *session, const struct gs_http2_stream *stream)
{
    size_t memory = gs_http2_memory(session);
    if (!is_some(memory) || stream->head_size > GS_HTTP_OUTPUT_BYTES)
        return true;
    size_t outputs = (session->loading ? 2 : 1) * output_size(session);
    return memory + outputs + sizeof *session < GS_HTTP2_KEPT_MAX && has_window(session, stream);
}

static bool may_answer(const struct gs_http2_session *session)
{
    const struct gs_http_output *output = session->conn->output;
    return session->large < GS_HTTP2_LARGE_MAX && (!output || gs_http2_has_room(output)) &&
           session->conn->state != GS_HTTP_CONN_CLOSED;
}

static void compact(struct gs_http2_session *session)
{
    for (struct gs_http2_stream *stream = session->first; stream && session->large;
         stream = stream->next)
        gs_http2_compact(session, stream);
}

/* A response that is sent at once need not be compacted, which takes time. */
static bool has_some(struct gs_http2_session *session)
{
    if (is_some(gs_http2_memory(session)))
        compact(session);
    return is_some(gs_http2_memory(session));
}

static bool may_keep_more(struct gs_http2_session *session)
{
    session->frames = session->conn->output;
    return gs_http2_may_keep(session, NULL);
}

/* Returns whether a request was answered: one, if there is some memory, so that the window tells
 * whether the next one may be. */
static bool answer(struct gs_http2_session *session)
{
    bool has_answered = false, may_keep = may_keep_more(session);
    struct gs_http2_stream *next;
    for (struct gs_http2_stream *stream = session->first; stream && may_answer(session);
         stream = next) {
        next = stream->next;
        if (stream->state == GS_HTTP2_READY && (may_keep || !stream->awaits_file) &&
            has_memory(session, stream) && gs_http2_answer(session, stream, NULL))
            has_answered = true;
        if (has_answered && has_some(session))
            break;
    }
    return has_answered;
}

static void drain(struct gs_http2_session *session)
{
    const struct gs_http_conn *conn = session->conn;
    uint64_t max = conn->service->options.max_requests;
    if (max && conn->requests >= max)
        gs_http2_accept_no_more(session);
    if (conn->flags & GS_HTTP_CONN_DRAINING)
        gs_http2_drain(session);
}

/* Answer what is ready, as far as there is room for it. */
static void advance(struct gs_http2_session *session)
{
    bool has_answered = true;
    while (has_answered && session->conn->state != GS_HTTP_CONN_CLOSED) {
        has_answered = answer(session);
        drain(session);
        produce(session);
        compact(session);
    }
    session->base.is_over = !session->unsent && gs_http2_is_over(session);
}

/* ---- Operations ---- */

/* What is received is taken in parts, so that answers make room for more requests. */
#define PART ((size_t)4096)

static bool has_ended(const struct gs_http2_session *session)
{
    return session->is_ending || session->conn->state == GS_HTTP_CONN_CLOSED;
}

/* The heads of many requests take much memory, and what they were received in, little: so it is
 * kept until the load is complete, or the output sent, for which the peer need send nothing. If it
 * is too much for that, some more of it is taken. */
static bool must_wait(const struct gs_http2_session *session, size_t left)
{
    const struct gs_http_conn *conn = session->conn;
    size_t memory = gs_http2_memory(session);
    return (conn->load || conn->output) && is_much(memory) && memory + left <= GS_HTTP2_MEMORY_MAX;
}

/* Returns how many bytes were taken. */
static size_t process(struct gs_http2_session *session, const char *bytes, size_t n)
{
    size_t at = 0, advanced = 0;
    while (at < n && !has_ended(session) && !must_wait(session, n - at)) {
        size_t part = gs_http2_take(session, bytes + at, n - at);
        if (!part)
            fail(session);
        at += part;
        if (at < n && (at - advanced >= PART || is_much(gs_http2_memory(session)))) {
            advance(session);
            advanced = at;
        }
    }
    advance(session);
    return has_ended(session) ? n : at;
}

/* ---- Memory ---- */

/* At the end of each operation. was_blocked: the peer did not take what was sent before; then it
 * would not take the reason, either. */
static void limit_memory(struct gs_http2_session *session, bool was_blocked)
{
    const struct gs_http_conn *conn = session->conn;
    size_t all = sizeof *session + gs_http2_memory(session) + session->input_n;
    if (conn->state == GS_HTTP_CONN_CLOSED || all <= GS_HTTP2_KEPT_MAX)
        return;
    gs_http2_end_overload(session);
    if (was_blocked)
        fail(session);
    else
        advance(session);
}

static void keep_input(struct gs_http2_session *session, const char *bytes, size_t n)
{
    char *input = realloc(session->input, session->input_n + n);
    if (!input) {
        fail(session);
        return;
    }
    memcpy(input + session->input_n, bytes, n);
    session->input = input;
    session->input_n += n;
    session->base.has_input = true;
}

static void process_input(struct gs_http2_session *session)
{
    size_t done = process(session, session->input, session->input_n);
    session->input_n -= done;
    session->base.has_input = session->input_n > 0;
    if (session->input_n) {
        memmove(session->input, session->input + done, session->input_n);
        return;
    }
    free(session->input);
    session->input = NULL;
}

static void receive(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    struct gs_http2_session *session = enter(conn, now_ns);
    if (!session)
        return;
    bool was_blocked = conn->output != NULL;
    size_t done = session->input_n ? 0 : process(session, bytes, n);
    if (done < n)
        keep_input(session, bytes + done, n - done);
    limit_memory(session, was_blocked);
}

static void go_on(struct gs_http2_session *session)
{
    bool was_blocked = session->conn->output != NULL;
    if (session->input_n) /* before there is output again: a download would keep it waiting */
        process_input(session);
    else
        advance(session);
    limit_memory(session, was_blocked);
}

/* A load that is requested starts once the output is sent: a download does not go on before. */
static void resume(struct gs_http_conn *conn, uint64_t now_ns)
{
    struct gs_http2_session *session =
        !conn->load || conn->load->is_taken ? enter(conn, now_ns) : NULL;
    if (session)
        go_on(session);
}

static void loaded(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns)
{
    struct gs_http2_session *session = enter(conn, now_ns);
    if (!session)
        return;
    struct gs_http2_stream *stream = session->loading;
    session->loading = NULL;
    if (stream)
        (void)gs_http2_answer(session, stream, load);
    go_on(session);
}

static void end(struct gs_http_conn *conn, uint64_t now_ns)
{
    struct gs_http2_session *session = enter(conn, now_ns);
    if (!session)
        return;
    gs_http2_terminate(session, NGHTTP2_NO_ERROR);
    produce(session);
    session->base.is_over = true;
}

static void free_session(struct gs_http_conn *conn)
{
    struct gs_http2_session *session = gs_http2_session_of(conn);
    if (enter(conn, session->now_ns)) /* no time is given: that of the last call */
        done(session);
    free(session->input);
    free(session);
    conn->http2 = NULL;
}

static bool may_keep(struct gs_http_conn *conn, const struct gs_http_page *page)
{
    return gs_http2_may_keep(gs_http2_session_of(conn), page);
}

/* ---- Streams ---- */

static void on_end(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    if (stream->state <= GS_HTTP2_BODY)
        gs_http2_set_state(session, stream, GS_HTTP2_READY);
}

static void on_head(struct gs_http2_session *session, struct gs_http2_stream *stream, bool is_end)
{
    if (is_some(gs_http2_memory(session)))
        gs_http2_shrink_head(session, stream);
    if (is_end) {
        on_end(session, stream);
    } else {
        gs_http2_set_state(session, stream, GS_HTTP2_BODY);
        gs_http2_start_body(session, stream);
    }
}

static void on_body(struct gs_http2_session *session, struct gs_http2_stream *stream,
                    const uint8_t *bytes, size_t n)
{
    (void)bytes;
    session->conn->transferred += n;
    if (!stream || stream->state != GS_HTTP2_BODY)
        return;
    stream->body_n += n;
    if (stream->body_n > session->options->max_body)
        gs_http2_refuse_body(session, stream);
}

/* Its response is logged as far as it was sent. */
static void on_close(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    gs_http2_end_response(session, stream);
    gs_http2_set_state(session, stream, GS_HTTP2_HEAD);
    if (session->loading == stream)
        session->loading = NULL;
}

/* Cookies may take more memory than all else of a request, and nobody reads them. */
static const struct gs_http2_user files = {
    .keeps = gs_http_request_stores,
    .on_head = on_head,
    .on_body = on_body,
    .on_end = on_end,
    .on_close = on_close,
};

/* ---- The start ---- */

static struct gs_http2 *start(struct gs_http_conn *conn, uint64_t now_ns)
{
    struct gs_http2_session *session = malloc(sizeof *session);
    if (!session)
        return NULL;
    struct gs_http_service *service = conn->service;
    *session = (struct gs_http2_session){
        .user = &files,
        .options = &service->options,
        .counts = service->counts,
        .block = &service->http2_block,
        .desk = &service->http2_desk,
        .streams_max = GS_HTTP2_STREAMS_MAX,
        .conn = conn,
        .now_ns = now_ns,
    };
    if (gs_http2_session_init(session)) {
        free(session);
        return NULL;
    }
    return &session->base;
}

const struct gs_http2_operations *gs_http2_operations(void)
{
    static const struct gs_http2_operations operations = {
        .start = start,
        .free = free_session,
        .receive = receive,
        .resume = resume,
        .loaded = loaded,
        .may_keep = may_keep,
        .end = end,
    };
    return &operations;
}
