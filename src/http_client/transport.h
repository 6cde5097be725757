/* The bytes of a connection, plain or by TLS. */
#ifndef GS_HTTP_CLIENT_TRANSPORT_H
#define GS_HTTP_CLIENT_TRANSPORT_H

#include "http_client/client.h"

/* Make room for n bytes behind the input. */
GS_MUST_CHECK bool gs_http_client_make_room(struct gs_http_client_connection *connection, size_t n);

/* Wait until the socket takes more bytes; watching, also receive meanwhile. Returns 0 or -errno. */
GS_MUST_CHECK int gs_http_client_wait_for_room(struct gs_http_client_connection *connection,
                                               uint64_t deadline_ns);

/* ---- TLS (tls.c). These run on the worker's stack, or where no user threads run. ---- */

/* Decrypt received bytes into the input; an error becomes receive_error, and the end has_ended. */
void gs_http_client_decrypt(struct gs_http_client_connection *connection, const void *bytes,
                            size_t n);

/* End the stream, as far as that can be sent at once, and free the engine. */
void gs_http_client_tls_end(struct gs_http_client_connection *connection);

/* ---- TLS, in the thread ---- */

/* Send what the engine has to send. Returns 0 or -errno. */
GS_MUST_CHECK int gs_http_client_tls_flush(struct gs_http_client_connection *connection,
                                           uint64_t deadline_ns);

/* Returns 0 or -errno. */
GS_MUST_CHECK int gs_http_client_tls_transmit(struct gs_http_client_connection *connection,
                                              const void *bytes, size_t n, uint64_t deadline_ns);

/* Leave a text on why TLS has failed, if it has. Returns err. */
int gs_http_client_tls_fail(struct gs_http_client_connection *connection, int err);

#endif
