/* TLS connections for user threads.
 *
 *     err = gs_tls_accept(context, fd, deadline_ns, &tls, text);     a server; takes fd
 *     while ((n = gs_tls_recv(tls, bytes, sizeof bytes, deadline_ns)) > 0)
 *         n = gs_tls_send_all(tls, bytes, n, deadline_ns);
 *     err = gs_tls_close(tls, deadline_ns);
 *
 * Deadlines, cancellation and errors are those of gossamer/io.h. There is one error more, -EPROTO:
 * TLS has failed, for the reason that gs_tls_error tells. OpenSSL runs on the worker's stack, so a
 * thread needs no larger one for TLS. A connection that waits to receive has no buffers.
 *
 * Threads: these functions are for user threads. One thread may receive while another sends, also
 * on different workers; gs_tls_info and gs_tls_error may be called at any time. To end another
 * thread's wait, call shutdown(gs_tls_fd(tls), SHUT_RDWR): its receive returns -ECONNRESET, and its
 * send -EPIPE. gs_tls_close and gs_tls_abort free the connection, so no other thread may be using
 * it.
 */
#ifndef GOSSAMER_TLS_H
#define GOSSAMER_TLS_H

#include <gossamer/api.h>
#include <gossamer/buffered.h>
#include <gossamer/clock.h>
#include <gossamer/tls_context.h>
#include <gossamer/tls_engine.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct gs_tls;

/* ---- Starting a TLS connection ----
 *
 *     char text[GS_TLS_TEXT];
 *     int err = gs_dial_tls(context, "www.example.org:443", deadline_ns, &tls, text);
 *     if (err)
 *         fprintf(stderr, "%s\n", text);
 */

/* Make the handshake, as a server, on a connected stream socket. The connection takes fd, and
 * closes it in gs_tls_close; after an error, fd is still the caller's. ret_text: one line with the
 * reason, after an error; NULL: not wanted.
 *
 * Returns 0, -EPROTO (TLS has failed), -ECONNRESET (the peer has closed the connection), -ENOMEM,
 * -ETIMEDOUT, -ECANCELED, or another error of gs_recv or gs_send. */
GS_API GS_MUST_CHECK int gs_tls_accept(struct gs_tls_context *context, int fd, uint64_t deadline_ns,
                                       struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT]);

/* The same as a client, with a context for clients. The server's certificate must be for
 * server_name, a host or an address, unless the context does not verify. A connection leaves its
 * session with the context when it is closed, and the next one to that name resumes it, which saves
 * the exchange of certificates; with TLS 1.3, a session is used once. Returns what gs_tls_accept
 * returns, or -EINVAL (no name, or a malformed one). */
GS_API GS_MUST_CHECK int gs_tls_connect(struct gs_tls_context *context, int fd,
                                        const char *server_name, uint64_t deadline_ns,
                                        struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT]);

/* Call gs_dial (net.h), and gs_tls_connect with the host of the address. Of a Unix socket there is
 * no host to verify. Returns what they return, and 0 on success. */
GS_API GS_MUST_CHECK int gs_dial_tls(struct gs_tls_context *context, const char *address,
                                     uint64_t deadline_ns, struct gs_tls **ret_tls,
                                     char ret_text[GS_TLS_TEXT]);

/* ---- Receiving and sending on TLS connections ---- */

/* Receive up to n bytes, as soon as there are some. -ETIMEDOUT and -ECANCELED lose nothing.
 *
 * Returns their number; 0: the peer has ended its stream; -ECONNRESET (the connection has ended
 * without that, so bytes may be missing), -EPROTO (TLS has failed), -ENOMEM, -ETIMEDOUT,
 * -ECANCELED, or another error of gs_recv. */
GS_API GS_MUST_CHECK ssize_t gs_tls_recv(struct gs_tls *tls, void *bytes, size_t n,
                                         uint64_t deadline_ns);

/* Send all n bytes. After an error it is unknown how much was sent, and every later call returns
 * it, because the stream may end within a record. Returns n, -EPIPE (after gs_tls_shutdown, or the
 * peer has closed the connection), -EPROTO (TLS has failed), -ENOMEM, -ETIMEDOUT, -ECANCELED, or
 * another error of gs_send. */
GS_API GS_MUST_CHECK ssize_t gs_tls_send_all(struct gs_tls *tls, const void *bytes, size_t n,
                                             uint64_t deadline_ns);

/* Initialise a buffered reader or writer of the connection, as gs_reader_init_with and
 * gs_writer_init_with (buffered.h) do. A flush that has failed cannot be repeated. Each returns 0,
 * -EINVAL (the size is too small), or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_tls_reader_init(struct gs_reader *reader, struct gs_tls *tls,
                                            void *buffer, size_t size);
GS_API GS_MUST_CHECK int gs_tls_writer_init(struct gs_writer *writer, struct gs_tls *tls,
                                            void *buffer, size_t size);

/* ---- Ending a TLS connection ---- */

/* End the stream to the peer (close_notify); receiving goes on. Without this, and after an error of
 * sending, the peer learns that bytes may be missing. Returns 0, or an error of gs_tls_send_all. */
GS_API GS_MUST_CHECK int gs_tls_shutdown(struct gs_tls *tls, uint64_t deadline_ns);

/* Call gs_tls_shutdown, close the socket and free the connection, in any case. Returns 0, or the
 * error of gs_tls_shutdown. */
GS_API int gs_tls_close(struct gs_tls *tls, uint64_t deadline_ns);

/* Close the socket and free the connection without ending the stream: the peer learns that bytes
 * may be missing. It does not wait. */
GS_API void gs_tls_abort(struct gs_tls *tls);

/* ---- Properties of a TLS connection ---- */

/* Get the version, cipher, name and protocol. The strings are valid until gs_tls_close. */
GS_API void gs_tls_info(struct gs_tls *tls, struct gs_tls_info *ret_info);

/* Get one line on why TLS has failed, with a remedy where there is one; empty: it has not. */
GS_API void gs_tls_error(struct gs_tls *tls, char ret_text[GS_TLS_TEXT]);

/* Returns the socket, for getpeername(2) and the like. */
GS_API int gs_tls_fd(const struct gs_tls *tls);

GS_END_DECLS

#endif
