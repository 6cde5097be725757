#include "http/status.h"
#include "http/token.h"
#include "http_server/streams.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>
#include <sys/uio.h>

#define FIELDS_MAX (64 << 10)

/* ---- Sending ---- */

void gs_http_advance(struct msghdr *message, size_t n)
{
    while (message->msg_iovlen && n >= message->msg_iov->iov_len) {
        n -= message->msg_iov->iov_len;
        message->msg_iov++;
        message->msg_iovlen--;
    }
    if (n) {
        message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + n;
        message->msg_iov->iov_len -= n;
    }
}

uint64_t gs_http_write_deadline(const struct gs_http_connection *connection)
{
    return gs_clock_after(gs_clock_now(), connection->sessions->options.write_timeout_ns);
}

static int send_plain(int fd, struct msghdr *message, uint64_t deadline_ns)
{
    while (message->msg_iovlen) {
        ssize_t n = gs_sendmsg(fd, message, 0, deadline_ns);
        if (n < 0)
            return (int)n;
        gs_http_advance(message, (size_t)n);
    }
    return 0;
}

/* Send all of these pieces, which are changed. is_end: nothing follows on the connection. After an
 * error the response is aborted. */
static int send_pieces(struct gs_http_session *session, struct iovec *pieces, unsigned count,
                       bool is_end)
{
    struct gs_http_connection *connection = session->connection;
    uint64_t deadline_ns = gs_http_write_deadline(connection);
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    int err = connection->engine ? gs_http_tls_send(connection, &message, is_end, deadline_ns)
                                 : send_plain(connection->fd, &message, deadline_ns);
    if (err)
        session->state = GS_HTTP_RESPONSE_ABORTED;
    return err;
}

int gs_http_session_send_continue(struct gs_http_session *session)
{
    if (session->stream)
        return gs_http_stream_continue(session->stream);
    struct iovec piece = {(char *)"HTTP/1.1 100 Continue\r\n\r\n", 25};
    return send_pieces(session, &piece, 1, false);
}

/* ---- Fields ---- */

static bool is_field_value(const char *value)
{
    while (*value && gs_http_is(*value, GS_HTTP_FIELD))
        value++;
    return !*value;
}

/* Whether the field is one that the server adds itself, or that would change the framing. */
static bool is_reserved(struct gs_http_text name)
{
    static const char *const names[] = {"connection", "content-length",    "content-type",
                                        "date",       "keep-alive",        "proxy-connection",
                                        "trailer",    "transfer-encoding", "upgrade"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (gs_http_text_is_nocase(name, names[i]))
            return true;
    return false;
}

static bool reserve(struct gs_http_session *session, size_t need)
{
    size_t size = session->fields_size ? session->fields_size : 256;
    while (size < need)
        size *= 2;
    char *fields = realloc(session->fields, size);
    if (!fields)
        return false;
    session->fields = fields;
    session->fields_size = size;
    return true;
}

static char *put(char *at, const char *text, size_t n)
{
    memcpy(at, text, n);
    return at + n;
}

static int add_field(struct gs_http_session *session, const char *name, const char *value)
{
    size_t name_length = strlen(name), value_length = strlen(value);
    size_t need = session->fields_length + name_length + value_length + 4;
    if (!is_field_value(value))
        return -EINVAL;
    if (need > FIELDS_MAX)
        return -EMSGSIZE;
    if (need > session->fields_size && !reserve(session, need))
        return -ENOMEM;
    char *at = session->fields + session->fields_length;
    at = put(at, name, name_length);
    at = put(at, ": ", 2);
    at = put(at, value, value_length);
    put(at, "\r\n", 2);
    session->fields_length = need;
    return 0;
}

int gs_http_set_field(struct gs_http_exchange *exchange, const char *name, const char *value)
{
    struct gs_http_session *session = gs_http_session_of(exchange);
    struct gs_http_text text = {name, strlen(name)};
    if (session->state != GS_HTTP_RESPONSE_NONE)
        return -EALREADY;
    if (!gs_http_is_token(text) || is_reserved(text))
        return -EINVAL;
    return add_field(session, name, value);
}

int gs_http_clear_fields(struct gs_http_exchange *exchange)
{
    struct gs_http_session *session = gs_http_session_of(exchange);
    if (session->state != GS_HTTP_RESPONSE_NONE)
        return -EALREADY;
    session->fields_length = 0;
    return 0;
}

/* ---- The head ---- */

/* Whether the connection serves another request after this response. */
static bool may_keep_alive(const struct gs_http_session *session)
{
    return session->keep_alive && atomic_load(&session->sessions->phase) == GS_HTTP_SERVING &&
           session->framing != GS_HTTP_FRAMED_BY_CLOSE && !session->body_error &&
           gs_http_session_can_discard(session);
}

/* It is formatted once a second. */
const char *gs_http_date_now(struct gs_http_connection *connection)
{
    uint32_t seconds = (uint32_t)(gs_clock_wall() / GS_SECOND);
    if (connection->date_seconds != seconds) {
        gs_http_date_format(seconds, connection->date);
        connection->date_seconds = seconds;
    }
    return connection->date;
}

static void build_start(struct gs_http_session *session, unsigned status)
{
    const char *text = gs_http_status_text(status);
    char *at = put(session->start, "HTTP/1.1 ", 9);
    if (text) {
        at = put(at, text, strlen(text));
    } else {
        at += gs_http_put_decimal(at, status);
        *at++ = ' '; /* and an empty phrase (RFC 9112, 4) */
    }
    at = put(at, "\r\nDate: ", 8);
    at = put(at, gs_http_date_now(session->connection), GS_HTTP_DATE_LENGTH);
    at = put(at, "\r\n", 2);
    session->start_length = (size_t)(at - session->start);
}

static void build_end(struct gs_http_session *session, unsigned status, uint64_t length)
{
    char *at = session->end;
    if (!session->keep_alive)
        at = put(at, "Connection: close\r\n", 19);
    else if (!session->exchange.minor_version)
        at = put(at, "Connection: keep-alive\r\n", 24);
    if (session->framing == GS_HTTP_FRAMED_BY_CHUNKS) {
        at = put(at, "Transfer-Encoding: chunked\r\n", 28);
    } else if (session->framing == GS_HTTP_FRAMED_BY_LENGTH && status != 204 && status != 304) {
        at = put(at, "Content-Length: ", 16);
        at += gs_http_put_decimal(at, length);
        at = put(at, "\r\n", 2);
    }
    at = put(at, "\r\n", 2);
    session->end_length = (size_t)(at - session->end);
}

static int start(struct gs_http_session *session, unsigned status, const char *media_type,
                 uint64_t length)
{
    if (session->state != GS_HTTP_RESPONSE_NONE)
        return -EALREADY;
    if (status < 200 || status > 599 || (status == 204 && length && length != GS_HTTP_UNKNOWN) ||
        (media_type && !*media_type))
        return -EINVAL;
    int err = media_type ? add_field(session, "Content-Type", media_type) : 0;
    if (err)
        return err;
    bool is_bodiless = status == 204 || status == 304;
    session->has_body = !session->is_head && !is_bodiless;
    session->response_left = status == 204 ? 0 : length;
    session->framing = is_bodiless || length != GS_HTTP_UNKNOWN ? GS_HTTP_FRAMED_BY_LENGTH
                       : session->exchange.minor_version        ? GS_HTTP_FRAMED_BY_CHUNKS
                                                                : GS_HTTP_FRAMED_BY_CLOSE;
    session->keep_alive = may_keep_alive(session);
    session->must_linger |= !session->keep_alive;
    session->status = status;
    session->response_length = length;
    if (!session->stream) {
        build_start(session, status);
        build_end(session, status, length);
    }
    session->state = GS_HTTP_RESPONSE_HEAD;
    return 0;
}

/* Add the pieces of the head, if it is not sent yet. Returns their number, at most 3. */
static unsigned take_head(struct gs_http_session *session, struct iovec pieces[3])
{
    if (session->state != GS_HTTP_RESPONSE_HEAD)
        return 0;
    session->state = GS_HTTP_RESPONSE_BODY;
    pieces[0] = (struct iovec){session->start, session->start_length};
    pieces[1] = (struct iovec){session->fields, session->fields_length};
    pieces[2] = (struct iovec){session->end, session->end_length};
    return 3;
}

/* ---- The body ---- */

int gs_http_start(struct gs_http_exchange *exchange, unsigned status, const char *media_type,
                  uint64_t length)
{
    return start(gs_http_session_of(exchange), status, media_type, length);
}

/* "SIZE CRLF" in hexadecimal. Returns its length, at most 18. */
static size_t put_chunk_size(char *out, size_t n)
{
    unsigned digits = 1;
    while (digits < 16 && n >> (4 * digits))
        digits++;
    for (unsigned i = 0; i < digits; i++)
        out[i] = "0123456789abcdef"[n >> (4 * (digits - 1 - i)) & 15];
    memcpy(out + digits, "\r\n", 2);
    return digits + 2;
}

/* Of HTTP/2. A response without a body ends with its head. After an error it is aborted. */
static int send_stream(struct gs_http_session *session, const void *bytes, size_t n, bool is_last)
{
    const struct gs_http_head head = {
        .status = session->status,
        .has_body = session->has_body,
        .has_length = session->framing == GS_HTTP_FRAMED_BY_LENGTH && session->status != 204 &&
                      session->status != 304,
        .length = session->response_length,
        .fields = session->fields,
        .fields_n = session->fields_length,
    };
    bool is_first = session->state == GS_HTTP_RESPONSE_HEAD;
    struct gs_http_text body = {bytes, session->has_body ? n : 0};
    session->state = GS_HTTP_RESPONSE_BODY;
    if (!is_first && (!session->has_body || !(n || is_last)))
        return 0;
    int err = gs_http_stream_write(session->stream, is_first ? &head : NULL, body,
                                   is_last || !session->has_body);
    if (err)
        session->state = GS_HTTP_RESPONSE_ABORTED;
    return err;
}

/* Send n bytes of the body; is_last: and its end. */
static int send_body(struct gs_http_session *session, const void *bytes, size_t n, bool is_last)
{
    if (session->stream)
        return send_stream(session, bytes, n, is_last);
    struct iovec pieces[7];
    char size[18];
    unsigned count = take_head(session, pieces);
    bool is_chunked = session->has_body && session->framing == GS_HTTP_FRAMED_BY_CHUNKS;
    if (is_chunked && n)
        pieces[count++] = (struct iovec){size, put_chunk_size(size, n)};
    if (session->has_body && n)
        pieces[count++] = (struct iovec){(void *)bytes, n};
    if (is_chunked && n)
        pieces[count++] = (struct iovec){(char *)"\r\n", 2};
    if (is_chunked && is_last)
        pieces[count++] = (struct iovec){(char *)"0\r\n\r\n", 5};
    bool is_end = !session->keep_alive && (is_last || !session->response_left);
    return count ? send_pieces(session, pieces, count, is_end) : 0;
}

int gs_http_write(struct gs_http_exchange *exchange, const void *bytes, size_t n)
{
    struct gs_http_session *session = gs_http_session_of(exchange);
    if (session->state == GS_HTTP_RESPONSE_ABORTED)
        return -EPIPE;
    if (session->state != GS_HTTP_RESPONSE_HEAD && session->state != GS_HTTP_RESPONSE_BODY)
        return -EINVAL;
    if (session->response_left != GS_HTTP_UNKNOWN) {
        if (n > session->response_left)
            return -EMSGSIZE;
        session->response_left -= n;
    }
    return send_body(session, bytes, n, false);
}

int gs_http_respond(struct gs_http_exchange *exchange, unsigned status, const char *media_type,
                    const void *body, size_t n)
{
    struct gs_http_session *session = gs_http_session_of(exchange);
    int err = start(session, status, media_type, n);
    if (err)
        return err;
    err = send_body(session, body, n, true);
    if (!err)
        session->state = GS_HTTP_RESPONSE_DONE;
    return err;
}

void gs_http_abort(struct gs_http_exchange *exchange)
{
    gs_http_session_of(exchange)->state = GS_HTTP_RESPONSE_ABORTED;
}

/* ---- Responses of the server itself ---- */

void gs_http_session_respond_status(struct gs_http_session *session, unsigned status)
{
    const char *text = gs_http_status_text(status);
    char body[64];
    size_t n = strlen(text);
    memcpy(body, text, n);
    body[n++] = '\n';
    session->fields_length = 0;
    /* Without memory for the field of the type, there is none. */
    if (gs_http_respond(&session->exchange, status, "text/plain", body, n) == -ENOMEM &&
        session->state == GS_HTTP_RESPONSE_NONE)
        (void)!gs_http_respond(&session->exchange, status, NULL, body, n);
}

void gs_http_session_finish_response(struct gs_http_session *session)
{
    if (session->state == GS_HTTP_RESPONSE_NONE) {
        gs_http_session_respond_status(session, gs_http_session_failure_status(session));
        return;
    }
    if (session->state == GS_HTTP_RESPONSE_DONE || session->state == GS_HTTP_RESPONSE_ABORTED)
        return;
    bool is_incomplete = session->framing == GS_HTTP_FRAMED_BY_LENGTH && session->has_body &&
                         session->response_left && session->response_left != GS_HTTP_UNKNOWN;
    if (is_incomplete)
        gs_http_abort(&session->exchange);
    else if (!send_body(session, NULL, 0, true))
        session->state = GS_HTTP_RESPONSE_DONE;
}
