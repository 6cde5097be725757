#include "load/http2_session.h"

#include <errno.h>
#include <string.h>

enum { HEADER_MAX = 64 * 1024 };

/* Returns NULL for a stream that has been given up. */
static struct http2_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* ---- The end of a request ---- */

void gs_load_http2_detach(struct http2_client *client, struct http2_stream *stream)
{
    nghttp2_session_set_stream_user_data(client->session, stream->id, NULL);
}

static void leave_flight(struct http2_client *client, struct http2_stream *stream)
{
    gs_list_remove(&stream->link);
    client->in_flight_count--;
}

void gs_load_http2_finish(struct http2_client *client, struct http2_stream *stream,
                          enum load_error error)
{
    const struct load_settings *settings = client->connection.worker->settings;
    leave_flight(client, stream);
    gs_load_exchange_record(&stream->exchange, &client->connection, error);
    stream->is_retried = false;
    stream->due_ns =
        gs_clock_after(stream->exchange.times.end_ns, gs_load_pause_ns(settings, error));
    gs_list_append(&client->waiting, &stream->link);
}

void gs_load_http2_finish_or_retry(struct http2_client *client, struct http2_stream *stream,
                                   enum load_error error, bool may_retry)
{
    if (!may_retry || stream->is_retried || client->connection.worker->is_finished) {
        gs_load_http2_finish(client, stream, error);
        return;
    }
    leave_flight(client, stream);
    gs_load_exchange_retry(&stream->exchange, client->connection.worker);
    stream->is_retried = true;
    stream->due_ns = 0;
    gs_list_prepend(&client->waiting, &stream->link);
}

/* The response is complete. The request may not be: then the server wants no more of it. */
static void finish_response(struct http2_client *client, struct http2_stream *stream)
{
    struct load_worker *worker = client->connection.worker;
    stream->exchange.times.end_ns = client->received_ns;
    client->connection.is_reused = true;
    gs_load_http2_detach(client, stream);
    if (!nghttp2_session_get_stream_local_close(client->session, stream->id))
        (void)!nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, stream->id,
                                         NGHTTP2_CANCEL);
    gs_load_http2_finish(client, stream, gs_load_exchange_check(&stream->exchange, worker));
}

/* ---- Callbacks of nghttp2 ---- */

static ssize_t on_output(nghttp2_session *session, const uint8_t *bytes, size_t n, int flags,
                         void *data)
{
    struct http2_client *client = data;
    size_t room = OUTPUT_SIZE - client->output_end;
    (void)session, (void)flags;
    if (!room)
        return NGHTTP2_ERR_WOULDBLOCK;
    n = n < room ? n : room;
    memcpy(client->output + client->output_end, bytes, n);
    client->output_end += n;
    return (ssize_t)n;
}

static ssize_t on_body_wanted(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t n,
                              uint32_t *flags, nghttp2_data_source *source, void *data)
{
    const struct load_bytes *body = source->ptr;
    struct http2_stream *stream = stream_of(session, id);
    (void)data;
    if (!stream)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t left = body->length - stream->body_sent;
    n = n < left ? n : left;
    memcpy(bytes, body->bytes + stream->body_sent, n);
    stream->body_sent += n;
    if (n == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_headers(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct http2_client *client = data;
    struct http2_stream *stream = stream_of(session, frame->hd.stream_id);
    if (stream && stream->exchange.times.first_byte_ns == LOAD_NO_TIME)
        gs_load_exchange_first_byte(&stream->exchange, client->connection.worker,
                                    client->received_ns);
    return 0;
}

/* nghttp2 has checked that a status has three digits. */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t length, uint8_t flags,
                     void *data)
{
    struct http2_client *client = data;
    struct http2_stream *stream = stream_of(session, frame->hd.stream_id);
    (void)flags;
    if (!stream)
        return 0;
    if (name[0] == ':')
        stream->exchange.status =
            (unsigned)(value[0] - '0') * 100 + (unsigned)(value[1] - '0') * 10 + value[2] - '0';
    stream->header_bytes += name_length + length;
    if (stream->header_bytes <= HEADER_MAX)
        return 0;
    client->connection.worker->metrics.parse_reason = "the header fields are too long";
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *data)
{
    struct http2_stream *stream = stream_of(session, id);
    (void)flags, (void)bytes, (void)data;
    if (stream)
        stream->exchange.body_bytes += n;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct http2_client *client = data;
    client->has_settings = true;
    if (frame->hd.type == NGHTTP2_SETTINGS)
        client->stream_limit =
            nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    bool ends = (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
                frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (!ends && frame->hd.type != NGHTTP2_RST_STREAM)
        return 0;
    struct http2_stream *stream = stream_of(session, frame->hd.stream_id);
    if (stream && ends)
        finish_response(client, stream);
    else if (stream)
        stream->is_reset = true;
    return 0;
}

/* The text is one of nghttp2's constants. */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *data)
{
    struct http2_client *client = data;
    (void)session, (void)frame;
    client->connection.worker->metrics.parse_reason = nghttp2_strerror(error);
    return 0;
}

/* Before the end of the response: a complete one has left its stream. GOAWAY refuses the streams
 * that it leaves out. */
static int on_stream_closed(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    struct http2_client *client = data;
    struct http2_stream *stream = stream_of(session, id);
    if (!stream)
        return 0;
    struct load_metrics *metrics = &client->connection.worker->metrics;
    bool is_refused = code == NGHTTP2_REFUSED_STREAM;
    enum load_error error = is_refused || stream->is_reset ? LOAD_RESET : LOAD_PARSE;
    if (error == LOAD_PARSE && !metrics->parse_reason)
        metrics->parse_reason = "the response is malformed, or has not the length that it says";
    gs_load_http2_finish_or_retry(client, stream, error, is_refused);
    return 0;
}

int gs_load_http2_set_callbacks(struct http2_client *client)
{
    if (nghttp2_session_callbacks_new(&client->callbacks))
        return -ENOMEM;
    nghttp2_session_callbacks *callbacks = client->callbacks;
    nghttp2_session_callbacks_set_send_callback(callbacks, on_output);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_closed);
    return 0;
}

/* ---- Requests ---- */

int gs_load_http2_submit(struct http2_client *client, struct http2_stream *stream)
{
    const struct load_target *target = client->connection.worker->target;
    const struct load_fields *fields = target->requests[stream->exchange.request].fields;
    nghttp2_data_provider body = {.source.ptr = (void *)&target->body,
                                  .read_callback = on_body_wanted};
    stream->id = nghttp2_submit_request(client->session, NULL, fields->items, fields->count,
                                        target->body.length ? &body : NULL, stream);
    return stream->id < 0 ? -ENOMEM : 0;
}
