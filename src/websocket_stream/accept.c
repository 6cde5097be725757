/* The handshake as a server (RFC 6455, 4.2). */
#include "http/token.h"
#include "websocket/deflate.h"
#include "websocket/key.h"
#include "websocket_stream/stream.h"

#include <errno.h>
#include <gossamer/http_server.h>
#include <stdlib.h>
#include <strings.h>

static struct gs_http_text text_of(const char *string)
{
    return (struct gs_http_text){string, string ? strlen(string) : 0};
}

/* ---- The request ---- */

/* Origins are compared as browsers write them: in lower case, without the default port. */
static bool is_own_origin(const struct gs_http_exchange *exchange, const char *origin)
{
    const char *host = strstr(origin, "://");
    return host && exchange->host && !strcasecmp(host + 3, exchange->host);
}

static bool is_allowed(const struct gs_http_exchange *exchange, const char *origin,
                       const struct gs_websocket_options *options)
{
    if (!options->origin_count)
        return is_own_origin(exchange, origin);
    for (unsigned i = 0; i < options->origin_count; i++)
        if (!strcmp(options->origins[i], "*") || !strcasecmp(options->origins[i], origin))
            return true;
    return false;
}

/* Whether it came over HTTP/2 (RFC 8441): then its stream stands for Upgrade and the key. */
static bool is_connect(const struct gs_http_exchange *exchange)
{
    return !strcmp(exchange->method, "CONNECT");
}

/* Returns the status to refuse the request with; 0: none. */
static unsigned check_request(const struct gs_http_exchange *exchange,
                              const struct gs_websocket_options *options)
{
    const char *version = gs_http_field(exchange, "sec-websocket-version");
    const char *key = gs_http_field(exchange, "sec-websocket-key");
    const char *origin = gs_http_field(exchange, "origin");
    bool is_http1 = !is_connect(exchange);
    if (is_http1 && strcmp(exchange->method, "GET") != 0)
        return 405;
    if ((is_http1 && !gs_http_field(exchange, "upgrade")) || !version || strcmp(version, "13") != 0)
        return 426;
    if (is_http1 && (!key || !gs_websocket_key_is_valid(text_of(key))))
        return 400;
    return origin && !is_allowed(exchange, origin, options) ? 403 : 0;
}

/* Returns the error of the caller. */
static int refuse(struct gs_http_exchange *exchange, unsigned status)
{
    static const char *const texts[] = {"no valid request of WebSocket\n", "foreign origin\n",
                                        "WebSocket needs GET\n", "WebSocket 13 is needed\n"};
    const char *text = texts[status == 400 ? 0 : status == 403 ? 1 : status == 405 ? 2 : 3];
    int err = status == 405   ? gs_http_set_field(exchange, "Allow", "GET")
              : status == 426 ? gs_http_set_field(exchange, "Sec-WebSocket-Version", "13")
                              : 0;
    if (!err)
        err = gs_http_respond(exchange, status, "text/plain", text, strlen(text));
    return err ? err : status == 403 ? -EPERM : -EINVAL;
}

/* ---- What is agreed ---- */

/* Returns the first of our subprotocols that the client offers; NULL: none. */
static const char *choose_protocol(const struct gs_http_exchange *exchange,
                                   const struct gs_websocket_options *options)
{
    for (unsigned i = 0; i < options->protocol_count; i++) {
        for (unsigned j = 0; j < exchange->field_count; j++) {
            struct gs_http_text rest = text_of(exchange->fields[j].value), offer;
            if (strcasecmp(exchange->fields[j].name, "sec-websocket-protocol") != 0)
                continue;
            while (gs_http_list_next(&rest, &offer))
                if (gs_http_text_is(offer, options->protocols[i]))
                    return options->protocols[i];
        }
    }
    return NULL;
}

static void choose_extension(const struct gs_http_exchange *exchange,
                             struct gs_websocket_agreement *ret_agreement)
{
    for (unsigned i = 0; i < exchange->field_count && !ret_agreement->is_agreed; i++)
        if (!strcasecmp(exchange->fields[i].name, "sec-websocket-extensions"))
            (void)gs_websocket_extension_accept(text_of(exchange->fields[i].value), ret_agreement);
}

static int set_answer(struct gs_http_exchange *exchange)
{
    char answer[GS_WEBSOCKET_ACCEPT + 1];
    if (is_connect(exchange))
        return 0;
    gs_websocket_answer(gs_http_field(exchange, "sec-websocket-key"), answer);
    answer[GS_WEBSOCKET_ACCEPT] = '\0';
    return gs_http_set_field(exchange, "Sec-WebSocket-Accept", answer);
}

static int set_fields(struct gs_http_exchange *exchange, const char *protocol,
                      const struct gs_websocket_agreement *agreement)
{
    char extension[GS_WEBSOCKET_EXTENSION_MAX + 1];
    int err = set_answer(exchange);
    if (!err && protocol)
        err = gs_http_set_field(exchange, "Sec-WebSocket-Protocol", protocol);
    if (err || !agreement->is_agreed)
        return err;
    extension[gs_websocket_extension_put(agreement, extension)] = '\0';
    return gs_http_set_field(exchange, "Sec-WebSocket-Extensions", extension);
}

/* ---- Accepting ---- */

struct acceptance {
    struct gs_http_exchange *exchange;
    const struct gs_websocket_options *options;
    struct gs_websocket *socket;
    int err;
};

/* All of the handshake that sends nothing, on the worker's stack. */
static void *prepare(void *argument)
{
    struct acceptance *acceptance = argument;
    struct gs_http_exchange *exchange = acceptance->exchange;
    const struct gs_websocket_options *options = acceptance->options;
    const char *protocol = choose_protocol(exchange, options);
    struct gs_websocket_agreement agreement = {0};
    struct gs_websocket *socket = gs_websocket_new((struct gs_http_transport){0}, options, false);
    if (options->compression && gs_websocket_has_deflate())
        choose_extension(exchange, &agreement);
    acceptance->err = -ENOMEM;
    if (socket &&
        gs_websocket_set_agreed(socket, text_of(protocol), &agreement, options->compression))
        acceptance->err = set_fields(exchange, protocol, &agreement);
    acceptance->socket = socket;
    return NULL;
}

int gs_websocket_accept(struct gs_http_exchange *exchange,
                        const struct gs_websocket_options *options,
                        struct gs_websocket **ret_socket)
{
    static const struct gs_websocket_options defaults = {0};
    struct acceptance acceptance = {exchange, options ? options : &defaults, NULL, 0};
    struct gs_http_upgraded *upgraded;
    unsigned status = check_request(exchange, acceptance.options);
    if (status)
        return refuse(exchange, status);
    gs_thread_call_on_worker_stack(prepare, &acceptance);
    struct gs_websocket *socket = acceptance.socket;
    int err = acceptance.err;
    if (!err)
        err = gs_http_upgrade(exchange, "websocket", &upgraded);
    if (err) {
        gs_websocket_abort(socket);
        return err == -EINVAL ? refuse(exchange, 400) : err;
    }
    socket->transport = gs_http_upgraded_transport(upgraded);
    socket->input = gs_http_upgraded_take_input(upgraded, &socket->input_end);
    *ret_socket = socket;
    return 0;
}
