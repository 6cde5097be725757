/* TLS connections for user threads.
 *
 *     err = gs_tls_accept(context, fd, deadline_ns, &tls);          a server; takes fd
 *     err = gs_tls_connect(context, fd, "example.org", deadline_ns, &tls);      a client
 *     n = gs_tls_recv(tls, bytes, sizeof bytes, deadline_ns);
 *     n = gs_tls_send_all(tls, bytes, n, deadline_ns);
 *     err = gs_tls_close(tls, deadline_ns);
 *
 * Deadlines, cancellation and errors are those of gossamer/io.h, and -EPROTO: TLS has failed, of
 * which gs_tls_error tells the reason. One thread may receive while another sends. What OpenSSL
 * does runs on the worker's stack, so a thread needs no larger one for TLS.
 */
#ifndef GOSSAMER_TLS_H
#define GOSSAMER_TLS_H

#include <gossamer/api.h>
#include <gossamer/clock.h>
#include <gossamer/tls_context.h>
#include <gossamer/tls_engine.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct gs_tls;

/* Make the handshake on a connected stream socket. fd: is the connection's from now on, and is
 * closed by gs_tls_close; after an error it is still the caller's. ret_text: a line for a person,
 * after an error; NULL: not wanted.
 * Returns 0; an error of gs_recv or gs_send; -ECONNRESET (the peer has closed the connection);
 * -EPROTO (TLS has failed); or -EINVAL (no name, or a malformed one). */
GS_API GS_MUST_CHECK int gs_tls_accept(struct gs_tls_context *context, int fd, uint64_t deadline_ns,
                                       struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT]);
GS_API GS_MUST_CHECK int gs_tls_connect(struct gs_tls_context *context, int fd,
                                        const char *server_name, uint64_t deadline_ns,
                                        struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT]);

/* gs_dial (gossamer/net.h), then gs_tls_connect with the host of the address. Returns 0, or an
 * error as gs_tls_connect or as gs_dial. */
GS_API GS_MUST_CHECK int gs_dial_tls(struct gs_tls_context *context, const char *address,
                                     uint64_t deadline_ns, struct gs_tls **ret_tls,
                                     char ret_text[GS_TLS_TEXT]);

/* Returns the bytes received; 0: the peer has closed its sending side; -ECONNRESET (the connection
 * ended without that, so what was received may be incomplete); -EPROTO (TLS has failed); or an
 * error of gs_recv. */
GS_API GS_MUST_CHECK ssize_t gs_tls_recv(struct gs_tls *tls, void *bytes, size_t n,
                                         uint64_t deadline_ns);

/* Send all n bytes. After an error it is unknown how much was sent, and nothing more can be.
 * Returns n, -EPROTO (TLS has failed), -EPIPE (after gs_tls_shutdown), or an error of gs_send. */
GS_API GS_MUST_CHECK ssize_t gs_tls_send_all(struct gs_tls *tls, const void *bytes, size_t n,
                                             uint64_t deadline_ns);

/* Tell the peer that nothing more will be sent; receiving goes on. Returns 0 or as
 * gs_tls_send_all. */
GS_API GS_MUST_CHECK int gs_tls_shutdown(struct gs_tls *tls, uint64_t deadline_ns);

/* Shut down if that was not done, close the socket and free the connection, also after an error. No
 * other thread may use it. Returns 0 or an error as gs_tls_shutdown. */
GS_API int gs_tls_close(struct gs_tls *tls, uint64_t deadline_ns);

GS_API void gs_tls_info(const struct gs_tls *tls, struct gs_tls_info *ret_info);
GS_API void gs_tls_error(const struct gs_tls *tls, char ret_text[GS_TLS_TEXT]);

/* Returns the socket, for getpeername and the like. */
GS_API int gs_tls_fd(const struct gs_tls *tls);

GS_END_DECLS

#endif
