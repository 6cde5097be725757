/* A connection's TLS, between its socket and its HTTP. Architectures do not see it: what is
 * received is decrypted in serve_connection_received, and output is encrypted where it is sent
 * (serve_output_send), so files are read in the same place as if their sendfile was refused.
 *
 *     socket --> [kept] --> engine --> HTTP --> output --> engine --> unsent --> socket
 *
 * While ciphertext is unsent, the connection wants nothing but to write: what has been received is
 * kept, so that a peer that does not read cannot have us produce more.
 *
 * Threads: the engine is used by one at a time. From serve_tls_lend to serve_tls_sent it belongs to
 * the thread that sends, which may be another one (quad, and sends that wait for a disk); what is
 * received meanwhile is kept.
 *
 * The functions need 40 KiB of stack. */
#ifndef GS_SERVE_TLS_H
#define GS_SERVE_TLS_H

#include "serve/connection/connection.h"

/* Whether one with TLS is in its handshake. */
bool serve_tls_makes_handshake(const struct serve_connection *connection);

/* What was agreed on. */
void serve_tls_info(const struct serve_tls *tls, struct gs_tls_info *ret_info);

/* As serve_connection_received. The first bytes make connection->tls. */
void serve_tls_received(struct serve_connection *connection, const char *bytes, ssize_t n,
                        uint64_t now_ns);

/* Lend the engine to serve_tls_send. Returns whether a part of the output of HTTP is encrypted
 * already: then nothing else is sent before. */
bool serve_tls_lend(struct serve_tls *tls);

/* Whether a part of the output of HTTP is encrypted, and not sent yet; it is not lent. */
bool serve_tls_has_unsent(const struct serve_tls *tls);

/* Send what is unsent, or encrypt some of the output and send that. As serve_output_send, in bytes
 * of ciphertext. */
ssize_t serve_tls_send(struct serve_tls *tls, const struct serve_output *output, int fd);

/* The engine is no longer lent. Returns how many bytes of the output of HTTP were sent since. */
size_t serve_tls_sent(struct serve_tls *tls);

/* After that: pass on to HTTP what has been received meanwhile. */
void serve_tls_resume(struct serve_connection *connection, uint64_t now_ns);

/* Tell the peer that nothing more will be sent, or what is wrong, as far as the socket has room. */
void serve_tls_close(struct serve_connection *connection);

/* The same if all that was to be sent was sent. */
void serve_tls_end(struct serve_connection *connection);

/* NULL is accepted. */
void serve_tls_free(struct serve_tls *tls);

#endif
