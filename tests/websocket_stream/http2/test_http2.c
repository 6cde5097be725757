/* WebSocket over HTTP/2 (RFC 8441). */
#include "tests/websocket_stream/http2/streams.h"
#include "tests/websocket_stream/sockets.h"

#include <stdatomic.h>

static struct peer peer;
static atomic_int ends;               /* what ended a handler's connection, -errno, */
static struct gs_semaphore has_ended; /* which was posted then */
static struct gs_semaphore entered;

static void note_end(int err)
{
    atomic_store(&ends, err);
    gs_semaphore_post(&has_ended);
}

static void must_end(int err)
{
    MUST_EQ(gs_semaphore_wait(&has_ended, patience()), 0);
    MUST_EQ(atomic_load(&ends), err);
}

/* ---- The handler: what it does depends on the path ---- */

#define MUCH 300000
static char much[MUCH];

static void *send_much(void *socket)
{
    memset(much, 'y', sizeof much);
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_TEXT, much, sizeof much, patience()), 0);
    return NULL;
}

/* Receive three messages, while another thread sends, which waits for the window. */
static int send_beside(struct gs_websocket *socket)
{
    struct gs_thread *sender = spawn(send_much, socket);
    struct gs_websocket_message message;
    int err = 0;
    for (int i = 0; i < 3 && !err; i++) {
        err = gs_websocket_receive(socket, &message, patience());
        gs_semaphore_post(&entered);
    }
    join(sender);
    return err ? err : gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, patience());
}

/* Answer nothing but pings. */
static int receive_all(struct gs_websocket *socket)
{
    struct gs_websocket_message message;
    int err;
    while (!(err = gs_websocket_receive(socket, &message, GS_NEVER)))
        gs_semaphore_post(&entered);
    return err;
}

static void serve_messages(struct gs_http_exchange *exchange)
{
    static const char *const protocols[] = {"chat", "news"};
    const struct gs_websocket_options options = {
        .protocols = protocols, .protocol_count = 2, .compression = 1};
    struct gs_websocket *socket;
    MUST_EQ(gs_http_set_field(exchange, "X-Field", "value"), 0);
    int err = gs_websocket_accept(exchange, &options, &socket);
    if (err)
        return;
    if (!strcmp(exchange->path, "/canceled"))
        gs_thread_cancel(gs_thread_self());
    if (!strcmp(exchange->path, "/beside")) {
        err = send_beside(socket);
    } else {
        err = !strcmp(exchange->path, "/quiet") ? receive_all(socket) : echo_all(socket);
        gs_websocket_abort(socket);
    }
    note_end(err);
}

static void serve_bytes(struct gs_http_exchange *exchange)
{
    struct gs_http_upgraded *upgraded;
    char bytes[100];
    ssize_t n;
    MUST_EQ(gs_http_upgrade(exchange, "echo/1", &upgraded), -EINVAL);
    MUST_EQ(gs_http_upgrade(exchange, "websocket", &upgraded), 0);
    MUST_EQ(gs_http_respond(exchange, 200, NULL, NULL, 0), -EALREADY);
    MUST_EQ(gs_http_write(exchange, "x", 1), -EINVAL);
    MUST_EQ(gs_http_upgraded_recv(upgraded, bytes, 0, 0), 0);
    MUST_EQ(gs_http_upgraded_recv(upgraded, bytes, 1, 0), -ETIMEDOUT);
    MUST_EQ(gs_http_upgraded_send_all(upgraded, bytes, 0, 0), 0);
    gs_semaphore_post(&entered);
    while ((n = gs_http_upgraded_recv(upgraded, bytes, sizeof bytes, GS_NEVER)) > 0) {
        MUST_EQ(gs_http_upgraded_send_all(upgraded, bytes, (size_t)n, patience()), n);
        if (bytes[0] == 'a')
            gs_http_abort(exchange);
        if (bytes[0] == 'a' || bytes[0] == 'l')
            break;
    }
    if (n < 0)
        MUST_EQ(gs_http_upgraded_send_all(upgraded, "x", 1, patience()), n);
    note_end((int)n);
}

static void handle(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    if (!strcmp(exchange->path, "/")) {
        MUST_EQ(gs_http_respond(exchange, 200, NULL, "hello", 5), 0);
        return;
    }
    if (!strcmp(exchange->method, "CONNECT")) {
        MUST(!strcmp(exchange->host, "host.test"));
        MUST_EQ(exchange->content_length, 0);
    }
    if (!strcmp(exchange->path, "/bytes"))
        serve_bytes(exchange);
    else
        serve_messages(exchange);
}

#define SERVER                                                                                     \
    (struct gs_http_server)                                                                        \
    {                                                                                              \
        .handler = handle, .drain_timeout_ns = PATIENCE_NS                                         \
    }

static void open_peer(void)
{
    memset(&peer, 0, sizeof peer);
    peer_open(&peer, connect_client());
}

/* ---- Messages ---- */

SERVE_TEST(messages_are_echoed, SERVER)
{
    open_peer();
    int32_t id = ws_open(&peer, "/echo?query", NULL, NULL);
    MUST_CONTAIN(peer_stream(&peer, id)->fields, "x-field: value\n");
    MUST(!strstr(peer_stream(&peer, id)->fields, "sec-websocket"));
    MUST(!strstr(peer_stream(&peer, id)->fields, "content-length"));
    ws_say(&peer, id, "hello");
    WS_MUST_HEAR(&peer, id, "\x81\x05hello");
    ws_frame(&peer, id, 9, "ping", 4);
    WS_MUST_HEAR(&peer, id, "\x81\x05hello\x8a\x04ping");
    ws_close(&peer, id);
    must_end(-ENODATA);
    peer_close(&peer);
}

SERVE_TEST(subprotocol_and_compression_are_agreed, SERVER)
{
    open_peer();
    int32_t id = ws_open(&peer, "/echo", "sec-websocket-protocol", "x, news");
    MUST_CONTAIN(peer_stream(&peer, id)->fields, "sec-websocket-protocol: news\n");
    ws_close(&peer, id);
    must_end(-ENODATA);
    id = ws_ask(&peer, "/echo", "sec-websocket-extensions", "permessage-deflate");
    PEER_UNTIL(&peer, peer_stream(&peer, id)->status);
    const char *fields = peer_stream(&peer, id)->fields;
    ws_say(&peer, id, "hello"); /* the same without zlib */
    WS_MUST_HEAR(&peer, id, "\x81\x05hello");
    MUST_EQ(count_of(fields, "sec-websocket-extensions: "), count_of(fields, "permessage-deflate"));
    ws_close(&peer, id);
    must_end(-ENODATA);
    peer_close(&peer);
}

SERVE_TEST(streams_share_a_connection_with_other_requests, SERVER)
{
    open_peer();
    int32_t first = ws_open(&peer, "/echo", NULL, NULL);
    int32_t second = ws_open(&peer, "/echo", NULL, NULL);
    ws_say(&peer, first, "one");
    ws_say(&peer, second, "two");
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    WS_MUST_HEAR(&peer, second, "\x81\x03two");
    WS_MUST_HEAR(&peer, first, "\x81\x03one");
    ws_close(&peer, first);
    must_end(-ENODATA);
    ws_say(&peer, second, "more");
    WS_MUST_HEAR(&peer, second, "\x81\x03two\x81\x04more");
    ws_close(&peer, second);
    must_end(-ENODATA);
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    peer_close(&peer);
}

/* The window of the client is small, and that of the server is opened by what is read. */
SERVE_TEST(large_messages_pass_small_windows, SERVER)
{
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2000};
    memset(&peer, 0, sizeof peer);
    peer_open_with(&peer, connect_client(), &window, 1, false);
    int32_t id = ws_open(&peer, "/echo", NULL, NULL);
    ws_say_much(&peer, id, MUCH);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->body_n == MUCH + 10);
    MUST(!memcmp(peer_stream(&peer, id)->body, "\x81\x7f\0\0\0\0\0\x04\x93\xe0xxx", 13));
    ws_close(&peer, id);
    must_end(-ENODATA);
    peer_close(&peer);
}

/* The client opens its window after the server has received all that was sent meanwhile. */
SERVE_TEST(one_thread_receives_while_another_sends, SERVER)
{
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1000};
    memset(&peer, 0, sizeof peer);
    peer_open_with(&peer, connect_client(), &window, 1, true);
    int32_t id = ws_open(&peer, "/beside", NULL, NULL);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->body_n == 1000);
    for (int i = 0; i < 3; i++) {
        ws_say(&peer, id, "hello");
        peer_send(&peer);
        MUST_EQ(gs_semaphore_wait(&entered, patience()), 0);
    }
    MUST_EQ(peer_stream(&peer, id)->body_n, 1000);
    MUST_EQ(nghttp2_submit_window_update(peer.session, 0, 0, MUCH), 0);
    MUST_EQ(nghttp2_submit_window_update(peer.session, 0, id, MUCH), 0);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->body_n == MUCH + 10 + 4); /* and a close */
    ws_frame(&peer, id, 8, "\x03\xe8", 2);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_NO_ERROR);
    must_end(0);
    peer_close(&peer);
}

/* Its pong is sent later. */
SERVE_TEST(receiver_does_not_wait_for_a_window_to_answer_a_ping, SERVER)
{
    const nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
    memset(&peer, 0, sizeof peer);
    peer_open_with(&peer, connect_client(), &window, 1, true);
    int32_t id = ws_open(&peer, "/quiet", NULL, NULL);
    ws_frame(&peer, id, 9, "one", 3);
    ws_frame(&peer, id, 9, "two", 3);
    ws_say(&peer, id, "hello");
    peer_send(&peer);
    MUST_EQ(gs_semaphore_wait(&entered, patience()), 0);
    MUST_EQ(peer_stream(&peer, id)->body_n, 0);
    MUST_EQ(nghttp2_submit_window_update(peer.session, 0, id, 1000), 0);
    WS_MUST_HEAR(&peer, id, "\x8a\x03two");
    ws_close(&peer, id);
    must_end(-ENODATA);
    peer_close(&peer);
}

/* ---- Refusals ---- */

static const struct refused {
    const char *fields[17];
    unsigned status;
} refused[] = {
    {{":method", "CONNECT", ":authority", "h:1"}, 501},
    {{":method", "CONNECT", ":protocol", "connect-udp", ":scheme", "http", ":path", "/echo",
      ":authority", "h"},
     501},
    {{":method", "GET", ":scheme", "http", ":path", "/echo", ":authority", "h"}, 426},
    {{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/echo",
      ":authority", "host.test"},
     426},
    {{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/echo",
      ":authority", "host.test", "sec-websocket-version", "8"},
     426},
    {{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/echo",
      ":authority", "host.test", "sec-websocket-version", "13", "origin", "http://evil.test"},
     403},
    {{":method", "POST", ":scheme", "http", ":path", "/echo", ":authority", "h"}, 405},
};

SERVE_TEST(other_requests_are_refused, SERVER)
{
    open_peer();
    PEER_UNTIL(&peer, peer.settings >= 1);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int32_t id = ws_submit(&peer, refused[i].fields);
        PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
        MUST_EQ(peer_stream(&peer, id)->status, refused[i].status);
        MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_NO_ERROR);
    }
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    peer_close(&peer);
}

/* ---- Ends ---- */

SERVE_TEST(bytes_have_an_end_in_each_direction, SERVER)
{
    open_peer();
    int32_t id = ws_open(&peer, "/bytes", NULL, NULL);
    MUST_EQ(gs_semaphore_wait(&entered, patience()), 0);
    ws_put(&peer, id, "hello", 5);
    ws_end(&peer, id);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_NO_ERROR);
    MUST(ws_has(&peer, id, "hello", 5));
    must_end(0);
    peer_close(&peer);
}

SERVE_TEST(stream_ends_when_the_handler_returns, SERVER)
{
    open_peer();
    int32_t id = ws_open(&peer, "/bytes", NULL, NULL);
    MUST_EQ(gs_semaphore_wait(&entered, patience()), 0);
    ws_put(&peer, id, "leave", 5);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    must_end(5);
    MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_NO_ERROR);
    MUST(ws_has(&peer, id, "leave", 5));
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    peer_close(&peer);
}

SERVE_TEST(stream_ends_when_its_thread_is_canceled, SERVER)
{
    open_peer();
    int32_t id = ws_ask(&peer, "/canceled", NULL, NULL);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_NO_ERROR);
    must_end(-ECANCELED);
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    peer_close(&peer);
}

SERVE_TEST(stream_is_reset_when_the_handler_aborts, SERVER)
{
    open_peer();
    int32_t id = ws_open(&peer, "/bytes", NULL, NULL);
    MUST_EQ(gs_semaphore_wait(&entered, patience()), 0);
    ws_put(&peer, id, "abort", 5);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    must_end(5);
    MUST_EQ(peer_stream(&peer, id)->error, NGHTTP2_CANCEL);
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    peer_close(&peer);
}

SERVE_TEST(reset_by_the_client_is_an_error, SERVER)
{
    open_peer();
    int32_t id = ws_open(&peer, "/bytes", NULL, NULL);
    MUST_EQ(gs_semaphore_wait(&entered, patience()), 0);
    peer_reset(&peer, id);
    peer_send(&peer);
    must_end(-ECONNRESET);
    id = ws_open(&peer, "/echo", NULL, NULL);
    peer_reset(&peer, id);
    peer_send(&peer);
    must_end(-ECONNRESET);
    MUST_EQ(peer_fetch(&peer, "/")->body_n, 5);
    peer_close(&peer);
}

SERVE_TEST(end_without_a_close_is_an_error, SERVER)
{
    open_peer();
    int32_t id = ws_open(&peer, "/echo", NULL, NULL);
    ws_end(&peer, id);
    PEER_UNTIL(&peer, peer_stream(&peer, id)->is_closed);
    must_end(-ECONNRESET);
    id = ws_open(&peer, "/echo", NULL, NULL);
    peer_close(&peer); /* and that of the whole connection */
    must_end(-ECONNRESET);
}

/* ---- A server that drains ---- */

static void *drain(void *unused)
{
    start_server();
    open_peer();
    int32_t id = ws_open(&peer, "/echo", NULL, NULL);
    gs_thread_cancel(server_thread);
    PEER_UNTIL(&peer, peer.goaways > 0);
    ws_say(&peer, id, "hello");
    WS_MUST_HEAR(&peer, id, "\x81\x05hello");
    ws_close(&peer, id);
    must_end(-ENODATA);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    peer_close(&peer);
    return unused;
}

TEST(draining_server_waits_for_streams)
{
    server = SERVER;
    run_both(drain);
}

static void *drain_too_long(void *unused)
{
    start_server();
    open_peer();
    (void)ws_open(&peer, "/echo", NULL, NULL);
    gs_thread_cancel(server_thread);
    while (!peer.is_over)
        peer_receive(&peer);
    MUST_EQ(gs_semaphore_wait(&has_ended, patience()), 0);
    int err = atomic_load(&ends); /* the connection may end first */
    MUST(err == -ECANCELED || err == -ECONNRESET);
    MUST_EQ((intptr_t)join(server_thread), 0);
    gs_close(server_listener);
    peer_close(&peer);
    return unused;
}

TEST(streams_are_canceled_when_the_time_for_draining_is_over)
{
    server = (struct gs_http_server){.handler = handle, .drain_timeout_ns = 20 * GS_MILLISECOND};
    run_both(drain_too_long);
}
