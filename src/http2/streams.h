/* Between session.c and streams.c. */
#ifndef GS_HTTP2_STREAMS_H
#define GS_HTTP2_STREAMS_H

#include "http2/session.h"

void gs_http2_set_callbacks(nghttp2_session_callbacks *callbacks);

/* Its response is logged as far as it was sent. */
void gs_http2_free_stream(struct gs_http2_session *session, struct gs_http2_stream *stream);

/* Tell the peer that streams from now on are ignored: the second step of draining. */
void gs_http2_accept_no_more(struct gs_http2_session *session);

#endif
