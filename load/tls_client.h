/* TLS for clients: what all connections of a run share, and the state of one. Without OpenSSL,
 * tls_client_absent.c stands in for tls_client.c, and no connection ever has TLS.
 *
 * OpenSSL runs on the worker's stack, and an idle connection has no buffer. */
#ifndef GS_LOAD_TLS_CLIENT_H
#define GS_LOAD_TLS_CLIENT_H

#include "http/url.h"
#include "load/metrics.h"
#include "load/settings.h"

#include <gossamer/tls_engine.h>
#include <sys/types.h>

/* Read-only during the run. */
struct load_tls_target {
    struct gs_tls_context *context; /* NULL: the server speaks plain HTTP */
    char name[256];                 /* of the server, for its certificate */
    const char *protocol;           /* that the server must choose (ALPN); NULL: any */
    bool resumes;                   /* connections take up the session of the one before */
};

/* For a URL with the scheme https. The certificate is verified unless the settings or a loopback
 * address say otherwise. Returns 0 or, after printing a line to stderr, -EINVAL. */
GS_MUST_CHECK int gs_load_tls_target_init(struct load_tls_target *target,
                                          const struct load_settings *settings,
                                          const struct gs_http_url *url, bool is_loopback);
void gs_load_tls_target_done(struct load_tls_target *target);

/* A client's connection, one after another. Starts zeroed. */
struct load_tls {
    struct gs_tls_engine *engine;   /* NULL: not connected, or without TLS */
    int fd;                         /* the client's socket */
    struct gs_tls_session *session; /* of an earlier connection, to be resumed; NULL: none */
    int end;         /* -EAGAIN: the server sends; 0: it has said that it sends no more; -EPROTO */
    bool is_blocked; /* the socket had no room for all output */
    bool is_other;   /* the server has not chosen the protocol that it must */
    const char *protocol; /* that it must choose; NULL: any */
    char *early;          /* plaintext that came with the end of the handshake; NULL: none */
    size_t early_n;
};

/* Make the handshake on a connected socket. The last message may still be output, which goes out
 * with the first request. If the server must choose a protocol, it may speak first: tls->early.
 * Returns 0, -ENOMEM, -EPROTO (the handshake has failed, or the server
 * closed the connection), or an error of gs_recv or gs_send. */
GS_MUST_CHECK int gs_load_tls_connect(struct load_tls *tls, const struct load_tls_target *target,
                                      int fd, uint64_t deadline_ns);

/* For gs_recv_with: decrypt all of the bytes, and call fn for each part of the plaintext, unless it
 * is NULL. n: 0 at the end of the stream. Returns the length of the plaintext; 0: the server sends
 * no more; -EAGAIN: there is no plaintext yet; -EPROTO or -ENOMEM. What ends the connection after
 * plaintext is in tls->end. */
typedef void load_plain_fn(void *data, const void *bytes, size_t n);
GS_MUST_CHECK ssize_t gs_load_tls_receive(struct load_tls *tls, const void *bytes, size_t n,
                                          load_plain_fn *fn, void *data);

/* Send without waiting, also what an earlier call has left: then n may be 0. Returns how many of
 * the bytes have been taken, though not all of their output may be sent yet; -ETIMEDOUT: there is
 * no room; -EPROTO; -ENOMEM; or an error of gs_send. */
GS_MUST_CHECK ssize_t gs_load_tls_send(struct load_tls *tls, const char *bytes, size_t n);

/* Whether bytes that gs_load_tls_send has taken are not sent yet. */
static inline bool gs_load_tls_is_sending(const struct load_tls *tls)
{
    return tls->engine && tls->is_blocked;
}

/* Whether a connection with TLS ended without the server's word: what it sent may have been cut. */
static inline bool gs_load_tls_is_truncated(const struct load_tls *tls)
{
    return tls->engine && tls->end;
}

/* Tell the server, if there is room, and free the connection; the socket stays the caller's. Keeps
 * the session for the next one if sessions are resumed. */
void gs_load_tls_close(struct load_tls *tls, const struct load_tls_target *target);

/* After the last connection. */
void gs_load_tls_done(struct load_tls *tls);

/* Store the version and the cipher. Returns whether the connection resumed a session. */
bool gs_load_tls_record(const struct load_tls *tls, struct load_metrics *metrics);

/* Returns the kind of the error after -EPROTO; metrics keep the reason of the first. */
enum load_error gs_load_tls_error(const struct load_tls *tls, struct load_metrics *metrics);

#endif
