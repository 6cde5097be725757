#include "http/conn.h"

#include "http/head.h"
#include "http/service.h"

#include <stdlib.h>

static bool tail_append(struct gs_http_conn *conn, const char *bytes, size_t n)
{
    size_t need = conn->tail_n + n;
    if (need > conn->tail_size) {
        size_t size = conn->tail_size ? conn->tail_size : 256;
        while (size < need)
            size *= 2;
        char *tail = size <= UINT32_MAX ? realloc(conn->tail, size) : NULL;
        if (!tail) {
            conn->state = GS_HTTP_CONN_CLOSED;
            return false;
        }
        conn->tail = tail;
        conn->tail_size = (uint32_t)size;
    }
    memcpy(conn->tail + conn->tail_n, bytes, n);
    conn->tail_n += (uint32_t)n;
    return true;
}

/* Take n bytes out of the tail, from position `from` on. */
static void tail_remove(struct gs_http_conn *conn, size_t from, size_t n)
{
    conn->tail_n -= (uint32_t)n;
    if (conn->tail_n) {
        memmove(conn->tail + from, conn->tail + from + n, conn->tail_n - from);
        return;
    }
    free(conn->tail);
    conn->tail = NULL;
    conn->tail_size = 0;
}

/* A head that is not complete and already too large. 0: it is not. */
static unsigned too_large(const struct gs_http_conn *conn, const char *bytes, size_t n)
{
    const struct gs_http_options *options = &conn->service->options;
    if (n <= options->request_line_most)
        return 0;
    const char *line_end = memchr(bytes, '\r', options->request_line_most + 1);
    if (!line_end)
        return gs_http_request_too_long(bytes, options->request_line_most);
    return n - (size_t)(line_end - bytes) > options->header_most + 4 ? 431 : 0;
}

/* Answer the request at the start of these bytes. Returns how many of them are dealt with;
 * *ret_more: go on behind them. */
static size_t handle_one(struct gs_http_conn *conn, const char *bytes, size_t n, bool *ret_more,
                         uint64_t now_ns)
{
    struct gs_http_request request;
    size_t scanned = conn->scanned;
    conn->scanned = 0;
    *ret_more = false;
    ssize_t head_n = gs_http_head_end(bytes, n, &scanned);
    if (head_n <= 0) {
        unsigned refusal = head_n < 0 ? 400 : too_large(conn, bytes, n);
        if (!refusal) {
            conn->scanned = (uint32_t)scanned;
            return 0;
        }
        request = (struct gs_http_request){
            .method = gs_http_request_method((struct gs_http_text){bytes, n}),
        };
        gs_http_refuse(conn, &request, refusal, now_ns);
        return 0;
    }
    struct gs_http_text head = {bytes, (size_t)head_n};
    unsigned refusal = gs_http_request_parse(head, &conn->service->options, &request);
    enum gs_http_answered answered = refusal ? gs_http_refuse(conn, &request, refusal, now_ns)
                                             : gs_http_answer(conn, &request, false, NULL, now_ns);
    if (answered == GS_HTTP_WAITS)
        conn->head_n = (uint32_t)head_n;
    *ret_more = answered == GS_HTTP_ANSWERED;
    return answered == GS_HTTP_ANSWERED ? head.n : 0;
}

/* Answer the requests in these bytes, as far as that goes. Returns how many of the bytes are dealt
 * with. */
static size_t handle(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    size_t used = 0;
    bool more = true;
    while (more && conn->state == GS_HTTP_CONN_HEAD) {
        while (n - used >= 2 && bytes[used] == '\r' && bytes[used + 1] == '\n')
            used += 2; /* RFC 9112, 2.2 */
        if (used == n)
            break;
        used += handle_one(conn, bytes + used, n - used, &more, now_ns);
    }
    return used;
}

enum gs_http_answered gs_http_input_refuse(struct gs_http_conn *conn, unsigned status,
                                           uint64_t now_ns)
{
    struct gs_http_request request = {
        .method = gs_http_request_method((struct gs_http_text){conn->tail, conn->tail_n}),
    };
    struct gs_http_text head = {conn->tail, conn->head_n};
    if (head.n)
        gs_http_request_parse(head, &conn->service->options, &request);
    return gs_http_refuse(conn, &request, status, now_ns);
}

/* Discard a body. Returns how many of the bytes belonged to it; the state tells whether it is
 * complete. */
static size_t eat_body(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    struct gs_http_chunked *body = (struct gs_http_chunked *)conn->body;
    bool done;
    ssize_t eaten;
    if (conn->flags & GS_HTTP_CONN_CHUNKED) {
        eaten = gs_http_chunked_eat(body, bytes, n, &done);
    } else {
        eaten = (ssize_t)(n < body->left ? n : body->left);
        body->left -= (uint64_t)eaten;
        done = !body->left;
    }
    bool too_long = body->total + body->left > conn->service->options.body_most;
    if (eaten < 0 || too_long) {
        if (gs_http_input_refuse(conn, too_long ? 413 : 400, now_ns) == GS_HTTP_BLOCKED)
            conn->state = conn->output ? GS_HTTP_CONN_CLOSING : GS_HTTP_CONN_CLOSED;
        return n;
    }
    conn->moved += (uint64_t)eaten;
    if (done)
        conn->state = GS_HTTP_CONN_READY;
    return (size_t)eaten;
}

void gs_http_input_answer(struct gs_http_conn *conn, struct gs_http_load *load, uint64_t now_ns)
{
    struct gs_http_request request;
    struct gs_http_text head = {conn->tail, conn->head_n};
    unsigned refusal = gs_http_request_parse(head, &conn->service->options, &request);
    enum gs_http_answered answered = refusal ? gs_http_refuse(conn, &request, refusal, now_ns)
                                             : gs_http_answer(conn, &request, true, load, now_ns);
    if (answered != GS_HTTP_ANSWERED)
        return;
    tail_remove(conn, 0, conn->head_n);
    conn->head_n = 0;
}

void gs_http_input_resume(struct gs_http_conn *conn, uint64_t now_ns)
{
    do {
        if (conn->state == GS_HTTP_CONN_BODY && conn->tail_n > conn->head_n)
            tail_remove(
                conn, conn->head_n,
                eat_body(conn, conn->tail + conn->head_n, conn->tail_n - conn->head_n, now_ns));
        if (conn->state == GS_HTTP_CONN_READY && !conn->output)
            gs_http_input_answer(conn, NULL, now_ns);
        if (conn->state != GS_HTTP_CONN_HEAD || !conn->tail_n)
            return;
        tail_remove(conn, 0, handle(conn, conn->tail, conn->tail_n, now_ns));
    } while (conn->state == GS_HTTP_CONN_BODY);
}

void gs_http_input(struct gs_http_conn *conn, const char *bytes, size_t n, uint64_t now_ns)
{
    size_t used = 0;
    if (conn->state == GS_HTTP_CONN_HEAD && !conn->tail_n)
        used = handle(conn, bytes, n, now_ns);
    else if (conn->state == GS_HTTP_CONN_BODY)
        used = eat_body(conn, bytes, n, now_ns);
    if (conn->state >= GS_HTTP_CONN_CLOSING) {
        conn->flags |= used < n ? GS_HTTP_CONN_LINGERS : 0;
        return;
    }
    if (used == n && conn->state != GS_HTTP_CONN_READY)
        return;
    if (tail_append(conn, bytes + used, n - used))
        gs_http_input_resume(conn, now_ns);
}
