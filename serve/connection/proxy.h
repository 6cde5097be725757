/* A connection that a proxy opens, and begins with a header that names the client (PROXY protocol).
 * It stands before TLS, too. */
#ifndef GS_SERVE_PROXY_H
#define GS_SERVE_PROXY_H

#include "serve/connection/connection.h"

/* As serve_connection_received, while connection->awaits_proxy. */
void serve_proxy_received(struct serve_connection *connection, const char *bytes, ssize_t n,
                          uint64_t now_ns);

/* Release what was kept of an incomplete header. */
void serve_proxy_done(struct serve_connection *connection);

#endif
