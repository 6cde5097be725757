/* A client of WebSocket over HTTP/2, whose frames are written by hand.
 *
 *     int32_t id = ws_open(&peer, "/echo", NULL, NULL);
 *     ws_say(&peer, id, "hello");
 *     PEER_UNTIL(&peer, ws_has(&peer, id, WS_SERVER_TEXT("hello"))); */
#ifndef GS_TESTS_WEBSOCKET_STREAM_STREAMS_H
#define GS_TESTS_WEBSOCKET_STREAM_STREAMS_H

#include "tests/http_server/http2/peer.h"

/* What a stream of the client sends: bytes, then as many of 'x', and then perhaps its end. */
struct ws_upload {
    char bytes[4000];
    size_t at, n, x_n;
    bool is_ended;
};

static struct ws_upload ws_uploads[PEER_STREAMS];

static inline struct ws_upload *ws_upload(int32_t id)
{
    return &ws_uploads[id / 2 % PEER_STREAMS];
}

static inline ssize_t ws_read(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t n,
                              uint32_t *flags, nghttp2_data_source *source, void *data)
{
    struct ws_upload *upload = ws_upload(id);
    (void)session, (void)source, (void)data;
    size_t left = upload->n - upload->at;
    if (!left && !upload->x_n && !upload->is_ended)
        return NGHTTP2_ERR_DEFERRED;
    if (left) {
        n = n < left ? n : left;
        memcpy(bytes, upload->bytes + upload->at, n);
        upload->at += n;
    } else {
        n = n < upload->x_n ? n : upload->x_n;
        memset(bytes, 'x', n);
        upload->x_n -= n;
    }
    bool is_all = upload->at == upload->n && !upload->x_n;
    *flags |= is_all && upload->is_ended ? NGHTTP2_DATA_FLAG_EOF : 0;
    return (ssize_t)n;
}

/* fields: names and values, and NULL. */
static inline int32_t ws_submit(struct peer *peer, const char *const *fields)
{
    const nghttp2_data_provider body = {{.ptr = NULL}, ws_read};
    nghttp2_nv pairs[20];
    size_t count = 0;
    for (; fields[2 * count]; count++)
        pairs[count] = peer_field(fields[2 * count], fields[2 * count + 1]);
    int32_t id = nghttp2_submit_request(peer->session, NULL, pairs, count, &body, NULL);
    MUST(id > 0);
    *ws_upload(id) = (struct ws_upload){0};
    return id;
}

/* With another field, unless name is NULL. The server must have announced that it may be asked. */
static inline int32_t ws_ask(struct peer *peer, const char *path, const char *name,
                             const char *value)
{
    const char *const fields[] = {":method",
                                  "CONNECT",
                                  ":protocol",
                                  "websocket",
                                  ":scheme",
                                  "http",
                                  ":path",
                                  path,
                                  ":authority",
                                  "host.test",
                                  "sec-websocket-version",
                                  "13",
                                  name,
                                  value,
                                  NULL};
    PEER_UNTIL(peer, peer->settings >= 1);
    MUST_EQ(nghttp2_session_get_remote_settings(peer->session,
                                                NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL),
            1);
    return ws_submit(peer, fields);
}

static inline int32_t ws_open(struct peer *peer, const char *path, const char *name,
                              const char *value)
{
    int32_t id = ws_ask(peer, path, name, value);
    struct peer_stream *stream = peer_stream(peer, id);
    PEER_UNTIL(peer, stream->status);
    MUST_EQ(stream->status, 200);
    MUST(!stream->is_closed);
    return id;
}

/* ---- Frames ---- */

/* More of 'x' may still be going out. */
static inline void ws_resume(struct peer *peer, int32_t id)
{
    int err = nghttp2_session_resume_data(peer->session, id);
    MUST(!err || err == NGHTTP2_ERR_INVALID_ARGUMENT);
}

static inline void ws_put(struct peer *peer, int32_t id, const char *bytes, size_t n)
{
    struct ws_upload *upload = ws_upload(id);
    MUST(!upload->x_n);
    if (upload->at == upload->n)
        upload->at = upload->n = 0;
    MUST(upload->n + n <= sizeof upload->bytes);
    memcpy(upload->bytes + upload->n, bytes, n);
    upload->n += n;
    ws_resume(peer, id);
}

/* A frame that is masked with zeros. n < 126. */
static inline void ws_frame(struct peer *peer, int32_t id, unsigned opcode, const char *bytes,
                            size_t n)
{
    const char header[] = {(char)(0x80 | opcode), (char)(0x80 | n), 0, 0, 0, 0};
    ws_put(peer, id, header, sizeof header);
    ws_put(peer, id, bytes, n);
}

static inline void ws_say(struct peer *peer, int32_t id, const char *text)
{
    ws_frame(peer, id, 1, text, strlen(text));
}

/* A text of n times 'x'. */
static inline void ws_say_much(struct peer *peer, int32_t id, uint32_t n)
{
    const char header[] = {(char)0x81,      (char)0xff,     0,       0, 0, 0, (char)(n >> 24),
                           (char)(n >> 16), (char)(n >> 8), (char)n, 0, 0, 0, 0};
    ws_put(peer, id, header, sizeof header);
    ws_upload(id)->x_n = n;
}

static inline void ws_end(struct peer *peer, int32_t id)
{
    ws_upload(id)->is_ended = true;
    ws_resume(peer, id);
}

/* Whether exactly these bytes have been received, of which there are fewer than 64. */
static inline bool ws_has(struct peer *peer, int32_t id, const char *bytes, size_t n)
{
    const struct peer_stream *stream = peer_stream(peer, id);
    return stream->body_n == n && !memcmp(stream->body, bytes, n);
}

/* Wait for them. */
#define WS_MUST_HEAR(peer_, id_, bytes_)                                                           \
    do {                                                                                           \
        PEER_UNTIL(peer_, peer_stream(peer_, id_)->body_n >= sizeof(bytes_) - 1);                  \
        MUST(ws_has(peer_, id_, bytes_, sizeof(bytes_) - 1));                                      \
    } while (0)

/* Close, and wait for the other side. */
static inline void ws_close(struct peer *peer, int32_t id)
{
    struct peer_stream *stream = peer_stream(peer, id);
    size_t had = stream->body_n;
    ws_frame(peer, id, 8, "\x03\xe8", 2);
    ws_end(peer, id);
    PEER_UNTIL(peer, stream->is_closed);
    MUST_EQ(stream->error, NGHTTP2_NO_ERROR);
    MUST_EQ(stream->body_n, had + 4); /* the answer */
}

#endif
