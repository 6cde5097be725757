/* From a header block to the head of a request as HTTP/1.1 has it: the same code reads both, with
 * the same limits. libnghttp2 has checked the names and values, which contain no control character
 * but tabs. */
#include "http2/session.h"

#include "http/head_end.h"

#include <stdlib.h>

static struct gs_http_text text_of(nghttp2_rcbuf *buffer)
{
    nghttp2_vec vec = buffer ? nghttp2_rcbuf_get_buf(buffer) : (nghttp2_vec){NULL, 0};
    return (struct gs_http_text){(const char *)vec.base, vec.len};
}

/* ---- The head ---- */

/* More than the parser accepts, so that it decides. */
static size_t head_max(const struct gs_http2_session *session)
{
    const struct gs_http_options *options = session->options;
    return options->max_request_line + options->max_header + 64;
}

/* Returns whether n more bytes are allowed, and there was memory for what is kept. */
static bool may_add(const struct gs_http2_session *session, struct gs_http2_stream *stream,
                    size_t n)
{
    if (stream->status || stream->is_broken)
        return false;
    if (stream->head_n + stream->dropped_n + n > head_max(session))
        stream->status = stream->version ? 431 : 414;
    return !stream->status;
}

/* Have room for n more bytes. Returns false if the head is too large, or there is no memory. */
static bool reserve(struct gs_http2_session *session, struct gs_http2_stream *stream, size_t n)
{
    size_t need = stream->head_n + n;
    if (!may_add(session, stream, n))
        return false;
    if (need <= stream->head_size)
        return true;
    size_t size = stream->head_size ? stream->head_size : 128;
    while (size < need)
        size *= 2;
    if (size > head_max(session))
        size = head_max(session);
    char *head = gs_http2_realloc(session, stream->head, size);
    if (!head) {
        stream->is_broken = true;
        return false;
    }
    stream->head = head;
    stream->head_size = (uint32_t)size;
    return true;
}

/* There is room. Inlined, so that short texts are not copied by a call. */
static inline void put(struct gs_http2_stream *stream, struct gs_http_text text)
{
    if (text.n) /* what is absent has no address */
        memcpy(stream->head + stream->head_n, text.bytes, text.n);
    stream->head_n += (uint32_t)text.n;
}

#define VERSION "HTTP/1.1"
#define LOGGED_VERSION "HTTP/2.0"

static void append_host(struct gs_http2_session *session, struct gs_http2_stream *stream,
                        struct gs_http_text host)
{
    if (!host.bytes || !reserve(session, stream, sizeof "Host: \r\n" - 1 + host.n))
        return;
    stream->lines++;
    put(stream, GS_HTTP_TEXT("Host: "));
    put(stream, host);
    put(stream, GS_HTTP_TEXT("\r\n"));
}

/* The request line, from the fields that precede all others. That of CONNECT has no path, but one
 * that asks for WebSocket has: it is written as GET, so that its target is checked as that of other
 * requests. The method of a line that is too long is known. */
static void append_line(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http_text method =
        stream->is_connect ? GS_HTTP_TEXT("GET") : text_of(session->method);
    struct gs_http_text authority = text_of(session->authority);
    struct gs_http_text target = session->path ? text_of(session->path) : authority;
    if (stream->version || !reserve(session, stream, method.n + 1))
        return;
    put(stream, method);
    put(stream, GS_HTTP_TEXT(" "));
    if (!reserve(session, stream, target.n + sizeof " " VERSION "\r\n" - 1))
        return;
    put(stream, target);
    put(stream, GS_HTTP_TEXT(" "));
    stream->version = stream->head_n;
    put(stream, GS_HTTP_TEXT(VERSION "\r\n"));
    append_host(session, stream, authority);
}

/* Browsers send each cookie in a field of its own (RFC 9113, 8.2.3), which would be too many. */
static bool continues_cookie(struct gs_http2_stream *stream, struct gs_http_text name)
{
    bool was_cookie = stream->is_cookie_last;
    stream->is_cookie_last = gs_http_text_is(name, "cookie");
    return was_cookie && stream->is_cookie_last && !stream->status && !stream->is_broken;
}

static void put_field(struct gs_http2_stream *stream, struct gs_http_text name,
                      struct gs_http_text value, bool is_cookie)
{
    if (is_cookie) {
        stream->head_n -= 2; /* the end of its line */
        put(stream, GS_HTTP_TEXT("; "));
    } else {
        put(stream, name);
        put(stream, GS_HTTP_TEXT(": "));
    }
    put(stream, value);
    put(stream, GS_HTTP_TEXT("\r\n"));
}

/* What is not kept counts for the limits as if it were. */
static void append_field(struct gs_http2_session *session, struct gs_http2_stream *stream,
                         struct gs_http_text name, struct gs_http_text value)
{
    struct gs_http_text authority = text_of(session->authority);
    if (authority.bytes && gs_http_text_is(name, "host") && value.n == authority.n &&
        !memcmp(value.bytes, authority.bytes, value.n))
        return;
    stream->has_priority |= gs_http_text_is(name, "priority");
    if (value.n > session->options->max_header)
        stream->status = 431;
    bool is_cookie = continues_cookie(stream, name);
    size_t n = is_cookie ? value.n + 2 : name.n + value.n + 4;
    bool is_kept = !session->user->keeps || session->user->keeps(name);
    if (!(is_kept ? reserve(session, stream, n) : may_add(session, stream, n)))
        return;
    stream->lines += !is_cookie;
    if (is_kept)
        put_field(stream, name, value, is_cookie);
    else
        stream->dropped_n += (uint32_t)n;
}

/* libnghttp2 has checked that the method is CONNECT, and that the user has announced it. */
static void set_protocol(struct gs_http2_stream *stream, struct gs_http_text protocol)
{
    stream->is_connect = gs_http_text_is_nocase(protocol, "websocket");
    if (!stream->is_connect)
        stream->status = 501;
}

static void keep(nghttp2_rcbuf **kept, nghttp2_rcbuf *value)
{
    nghttp2_rcbuf_incref(value);
    *kept = value;
}

int gs_http2_on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, nghttp2_rcbuf *name,
                       nghttp2_rcbuf *value, uint8_t flags, void *data)
{
    (void)flags;
    struct gs_http2_session *session = data;
    struct gs_http2_stream *stream =
        nghttp2_session_get_stream_user_data(nghttp2, frame->hd.stream_id);
    struct gs_http_text text = text_of(name);
    if (!stream || stream->state != GS_HTTP2_HEAD || stream->status)
        return 0; /* a trailer's, or one of a head that is too large */
    if (gs_http_text_is(text, ":method"))
        keep(&session->method, value);
    else if (gs_http_text_is(text, ":path"))
        keep(&session->path, value);
    else if (gs_http_text_is(text, ":authority"))
        keep(&session->authority, value);
    else if (gs_http_text_is(text, ":protocol"))
        set_protocol(stream, text_of(value));
    else if (text.n && *text.bytes != ':') {
        append_line(session, stream);
        append_field(session, stream, text, text_of(value));
    }
    return 0;
}

static void drop(nghttp2_rcbuf **kept)
{
    if (*kept)
        nghttp2_rcbuf_decref(*kept);
    *kept = NULL;
}

void gs_http2_drop_header(struct gs_http2_session *session)
{
    drop(&session->method);
    drop(&session->path);
    drop(&session->authority);
}

/* ---- Heads that wait ----
 * The requests for the parts of a page have the same fields, which their heads share: so those of
 * 100 requests that wait for a window take little more memory than their streams. */

#define SHARED_MAX 4096u /* a larger head takes more memory than its response, which is made */

struct gs_http2_shared {
    size_t references, n;
    char bytes[];
};

/* The head is complete. Returns where the fields are; 0: it has none. */
static size_t fields_at(const struct gs_http2_stream *stream)
{
    size_t at = stream->version + sizeof VERSION "\r\n" - 1;
    return stream->version && !stream->status && !stream->is_broken && at < stream->head_n ? at : 0;
}

static struct gs_http2_shared *new_shared(struct gs_http2_session *session, const char *bytes,
                                          size_t n)
{
    struct gs_http2_shared *shared = gs_http2_realloc(session, NULL, sizeof *shared + n);
    if (!shared)
        return NULL;
    *shared = (struct gs_http2_shared){.n = n};
    memcpy(shared->bytes, bytes, n);
    session->shared = shared;
    return shared;
}

static void share(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    size_t at = fields_at(stream), n = stream->head_n - at;
    struct gs_http2_shared *shared = session->shared;
    if (!at || stream->shared || n > SHARED_MAX)
        return;
    if (!shared || shared->n != n || memcmp(shared->bytes, stream->head + at, n) != 0)
        shared = new_shared(session, stream->head + at, n);
    if (!shared)
        return;
    shared->references++;
    stream->shared = shared;
    stream->head_n = (uint32_t)at;
}

static void release_shared(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    struct gs_http2_shared *shared = stream->shared;
    stream->shared = NULL;
    if (!shared || --shared->references)
        return;
    if (session->shared == shared)
        session->shared = NULL;
    gs_http2_release(session, shared);
}

void gs_http2_shrink_head(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    share(session, stream);
    char *head = stream->head_n ? gs_http2_realloc(session, stream->head, stream->head_n) : NULL;
    if (!head)
        return;
    stream->head = head;
    stream->head_size = stream->head_n;
}

/* Returns false if there is no memory. */
static bool complete(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    const struct gs_http2_shared *shared = stream->shared;
    if (!shared)
        return true;
    size_t n = stream->head_n + shared->n;
    char *head = gs_http2_realloc(session, stream->head, n);
    if (!head)
        return false;
    memcpy(head + stream->head_n, shared->bytes, shared->n);
    stream->head = head;
    stream->head_n = stream->head_size = (uint32_t)n;
    release_shared(session, stream);
    return true;
}

void gs_http2_free_head(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    release_shared(session, stream);
    gs_http2_release(session, stream->head);
    stream->head = NULL;
    stream->head_n = stream->head_size = stream->version = 0;
    stream->dropped_n = stream->lines = 0;
}

void gs_http2_end_header(struct gs_http2_session *session, struct gs_http2_stream *stream)
{
    append_line(session, stream);
    if (reserve(session, stream, 2))
        put(stream, GS_HTTP_TEXT("\r\n"));
    gs_http2_drop_header(session);
}

/* ---- Parsing ---- */

/* The parser sees the version that the head is written in, and the log the one that was spoken. */
static void set_version(struct gs_http2_stream *stream, const char *version)
{
    if (stream->version && stream->head_n >= stream->version + sizeof VERSION - 1)
        memcpy(stream->head + stream->version, version, sizeof VERSION - 1);
}

/* What is known of a request that is refused without being parsed. */
static unsigned refuse(struct gs_http_text head, unsigned status,
                       struct gs_http_request *ret_request)
{
    *ret_request = (struct gs_http_request){
        .method = gs_http_request_method(head),
        .refusal = GS_HTTP_REFUSED_BYTES,
        .line = gs_http_request_line(head),
        .minor = true,
        .keep_alive = true,
    };
    return status;
}

/* The parser sees only what is kept. The limits are for a request whose line is valid. */
static bool has_too_much(const struct gs_http_options *options,
                         const struct gs_http2_stream *stream, struct gs_http_text fields)
{
    return fields.bytes && (fields.n - 2 + stream->dropped_n > options->max_header ||
                            stream->lines > options->max_fields);
}

static unsigned parse(const struct gs_http2_session *session, const struct gs_http2_stream *stream,
                      struct gs_http_request *ret_request)
{
    size_t scanned = 0;
    struct gs_http_text head = {stream->head, stream->head_n};
    if (stream->status)
        return refuse(head, stream->status, ret_request);
    if (gs_http_find_head_end(head.bytes, head.n, &scanned) != (ssize_t)head.n)
        return refuse(head, 400, ret_request);
    unsigned status = gs_http_request_parse(head, session->options, ret_request);
    return has_too_much(session->options, stream, ret_request->fields) ? 431 : status;
}

unsigned gs_http2_parse(struct gs_http2_session *session, struct gs_http2_stream *stream,
                        struct gs_http_request *ret_request)
{
    if (!complete(session, stream))
        return refuse((struct gs_http_text){stream->head, stream->head_n}, 503, ret_request);
    set_version(stream, VERSION);
    unsigned status = parse(session, stream, ret_request);
    set_version(stream, LOGGED_VERSION);
    return status;
}
