/* HTTP/2 on a connection: what conn.c knows of it, so that programs without HTTP/2 need no
 * libnghttp2. http2/http2.h has the implementation.
 *
 * A connection whose first bytes are the client's preface becomes one of HTTP/2: its session takes
 * the place of the input. Its requests are handled by gs_http_handle, one after another, with the
 * connection as their context, and its output consists of frames. */
#ifndef GS_HTTP_HTTP2_H
#define GS_HTTP_HTTP2_H

#include "http/conn.h"

/* The state of a session, at its beginning. */
struct gs_http2 {
    uint32_t streams;   /* open */
    uint32_t answering; /* of these: with a complete request */
    uint32_t receiving; /* of these: with an incomplete body */
    bool is_in_header;  /* a header block is incomplete */
    bool has_input;     /* kept until the load is complete, or the output sent */
    bool has_response;  /* the output contains a part of one */
    bool is_draining;   /* the peer was told to open no more streams */
    bool is_over;       /* once all output is sent, the connection ends */
};

struct gs_http2_operations {
    /* Start a session, which wants to send its settings. Returns NULL if memory is exhausted. */
    struct gs_http2 *(*start)(struct gs_http_conn *conn, uint64_t now_ns);

    /* Free it; what was not sent completely is logged. */
    void (*free)(struct gs_http_conn *conn);

    void (*receive)(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns);

    /* Go on: the output was sent, or the connection is to be drained. */
    void (*resume)(struct gs_http_conn *conn, uint64_t now_ns);

    /* The load is complete. */
    void (*loaded)(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns);

    /* Whether it may keep this open file until it was sent, too. */
    bool (*may_keep)(struct gs_http_conn *conn, const struct gs_http_page *page);

    /* End the session: the peer was too slow, or idle for too long. */
    void (*end)(struct gs_http_conn *conn, uint64_t now_ns);
};

/* Before the first connection of the service. */
void gs_http_service_set_http2(struct gs_http_service *service,
                               const struct gs_http2_operations *operations);

/* The peer has agreed to speak HTTP/2 (ALPN): without the preface, the connection is closed. Before
 * anything is received. */
void gs_http2_expect(struct gs_http_conn *conn);

/* They have agreed to speak HTTP/1: the preface is a request that is refused. Before anything is
 * received. */
void gs_http2_forbid(struct gs_http_conn *conn);

/* ---- For conn.c ---- */

/* How long a peer has to answer when the connection drains. */
#define GS_HTTP2_DRAINING_NS GS_SECOND

/* Whether the preface was received. HTTP/1 is what the compiler lays the code out for: its requests
 * are so cheap that a branch shows. */
static inline bool gs_http2_speaks(const struct gs_http_conn *conn)
{
    return __builtin_expect(conn->flags & GS_HTTP_CONN_HTTP2, 0);
}

/* How many of its streams are open. */
static inline uint32_t gs_http2_open_streams(const struct gs_http_conn *conn)
{
    return gs_http2_speaks(conn) && conn->http2 ? conn->http2->streams : 0;
}

/* Whether what is received may be for HTTP/2 from its first byte. */
static inline bool gs_http2_is_expected(const struct gs_http_conn *conn)
{
    return __builtin_expect(conn->flags & (GS_HTTP_CONN_HTTP2 | GS_HTTP_CONN_NOT_HTTP1), 0);
}

/* Whether the line of a request that is refused is the preface's; then this is noted. */
bool gs_http2_detect(struct gs_http_conn *conn, const struct gs_http_text *line);

/* Receive bytes. Returns false if they are for HTTP/1. */
bool gs_http2_receive(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns);

/* As the operations of the session. */
void gs_http2_resume(struct gs_http_conn *conn, uint64_t now_ns);
void gs_http2_loaded(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns);
void gs_http2_end(struct gs_http_conn *conn, uint64_t now_ns);
void gs_http2_free(struct gs_http_conn *conn);

bool gs_http2_may_keep_file(struct gs_http_conn *conn, const struct gs_http_page *page);

/* In the state HEAD, in which a connection of HTTP/2 stays until its end, without output. */
bool gs_http2_is_idle(const struct gs_http_conn *conn);
bool gs_http2_awaits_head(const struct gs_http_conn *conn);

/* As gs_http_conn_settle; at first, the input becomes the session's. */
void gs_http2_settle(struct gs_http_conn *conn, uint64_t now_ns);

#endif
