#include "http/head_end.h"
#include "http/request.h"

#include "http_server/streams.h"

#include <stdlib.h>

/* ---- The strings of an exchange: parts of the head, terminated there ---- */

static const char *terminate(struct gs_http_text text)
{
    if (text.bytes)
        ((char *)text.bytes)[text.n] = '\0';
    return text.bytes;
}

static unsigned count_lines(struct gs_http_text head)
{
    unsigned count = 0;
    const char *at = head.bytes, *end = head.bytes + head.n;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        count++;
    }
    return count;
}

/* The authority of an absolute target takes precedence over the field (RFC 9112, 3.2.2). It is
 * moved onto the slash before it, so that its end does not fall on the path. */
static const char *set_host(const struct gs_http_request *request)
{
    struct gs_http_text authority = request->target.authority;
    if (!authority.bytes || !authority.n)
        return terminate(request->host);
    char *moved = (char *)authority.bytes - 1;
    memmove(moved, authority.bytes, authority.n);
    moved[authority.n] = '\0';
    return moved;
}

/* Whether it asks for WebSocket over HTTP/2. What follows is no body. */
static bool is_connect(const struct gs_http_session *session)
{
    return session->stream && session->stream->is_connect;
}

/* Fill in the exchange: every text in the request is behind the fields that are found before. */
static void set_exchange(struct gs_http_session *session, const struct gs_http_request *request,
                         struct gs_http_field *fields)
{
    struct gs_http_exchange *exchange = &session->exchange;
    struct gs_http_text rest = request->fields, name, value;
    exchange->fields = fields;
    exchange->field_count = 0;
    while (gs_http_field_next_any(&rest, &name, &value))
        fields[exchange->field_count++] =
            (struct gs_http_field){.name = terminate(name), .value = terminate(value)};
    exchange->host = set_host(request);
    const struct gs_http_target *target = &request->target;
    bool is_literal = target->form == GS_HTTP_TARGET_ABSOLUTE && target->path.n == 1;
    exchange->path = target->form == GS_HTTP_TARGET_ASTERISK ? "*"
                     : is_literal                            ? "/"
                                                             : terminate(target->path);
    exchange->query = terminate(target->query);
    const char *line = request->line.bytes;
    exchange->method = terminate(
        (struct gs_http_text){line, (size_t)((char *)memchr(line, ' ', request->line.n) - line)});
    if (is_connect(session))
        exchange->method = "CONNECT"; /* its head is written as that of GET */
    exchange->minor_version = request->minor;
    exchange->content_length = request->chunked ? GS_HTTP_UNKNOWN : request->content_length;
}

static void set_body(struct gs_http_session *session, const struct gs_http_request *request)
{
    session->is_chunked = request->chunked;
    session->body_left = session->stream && request->chunked ? session->sessions->limits.max_body
                                                             : request->content_length;
    session->body_done = !request->chunked && !request->content_length;
    session->expects_continue = request->expects_continue && !session->body_done;
    session->body_error = 0;
    session->body_wait_ns = session->sessions->options.body_timeout_ns;
    gs_http_chunked_init(&session->chunked);
}

static unsigned parse(struct gs_http_session *session, struct gs_http_text head,
                      struct gs_http_field *fields)
{
    const struct gs_http_sessions *sessions = session->sessions;
    struct gs_http_request request;
    unsigned status = gs_http_request_parse(head, &sessions->limits, &request);
    if (is_connect(session))
        request.content_length = 0;
    else if (session->stream)
        request.chunked = session->stream->has_body && !request.has_length;
    session->is_head = request.method == GS_HTTP_HEAD;
    session->keep_alive = !status && request.keep_alive;
    if (!status && request.target.form == GS_HTTP_TARGET_AUTHORITY)
        status = 501;
    if (!status && request.content_length > sessions->limits.max_body)
        status = 413;
    if (status)
        return status;
    set_body(session, &request);
    set_exchange(session, &request, fields);
    return 0;
}

static void reset_response(struct gs_http_session *session)
{
    session->state = GS_HTTP_RESPONSE_NONE;
    session->fields_length = 0;
    session->is_head = session->keep_alive = false;
    session->exchange.minor_version = 1;
    session->body_done = true; /* of a request that is refused, nothing is read */
}

/* Copy the head behind the memory for its fields, which is session->head. Returns the copy; empty:
 * there is no memory. */
static struct gs_http_text copy_head(struct gs_http_session *session, struct gs_http_text head)
{
    size_t fields_size = count_lines(head) * sizeof(struct gs_http_field);
    session->head = malloc(fields_size + head.n);
    if (!session->head)
        return (struct gs_http_text){0};
    char *text = session->head + fields_size;
    memcpy(text, head.bytes, head.n);
    return (struct gs_http_text){text, head.n};
}

/* Take the head out of the input. */
static struct gs_http_text take_head(struct gs_http_session *session)
{
    struct gs_http_connection *connection = session->connection;
    struct gs_http_text head = {gs_http_input(connection), connection->head_length};
    head = copy_head(session, head);
    if (!head.n)
        return head;
    gs_http_input_consume(connection, head.n);
    connection->head_length = connection->scanned = 0;
    connection->has_begun = connection->is_first = false;
    return head;
}

/* The head was made of fields, which may contain what no head does. */
static unsigned check_stream(const struct gs_http_stream *stream)
{
    size_t scanned = 0;
    if (stream->status)
        return stream->status;
    return gs_http_find_head_end(stream->request, stream->request_n, &scanned) ==
                   (ssize_t)stream->request_n
               ? 0
               : 400;
}

/* Also of one that is too long: a client of HTTP/2 takes no body with the response to HEAD. */
static bool is_head(const struct gs_http_stream *stream)
{
    return gs_http_request_method((struct gs_http_text){stream->request, stream->request_n}) ==
           GS_HTTP_HEAD;
}

unsigned gs_http_session_read_head(struct gs_http_session *session)
{
    const struct gs_http_stream *stream = session->stream;
    reset_response(session);
    unsigned status = stream ? check_stream(stream) : session->connection->status;
    if (status) {
        session->is_head = stream && is_head(stream);
        return status;
    }
    struct gs_http_text head =
        stream ? copy_head(session, (struct gs_http_text){stream->request, stream->request_n})
               : take_head(session);
    return head.n ? parse(session, head, (struct gs_http_field *)session->head) : 503;
}

void gs_http_session_release(struct gs_http_session *session)
{
    free(session->head);
    free(session->fields);
    session->head = session->fields = NULL;
    session->fields_length = session->fields_size = 0;
}
