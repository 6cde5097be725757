/* A server and a client to which memory is refused: each allocation fails once. Calls may fail, and
 * the next connection works. */
#include "tests/http_server/survive.h"
#include "tests/websocket_stream/sockets.h"

static const struct gs_websocket_options options = {.compression = 6};

static void serve_echo(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    (void)unused;
    if (gs_websocket_accept(exchange, &options, &socket))
        return;
    (void)!echo_all(socket);
    gs_websocket_close(socket, GS_WEBSOCKET_GOING_AWAY, NULL, patience());
}

static char text[3000];

/* Returns 0 if all has worked. */
static int try_all(struct gs_websocket *socket)
{
    struct gs_websocket_message message = {0};
    int err = 0;
    for (unsigned i = 0; i < 2 && !err; i++) {
        size_t n = i ? sizeof text : 10;
        err = gs_websocket_send(socket, GS_WEBSOCKET_TEXT, text, n, patience());
        if (!err)
            err = gs_websocket_ping(socket, "ping", 4, patience());
        if (!err)
            err = gs_websocket_receive(socket, &message, patience());
        MUST(err != -ETIMEDOUT);
        MUST(err || (message.n == n && !memcmp(message.bytes, text, n)));
    }
    return err;
}

static int connect_and_try(void)
{
    char url[100];
    struct gs_websocket *socket;
    snprintf(url, sizeof url, "ws://127.0.0.1:%d/", ntohs(server_address.sin_port));
    int err = gs_websocket_connect(url, &options, patience(), &socket, NULL);
    MUST(err != -ETIMEDOUT);
    if (err)
        return err;
    err = try_all(socket);
    int close_err = gs_websocket_close(socket, err ? 0 : GS_WEBSOCKET_NORMAL, NULL, patience());
    return err ? err : close_err;
}

THREAD(be_in_need)
{
    start_server();
    memset(text, 't', sizeof text);
    (void)must_survive(connect_and_try, 20);
    stop_server();
}

TEST(connections_survive_each_allocation_that_fails)
{
    server = (struct gs_http_server){.handler = serve_echo};
    run_with(1, be_in_need);
}
