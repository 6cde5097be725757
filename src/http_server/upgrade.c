/* Taking a connection over, or a stream of HTTP/2. A connection's engine of TLS becomes a stream of
 * gossamer/tls.h, by which one thread may receive while another sends. */
#include "http_server/upgrade.h"

#include "http/token.h"
#include "http_server/streams.h"

#include <errno.h>
#include <gossamer/io.h>
#include <stdlib.h>
#include <strings.h>

static struct gs_http_connection *connection_of(struct gs_http_upgraded *upgraded)
{
    return gs_container_of(upgraded, struct gs_http_connection, upgraded);
}

/* ---- The request ---- */

static bool is_nocase(struct gs_http_text text, const char *word)
{
    return text.n == strlen(word) && !strncasecmp(text.bytes, word, text.n);
}

/* Whether a list, which may be in several fields of this name, has the element. */
static bool has_element(const struct gs_http_exchange *exchange, const char *name,
                        const char *wanted)
{
    for (unsigned i = 0; i < exchange->field_count; i++) {
        const struct gs_http_field *field = &exchange->fields[i];
        struct gs_http_text rest = {field->value, strlen(field->value)}, element;
        while (!strcasecmp(field->name, name) && gs_http_list_next(&rest, &element))
            if (is_nocase(element, wanted))
                return true;
    }
    return false;
}

static int check(const struct gs_http_session *session, const char *protocol)
{
    const struct gs_http_exchange *exchange = &session->exchange;
    if (session->state != GS_HTTP_RESPONSE_NONE)
        return -EALREADY;
    if (session->stream)
        return session->stream->is_connect && !strcasecmp(protocol, "websocket") ? 0 : -EINVAL;
    bool is_asked_for = exchange->minor_version && has_element(exchange, "connection", "upgrade") &&
                        has_element(exchange, "upgrade", protocol);
    return is_asked_for && session->body_done ? 0 : -EINVAL;
}

/* ---- The response ---- */

static int start_tls(struct gs_http_connection *connection)
{
    if (!connection->engine)
        return 0;
    int err = gs_http_tls_flush(connection, gs_http_write_deadline(connection));
    if (!err)
        err = gs_http_tls_stream(connection)
                  ->adopt(connection->engine, connection->fd, &connection->upgraded.tls);
    if (!err)
        connection->engine = NULL;
    return err;
}

static char *put(char *at, const char *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

#define PUT_TEXT(at_, text_) put(at_, text_, sizeof(text_) - 1)

/* Returns NULL without memory. */
static char *new_head(struct gs_http_session *session, const char *protocol, size_t *ret_n)
{
    char *head = malloc(session->fields_length + strlen(protocol) + 128);
    if (!head)
        return NULL;
    char *at = PUT_TEXT(head, "HTTP/1.1 101 Switching Protocols\r\nDate: ");
    at = put(at, gs_http_date_now(session->connection), GS_HTTP_DATE_LENGTH);
    at = PUT_TEXT(at, "\r\n");
    if (session->fields_length)
        at = put(at, session->fields, session->fields_length);
    at = PUT_TEXT(at, "Connection: Upgrade\r\nUpgrade: ");
    at = put(at, protocol, strlen(protocol));
    *ret_n = (size_t)(PUT_TEXT(at, "\r\n\r\n") - head);
    return head;
}

/* Whether the head was sent: err. The connection may last for days. */
static void complete(struct gs_http_session *session, int err)
{
    session->keep_alive = false;
    session->must_linger = true;
    session->state = err ? GS_HTTP_RESPONSE_ABORTED : GS_HTTP_RESPONSE_DONE;
    free(session->fields);
    session->fields = NULL;
    session->fields_length = session->fields_size = 0;
}

static int upgrade_connection(struct gs_http_session *session, const char *protocol)
{
    struct gs_http_connection *connection = session->connection;
    size_t n;
    char *head = new_head(session, protocol, &n);
    int err = head ? start_tls(connection) : -ENOMEM;
    if (err)
        goto free_head;
    ssize_t sent = gs_http_upgraded_send_all(&connection->upgraded, head, n,
                                             gs_http_write_deadline(connection));
    err = sent < 0 ? (int)sent : 0;
    complete(session, err);

free_head:
    free(head);
    return err;
}

/* The response has no end until the handler returns. */
static int upgrade_stream(struct gs_http_session *session)
{
    struct gs_http_stream *stream = session->stream;
    const struct gs_http_head head = {
        .status = 200,
        .has_body = true,
        .fields = session->fields,
        .fields_n = session->fields_length,
    };
    int err = gs_http_stream_write(stream, &head, (struct gs_http_text){0}, false);
    complete(session, err);
    stream->upgraded.stream = stream;
    return err;
}

int gs_http_upgrade(struct gs_http_exchange *exchange, const char *protocol,
                    struct gs_http_upgraded **ret_upgraded)
{
    struct gs_http_session *session = gs_http_session_of(exchange);
    int err = check(session, protocol);
    if (err)
        return err;
    err = session->stream ? upgrade_stream(session) : upgrade_connection(session, protocol);
    if (!err)
        *ret_upgraded =
            session->stream ? &session->stream->upgraded : &session->connection->upgraded;
    return err;
}

/* ---- Receiving and sending ---- */

/* Bytes that came before, perhaps with the request. */
static size_t take(struct gs_http_connection *connection, void *bytes, size_t n)
{
    size_t length = gs_http_input_length(connection);
    if (n > length)
        n = length;
    memcpy(bytes, gs_http_input(connection), n);
    gs_http_input_consume(connection, n);
    return n;
}

ssize_t gs_http_upgraded_recv(struct gs_http_upgraded *upgraded, void *bytes, size_t n,
                              uint64_t deadline_ns)
{
    if (!n)
        return 0;
    if (upgraded->stream)
        return gs_http_stream_read(upgraded->stream, bytes, n, deadline_ns);
    struct gs_http_connection *connection = connection_of(upgraded);
    if (connection->input)
        return (ssize_t)take(connection, bytes, n);
    if (connection->received_error)
        return connection->received_error;
    return upgraded->tls
               ? gs_http_tls_stream(connection)->recv(upgraded->tls, bytes, n, deadline_ns)
               : gs_recv(connection->fd, bytes, n, 0, deadline_ns);
}

ssize_t gs_http_upgraded_send_all(struct gs_http_upgraded *upgraded, const void *bytes, size_t n,
                                  uint64_t deadline_ns)
{
    if (upgraded->stream)
        return gs_http_stream_send(upgraded->stream, bytes, n, deadline_ns);
    struct gs_http_connection *connection = connection_of(upgraded);
    return upgraded->tls
               ? gs_http_tls_stream(connection)->send_all(upgraded->tls, bytes, n, deadline_ns)
               : gs_send_all(connection->fd, bytes, n, deadline_ns);
}

/* ---- For src/websocket_stream ---- */

struct gs_http_transport gs_http_upgraded_transport(struct gs_http_upgraded *upgraded)
{
    if (upgraded->stream)
        return (struct gs_http_transport){
            .fd = upgraded->stream->connection->fd,
            .stream = upgraded,
        };
    struct gs_http_connection *connection = connection_of(upgraded);
    return (struct gs_http_transport){
        .fd = connection->fd,
        .tls = upgraded->tls,
        .operations = upgraded->tls ? gs_http_tls_stream(connection) : NULL,
    };
}

char *gs_http_upgraded_take_input(struct gs_http_upgraded *upgraded, size_t *ret_n)
{
    *ret_n = 0;
    if (upgraded->stream)
        return NULL;
    struct gs_http_connection *connection = connection_of(upgraded);
    char *input = connection->input;
    *ret_n = gs_http_input_length(connection);
    if (input)
        memmove(input, gs_http_input(connection), *ret_n);
    connection->input = NULL;
    connection->input_start = connection->input_end = connection->input_size = 0;
    return input;
}

bool gs_http_upgraded_has_room(struct gs_http_upgraded *upgraded, size_t n)
{
    return !upgraded->stream || gs_http_stream_has_room(upgraded->stream, n);
}
