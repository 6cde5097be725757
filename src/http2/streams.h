/* Between session.c and streams.c. */
#ifndef GS_HTTP2_STREAMS_H
#define GS_HTTP2_STREAMS_H

#include "http2/session.h"

void gs_http2_set_callbacks(nghttp2_session_callbacks *callbacks);

void gs_http2_free_stream(struct gs_http2_session *session, struct gs_http2_stream *stream);

#endif
