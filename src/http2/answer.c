/* Responses: decided and built by http/handle.c, as those of HTTP/1.1, with the connection as the
 * context; then the head becomes fields for libnghttp2, and the rest is the body. */
#include "http2/session.h"

#include "http/conn.h"
#include "http/load.h"

#include <malloc.h>
#include <stdlib.h>

#define FRAME_HEADER 9
#define COPY_MAX ((size_t)2048)
#define EXCESS_MAX 256u
#define SHARING_MIN ((uint64_t)64 << 10)

/* ---- The response ---- */

static bool is_large(const struct gs_http2_stream *stream)
{
    return stream->response && stream->response->size;
}

static void set_response(struct gs_http2_session *session, struct gs_http2_stream *stream,
                         struct gs_http_output *response)
{
    session->large -= is_large(stream);
    session->held -= stream->response ? malloc_usable_size(stream->response) : 0;
    stream->response = response;
    session->large += is_large(stream);
    session->held += response ? malloc_usable_size(response) : 0;
}

/* The line of the log may be as long as the head. */
static void count_log(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http_log_record *record = stream->response->log_records;
    stream->log_size = record ? (uint32_t)malloc_usable_size(record) : 0;
    session->allocated += stream->log_size;
}

/* The log and the counters have the connection as their context. */
void gs_http2_end_response(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http_conn *conn = session->conn;
    struct gs_http_output *output = conn->output, *response = stream->response;
    if (!response)
        return;
    set_response(session, stream, NULL);
    session->allocated -= stream->log_size;
    if (response->position == response->end)
        gs_http_service_count_sent(conn->service, response, session->now_ns);
    conn->output = response;
    gs_http_flush_log(conn, true);
    conn->output = output;
    gs_http_service_free_output(conn->service, response);
}

void gs_http2_compact(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http_output *response = stream->response;
    struct gs_http_output *rest = is_large(stream) ? gs_http_output_compact(response) : NULL;
    if (!rest)
        return;
    set_response(session, stream, rest);
    gs_http_service_free_output(session->conn->service, response);
}

/* ---- Files ----
 * Each response that waits for a window may keep a file open. If these were most of those that the
 * process may have, other connections would get none. */

static const struct gs_http_page *file_of(const struct gs_http_output *output)
{
    for (uint32_t i = output->first; i < output->count; i++) {
        const struct gs_http_page *page = output->segments[i].page;
        if (page && page->fd >= 0)
            return page;
    }
    return NULL;
}

bool gs_http2_may_keep(struct gs_http2_session *session, const struct gs_http_page *page)
{
    bool (*may_open_more)(void) = session->options->may_open_more;
    if (!may_open_more || may_open_more())
        return true;
    const struct gs_http_page *kept = session->frames ? file_of(session->frames) : NULL;
    for (const struct gs_http2_stream *stream = session->first; stream; stream = stream->next) {
        const struct gs_http_page *other = stream->response ? file_of(stream->response) : NULL;
        if (other && other == page)
            return true;
        kept = other ? other : kept;
    }
    return !kept || kept == page;
}

/* ---- Frames ---- */

bool gs_http2_has_room(const struct gs_http_output *output)
{
    return gs_http_output_has_room(output, FRAME_HEADER + COPY_MAX, 3) &&
           output->end - output->position < GS_HTTP2_OUTPUT_MAX;
}

/* A frame that would end a little behind what is built ahead ends there: so with TLS, a large file
 * is sent in full records. */
static size_t fit(const struct gs_http_output *output, size_t n)
{
    uint64_t end = output->end - output->position + FRAME_HEADER + n;
    uint64_t excess = end > GS_HTTP2_OUTPUT_MAX ? end - GS_HTTP2_OUTPUT_MAX : 0;
    return excess <= EXCESS_MAX && excess < n ? n - (size_t)excess : n;
}

static ssize_t read_data(nghttp2_session *nghttp2, int32_t id, uint8_t *buffer, size_t n,
                         uint32_t *flags, nghttp2_data_source *source, void *data)
{
    (void)nghttp2, (void)id, (void)buffer;
    const struct gs_http2_session *session = data;
    const struct gs_http2_stream *stream = source->ptr;
    const struct gs_http_output *response = stream->response;
    const struct gs_http_segment *segment = &response->segments[response->first];
    if (n > segment->piece.n)
        n = (size_t)segment->piece.n;
    if (n > COPY_MAX && !segment->page)
        n = COPY_MAX;
    n = fit(session->conn->output, n);
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (response->end - response->position == n)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

int gs_http2_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *header,
                       size_t n, nghttp2_data_source *source, void *data)
{
    (void)nghttp2, (void)frame;
    struct gs_http2_session *session = data;
    const struct gs_http2_stream *stream = source->ptr;
    struct gs_http_output *output = session->conn->output;
    gs_http_output_put(output, (struct gs_http_text){(const char *)header, FRAME_HEADER});
    gs_http_output_move(output, stream->response, n);
    gs_http2_note_work(session, n);
    return gs_http2_has_room(output) ? 0 : NGHTTP2_ERR_PAUSE;
}

/* The head is a page's, or of this response alone. */
static const struct gs_http2_fields *fields_of(const struct gs_http2_session *session,
                                               const struct gs_http_output *response,
                                               struct gs_http2_fields *space, size_t *ret_head_n)
{
    struct gs_http_service *service = session->conn->service;
    struct gs_http_page *page = response->segments[0].page;
    if (!page) {
        const struct gs_http_piece *piece = &response->segments[0].piece;
        *ret_head_n =
            gs_http2_split_head((struct gs_http_text){piece->bytes, (size_t)piece->n}, space);
        return space;
    }
    (void)gs_http_service_date(service, session->now_ns);
    int64_t now = gs_http_service_wall_seconds(service, session->now_ns);
    *ret_head_n = page->head.n;
    return gs_http2_page_fields(service, page, page->stat.st_mtim.tv_sec > now, space);
}

/* Clients that tell no priorities expect that large files share the connection, and do not keep a
 * small page waiting; the default of RFC 9218 is one after another. */
static void share_connection(struct gs_http2_session *session, const struct gs_http2_stream *stream,
                             uint64_t body_n)
{
    nghttp2_extpri priority = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    if (body_n > SHARING_MIN && !stream->has_priority)
        (void)nghttp2_session_change_extpri_stream_priority(session->nghttp2, stream->id, &priority,
                                                            0);
}

/* Give libnghttp2 the response, which becomes the stream's. */
static void submit(struct gs_http2_session *session, struct gs_http2_stream *stream,
                   struct gs_http_output *response)
{
    struct gs_http2_fields space;
    size_t head_n;
    const struct gs_http2_fields *fields = fields_of(session, response, &space, &head_n);
    nghttp2_data_provider provider = {{.ptr = stream}, read_data};
    gs_http2_set_state(session, stream, GS_HTTP2_ANSWERING);
    set_response(session, stream, response);
    count_log(session, stream);
    gs_http_count(&session->conn->service->counts->http2_requests, 1);
    gs_http2_note_work(session, 0);
    bool has_body = response->end > head_n;
    gs_http2_free_head(session, stream);
    share_connection(session, stream, response->end - head_n);
    int err = nghttp2_submit_response(session->nghttp2, stream->id, fields->all, fields->count,
                                      has_body ? &provider : NULL);
    gs_http_output_advance(response, head_n);
    if (err)
        nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE, stream->id,
                                  NGHTTP2_INTERNAL_ERROR);
}

static void submit_continue(struct gs_http2_session *session, const struct gs_http2_stream *stream)
{
    const nghttp2_nv status = {(uint8_t *)":status", (uint8_t *)"100", 7, 3, NGHTTP2_NV_FLAG_NONE};
    (void)nghttp2_submit_headers(session->nghttp2, NGHTTP2_FLAG_NONE, stream->id, NULL, &status, 1,
                                 NULL);
}

/* ---- Handling ---- */

/* What the handler of HTTP/1 changes of its context, which is kept meanwhile. */
struct context {
    struct gs_http_output *output;
    uint8_t flags;
};

static struct context enter(struct gs_http_conn *conn)
{
    gs_http2_session_of(conn)->frames = conn->output;
    struct context context = {conn->output, conn->flags};
    conn->output = NULL;
    return context;
}

/* Returns the response; NULL: there is none. */
static struct gs_http_output *leave(struct gs_http_conn *conn, struct context context)
{
    struct gs_http_output *response = conn->output;
    conn->output = context.output;
    conn->flags = context.flags;
    conn->state = GS_HTTP_CONN_HEAD;
    return response;
}

static void reset(struct gs_http2_session *session, struct gs_http2_stream *stream, uint32_t code)
{
    gs_http2_set_state(session, stream, GS_HTTP2_ANSWERING);
    (void)nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE, stream->id, code);
}

/* If there is no memory for the response, the stream ends. */
static void finish(struct gs_http2_session *session, struct gs_http2_stream *stream,
                   struct gs_http_output *response)
{
    if (response)
        submit(session, stream, response);
    else
        reset(session, stream, NGHTTP2_INTERNAL_ERROR);
}

void gs_http2_start_body(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http_conn *conn = session->conn;
    struct gs_http_request request;
    unsigned status = gs_http2_parse(session, stream, &request);
    struct context context = enter(conn);
    request.chunked |= !request.has_length;
    enum gs_http_handled handled = GS_HTTP_WAITING;
    if (status)
        handled = gs_http_refuse(conn, &request, status, session->now_ns);
    else if (request.chunked || request.content_length)
        handled = gs_http_handle(conn, &request, false, NULL, session->now_ns);
    struct gs_http_output *response = leave(conn, context);
    if (handled != GS_HTTP_WAITING) {
        finish(session, stream, response);
        return;
    }
    if (!response)
        return;
    submit_continue(session, stream);
    gs_http_service_free_output(conn->service, response);
}

void gs_http2_refuse_body(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http_conn *conn = session->conn;
    struct gs_http_request request;
    (void)gs_http2_parse(session, stream, &request);
    request.refusal = GS_HTTP_REFUSED_BODY;
    struct context context = enter(conn);
    (void)gs_http_refuse(conn, &request, 413, session->now_ns);
    finish(session, stream, leave(conn, context));
}

/* It is tried to respond later. */
static void wait_again(struct gs_http2_session *session, struct gs_http2_stream *stream,
                       struct gs_http_output *response)
{
    if (response)
        gs_http_service_free_output(session->conn->service, response);
    gs_http2_set_state(session, stream, GS_HTTP2_READY);
    gs_http2_shrink_head(session, stream);
}

/* While another stream's file is loaded, only what is cached can be answered: for the handler the
 * output is then in use. Without memory for that, even a cached page waits for the load. */
bool gs_http2_answer(struct gs_http2_session *session, struct gs_http2_stream *stream,
                     struct gs_http_load *load)
{
    struct gs_http_conn *conn = session->conn;
    struct gs_http_output *busy = NULL;
    struct gs_http_request request;
    if (conn->load) {
        busy = gs_http_service_new_output(conn->service);
        if (!busy)
            return false;
        busy->started_ns = session->now_ns;
    }
    unsigned status = gs_http2_parse(session, stream, &request);
    struct context context = enter(conn);
    conn->output = busy;
    enum gs_http_handled handled =
        status ? gs_http_refuse(conn, &request, status, session->now_ns)
               : gs_http_handle(conn, &request, true, load, session->now_ns);
    struct gs_http_output *response = leave(conn, context);
    if (handled == GS_HTTP_WAITING) {
        gs_http2_set_state(session, stream, GS_HTTP2_LOADING);
        session->loading = stream;
        return true;
    }
    if (handled == GS_HTTP_CROWDED || (handled == GS_HTTP_BLOCKED && busy)) {
        wait_again(session, stream, response);
        stream->awaits_file = handled == GS_HTTP_CROWDED;
        return false;
    }
    finish(session, stream, response);
    return true;
}
