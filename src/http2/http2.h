/* HTTP/2 by libnghttp2: a second way from bytes to requests, and from responses to bytes, beside
 * that of http/conn.c.
 *
 *     received bytes --> libnghttp2 --> request.c: a head, as HTTP/1 would have it
 *                                           |
 *                                  answer.c: gs_http_handle (http/handle.c)
 *                                           |
 *     conn->output <-- libnghttp2 <-- answer.c: fields and body of the response
 *        frames         files.c
 */
#ifndef GS_HTTP2_HTTP2_H
#define GS_HTTP2_HTTP2_H

#include "http/http2.h"

/* For gs_http_service_set_http2. */
const struct gs_http2_operations *gs_http2_operations(void);

#endif
