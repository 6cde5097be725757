/* The frames that are received, before libnghttp2 sees them: it reports neither those that it
 * ignores nor, since it does not keep closed streams, what is sent on these. */
#include "http2/session.h"

/* ---- Streams that are closed ---- */

void gs_http2_note_opened(struct gs_http2_session *session, int32_t id)
{
    int32_t steps = (id - session->newest) / 2;
    session->opened = (steps < 64 ? session->opened << steps : 0) | 1;
    session->newest = id;
}

static bool was_opened(const struct gs_http2_session *session, int32_t id)
{
    int32_t steps = (session->newest - id) / 2;
    return steps < 64 && session->opened >> steps & 1;
}

/* RFC 9113, 5.1: on a stream that it has closed a peer sends nothing; on one that we have reset it
 * may until it knows that. */
static uint32_t error_on_closed(const struct gs_http2_session *session, int32_t id, uint8_t type)
{
    bool is_headers = type == NGHTTP2_HEADERS;
    if ((!is_headers && type != NGHTTP2_DATA) || id > session->newest || id % 2 == 0 ||
        id <= session->newest_reset || nghttp2_session_find_stream(session->nghttp2, id))
        return NGHTTP2_NO_ERROR;
    return was_opened(session, id) || !is_headers ? NGHTTP2_STREAM_CLOSED : NGHTTP2_PROTOCOL_ERROR;
}

/* ---- Frames ---- */

#define PREFACE_N 24
#define HEADER_N 9
#define PRIORITY_N 13 /* with the stream on which it depends */

static uint32_t get_32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool is_useful(uint8_t type, uint8_t flags, uint32_t n)
{
    return type == NGHTTP2_HEADERS ||
           (type == NGHTTP2_DATA && (flags & NGHTTP2_FLAG_END_STREAM || n >= GS_HTTP2_SMALL_DATA));
}

static void on_header(struct gs_http2_session *session)
{
    const uint8_t *header = session->header;
    int32_t id = (int32_t)(get_32(header + 5) & INT32_MAX);
    uint8_t type = header[3];
    bool is_priority = type == NGHTTP2_PRIORITY;
    uint32_t error = error_on_closed(session, id, type);
    session->payload_left = get_32(header) >> 8;
    if (is_priority &&
        (!id || (session->header_n == PRIORITY_N && id == (int32_t)get_32(header + HEADER_N))))
        error = NGHTTP2_PROTOCOL_ERROR;
    if (error)
        gs_http2_terminate(session, error);
    if (!is_useful(type, header[4], session->payload_left))
        (void)gs_http2_may_disturb(session);
}

static size_t header_need(const struct gs_http2_session *session)
{
    bool is_priority = session->header_n >= HEADER_N && session->header[3] == NGHTTP2_PRIORITY &&
                       get_32(session->header) >> 8 == 5;
    return is_priority ? PRIORITY_N : HEADER_N;
}

static size_t skip(uint32_t *left, size_t n)
{
    if (n > *left)
        n = *left;
    *left -= (uint32_t)n;
    return n;
}

void gs_http2_frames_init(struct gs_http2_session *session)
{
    session->payload_left = PREFACE_N;
}

size_t gs_http2_look_at(struct gs_http2_session *session, const char *bytes, size_t n)
{
    size_t at = skip(&session->payload_left, n);
    if (at && !session->payload_left)
        return at;
    while (at < n && session->header_n < header_need(session))
        session->header[session->header_n++] = (uint8_t)bytes[at++];
    if (session->header_n < header_need(session))
        return at;
    on_header(session);
    session->payload_left -= session->header_n - HEADER_N;
    session->header_n = 0;
    return at + skip(&session->payload_left, n - at);
}
