/* A client of HTTP/2, by libnghttp2, in a user thread.
 *
 *     peer_open(&peer, connect_client());
 *     int32_t id = peer_get(&peer, "/");
 *     PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
 *     peer_stream(&peer, id)->status                            200 */
#ifndef GS_TESTS_HTTP_SERVER_PEER_H
#define GS_TESTS_HTTP_SERVER_PEER_H

#include "tests/http_server/serving.h"

#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#define PEER_STREAMS 256

struct peer_stream {
    unsigned status, continues;
    size_t body_n, field_n;
    bool is_closed;
    uint32_t error;
    char fields[600]; /* "name: value\n" */
    char body[64];    /* its beginning */
    size_t upload_n;  /* what is left of the request's body */
    size_t part_n;    /* of it, in a frame; 0: as much as is possible */
    bool is_held;     /* the rest of the body is not sent yet */
};

struct peer {
    int fd;
    struct gs_tls *tls; /* NULL: without TLS */
    nghttp2_session *session;
    bool is_over; /* the server has closed */
    int error;    /* with which it has */
    unsigned goaways, pings, settings;
    int32_t last_stream; /* of the last GOAWAY */
    uint32_t goaway_error;
    struct peer_stream streams[PEER_STREAMS]; /* the number of older ones is used again */
};

static inline struct peer_stream *peer_stream(struct peer *peer, int32_t id)
{
    MUST(id > 0);
    return &peer->streams[id / 2 % PEER_STREAMS];
}

static inline int peer_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                                 nghttp2_rcbuf *name, nghttp2_rcbuf *value, uint8_t flags,
                                 void *data)
{
    struct peer_stream *stream = peer_stream(data, frame->hd.stream_id);
    const char *name_text = (const char *)nghttp2_rcbuf_get_buf(name).base;
    const char *value_text = (const char *)nghttp2_rcbuf_get_buf(value).base;
    (void)session, (void)flags;
    if (!strcmp(name_text, ":status")) {
        stream->continues += !strcmp(value_text, "100");
        stream->status = (unsigned)atoi(value_text);
        return 0;
    }
    size_t at = strlen(stream->fields);
    stream->field_n += strlen(name_text) + strlen(value_text);
    snprintf(stream->fields + at, sizeof stream->fields - at, "%s: %s\n", name_text, value_text);
    return 0;
}

static inline int peer_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                               const uint8_t *bytes, size_t n, void *data)
{
    struct peer_stream *stream = peer_stream(data, id);
    (void)session, (void)flags;
    if (stream->body_n < sizeof stream->body - 1) {
        size_t left = sizeof stream->body - 1 - stream->body_n;
        memcpy(stream->body + stream->body_n, bytes, n < left ? n : left);
    }
    stream->body_n += n;
    return 0;
}

static inline int peer_on_close(nghttp2_session *session, int32_t id, uint32_t error, void *data)
{
    struct peer_stream *stream = peer_stream(data, id);
    (void)session;
    stream->is_closed = true;
    stream->error = error;
    return 0;
}

static inline int peer_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct peer *peer = data;
    (void)session;
    peer->settings += frame->hd.type == NGHTTP2_SETTINGS;
    peer->pings += frame->hd.type == NGHTTP2_PING;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        peer->goaways++;
        peer->last_stream = frame->goaway.last_stream_id;
        peer->goaway_error = frame->goaway.error_code;
    }
    return 0;
}

/* settings: of the client; reads_by_hand: the windows stay as they are. */
static inline void peer_open_with(struct peer *peer, int fd, const nghttp2_settings_entry *settings,
                                  size_t count, bool reads_by_hand)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    memset(peer, 0, sizeof *peer);
    peer->fd = fd;
    MUST_EQ(gs_sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
    MUST_EQ(nghttp2_session_callbacks_new(&callbacks), 0);
    MUST_EQ(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_auto_window_update(option, reads_by_hand);
    nghttp2_session_callbacks_set_on_header_callback2(callbacks, peer_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, peer_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, peer_on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, peer_on_frame);
    MUST_EQ(nghttp2_session_client_new2(&peer->session, callbacks, peer, option), 0);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    MUST_EQ(nghttp2_submit_settings(peer->session, 0, settings, count), 0);
}

static inline void peer_open(struct peer *peer, int fd)
{
    peer_open_with(peer, fd, NULL, 0, false);
}

static inline void peer_close(struct peer *peer)
{
    nghttp2_session_del(peer->session);
    if (!peer->tls)
        gs_close(peer->fd);
}

/* ---- Requests ---- */

static inline ssize_t peer_read_body(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t n,
                                     uint32_t *flags, nghttp2_data_source *source, void *data)
{
    struct peer_stream *stream = peer_stream(data, id);
    (void)session, (void)source;
    if (!stream->upload_n && stream->is_held)
        return NGHTTP2_ERR_DEFERRED;
    if (stream->part_n && n > stream->part_n)
        n = stream->part_n;
    if (n > stream->upload_n)
        n = stream->upload_n;
    memset(bytes, 'x', n);
    stream->upload_n -= n;
    *flags |= !stream->upload_n && !stream->is_held ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)n;
}

static inline nghttp2_nv peer_field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value), 0};
}

/* fields: names and values, and NULL; they begin with the pseudo-fields. has_body: it follows. */
static inline int32_t peer_send_head(struct peer *peer, const char *const *fields, bool has_body)
{
    const nghttp2_data_provider body = {{.ptr = NULL}, peer_read_body};
    nghttp2_nv pairs[20];
    size_t count = 0;
    for (; fields[2 * count]; count++)
        pairs[count] = peer_field(fields[2 * count], fields[2 * count + 1]);
    int32_t id =
        nghttp2_submit_request(peer->session, NULL, pairs, count, has_body ? &body : NULL, NULL);
    MUST(id > 0);
    peer_stream(peer, id)->is_held = has_body;
    return id;
}

/* With another field, unless name is NULL. */
static inline int32_t peer_ask(struct peer *peer, const char *method, const char *path,
                               const char *name, const char *value)
{
    nghttp2_nv fields[] = {peer_field(":method", method), peer_field(":path", path),
                           peer_field(":scheme", "http"), peer_field(":authority", "host.test"),
                           peer_field(name ? name : "user-agent", name ? value : "peer")};
    int32_t id = nghttp2_submit_request(peer->session, NULL, fields, 5, NULL, NULL);
    MUST(id > 0);
    return id;
}

static inline int32_t peer_get(struct peer *peer, const char *path)
{
    return peer_ask(peer, "GET", path, NULL, NULL);
}

/* A body of n bytes without a length; is_held: it does not end with them. */
static inline int32_t peer_post(struct peer *peer, const char *path, size_t n, bool is_held)
{
    const nghttp2_nv fields[] = {peer_field(":method", "POST"), peer_field(":path", path),
                                 peer_field(":scheme", "http"), peer_field(":authority", "h")};
    const nghttp2_data_provider body = {{.ptr = NULL}, peer_read_body};
    int32_t id = nghttp2_submit_request(peer->session, NULL, fields, 4, &body, NULL);
    MUST(id > 0);
    peer_stream(peer, id)->upload_n = n;
    peer_stream(peer, id)->is_held = is_held;
    return id;
}

static inline void peer_reset(struct peer *peer, int32_t id)
{
    MUST_EQ(nghttp2_submit_rst_stream(peer->session, 0, id, NGHTTP2_CANCEL), 0);
}

/* ---- Frames ---- */

#ifdef PEER_HAS_TLS
static inline ssize_t peer_send_bytes(struct peer *peer, const void *bytes, size_t n)
{
    return gs_tls_send_all(peer->tls, bytes, n, after(PATIENCE_NS));
}

static inline ssize_t peer_receive_bytes(struct peer *peer, void *bytes, size_t n)
{
    return gs_tls_recv(peer->tls, bytes, n, after(PATIENCE_NS));
}
#else
static inline ssize_t peer_send_bytes(struct peer *peer, const void *bytes, size_t n)
{
    return gs_send_all(peer->fd, bytes, n, after(PATIENCE_NS));
}

static inline ssize_t peer_receive_bytes(struct peer *peer, void *bytes, size_t n)
{
    return gs_recv(peer->fd, bytes, n, 0, after(PATIENCE_NS));
}
#endif

static inline void peer_send(struct peer *peer)
{
    const uint8_t *bytes;
    ssize_t n;
    while (!peer->is_over && (n = nghttp2_session_mem_send(peer->session, &bytes)) > 0) {
        ssize_t sent = peer_send_bytes(peer, bytes, (size_t)n);
        if (sent < 0) {
            peer->is_over = true;
            peer->error = (int)sent;
        }
    }
}

static inline void peer_receive(struct peer *peer)
{
    uint8_t bytes[16384];
    ssize_t n = peer_receive_bytes(peer, bytes, sizeof bytes);
    MUST(n != -ETIMEDOUT);
    if (n > 0)
        MUST_EQ(nghttp2_session_mem_recv(peer->session, bytes, (size_t)n), n);
    peer->is_over = n <= 0;
    peer->error = n < 0 ? (int)n : 0;
}

/* Send and receive until the condition holds. */
#define PEER_UNTIL(peer_, condition_)                                                              \
    do {                                                                                           \
        peer_send(peer_);                                                                          \
        while (!(condition_)) {                                                                    \
            MUST(!(peer_)->is_over);                                                               \
            peer_receive(peer_);                                                                   \
            peer_send(peer_);                                                                      \
        }                                                                                          \
    } while (0)

/* Ask, and wait for the whole response. */
static inline struct peer_stream *peer_fetch(struct peer *peer, const char *path)
{
    int32_t id = peer_get(peer, path);
    struct peer_stream *stream = peer_stream(peer, id);
    PEER_UNTIL(peer, stream->is_closed);
    return stream;
}

#endif
