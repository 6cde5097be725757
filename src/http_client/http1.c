/* A request and its response on a connection of HTTP/1. */
#include "http/response_head.h"
#include "http_client/client.h"
#include "http_client/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FIELDS_MAX 256u

/* What is left of a response is received if it has arrived, up to this. */
#define DISCARD_MAX (256u << 10)

static struct gs_http_client_connection *connection_of(struct gs_http_client_stream *stream)
{
    return gs_container_of(stream, struct gs_http_client_connection, stream);
}

static int fail(struct gs_http_client_connection *connection, int err, const char *what)
{
    connection->has_failed = true;
    return gs_http_client_fail(err, "the response of %s %s", connection->host->key, what);
}

/* ---- Sending ---- */

static bool has_usually_body(const char *method)
{
    return !strcmp(method, "POST") || !strcmp(method, "PUT") || !strcmp(method, "PATCH");
}

static char *put(char *at, const char *first, const char *second, const char *third)
{
    return stpcpy(stpcpy(stpcpy(at, first), second), third);
}

/* Returns the position behind the field that frames the body. */
static char *put_framing(char *at, const struct gs_http_client_head *head, bool is_chunked)
{
    uint64_t length = head->has_parts ? head->parts_length : head->body_n;
    if (is_chunked)
        return stpcpy(at, "Transfer-Encoding: chunked\r\n");
    if (!head->has_parts && !head->body && !has_usually_body(head->method))
        return at;
    return at + sprintf(at, "Content-Length: %llu\r\n", (unsigned long long)length);
}

/* A body that is not larger is copied to the head, so that one call sends both. */
#define JOINED_MAX 4096u

#define FRAMING_MAX 64u /* the longest of both fields, and the end of the head */

static size_t room_of(const struct gs_http_client_head *head, size_t joined)
{
    size_t room = sizeof "  HTTP/1.1\r\nHost: \r\n" + FRAMING_MAX + joined;
    room += strlen(head->method) + strlen(head->target) + strlen(head->authority);
    for (unsigned i = 0; i < head->field_count; i++)
        room += strlen(head->fields[i].name) + strlen(head->fields[i].value) + 4;
    return room;
}

static int transmit_body(struct gs_http_client_connection *connection, const void *bytes, size_t n,
                         uint64_t deadline_ns)
{
    connection->is_watching = true;
    int err = gs_http_client_transmit(connection, bytes, n, deadline_ns);
    connection->is_watching = false;
    return err;
}

static int send_head(struct gs_http_client_stream *stream, const struct gs_http_client_head *head,
                     uint64_t deadline_ns)
{
    struct gs_http_client_connection *connection = connection_of(stream);
    size_t joined = head->body && head->body_n <= JOINED_MAX ? head->body_n : 0;
    gs_http_response_parser_init(&connection->parser, !strcmp(head->method, "HEAD"));
    connection->is_chunked = head->has_parts && head->parts_length == GS_HTTP_UNKNOWN;
    connection->has_sent = stream->has_started = false;
    connection->scanned = 0;
    connection->data = (struct gs_http_text){0};
    char *text = malloc(room_of(head, joined));
    if (!text)
        return -ENOMEM;
    char *at = put(text, head->method, " ", head->target);
    at = put(at, " HTTP/1.1\r\nHost: ", head->authority, "\r\n");
    for (unsigned i = 0; i < head->field_count; i++) {
        at = put(at, head->fields[i].name, ": ", head->fields[i].value);
        at = stpcpy(at, "\r\n");
    }
    at = stpcpy(put_framing(at, head, connection->is_chunked), "\r\n");
    if (joined)
        at = mempcpy(at, head->body, joined);
    int err = gs_http_client_transmit(connection, text, (size_t)(at - text), deadline_ns);
    free(text);
    if (!err && head->body_n > joined)
        err = transmit_body(connection, head->body, head->body_n, deadline_ns);
    connection->has_sent = !err && !head->has_parts;
    return err;
}

/* The chunk is sent by one call, with its frame. */
static int send_chunk(struct gs_http_client_connection *connection, const void *bytes, size_t n,
                      uint64_t deadline_ns)
{
    char *frame = malloc(n + 24);
    if (!frame)
        return -ENOMEM;
    char *at = frame + sprintf(frame, "%zx\r\n", n);
    if (n)
        at = mempcpy(at, bytes, n);
    at = stpcpy(at, "\r\n");
    int err = transmit_body(connection, frame, (size_t)(at - frame), deadline_ns);
    free(frame);
    return err;
}

static int send_body(struct gs_http_client_stream *stream, const void *bytes, size_t n,
                     uint64_t deadline_ns)
{
    struct gs_http_client_connection *connection = connection_of(stream);
    int err = 0;
    if (connection->is_chunked)
        err = send_chunk(connection, bytes, n, deadline_ns);
    else if (n)
        err = transmit_body(connection, bytes, n, deadline_ns);
    connection->has_sent = !err && !n;
    return err;
}

/* ---- The head of the response ---- */

/* Parse input from `scanned` on. A parser that has refused something is not used again. Returns 0
 * or -errno. */
static int parse_head(struct gs_http_client_connection *connection)
{
    struct gs_http_response_parser *parser = &connection->parser;
    struct gs_http_text none;
    while (connection->scanned < gs_http_client_input_n(connection) &&
           !gs_http_response_parser_has_head(parser)) {
        const char *at = connection->input + connection->start + connection->scanned;
        size_t n = gs_http_client_input_n(connection) - connection->scanned;
        ssize_t used =
            parser->reason ? -EPROTO : gs_http_response_parser_next(parser, at, n, &none);
        if (used < 0) {
            char what[120];
            snprintf(what, sizeof what, "is not valid: %s", parser->reason);
            return fail(connection, (int)used, what);
        }
        connection->scanned += (size_t)used;
    }
    return 0;
}

/* Receive until the head is complete, which is then what is scanned. Some may have arrived before.
 */
static int await_head(struct gs_http_client_connection *connection, uint64_t deadline_ns)
{
    int err = parse_head(connection);
    while (!err && !gs_http_response_parser_has_head(&connection->parser)) {
        int result = gs_http_client_receive(connection, deadline_ns);
        connection->has_failed |= result <= 0;
        if (result < 0)
            return result;
        if (!result)
            return fail(connection, -ECONNRESET,
                        connection->stream.has_started ? "has ended within its head"
                                                       : "is missing: the connection was closed");
        connection->stream.has_started = true;
        err = parse_head(connection);
    }
    return err;
}

int gs_http_client_look(struct gs_http_client_connection *connection)
{
    int result = gs_http_client_receive(connection, 0);
    connection->stream.has_started |= result > 0;
    if (result == -ETIMEDOUT)
        return 0;
    if (result <= 0 || parse_head(connection) ||
        gs_http_response_parser_has_head(&connection->parser))
        return -EPIPE;
    return 0;
}

static unsigned count_lines(const char *head, size_t n)
{
    unsigned count = 0;
    for (const char *at = head; (at = memchr(at, '\n', n - (size_t)(at - head))); at++)
        count++;
    return count;
}

/* Copy the head into memory of its own, behind its fields. */
static int split_head(struct gs_http_client_connection *connection, const char *head, size_t n,
                      struct gs_http_client_answer *ret_answer)
{
    unsigned max = count_lines(head, n);
    max = max < FIELDS_MAX ? max : FIELDS_MAX;
    struct gs_http_field *fields = malloc(max * sizeof *fields + n);
    if (!fields)
        return -ENOMEM;
    char *text = memcpy(fields + max, head, n);
    int count = gs_http_response_head_split(text, n, fields, max);
    if (count < 0) {
        free(fields);
        return fail(connection, count,
                    count == -EMSGSIZE ? "has more than 256 fields" : "has a malformed field");
    }
    ret_answer->memory = ret_answer->fields = fields;
    ret_answer->field_count = (unsigned)count;
    return 0;
}

static int receive_head(struct gs_http_client_stream *stream, uint64_t deadline_ns,
                        struct gs_http_client_answer *ret_answer)
{
    struct gs_http_client_connection *connection = connection_of(stream);
    const struct gs_http_response_parser *parser = &connection->parser;
    int err = await_head(connection, deadline_ns);
    if (err)
        return err;
    size_t n = connection->scanned, interim = parser->interim_bytes;
    err = split_head(connection, connection->input + connection->start + interim, n - interim,
                     ret_answer);
    if (err) {
        connection->has_failed = true;
        return err;
    }
    gs_http_client_input_consume(connection, n);
    ret_answer->status = parser->status;
    ret_answer->has_body = !gs_http_response_parser_is_done(parser);
    ret_answer->content_length = GS_HTTP_UNKNOWN;
    if (!gs_http_response_parser_length(parser, &ret_answer->content_length) &&
        !ret_answer->has_body && !parser->is_head && parser->status != 304)
        ret_answer->content_length = 0;
    return 0;
}

/* ---- The body of the response ---- */

/* Parse input until there is data, or it is used up. */
static int parse_body(struct gs_http_client_connection *connection)
{
    struct gs_http_response_parser *parser = &connection->parser;
    while (gs_http_client_input_n(connection) && !connection->data.n &&
           !gs_http_response_parser_is_done(parser)) {
        ssize_t used =
            gs_http_response_parser_next(parser, connection->input + connection->start,
                                         gs_http_client_input_n(connection), &connection->data);
        if (used < 0) {
            char what[120];
            snprintf(what, sizeof what, "has a malformed body: %s", parser->reason);
            return fail(connection, (int)used, what);
        }
        gs_http_client_input_consume(connection, (size_t)used - connection->data.n);
    }
    return 0;
}

static ssize_t peek(struct gs_http_client_stream *stream, uint64_t deadline_ns,
                    const char **ret_bytes)
{
    struct gs_http_client_connection *connection = connection_of(stream);
    int err = parse_body(connection);
    while (!err && !connection->data.n && !gs_http_response_parser_is_done(&connection->parser)) {
        int result = gs_http_client_receive(connection, deadline_ns);
        if (!result && gs_http_response_parser_end(&connection->parser))
            return fail(connection, -ECONNRESET, "has ended within its body");
        connection->has_failed |= result < 0 && result != -ETIMEDOUT && result != -ECANCELED;
        err = result < 0 ? result : parse_body(connection);
    }
    *ret_bytes = connection->data.bytes;
    return err ? err : (ssize_t)connection->data.n;
}

static void consume(struct gs_http_client_stream *stream, size_t n)
{
    struct gs_http_client_connection *connection = connection_of(stream);
    connection->data.bytes += n;
    connection->data.n -= n;
    gs_http_client_input_consume(connection, n);
}

/* ---- The end ---- */

static void discard(struct gs_http_client_stream *stream)
{
    const char *bytes;
    ssize_t n = 1;
    for (size_t total = 0; n > 0 && total < DISCARD_MAX; total += (size_t)n) {
        n = peek(stream, 0, &bytes);
        if (n <= 0)
            return;
        consume(stream, (size_t)n);
    }
}

static void release(struct gs_http_client_stream *stream)
{
    struct gs_http_client_connection *connection = connection_of(stream);
    const struct gs_http_response_parser *parser = &connection->parser;
    if (connection->has_sent && !connection->has_failed && parser->keep_alive &&
        gs_http_response_parser_has_head(parser))
        discard(stream);
    bool is_reusable = connection->has_sent && !connection->has_failed && parser->keep_alive &&
                       gs_http_response_parser_is_done(parser) && !connection->receive_error &&
                       !connection->has_ended && !gs_http_client_input_n(connection);
    gs_http_client_pool_give(connection, is_reusable);
}

const struct gs_http_client_stream_operations gs_http_client_http1 = {
    .send_head = send_head,
    .send_body = send_body,
    .receive_head = receive_head,
    .peek = peek,
    .consume = consume,
    .release = release,
};
