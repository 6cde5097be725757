/* A server of HTTP/2 that is made of frames, and can misbehave in each. A test chooses how requests
 * are answered. */
#ifndef GS_TESTS_LOAD_FRAME_SERVER_H
#define GS_TESTS_LOAD_FRAME_SERVER_H

#include "tests/load/server.h"

#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>

enum { FRAME_HEADER = 9, PAYLOAD_MAX = 16384, END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

/* What the server knows of a connection. */
struct http2 {
    struct server *server;
    int fd;
    size_t index;      /* of the connection */
    unsigned requests; /* on it */
    uint32_t first_id; /* of the first request */
    bool has_settings; /* the client has acknowledged the server's settings */
    bool is_closed;    /* the server closes it */
};

/* Called for each request, when its fields have arrived. */
typedef void answer_fn(struct http2 *http2, uint32_t id);

/* What the server does. */
struct script {
    answer_fn *answer;
    const char *settings; /* the payload of its first frame */
    size_t settings_length;
};

/* What the server has seen since it was started; accessed under the lock and, when its threads have
 * ended, by the test. */
struct seen {
    size_t resets, goaways;
    char fields[4096]; /* of the last request, "name=value\n" each */
};
static struct seen seen;
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;
static struct script frames_script;

/* ---- What answers consist of ---- */

static inline void frames_send_bytes(struct http2 *http2, const void *bytes, size_t n)
{
    if (send(http2->fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        http2->is_closed = true;
}

struct frame {
    unsigned type, flags;
    uint32_t id; /* of its stream; 0: of the connection */
};

/* The header of a frame with n bytes. */
static inline void frames_send_header(struct http2 *http2, struct frame frame, size_t n)
{
    uint32_t order = htonl(frame.id);
    uint8_t header[FRAME_HEADER] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n,
                                    (uint8_t)frame.type, (uint8_t)frame.flags};
    memcpy(header + 5, &order, 4);
    frames_send_bytes(http2, header, sizeof header);
}

static inline void frames_send(struct http2 *http2, struct frame frame, const char *payload,
                               size_t n)
{
    frames_send_header(http2, frame, n);
    frames_send_bytes(http2, payload, n);
}

/* A frame whose payload is a number. */
static inline void frames_send_number(struct http2 *http2, unsigned type, uint32_t id,
                                      uint32_t value)
{
    uint32_t order = htonl(value);
    frames_send(http2, (struct frame){type, 0, id}, (char *)&order, 4);
}

/* :status 200 and content-length 5 */
#define OK_FIELDS                                                                                  \
    "\x88\x0f\x0d\x01"                                                                             \
    "5"
#define SEND(http2_, type_, flags_, id_, text_)                                                    \
    frames_send(http2_, (struct frame){type_, flags_, id_}, text_, sizeof(text_) - 1)

/* A response with five bytes. */
static inline void frames_hello(struct http2 *http2, uint32_t id)
{
    SEND(http2, NGHTTP2_HEADERS, END_HEADERS, id, OK_FIELDS);
    SEND(http2, NGHTTP2_DATA, END_STREAM, id, "hello");
}

/* ---- Reading ---- */

static inline bool frames_read_all(int fd, void *bytes, size_t n)
{
    return !n || recv(fd, bytes, n, MSG_WAITALL) == (ssize_t)n;
}

static inline void frames_decode(nghttp2_hd_inflater *inflater, const uint8_t *block, size_t n)
{
    size_t used = 0;
    int flags = 0;
    seen.fields[0] = '\0';
    while (!(flags & NGHTTP2_HD_INFLATE_FINAL)) {
        nghttp2_nv field;
        ssize_t got = nghttp2_hd_inflate_hd2(inflater, &field, &flags, block, n, 1);
        if (got < 0)
            abort();
        block += got, n -= (size_t)got;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            used += (size_t)snprintf(seen.fields + used, sizeof seen.fields - used, "%s=%s\n",
                                     field.name, field.value);
    }
    nghttp2_hd_inflate_end_headers(inflater);
}

static inline void frames_on_request(struct http2 *http2, uint32_t id)
{
    __atomic_fetch_add(&http2->server->requests, 1, __ATOMIC_SEQ_CST);
    if (!http2->requests++)
        http2->first_id = id;
    frames_script.answer(http2, id);
}

static inline void frames_on_frame(struct http2 *http2, nghttp2_hd_inflater *inflater,
                                   const uint8_t *header, const uint8_t *payload)
{
    size_t n = (size_t)header[0] << 16 | (size_t)header[1] << 8 | header[2];
    uint32_t id;
    memcpy(&id, header + 5, 4);
    pthread_mutex_lock(&seen_lock);
    seen.resets += header[3] == NGHTTP2_RST_STREAM;
    seen.goaways += header[3] == NGHTTP2_GOAWAY;
    if (header[3] == NGHTTP2_HEADERS)
        frames_decode(inflater, payload, n);
    pthread_mutex_unlock(&seen_lock);
    http2->has_settings |= header[3] == NGHTTP2_SETTINGS && header[4] & ACK;
    if (header[3] == NGHTTP2_SETTINGS && !(header[4] & ACK))
        frames_send(http2, (struct frame){NGHTTP2_SETTINGS, ACK, 0}, NULL, 0);
    if (header[3] == NGHTTP2_HEADERS)
        frames_on_request(http2, ntohl(id));
}

/* For server_start, after frames_prepare. */
static inline void frames_serve(struct server *server, int fd, size_t index)
{
    static const char magic[] = NGHTTP2_CLIENT_MAGIC;
    struct http2 http2 = {.server = server, .fd = fd, .index = index};
    uint8_t header[FRAME_HEADER];
    int on = 1;
    uint8_t *payload = malloc(PAYLOAD_MAX);
    nghttp2_hd_inflater *inflater;
    if (!payload || nghttp2_hd_inflate_new(&inflater))
        abort();
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (frames_read_all(fd, payload, sizeof magic - 1) && !memcmp(payload, magic, sizeof magic - 1))
        frames_send(&http2, (struct frame){.type = NGHTTP2_SETTINGS}, frames_script.settings,
                    frames_script.settings_length);
    while (!http2.is_closed && frames_read_all(fd, header, sizeof header)) {
        size_t n = (size_t)header[0] << 16 | (size_t)header[1] << 8 | header[2];
        if (n > PAYLOAD_MAX || !frames_read_all(fd, payload, n))
            break;
        frames_on_frame(&http2, inflater, header, payload);
    }
    /* Unread bytes would make the end a reset. */
    shutdown(fd, SHUT_WR);
    while (http2.is_closed && recv(fd, payload, PAYLOAD_MAX, 0) > 0)
        ;
    nghttp2_hd_inflate_del(inflater);
    free(payload);
}

/* What servers do that are started from now on. */
static inline void frames_prepare(const struct script *script)
{
    frames_script = *script;
    memset(&seen, 0, sizeof seen);
}

/* server_stop stops it. */
static inline void frames_start(struct server *server, const struct script *script)
{
    frames_prepare(script);
    server_start(server, frames_serve);
}

#endif
