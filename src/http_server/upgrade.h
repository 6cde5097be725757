/* A connection that was taken over by the thread of its handler. */
#ifndef GS_HTTP_SERVER_UPGRADE_H
#define GS_HTTP_SERVER_UPGRADE_H

#include "tls/operations.h"

#include <gossamer/http_server.h>

/* What the connection is now: a socket, or a stream of TLS that has the socket, and the calls of
 * streams; or a stream of HTTP/2. */
struct gs_http_transport {
    int fd;
    struct gs_http_upgraded *stream; /* of HTTP/2; NULL: the whole connection */
    struct gs_tls *tls;              /* NULL: without TLS, or a stream of HTTP/2 */
    const struct gs_tls_stream_operations *operations;
};

struct gs_http_transport gs_http_upgraded_transport(struct gs_http_upgraded *upgraded);

/* Take what was received before the handler took over. Returns NULL if there is nothing; the caller
 * frees it. */
char *gs_http_upgraded_take_input(struct gs_http_upgraded *upgraded, size_t *ret_n);

/* Whether the windows of a stream of HTTP/2 are open for n bytes. */
bool gs_http_upgraded_has_room(struct gs_http_upgraded *upgraded, size_t n);

#endif
