/* A new connection: to the server, to a proxy, or through a tunnel of a proxy. */
#include "http_client/client.h"
#include "http_client/error.h"

#include <errno.h>
#include <gossamer/io.h>
#include <gossamer/net.h>
#include <stdio.h>
#include <stdlib.h>

/* A host, with brackets if it is an address of IPv6, and a port. */
#define ADDRESS_MAX 270

static void write_address(char out[ADDRESS_MAX], const struct gs_http_url *url)
{
    bool is_ipv6 = strchr(url->host, ':');
    snprintf(out, ADDRESS_MAX, is_ipv6 ? "[%s]:%s" : "%s:%s", url->host, url->port);
}

static const char *remedy(int err, bool is_proxy)
{
    return is_proxy               ? " (a proxy of the environment; no_proxy excepts hosts)"
           : err == -ECONNREFUSED ? " (does a server listen there?)"
           : err == -GS_ENONAME   ? " (is the name right?)"
                                  : "";
}

/* ---- The tunnel of a proxy (RFC 9110, 9.3.6) ---- */

static int send_connect(struct gs_http_client_connection *connection,
                        const struct gs_http_client_route *route, const char *address,
                        uint64_t deadline_ns)
{
    const char *authorization = route->proxy->authorization;
    char *text;
    int n = asprintf(&text, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s%s%s\r\n", address, address,
                     authorization ? "Proxy-Authorization: " : "",
                     authorization ? authorization : "", authorization ? "\r\n" : "");
    if (n < 0)
        return -ENOMEM;
    int err = gs_http_client_transmit(connection, text, (size_t)n, deadline_ns);
    free(text);
    return err;
}

/* Wait for the head of the response, which has no body if it is successful. */
static int receive_answer(struct gs_http_client_connection *connection, uint64_t deadline_ns)
{
    struct gs_http_response_parser *parser = &connection->parser;
    struct gs_http_text none;
    gs_http_response_parser_init(parser, true);
    while (!gs_http_response_parser_has_head(parser)) {
        int result = gs_http_client_receive(connection, deadline_ns);
        if (result <= 0)
            return result ? result : -ECONNRESET;
        ssize_t used = gs_http_response_parser_next(parser, connection->input + connection->start,
                                                    gs_http_client_input_n(connection), &none);
        if (used < 0)
            return (int)used;
        gs_http_client_input_consume(connection, (size_t)used);
    }
    return 0;
}

static int open_tunnel(struct gs_http_client_connection *connection,
                       const struct gs_http_client_route *route, uint64_t deadline_ns)
{
    const char *proxy = route->proxy->address;
    char address[ADDRESS_MAX];
    write_address(address, route->url);
    int err = send_connect(connection, route, address, deadline_ns);
    if (!err)
        err = receive_answer(connection, deadline_ns);
    if (err)
        return gs_http_client_fail(err, "the proxy %s has opened no tunnel to %s: %s", proxy,
                                   address, gs_strerror(err));
    unsigned status = connection->parser.status;
    if (status >= 300)
        return gs_http_client_fail(
            -ECONNABORTED, "the proxy %s has opened no tunnel to %s: %u%s", proxy, address, status,
            status == 407 ? " (it wants a user: http://USER:PASSWORD@PROXY)" : "");
    if (gs_http_client_input_n(connection))
        return gs_http_client_fail(-EPROTO, "the proxy %s has sent bytes before the server", proxy);
    return 0;
}

/* ---- Connecting ---- */

static int connect_to(struct gs_http_client_connection *connection,
                      const struct gs_http_client_route *route, uint64_t deadline_ns)
{
    char direct[ADDRESS_MAX];
    write_address(direct, route->url);
    const char *address = route->proxy ? route->proxy->address : direct;
    connection->fd = gs_dial(address, deadline_ns);
    if (connection->fd < 0)
        return gs_http_client_fail(connection->fd, "cannot connect to %s: %s%s", address,
                                   gs_strerror(connection->fd),
                                   remedy(connection->fd, route->proxy));
    return 0;
}

/* The zone of an address is no part of a server's name. */
static int secure(struct gs_http_client_connection *connection, const struct gs_http_url *url,
                  uint64_t deadline_ns)
{
    char name[sizeof url->host];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(url->host, "%"), url->host);
    int err = gs_http_client_handshake(connection, name, deadline_ns);
    return err ? gs_http_client_fail_plainly(err, "no handshake of TLS") : 0;
}

int gs_http_client_dial(struct gs_http_client *client, const struct gs_http_client_route *route,
                        struct gs_http_client_host *host, uint64_t deadline_ns,
                        struct gs_http_client_connection **ret_connection)
{
    struct gs_http_client_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return -ENOMEM;
    uint64_t limit_ns = gs_clock_after(gs_clock_now(), client->options.connect_timeout_ns);
    if (limit_ns < deadline_ns)
        deadline_ns = limit_ns;
    connection->client = client;
    connection->host = host;
    connection->stream.operations = &gs_http_client_http1;
    int err = connect_to(connection, route, deadline_ns);
    if (!err && route->proxy && route->url->is_https)
        err = open_tunnel(connection, route, deadline_ns);
    if (!err && route->url->is_https)
        err = secure(connection, route->url, deadline_ns);
    bool is_http2 = connection->engine ? connection->has_chosen_http2
                                       : gs_http_client_may_speak_http2(client, route);
    if (!err && is_http2)
        err = gs_http_client_http2_start(connection);
    if (err) {
        gs_http_client_connection_free(connection);
        return err;
    }
    *ret_connection = connection;
    return 0;
}
