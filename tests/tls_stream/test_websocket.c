/* WebSocket over TLS, and other connections that the handler of a server with TLS takes over. */
#include "tests/http_server/serving.h"
#include "tests/http_server/survive.h"
#include "tests/tls/certificates.h"

#include <gossamer/tls.h>
#include <gossamer/websocket.h>
#include <stdlib.h>

#define LARGE 300000
#define MESSAGES 20

static struct gs_tls_context *server_context, *client_context;
static char large[LARGE];

static uint64_t patience(void)
{
    return after(PATIENCE_NS);
}

static void make_contexts(void)
{
    struct certificate_files files;
    certificate_make_as(
        &(struct certificate_request){.names = "IP:127.0.0.1", .common_name = "test", .days = 1},
        &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options for_server = {.certificates = &certificate, .certificate_count = 1};
    const struct gs_tls_options for_client = {.is_client = true, .ca_file = files.chain};
    CHECK_EQ(gs_tls_context_new(&for_server, &server_context, NULL), 0);
    CHECK_EQ(gs_tls_context_new(&for_client, &client_context, NULL), 0);
}

static void serve_tls(gs_http_handler_fn *handler, gs_thread_fn *clients)
{
    memset(large, 'l', sizeof large);
    make_contexts();
    server = (struct gs_http_server){.handler = handler, .tls = server_context};
    run_both(clients);
    gs_tls_context_release(server_context);
    gs_tls_context_release(client_context);
}

static int dial_with(struct gs_tls_context *context, struct gs_websocket **ret_socket,
                     char text[GS_WEBSOCKET_TEXT_SIZE])
{
    char url[100];
    const struct gs_websocket_options options = {.tls = context, .compression = 1};
    snprintf(url, sizeof url, "wss://127.0.0.1:%d/", ntohs(server_address.sin_port));
    return gs_websocket_connect(url, &options, patience(), ret_socket, text);
}

static struct gs_websocket *dial(void)
{
    struct gs_websocket *socket;
    char text[GS_WEBSOCKET_TEXT_SIZE] = "";
    int err = dial_with(client_context, &socket, text);
    if (err)
        fprintf(stderr, "%s\n", text);
    MUST_EQ(err, 0);
    return socket;
}

static void serve_echo(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    struct gs_websocket_message message;
    (void)unused;
    int err = gs_websocket_accept(exchange, NULL, &socket);
    if (err)
        return;
    while (!err) {
        err = gs_websocket_receive(socket, &message, GS_NEVER);
        if (!err)
            err = gs_websocket_send(socket, message.type, message.bytes, message.n, patience());
    }
    gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, patience());
}

/* ---- Messages ---- */

static void must_echo(struct gs_websocket *socket, size_t n)
{
    struct gs_websocket_message message;
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_BINARY, large, n, patience()), 0);
    MUST_EQ(gs_websocket_receive(socket, &message, patience()), 0);
    MUST_EQ(message.n, n);
    MUST(!memcmp(message.bytes, large, n));
}

static void *be_client(void *unused)
{
    start_server();
    struct gs_websocket *socket = dial();
    for (size_t n = 0; n < LARGE; n = 3 * n + 1)
        must_echo(socket, n);
    MUST_EQ(gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, patience()), 0);
    gs_websocket_abort(dial());
    stop_server();
    return unused;
}

TEST(messages_of_all_sizes_come_back)
{
    serve_tls(serve_echo, be_client);
}

static void *be_stranger(void *unused)
{
    struct gs_websocket *socket;
    char text[GS_WEBSOCKET_TEXT_SIZE] = "";
    struct gs_tls_context *context;
    const struct gs_tls_options options = {.is_client = true};
    MUST_EQ(gs_tls_context_new(&options, &context, NULL), 0);
    start_server();
    MUST_EQ(dial_with(context, &socket, text), -EPROTO);
    MUST_CONTAIN(text, "certificate");
    stop_server();
    gs_tls_context_release(context);
    return unused;
}

TEST(server_is_verified)
{
    serve_tls(serve_echo, be_stranger);
}

/* ---- Two threads ---- */

static void *send_many(void *socket)
{
    for (int i = 0; i < MESSAGES; i++) {
        MUST_EQ(gs_websocket_ping(socket, "ping", 4, patience()), 0);
        MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_TEXT, large, LARGE, patience()), 0);
    }
    return NULL;
}

static void exchange_many(struct gs_websocket *socket)
{
    struct gs_websocket_message message;
    struct gs_thread *sender = spawn(send_many, socket);
    for (int i = 0; i < MESSAGES; i++) {
        MUST_EQ(gs_websocket_receive(socket, &message, patience()), 0);
        MUST_EQ(message.n, LARGE);
    }
    join(sender);
    MUST_EQ(gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, patience()), 0);
}

static void serve_many(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    (void)unused;
    MUST_EQ(gs_websocket_accept(exchange, NULL, &socket), 0);
    exchange_many(socket);
}

static void *be_busy_client(void *unused)
{
    start_server();
    exchange_many(dial());
    stop_server();
    return unused;
}

TEST(both_sides_send_and_receive_at_once)
{
    serve_tls(serve_many, be_busy_client);
}

/* ---- Another protocol ---- */

static void echo_bytes(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_http_upgraded *upgraded;
    char bytes[100];
    ssize_t n;
    (void)unused;
    MUST_EQ(gs_http_upgrade(exchange, "bytes", &upgraded), 0);
    while ((n = gs_http_upgraded_recv(upgraded, bytes, sizeof bytes, GS_NEVER)) > 0)
        MUST_EQ(gs_http_upgraded_send_all(upgraded, bytes, (size_t)n, patience()), n);
    MUST_EQ(n, 0);
}

static void *speak_bytes(void *unused)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n"
                                  "Upgrade: bytes\r\n\r\nearly";
    static struct heard heard;
    struct gs_tls *tls;
    char address[100], *at;
    ssize_t n = 1;
    start_server();
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(server_address.sin_port));
    MUST_EQ(gs_dial_tls(client_context, address, patience(), &tls, NULL), 0);
    MUST_EQ(gs_tls_send_all(tls, request, sizeof request - 1, patience()), sizeof request - 1);
    MUST_EQ(gs_tls_send_all(tls, " and late", 9, patience()), 9);
    MUST_EQ(gs_tls_shutdown(tls, patience()), 0);
    for (heard.n = 0; n > 0; heard.n += (size_t)n) {
        at = heard.bytes + heard.n;
        n = gs_tls_recv(tls, at, sizeof heard.bytes - 1 - heard.n, patience());
        MUST(n >= 0); /* the server ends its stream */
    }
    heard.bytes[heard.n] = '\0';
    MUST(begins_with(heard.bytes, "HTTP/1.1 101 "));
    MUST(ends_with(heard.bytes, "\r\n\r\nearly and late"));
    gs_tls_close(tls, patience());
    stop_server();
    return unused;
}

TEST(handler_speaks_another_protocol_with_tls)
{
    serve_tls(echo_bytes, speak_bytes);
}

/* ---- Memory ---- */

/* Returns whether all has worked. */
static bool try_all(void)
{
    struct gs_websocket *socket;
    struct gs_websocket_message message;
    char text[GS_WEBSOCKET_TEXT_SIZE];
    int err = dial_with(client_context, &socket, text);
    MUST(err != -ETIMEDOUT);
    if (err)
        return false;
    err = gs_websocket_send(socket, GS_WEBSOCKET_TEXT, large, 40000, patience());
    if (!err)
        err = gs_websocket_receive(socket, &message, patience());
    MUST(err != -ETIMEDOUT);
    int close_err = gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, patience());
    return !err && !close_err;
}

static int attempt(void)
{
    return !try_all();
}

THREAD(be_in_need)
{
    start_server();
    (void)must_survive(attempt, 21);
    stop_server();
}

TEST(both_sides_survive_each_allocation_that_fails)
{
    memset(large, 'l', sizeof large);
    make_contexts();
    server = (struct gs_http_server){.handler = serve_echo, .tls = server_context};
    run_with(1, be_in_need);
    gs_tls_context_release(server_context);
    gs_tls_context_release(client_context);
}
