/* Echoes messages of WebSocket, for peers of others: websocket_echo serve, which prints its port
 * and drains at SIGTERM, or websocket_echo connect URL, which prints how the server has ended the
 * connection. The path /parts, and a query with it, make it read and send in parts. */
#include "tests/http_server/program.h"

#include <errno.h>
#include <gossamer/websocket.h>
#include <string.h>

#define MESSAGE_MAX (16u << 20)

static const char *const protocols[] = {"echo.v2", "echo.v1"};
static const char *url;

static uint64_t soon(void)
{
    return gs_clock_now() + 30 * GS_SECOND;
}

static int echo_whole(struct gs_websocket *socket)
{
    struct gs_websocket_message message;
    int err = 0;
    while (!err) {
        err = gs_websocket_receive(socket, &message, GS_NEVER);
        if (!err)
            err = gs_websocket_send(socket, message.type, message.bytes, message.n, soon());
    }
    return err;
}

static int echo_parts(struct gs_websocket *socket)
{
    char bytes[1000];
    struct gs_websocket_part part = {.bytes = bytes};
    int err = 0;
    while (!err) {
        err = gs_websocket_next(socket, &part.type, GS_NEVER);
        part.is_last = false;
        while (!err && !part.is_last) {
            ssize_t n = gs_websocket_read(socket, bytes, sizeof bytes, GS_NEVER);
            part.n = n > 0 ? (size_t)n : 0;
            part.is_last = !n;
            err = n < 0 ? (int)n : gs_websocket_send_part(socket, &part, soon());
        }
    }
    return err;
}

static void handle(struct gs_http_exchange *exchange, void *unused)
{
    const struct gs_websocket_options options = {
        .protocols = protocols, .protocol_count = 2, .max_message = MESSAGE_MAX, .compression = 6};
    struct gs_websocket *socket;
    (void)unused;
    if (gs_websocket_accept(exchange, &options, &socket))
        return;
    int err = !strcmp(exchange->path, "/parts") ? echo_parts(socket) : echo_whole(socket);
    gs_websocket_close(socket, err == -ECANCELED ? GS_WEBSOCKET_GOING_AWAY : GS_WEBSOCKET_NORMAL,
                       NULL, soon());
}

static void *run_server(void *unused)
{
    const struct gs_http_server server = {
        .handler = handle, .drain_timeout_ns = GS_SECOND / 10, .migrates = true};
    (void)unused;
    return serve_until_told(&server);
}

static void *run_client(void *unused)
{
    const struct gs_websocket_options options = {
        .protocols = protocols, .protocol_count = 2, .max_message = MESSAGE_MAX, .compression = 6};
    static char text[GS_WEBSOCKET_TEXT_SIZE];
    struct gs_websocket *socket;
    struct gs_websocket_end end;
    (void)unused;
    if (gs_websocket_connect(url, &options, soon(), &socket, text))
        return text;
    (void)!(strstr(url, "/parts") ? echo_parts(socket) : echo_whole(socket));
    gs_websocket_end(socket, &end);
    printf("%u %s (%s)\n", end.code, end.reason, gs_websocket_error(socket));
    gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, soon());
    return NULL;
}

int main(int argc, char **argv)
{
    void *problem = "usage: websocket_echo serve | connect URL";
    url = argc == 3 ? argv[2] : NULL;
    bool is_server = argc == 2 && !strcmp(argv[1], "serve");
    if (is_server || url) {
        int err = gs_threads_run(NULL, is_server ? run_server : run_client, NULL, &problem);
        if (!err && !problem)
            return 0;
    }
    fprintf(stderr, "%s\n", (char *)problem);
    return 1;
}
