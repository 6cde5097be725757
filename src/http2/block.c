/* Header blocks, whose frames are kept in their bytes until the last one is complete: of a field
 * that is compressed, libnghttp2 would have twice its length meanwhile.
 *
 *    OUTSIDE <----- GATHERING -----> PASSING     the block is larger than that of a request may be,
 *       `---------------^               |        or in more frames: libnghttp2 gets all at once,
 *       ^-------------------------------'        and finds out
 */
#include "http2/session.h"

#include <malloc.h>
#include <stdlib.h>

/* What a request that is not refused may need, and the headers of frames. */
static size_t gathered_max(const struct gs_http2_session *session)
{
    return session->options->max_request_line + session->options->max_header + 1024;
}

/* Returns false if there is no memory. */
static bool append(struct gs_http2_session *session, struct gs_http_text bytes)
{
    size_t need = session->gathered_n + bytes.n;
    if (need > session->gathered_size) {
        size_t size = need + session->gathered_n / 4;
        char *gathered = gs_http2_realloc(session, session->gathered, size);
        if (!gathered)
            return false;
        session->gathered = gathered;
        session->gathered_size = size;
    }
    memcpy(session->gathered + session->gathered_n, bytes.bytes, bytes.n);
    session->gathered_n = need;
    return true;
}

/* A frame that does not belong to the block ends it, too: libnghttp2 finds out. */
static bool ends_block(const struct gs_http2_session *session)
{
    uint8_t type = session->header[3], flags = session->header[4];
    if (session->header_n)
        return false;
    if (type != NGHTTP2_HEADERS && type != NGHTTP2_CONTINUATION)
        return true;
    return flags & NGHTTP2_FLAG_END_HEADERS && !session->payload_left;
}

static bool begins_block(const struct gs_http2_session *session)
{
    return session->header_block == GS_HTTP2_OUTSIDE && !session->header_n &&
           session->header[3] == NGHTTP2_HEADERS;
}

/* Of the header of a frame, libnghttp2 counts each piece as a frame. */
static bool must_keep(const struct gs_http2_session *session)
{
    return session->header_block == GS_HTTP2_GATHERING || session->header_n;
}

char *gs_http2_take_gathered(struct gs_http2_session *session)
{
    char *gathered = session->gathered;
    session->allocated -= gathered ? malloc_usable_size(gathered) : 0;
    session->gathered = NULL;
    session->gathered_n = session->gathered_size = 0;
    return gathered;
}

bool gs_http2_gather(struct gs_http2_session *session, struct gs_http_text *bytes)
{
    if (begins_block(session)) {
        session->header_block = GS_HTTP2_GATHERING;
        session->block_frames = 0;
    }
    if (session->header_block == GS_HTTP2_OUTSIDE)
        return true;
    bool is_at_end = ends_block(session);
    session->block_frames += !session->header_n && !session->payload_left;
    session->base.is_in_header = !is_at_end;
    if (is_at_end)
        session->header_block = GS_HTTP2_OUTSIDE;
    if (!must_keep(session) && !session->gathered)
        return true;
    if (!append(session, *bytes))
        return false;
    bool is_too_much = session->gathered_n > gathered_max(session) ||
                       session->block_frames > GS_HTTP2_CONTINUATIONS_MAX + 1;
    if (is_too_much && !is_at_end)
        session->header_block = GS_HTTP2_PASSING;
    *bytes = (struct gs_http_text){session->gathered, session->gathered_n};
    if (must_keep(session))
        bytes->n = 0;
    return true;
}
