#include "http2/session.h"

#include "http/load.h"
#include "http2/http2.h"
#include "http2/streams.h"

#include <stdlib.h>

#define CONTINUATIONS_MAX 8
#define ACKS_MAX 200
#define SETTINGS_MAX 32
#define TABLE_SIZE 4096          /* of the peer's fields */
#define RESPONSE_TABLE_SIZE 1024 /* of ours */

static void fail(struct gs_http2_session *session)
{
    session->conn->state = GS_HTTP_CONN_CLOSED;
}

static void end_nghttp2(struct gs_http2_session *session)
{
    while (session->first)
        gs_http2_free_stream(session, session->first);
    gs_http2_drop_header(session);
    nghttp2_session_del(session->nghttp2);
    session->nghttp2 = NULL;
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
    end_nghttp2(session);
    return NULL;
}

void gs_http2_terminate(struct gs_http2_session *session, uint32_t error)
{
    if (!session->is_ending)
        (void)nghttp2_session_terminate_session(session->nghttp2, error);
    session->is_ending = session->is_last = true;
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

static bool may_answer(const struct gs_http2_session *session)
{
    const struct gs_http_output *output = session->conn->output;
    return session->large < GS_HTTP2_LARGE_MAX && (!output || gs_http2_has_room(output)) &&
           session->conn->state != GS_HTTP_CONN_CLOSED;
}

/* Returns whether a request was answered. */
static bool answer(struct gs_http2_session *session)
{
    bool has_answered = false;
    struct gs_http2_stream *next;
    for (struct gs_http2_stream *stream = session->first; stream && may_answer(session);
         stream = next) {
        next = stream->next;
        if (stream->state == GS_HTTP2_READY && gs_http2_answer(session, stream, NULL))
            has_answered = true;
    }
    return has_answered;
}

void gs_http2_accept_no_more(struct gs_http2_session *session)
{
    if (session->is_last)
        return;
    session->is_last = true;
    (void)nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(session->nghttp2),
                                NGHTTP2_NO_ERROR, NULL, 0);
}

/* RFC 9113, 6.8: first the peer is told to open no more streams; those that it has opened before it
 * knew have arrived when its answer to the PING has. */
static void drain(struct gs_http2_session *session)
{
    const struct gs_http_conn *conn = session->conn;
    uint64_t max = conn->service->options.max_requests;
    if (max && conn->requests >= max)
        gs_http2_accept_no_more(session);
    if (!(conn->flags & GS_HTTP_CONN_DRAINING) || session->base.is_draining)
        return;
    session->base.is_draining = true;
    (void)nghttp2_submit_shutdown_notice(session->nghttp2);
    (void)nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

/* Answer what is ready, as far as there is room for it. */
static void advance(struct gs_http2_session *session)
{
    bool has_answered = true;
    while (has_answered && session->conn->state != GS_HTTP_CONN_CLOSED) {
        has_answered = answer(session);
        drain(session);
        produce(session);
    }
    for (struct gs_http2_stream *stream = session->first; stream && session->large;
         stream = stream->next)
        gs_http2_compact(session, stream);
    session->base.is_over = !session->unsent && !nghttp2_session_want_read(session->nghttp2) &&
                            !nghttp2_session_want_write(session->nghttp2);
}

/* ---- Operations ---- */

/* What is received is taken in parts, so that answers make room for more requests. */
#define PART ((size_t)4096)

static void take(struct gs_http2_session *session, const char *bytes, size_t n)
{
    if (session->is_ending)
        return;
    ssize_t taken = nghttp2_session_mem_recv(session->nghttp2, (const uint8_t *)bytes, n);
    if (taken == NGHTTP2_ERR_BAD_CLIENT_MAGIC || taken == NGHTTP2_ERR_NOMEM)
        fail(session);
    else if (taken < 0 || session->allocated > GS_HTTP2_ABUSE_MAX)
        gs_http2_end_abuse(session);
}

static bool has_ended(const struct gs_http2_session *session)
{
    return session->is_ending || session->conn->state == GS_HTTP_CONN_CLOSED;
}

/* The heads of many requests take much memory, and what they were received in, little: so it is
 * kept until the load is complete, or the output sent, for which the peer need send nothing. */
static bool must_wait(const struct gs_http2_session *session)
{
    const struct gs_http_conn *conn = session->conn;
    return (conn->load || conn->output) && session->allocated > GS_HTTP2_MEMORY_MAX / 2;
}

/* Returns how many bytes were taken. */
static size_t process(struct gs_http2_session *session, const char *bytes, size_t n)
{
    size_t at = 0, advanced = 0;
    while (at < n && !has_ended(session) && !must_wait(session)) {
        size_t part = gs_http2_look_at(session, bytes + at, n - at);
        take(session, bytes + at, part);
        at += part;
        if (at < n && (at - advanced >= PART || session->allocated > GS_HTTP2_MEMORY_MAX / 2)) {
            advance(session);
            advanced = at;
        }
    }
    advance(session);
    return has_ended(session) ? n : at;
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
    size_t done = session->input_n ? 0 : process(session, bytes, n);
    if (done < n)
        keep_input(session, bytes + done, n - done);
}

static void go_on(struct gs_http2_session *session)
{
    advance(session);
    if (session->input_n && session->conn->state != GS_HTTP_CONN_CLOSED)
        process_input(session);
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
    if (enter(conn, 0))
        end_nghttp2(session);
    free(session->input);
    free(session);
    conn->http2 = NULL;
}

/* ---- The start ---- */

static int submit_settings(struct gs_http2_session *session)
{
    const struct gs_http_options *options = &session->conn->service->options;
    const nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, TABLE_SIZE},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GS_HTTP2_STREAMS_MAX},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
         (uint32_t)(options->max_request_line + options->max_header)},
    };
    return nghttp2_submit_settings(session->nghttp2, NGHTTP2_FLAG_NONE, entries,
                                   sizeof entries / sizeof *entries);
}

static int set_options(nghttp2_option *option)
{
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, RESPONSE_TABLE_SIZE);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_max_outbound_ack(option, ACKS_MAX);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_builtin_recv_extension_type(option, NGHTTP2_PRIORITY_UPDATE);
    /* limits.c counts them, by the clock that it is given. */
    nghttp2_option_set_stream_reset_rate_limit(option, UINT32_MAX, UINT32_MAX);
    return 0;
}

static int start_nghttp2(struct gs_http2_session *session)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    int err = nghttp2_session_callbacks_new(&callbacks);
    if (!err)
        err = nghttp2_option_new(&option);
    if (!err)
        err = set_options(option);
    if (!err) {
        gs_http2_set_callbacks(callbacks);
        err = nghttp2_session_server_new3(&session->nghttp2, callbacks, session, option,
                                          &session->memory);
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return err;
}

static struct gs_http2 *start(struct gs_http_conn *conn, uint64_t now_ns)
{
    struct gs_http2_session *session = malloc(sizeof *session);
    if (!session)
        return NULL;
    *session = (struct gs_http2_session){.conn = conn, .now_ns = now_ns, .is_starting = true};
    session->last = &session->first;
    gs_http2_memory_init(session);
    gs_http2_limits_init(session);
    gs_http2_frames_init(session);
    int err = start_nghttp2(session);
    session->is_starting = false;
    if (!err && submit_settings(session)) {
        nghttp2_session_del(session->nghttp2);
        err = NGHTTP2_ERR_NOMEM;
    }
    if (err) {
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
        .end = end,
    };
    return &operations;
}
