/* The TLS of one connection, without I/O: received bytes go in, plaintext comes out, and the other
 * way round. For event loops and other programs that move the bytes themselves; user threads have
 * gossamer/tls.h.
 *
 *     err = gs_tls_engine_new(context, NULL, &engine);
 *     struct gs_tls_input input = {bytes, n};                 received from the socket
 *     while ((n = gs_tls_engine_read(engine, &input, plain, sizeof plain)) > 0)
 *         handle(plain, n);
 *     n = gs_tls_engine_write(engine, answer, answer_n);
 *     bytes = gs_tls_engine_output(engine, &n);               to be sent to the socket
 *     gs_tls_engine_sent(engine, n_sent);
 *
 * Each call may create output, gs_tls_engine_read too, since it makes the handshake and answers
 * the peer's messages. An idle engine has no buffers.
 *
 * Threads: an engine is used by one kernel thread at a time. A call needs up to 20 KiB of stack: a
 * user thread makes it by gs_thread_call_on_worker_stack, and so does whoever else has a small one.
 */
#ifndef GOSSAMER_TLS_ENGINE_H
#define GOSSAMER_TLS_ENGINE_H

#include <gossamer/api.h>
#include <gossamer/tls_context.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

GS_BEGIN_DECLS

struct gs_tls_engine;

/* server_name: of the server, for a client: it is sent (unless it is an address), and the server's
 * certificate must be for it. NULL for a server, and for a client that does not verify.
 * Returns 0, -ENOMEM, or -EINVAL (no name, or a malformed one). */
GS_API GS_MUST_CHECK int gs_tls_engine_new(struct gs_tls_context *context, const char *server_name,
                                           struct gs_tls_engine **ret_engine);

/* Free it, after gs_tls_engine_close if the peer is still there. NULL is accepted. */
GS_API void gs_tls_engine_free(struct gs_tls_engine *engine);

/* ---- Bytes from the peer ---- */

struct gs_tls_input {
    const char *bytes;
    size_t n;
};

/* Take received bytes from input, which is advanced, until there is plaintext or no more input;
 * part of a record is kept. With empty input it starts a client's handshake.
 * If the transport ends before close_notify, the peer's data may have been cut off: whether that
 * is an error only the caller can know.
 * Returns the bytes of plaintext, at most size; 0: the peer has closed its sending side
 * (close_notify); -EAGAIN (all input has been taken, and more is needed); -ENOMEM; or -EPROTO (the
 * connection has failed: gs_tls_engine_error tells the reason, and output that is left tells the
 * peer). */
GS_API GS_MUST_CHECK ssize_t gs_tls_engine_read(struct gs_tls_engine *engine,
                                                struct gs_tls_input *input, void *plain,
                                                size_t size);

/* ---- Bytes to the peer ---- */

/* Encrypt all n bytes, at most 1 GiB; they are added to the output. What is sent should have been
 * sent before, so that the output stays small.
 * Returns n; -EAGAIN (the handshake is not complete, or a server continues it in the middle of the
 * connection: read first); -EPIPE (after gs_tls_engine_close); -ENOMEM or -EPROTO (the connection
 * has failed). */
GS_API GS_MUST_CHECK ssize_t gs_tls_engine_write(struct gs_tls_engine *engine, const void *bytes,
                                                 size_t n);

/* Tell the peer that nothing more will be sent (close_notify, in the output). The peer may send on.
 * Does nothing before the end of the handshake, after a failure, and the second time. */
GS_API void gs_tls_engine_close(struct gs_tls_engine *engine);

/* Returns what is to be sent, and its length, which may be 0; it stays valid until the next call
 * but this one. */
GS_API const char *gs_tls_engine_output(const struct gs_tls_engine *engine, size_t *ret_n);

/* n bytes of the output have been sent. */
GS_API void gs_tls_engine_sent(struct gs_tls_engine *engine, size_t n);

/* ---- Sessions ----
 *
 * A client that resumes a session of an earlier connection saves the exchange of certificates:
 *
 *     session = gs_tls_engine_session(engine);        of the first connection, after an answer
 *     err = gs_tls_engine_resume(next, session);      of the next one, after gs_tls_engine_new
 */

struct gs_tls_session;

/* Returns the session that a server has offered, which the caller frees; NULL: none so far, or no
 * memory. With TLS 1.3 it follows the handshake, and has arrived when data has. */
GS_API struct gs_tls_session *gs_tls_engine_session(struct gs_tls_engine *engine);

/* Offer the session in the handshake to come. It was made with the same context and for the same
 * server, since the server's certificate is not verified again; if the server does not accept it,
 * the handshake is a full one. The session stays the caller's, and may be offered again.
 * Returns 0, -EINVAL (a server's engine, or the handshake has started), or -ENOMEM. */
GS_API GS_MUST_CHECK int gs_tls_engine_resume(struct gs_tls_engine *engine,
                                              struct gs_tls_session *session);

/* NULL is accepted. */
GS_API void gs_tls_session_free(struct gs_tls_session *session);

/* A client's context keeps sessions, by the names of their servers, unless it forgets them
 * (tls_context.h): at most so many, the newest. gs_tls_connect (tls.h) and HTTP clients use them,
 * and others may. These functions are for any kernel thread. */
#define GS_TLS_MAX_SESSIONS 64

/* Returns the newest session of the server, which is the caller's then and no longer kept; NULL:
 * there is none. */
GS_API struct gs_tls_session *gs_tls_session_take(struct gs_tls_context *context,
                                                  const char *server_name);

/* Keep a session, which is the context's then. With TLS 1.3, it should not have been offered: an
 * observer could tell that two connections belong together. */
GS_API void gs_tls_session_keep(struct gs_tls_context *context, const char *server_name,
                                struct gs_tls_session *session);

/* ---- What has become of it ---- */

enum gs_tls_failure {
    GS_TLS_NO_FAILURE,
    GS_TLS_FAILED_HTTP,     /* the peer speaks HTTP, without TLS */
    GS_TLS_FAILED_VERSION,  /* no common version, cipher, group or protocol (ALPN) */
    GS_TLS_FAILED_VERIFY,   /* the peer's certificate is missing, or not to be trusted */
    GS_TLS_FAILED_ALERT,    /* the peer has given up, for instance since it trusts us not */
    GS_TLS_FAILED_PROTOCOL, /* what the peer has sent is not TLS, or was changed on its way */
    GS_TLS_FAILED_MEMORY,   /* there was not enough memory */
};

struct gs_tls_info {
    bool is_established;     /* the handshake is complete */
    bool is_resumed;         /* it took up an earlier session */
    const char *version;     /* "TLSv1.3" */
    const char *cipher;      /* "TLS_AES_128_GCM_SHA256" */
    const char *server_name; /* that the client asked for, in ASCII, after the handshake */
    const char *protocol;    /* ALPN's choice; NULL: none */
    enum gs_tls_failure failure;
};

/* The strings are valid until gs_tls_engine_free. */
GS_API void gs_tls_engine_info(const struct gs_tls_engine *engine, struct gs_tls_info *ret_info);

/* Write one line on the failure of a connection for a person, with a remedy where there is one;
 * empty: it has not failed. */
GS_API void gs_tls_engine_error(const struct gs_tls_engine *engine, char ret_text[GS_TLS_TEXT]);

GS_END_DECLS

#endif
