/* What code that is not linked with OpenSSL calls of a context: its first member points to this.
 * The functions are those of gossamer/tls_engine.h, except for two (sessions.c):
 *
 * offer_session: before the handshake, take a session of the server from those that the context
 * keeps, and have it resumed if the server accepts it. Returns the session, which the caller frees;
 * NULL: there is none.
 *
 * leave_session: have the context keep the session of an engine whose handshake is complete.
 * offered: what was offered for it, or NULL. Returns false if there is no session that can be used
 * again so far. */
#ifndef GS_TLS_OPERATIONS_H
#define GS_TLS_OPERATIONS_H

#include "base/hidden.h"

#include <gossamer/tls_engine.h>
#include <stdbool.h>
#include <stdint.h>

struct gs_tls;

/* The functions of gossamer/tls.h. adopt: make a stream of an engine and its socket, which the
 * stream has then; after an error they are still the caller's. The engine's output has been sent,
 * and its handshake is complete. Returns 0 or -ENOMEM. */
struct gs_tls_stream_operations {
    int (*adopt)(struct gs_tls_engine *engine, int fd, struct gs_tls **ret_tls);
    int (*dial)(struct gs_tls_context *context, const char *address, uint64_t deadline_ns,
                struct gs_tls **ret_tls, char ret_text[GS_TLS_TEXT]);
    ssize_t (*recv)(struct gs_tls *tls, void *bytes, size_t n, uint64_t deadline_ns);
    ssize_t (*send_all)(struct gs_tls *tls, const void *bytes, size_t n, uint64_t deadline_ns);
    int (*shutdown)(struct gs_tls *tls, uint64_t deadline_ns);
    void (*abort)(struct gs_tls *tls);
    int (*fd)(const struct gs_tls *tls);
};

struct gs_tls_operations {
    int (*new_engine)(struct gs_tls_context *context, const char *server_name,
                      struct gs_tls_engine **ret_engine);
    void (*free_engine)(struct gs_tls_engine *engine);
    ssize_t (*read)(struct gs_tls_engine *engine, struct gs_tls_input *input, void *plain,
                    size_t size);
    ssize_t (*write)(struct gs_tls_engine *engine, const void *bytes, size_t n);
    void (*close)(struct gs_tls_engine *engine);
    const char *(*output)(const struct gs_tls_engine *engine, size_t *ret_n);
    void (*sent)(struct gs_tls_engine *engine, size_t n);
    void (*info)(const struct gs_tls_engine *engine, struct gs_tls_info *ret_info);
    void (*error)(const struct gs_tls_engine *engine, char ret_text[GS_TLS_TEXT]);
    struct gs_tls_session *(*offer_session)(struct gs_tls_engine *engine, const char *server);
    bool (*leave_session)(struct gs_tls_engine *engine, const char *server,
                          const struct gs_tls_session *offered);
    void (*free_session)(struct gs_tls_session *session);
    const struct gs_tls_stream_operations *stream;
};

/* In src/tls_stream, which is in the same library. */
extern GS_HIDDEN const struct gs_tls_stream_operations gs_tls_stream_operations;

static inline const struct gs_tls_operations *
gs_tls_operations_of(const struct gs_tls_context *context)
{
    return *(const struct gs_tls_operations *const *)context;
}

#endif
