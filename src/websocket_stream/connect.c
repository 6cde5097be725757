/* The handshake as a client (RFC 6455, 4.1). */
#include "http/head_end.h"
#include "http/token.h"
#include "websocket/deflate.h"
#include "websocket/response.h"
#include "websocket_stream/stream.h"

#include <errno.h>
#include <gossamer/error.h>
#include <gossamer/http_server.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define HEAD_MAX (16u << 10)

/* A connection in the making. */
struct connecting {
    const struct gs_websocket_options *options;
    struct gs_websocket_url url;
    struct gs_websocket *socket; /* NULL: not connected yet */
    uint64_t deadline_ns;
    bool is_compressed; /* compression is offered */
    char key[GS_WEBSOCKET_KEY];
    char *request; /* then the answer */
    size_t n;
    int err;
    char text[GS_WEBSOCKET_TEXT_SIZE]; /* why it failed; empty: the text of err */
};

/* ---- The request ---- */

static bool is_field_value(const char *value)
{
    while (*value && gs_http_is(*value, GS_HTTP_FIELD))
        value++;
    return !*value;
}

static bool is_token(const char *string)
{
    return gs_http_is_token((struct gs_http_text){string, strlen(string)});
}

/* Whether nothing in the options can break the request. */
static bool check_options(const struct gs_websocket_options *options)
{
    for (unsigned i = 0; i < options->field_count; i++)
        if (!is_token(options->fields[i].name) || !is_field_value(options->fields[i].value))
            return false;
    for (unsigned i = 0; i < options->protocol_count; i++)
        if (!is_token(options->protocols[i]))
            return false;
    return true;
}

static void put_request(FILE *file, const struct connecting *connecting)
{
    const struct gs_websocket_options *options = connecting->options;
    const struct gs_websocket_url *url = &connecting->url;
    fprintf(file, "GET %s%.*s HTTP/1.1\r\nHost: %.*s\r\n", url->slash, (int)url->target.n,
            url->target.bytes, (int)url->authority.n, url->authority.bytes);
    fprintf(file,
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: %.*s\r\n",
            GS_WEBSOCKET_KEY, connecting->key);
    if (connecting->is_compressed)
        fputs("Sec-WebSocket-Extensions: " GS_WEBSOCKET_EXTENSION_OFFER "\r\n", file);
    for (unsigned i = 0; i < options->protocol_count; i++)
        fprintf(file, "%s%s%s", i ? ", " : "Sec-WebSocket-Protocol: ", options->protocols[i],
                i + 1 == options->protocol_count ? "\r\n" : "");
    for (unsigned i = 0; i < options->field_count; i++)
        fprintf(file, "%s: %s\r\n", options->fields[i].name, options->fields[i].value);
    fputs("\r\n", file);
}

/* On the worker's stack. */
static void *make_request(void *argument)
{
    struct connecting *connecting = argument;
    uint8_t random[16];
    if (getrandom(random, sizeof random, 0) != sizeof random) {
        connecting->err = -EAGAIN;
        return NULL;
    }
    gs_websocket_key(random, connecting->key);
    FILE *file = open_memstream(&connecting->request, &connecting->n);
    if (file)
        put_request(file, connecting);
    bool is_complete = file && !ferror(file);
    if (!file || fclose(file) || !is_complete)
        connecting->err = -ENOMEM;
    return NULL;
}

/* ---- Connecting ---- */

static int dial_tls(struct connecting *connecting, const char *address,
                    struct gs_http_transport *ret_transport)
{
    char text[GS_TLS_TEXT] = "";
    struct gs_tls_context *context = connecting->options->tls;
    const struct gs_tls_stream_operations *operations = gs_tls_operations_of(context)->stream;
    int err =
        operations->dial(context, address, connecting->deadline_ns, &ret_transport->tls, text);
    snprintf(connecting->text, sizeof connecting->text, "%s", err ? text : "");
    if (err)
        return err;
    ret_transport->operations = operations;
    ret_transport->fd = operations->fd(ret_transport->tls);
    return 0;
}

static int dial(struct connecting *connecting, struct gs_http_transport *ret_transport)
{
    const struct gs_websocket_url *url = &connecting->url;
    char *address = malloc(url->authority.n + sizeof ":443");
    if (!address)
        return -ENOMEM;
    memcpy(address, url->authority.bytes, url->authority.n);
    memcpy(address + url->authority.n, url->port, strlen(url->port) + 1);
    int err = 0;
    if (url->is_secure)
        err = dial_tls(connecting, address, ret_transport);
    else
        ret_transport->fd = gs_dial(address, connecting->deadline_ns);
    free(address);
    return ret_transport->fd < 0 ? ret_transport->fd : err;
}

static int send_request(struct connecting *connecting)
{
    bool is_partial;
    struct gs_http_text request = {connecting->request, connecting->n};
    int err = gs_websocket_transmit(connecting->socket, request, (struct gs_http_text){0},
                                    connecting->deadline_ns, &is_partial);
    free(connecting->request);
    connecting->request = NULL;
    connecting->n = 0;
    return err;
}

/* ---- The answer ---- */

/* Returns the length of its head, or -errno. */
static ssize_t receive_head(struct connecting *connecting)
{
    size_t scanned = 0;
    ssize_t head_n = 0;
    connecting->request = malloc(HEAD_MAX);
    if (!connecting->request)
        return -ENOMEM;
    while (!head_n) {
        if (connecting->n == HEAD_MAX)
            return -EMSGSIZE;
        ssize_t n = gs_websocket_recv(connecting->socket, connecting->request + connecting->n,
                                      HEAD_MAX - connecting->n, connecting->deadline_ns);
        if (n <= 0)
            return n ? n : -ECONNRESET;
        connecting->n += (size_t)n;
        head_n = gs_http_find_head_end(connecting->request, connecting->n, &scanned);
    }
    return head_n;
}

static int fail(struct connecting *connecting, int err, const char *text)
{
    snprintf(connecting->text, sizeof connecting->text, "%s", text);
    return err;
}

/* Whether the server has chosen one of our subprotocols, or none. */
static bool is_offered(const struct gs_websocket_options *options, struct gs_http_text protocol)
{
    for (unsigned i = 0; i < options->protocol_count; i++)
        if (gs_http_text_is(protocol, options->protocols[i]))
            return true;
    return !protocol.bytes;
}

/* What follows the head belongs to frames. */
static int keep_rest(struct connecting *connecting, size_t head_n)
{
    struct gs_websocket *socket = connecting->socket;
    size_t n = connecting->n - head_n;
    if (!n)
        return 0;
    socket->input = malloc(n);
    if (!socket->input)
        return -ENOMEM;
    memcpy(socket->input, connecting->request + head_n, n);
    socket->input_end = n;
    return 0;
}

static int read_answer(struct connecting *connecting, size_t head_n)
{
    const struct gs_websocket_options *options = connecting->options;
    struct gs_http_text head = {connecting->request, head_n};
    struct gs_websocket_response response;
    const char *failure =
        gs_websocket_response_read(head, connecting->key, connecting->is_compressed, &response);
    if (failure)
        return fail(connecting, -EPROTO, failure);
    if (response.status != 101) {
        snprintf(connecting->text, sizeof connecting->text, "the server has answered with %u",
                 response.status);
        return -ECONNREFUSED;
    }
    if (!is_offered(options, response.protocol))
        return fail(connecting, -EPROTO, "the server has chosen another subprotocol");
    return gs_websocket_set_agreed(connecting->socket, response.protocol, &response.agreement,
                                   options->compression)
               ? keep_rest(connecting, head_n)
               : -ENOMEM;
}

static int shake_hands(struct connecting *connecting)
{
    struct gs_http_transport transport = {0};
    int err = dial(connecting, &transport);
    if (err)
        return err;
    connecting->socket = gs_websocket_new(transport, connecting->options, true);
    if (!connecting->socket) {
        if (transport.tls)
            transport.operations->abort(transport.tls);
        else
            gs_close(transport.fd);
        return -ENOMEM;
    }
    err = send_request(connecting);
    if (err)
        return err;
    ssize_t head_n = receive_head(connecting);
    if (head_n == -EPROTO)
        return fail(connecting, -EPROTO, "the server's answer is not HTTP/1.1");
    return head_n < 0 ? (int)head_n : read_answer(connecting, (size_t)head_n);
}

static int start(struct connecting *connecting, const char *url)
{
    const struct gs_websocket_options *options = connecting->options;
    if (!gs_websocket_url_read(url, &connecting->url))
        return fail(connecting, -EINVAL, "the URL is none of ws or wss");
    if (connecting->url.is_secure && !options->tls)
        return fail(connecting, -EINVAL, "wss needs a context of TLS");
    if (!check_options(options))
        return fail(connecting, -EINVAL, "a field or a subprotocol is malformed");
    connecting->is_compressed = options->compression && gs_websocket_has_deflate();
    gs_thread_call_on_worker_stack(make_request, connecting);
    return connecting->err ? connecting->err : shake_hands(connecting);
}

int gs_websocket_connect(const char *url, const struct gs_websocket_options *options,
                         uint64_t deadline_ns, struct gs_websocket **ret_socket,
                         char ret_text[GS_WEBSOCKET_TEXT_SIZE])
{
    static const struct gs_websocket_options defaults = {0};
    struct connecting *connecting = calloc(1, sizeof *connecting);
    int err = -ENOMEM;
    if (connecting) {
        connecting->options = options ? options : &defaults;
        connecting->deadline_ns = deadline_ns;
        err = start(connecting, url);
    }
    if (err && ret_text)
        snprintf(ret_text, GS_WEBSOCKET_TEXT_SIZE, "%s",
                 connecting && *connecting->text ? connecting->text : gs_strerror(err));
    if (!err)
        *ret_socket = connecting->socket;
    else if (connecting)
        gs_websocket_abort(connecting->socket);
    if (connecting)
        free(connecting->request);
    free(connecting);
    return err;
}
