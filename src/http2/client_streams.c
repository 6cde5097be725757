/* What libnghttp2 reports to a client. */
#include "http2/client.h"

#include <errno.h>

#define INTERIMS_MAX 32

/* NULL: the stream was canceled, or is over. */
static struct gs_http2_client_stream *stream_of(nghttp2_session *nghttp2, int32_t id)
{
    return nghttp2_session_get_stream_user_data(nghttp2, id);
}

static struct gs_http_text text_of(const uint8_t *bytes, size_t n)
{
    return (struct gs_http_text){(const char *)bytes, n};
}

/* ---- The end of a stream ---- */

void gs_http2_client_leave(struct gs_http2_client *client, struct gs_http2_client_stream *stream)
{
    (void)nghttp2_session_set_stream_user_data(client->nghttp2, stream->id, NULL);
    gs_list_remove(&stream->link);
    client->count--;
}

/* The response is complete. If the request is not, the server wants no more of it (RFC 9113, 8.1).
 */
static void finish(struct gs_http2_client *client, struct gs_http2_client_stream *stream)
{
    gs_http2_client_leave(client, stream);
    if (!nghttp2_session_get_stream_local_close(client->nghttp2, stream->id))
        (void)nghttp2_submit_rst_stream(client->nghttp2, NGHTTP2_FLAG_NONE, stream->id,
                                        NGHTTP2_CANCEL);
    client->user->on_end(client, stream, 0);
}

/* Before the end of the response: a complete one has left its stream. libnghttp2 reports streams
 * that GOAWAY does not cover, and requests that were not sent because of it, as refused. */
static int on_stream_close(nghttp2_session *nghttp2, int32_t id, uint32_t code, void *data)
{
    struct gs_http2_client *client = data;
    struct gs_http2_client_stream *stream = stream_of(nghttp2, id);
    if (!stream)
        return 0;
    gs_http2_client_leave(client, stream);
    stream->is_unprocessed = !stream->err && code == NGHTTP2_REFUSED_STREAM;
    int err = stream->is_unprocessed || stream->is_reset ? -ECONNRESET : -EPROTO;
    client->user->on_end(client, stream, stream->err ? stream->err : err);
    return 0;
}

/* Requests that libnghttp2 has not given out are the last ones. It would keep them until there is
 * room, although none may be sent after GOAWAY. */
static void end_unsent(struct gs_http2_client *client)
{
    while (!gs_list_is_empty(&client->streams)) {
        struct gs_http2_client_stream *stream =
            gs_container_of(client->streams.previous, struct gs_http2_client_stream, link);
        if (nghttp2_session_find_stream(client->nghttp2, stream->id))
            return;
        gs_http2_client_leave(client, stream);
        stream->is_unprocessed = true;
        client->user->on_end(client, stream, -ECONNRESET);
    }
}

/* Has libnghttp2 reset the stream because of what was just reported. */
static int fail(struct gs_http2_client_stream *stream, int err)
{
    stream->err = err;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

/* ---- Heads ---- */

/* libnghttp2 has checked that there are three digits. */
static unsigned parse_status(const uint8_t *value)
{
    return (unsigned)(value[0] - '0') * 100 + (unsigned)(value[1] - '0') * 10 + value[2] - '0';
}

static int on_field(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name,
                    size_t name_n, const uint8_t *value, size_t n, uint8_t flags, void *data)
{
    (void)flags;
    struct gs_http2_client *client = data;
    struct gs_http2_client_stream *stream = stream_of(nghttp2, frame->hd.stream_id);
    if (!stream || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    stream->has_begun = true;
    stream->field_bytes += name_n + n;
    if (stream->field_bytes > client->max_header || ++stream->field_count > client->max_fields)
        return fail(stream, -EMSGSIZE);
    if (name[0] == ':') {
        stream->status = parse_status(value);
        return stream->status < 100 ? fail(stream, -EPROTO) : 0;
    }
    if (stream->status < 200)
        return 0;
    int err = client->user->on_field(client, stream, text_of(name, name_n), text_of(value, n));
    return err ? fail(stream, err) : 0;
}

/* A field that no message may have makes the response malformed. */
static int on_invalid_field(nghttp2_session *nghttp2, const nghttp2_frame *frame,
                            const uint8_t *name, size_t name_n, const uint8_t *value, size_t n,
                            uint8_t flags, void *data)
{
    (void)name, (void)name_n, (void)value, (void)n, (void)flags, (void)data;
    struct gs_http2_client_stream *stream = stream_of(nghttp2, frame->hd.stream_id);
    return stream ? fail(stream, -EPROTO) : 0;
}

static void on_interim(struct gs_http2_client *client, struct gs_http2_client_stream *stream)
{
    if (++stream->interims <= INTERIMS_MAX)
        return;
    stream->err = -EPROTO;
    (void)nghttp2_submit_rst_stream(client->nghttp2, NGHTTP2_FLAG_NONE, stream->id,
                                    NGHTTP2_ENHANCE_YOUR_CALM);
}

static void on_headers(struct gs_http2_client *client, struct gs_http2_client_stream *stream)
{
    if (stream->status < 200) {
        on_interim(client, stream);
    } else if (!stream->has_head) {
        stream->has_head = true;
        gs_http2_client_note_work(client, 0);
        client->user->on_head(client, stream);
    }
}

/* ---- Bodies and frames ---- */

static int on_data(nghttp2_session *nghttp2, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *data)
{
    (void)flags;
    struct gs_http2_client *client = data;
    struct gs_http2_client_stream *stream = stream_of(nghttp2, id);
    (void)nghttp2_session_consume_connection(nghttp2, n);
    if (!stream || stream->err)
        return 0;
    int err = client->user->on_body(client, stream, bytes, n);
    if (err && stream_of(nghttp2, id)) {
        stream->err = err;
        (void)nghttp2_submit_rst_stream(nghttp2, NGHTTP2_FLAG_NONE, id, NGHTTP2_INTERNAL_ERROR);
    }
    return 0;
}

static void on_message(struct gs_http2_client *client, const nghttp2_frame *frame)
{
    struct gs_http2_client_stream *stream = stream_of(client->nghttp2, frame->hd.stream_id);
    if (stream && frame->hd.type == NGHTTP2_HEADERS)
        on_headers(client, stream);
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return;
    stream = stream_of(client->nghttp2, frame->hd.stream_id); /* unless on_head has canceled it */
    if (stream && !stream->err)
        finish(client, stream);
}

static void on_reset(struct gs_http2_client_stream *stream)
{
    if (stream)
        stream->is_reset = true;
}

static int on_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *data)
{
    struct gs_http2_client *client = data;
    client->has_settings = true; /* the first frame */
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        on_message(client, frame);
        break;
    case NGHTTP2_RST_STREAM:
        on_reset(stream_of(nghttp2, frame->hd.stream_id));
        break;
    case NGHTTP2_GOAWAY:
        end_unsent(client);
        break;
    default:
        break;
    }
    return 0;
}

void gs_http2_client_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_field);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_field);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
