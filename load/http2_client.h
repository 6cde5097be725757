/* Clients of HTTP/2, by nghttp2. Without it, http2_client_absent.c stands in for http2_client.c,
 * http2_session.c and http2_fields.c, and no run begins with --http2. */
#ifndef GS_LOAD_HTTP2_CLIENT_H
#define GS_LOAD_HTTP2_CLIENT_H

#include "load/settings.h"

/* The fields of a request, as nghttp2 takes them. */
struct load_fields;

/* Make the fields of an HTTP/1 request, without those that describe a connection. Returns 0,
 * -ENOMEM or, after printing a line to stderr, -EINVAL (built without nghttp2). */
GS_MUST_CHECK int gs_load_fields_new(const char *request, bool is_https,
                                     struct load_fields **ret_fields);

/* NULL is accepted. */
void gs_load_fields_free(struct load_fields *fields);

/* The function of a client's user thread; its argument is the worker. */
void *gs_load_http2_client_run(void *argument);

#endif
