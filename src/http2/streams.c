/* What libnghttp2 reports of streams. */
#include "http2/streams.h"

#include <stdlib.h>

/* ---- The start and end of a stream ---- */

static void refuse(nghttp2_session *nghttp2, int32_t id)
{
    (void)nghttp2_submit_rst_stream(nghttp2, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
}

static bool has_room(const struct gs_http2_session *session)
{
    return gs_http2_memory(session) <= GS_HTTP2_MEMORY_MAX + session->memory_more;
}

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *data)
{
    struct gs_http2_session *session = data;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct gs_http2_stream *stream =
        has_room(session) ? gs_http2_realloc(session, NULL, sizeof *stream) : NULL;
    gs_http2_drop_header(session); /* of a malformed block, whose stream is not closed yet */
    gs_http2_note_opened(session, frame->hd.stream_id);
    if (!stream) {
        refuse(nghttp2, frame->hd.stream_id);
        return 0;
    }
    *stream = (struct gs_http2_stream){.id = frame->hd.stream_id, .link = session->last};
    *session->last = stream;
    session->last = &stream->next;
    session->base.streams++;
    return nghttp2_session_set_stream_user_data(nghttp2, stream->id, stream);
}

void gs_http2_free_stream(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    session->user->on_close(session, stream);
    *stream->link = stream->next;
    if (stream->next)
        stream->next->link = stream->link;
    else
        session->last = stream->link;
    session->base.streams--;
    gs_http2_free_head(session, stream);
    gs_http2_release(session, stream);
}

static int on_stream_close(nghttp2_session *nghttp2, int32_t id, uint32_t code, void *data)
{
    (void)code;
    struct gs_http2_session *session = data;
    struct gs_http2_stream *stream = nghttp2_session_get_stream_user_data(nghttp2, id);
    if (id == session->newest)
        gs_http2_drop_header(session);
    if (stream)
        gs_http2_free_stream(session, stream);
    return 0;
}

/* ---- Requests ---- */

static void end_request(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    stream->body_is_complete = true;
    session->user->on_end(session, stream);
}

static void on_head(struct gs_http2_session *session, struct gs_http2_stream *stream, bool is_end)
{
    gs_http2_end_header(session, stream);
    stream->body_is_complete = is_end;
    if (stream->is_broken || !has_room(session)) {
        gs_http2_free_head(session, stream);
        refuse(session->nghttp2, stream->id);
    } else {
        session->user->on_head(session, stream, is_end);
    }
}

static void on_message(struct gs_http2_session *session, const nghttp2_frame *frame)
{
    struct gs_http2_stream *stream =
        nghttp2_session_get_stream_user_data(session->nghttp2, frame->hd.stream_id);
    bool is_head = frame->hd.type == NGHTTP2_HEADERS;
    bool is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (!stream)
        gs_http2_drop_header(session);
    else if (is_head && stream->state == GS_HTTP2_HEAD)
        on_head(session, stream, is_end);
    else if (is_end)
        end_request(session, stream);
}

static int on_data(nghttp2_session *nghttp2, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *data)
{
    (void)flags;
    struct gs_http2_session *session = data;
    struct gs_http2_stream *stream = nghttp2_session_get_stream_user_data(nghttp2, id);
    session->user->on_body(session, stream, bytes, n);
    return 0;
}

/* ---- Frames ---- */

/* That of a stream which has ended takes from the budget of frames without use only. */
static void on_reset(struct gs_http2_session *session, int32_t id)
{
    if (!nghttp2_session_find_stream(session->nghttp2, id))
        return;
    gs_http_count(&session->counts->http2_resets, 1);
    (void)gs_http2_may_reset(session);
}

static int on_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *data)
{
    struct gs_http2_session *session = data;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        on_message(session, frame);
        break;
    case NGHTTP2_RST_STREAM:
        on_reset(session, frame->hd.stream_id);
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK && session->base.is_draining)
            gs_http2_accept_no_more(session);
        break;
    default:
        break;
    }
    (void)nghttp2;
    return 0;
}

/* A body that nobody waits for is not to be sent: after the whole response the peer is told so (RFC
 * 9113, 8.1). */
static void on_end_sent(struct gs_http2_session *session, int32_t id)
{
    const struct gs_http2_stream *stream =
        nghttp2_session_get_stream_user_data(session->nghttp2, id);
    if (stream && !stream->body_is_complete && !stream->is_read)
        (void)nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
}

/* A peer that we refuse streams may repeat them for as long as it gets answers between. */
static void on_reset_sent(struct gs_http2_session *session, uint32_t error)
{
    if (error == NGHTTP2_REFUSED_STREAM) {
        gs_http_count(&session->counts->http2_refused, 1);
        (void)gs_http2_may_disturb(session);
    } else if (error != NGHTTP2_NO_ERROR) {
        (void)gs_http2_may_reset(session);
    }
}

static int on_frame_sent(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *data)
{
    (void)nghttp2;
    struct gs_http2_session *session = data;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        if (frame->hd.stream_id > session->newest_reset)
            session->newest_reset = frame->hd.stream_id;
        on_reset_sent(session, frame->rst_stream.error_code);
    } else if (frame->hd.type <= NGHTTP2_HEADERS) {
        session->base.has_response = true;
        if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
            on_end_sent(session, frame->hd.stream_id);
    }
    return 0;
}

/* A field that no message may have makes the request malformed. */
static int on_invalid_header(nghttp2_session *nghttp2, const nghttp2_frame *frame,
                             nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags, void *data)
{
    (void)nghttp2, (void)frame, (void)name, (void)value, (void)flags, (void)data;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

void gs_http2_set_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, gs_http2_on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback2(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, gs_http2_send_data);
}
