/* Several threads at one connection (the numbers are those of stream.h), deadlines, and ends. */
#include "tests/websocket_stream/sockets.h"

#include <stdatomic.h>

#define LARGE (1u << 18)

static struct gs_semaphore has_started, may_end;
static struct gs_websocket *served; /* of the handler */
static int served_err;

/* Receive until the end, as a thread. */
static void *receive_all(void *socket)
{
    struct gs_websocket_message message;
    int err;
    uintptr_t count = 0;
    while (!(err = gs_websocket_receive(socket, &message, GS_NEVER)))
        count++;
    MUST_EQ(err, -ENODATA);
    return (void *)count;
}

/* ---- 1 and 2: pings while both sides send more than the sockets take ---- */

static void *send_large(void *socket)
{
    char *large = calloc(1, LARGE);
    MUST(large);
    for (int i = 0; i < 20; i++) {
        MUST_EQ(gs_websocket_ping(socket, &i, sizeof i, patience()), 0);
        MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_BINARY, large, LARGE, patience()), 0);
    }
    free(large);
    return NULL;
}

static void *receive_large(void *socket)
{
    struct gs_websocket_message message;
    for (int i = 0; i < 40; i++) {
        MUST_EQ(gs_websocket_receive(socket, &message, patience()), 0);
        MUST_EQ(message.n, LARGE);
    }
    return NULL;
}

/* A side closes when it has received all that the other one sends, which must not be cut off. */
static void exchange_large(struct gs_websocket *socket)
{
    struct gs_thread *threads[] = {spawn(receive_large, socket), spawn(send_large, socket),
                                   spawn(send_large, socket)};
    for (int i = 0; i < 3; i++)
        join(threads[i]);
    MUST_EQ(gs_websocket_close(socket, GS_WEBSOCKET_NORMAL, NULL, patience()), 0);
}

static void serve_large(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    (void)unused;
    MUST_EQ(gs_websocket_accept(exchange, NULL, &socket), 0);
    exchange_large(socket);
}

SERVE_TEST(both_sides_send_and_receive_at_once, (struct gs_http_server){.handler = serve_large})
{
    struct gs_websocket *socket;
    struct gs_websocket_options options = {0};
    MUST_EQ(dial_with(&options, "/", &socket), 0);
    exchange_large(socket);
}

/* ---- 4: a close while another thread receives ---- */

static void hold(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket_message message;
    (void)unused;
    MUST_EQ(gs_websocket_accept(exchange, NULL, &served), 0);
    gs_semaphore_post(&has_started);
    served_err = gs_websocket_receive(served, &message, GS_NEVER);
    MUST_EQ(gs_semaphore_wait(&may_end, GS_NEVER), 0);
    gs_websocket_close(served, GS_WEBSOCKET_NORMAL, NULL, patience());
}

SERVE_TEST(close_by_another_thread_ends_the_receiver, (struct gs_http_server){.handler = hold})
{
    struct gs_websocket *socket = dial(NULL, "/");
    struct gs_thread *receiver = spawn(receive_all, socket);
    MUST_EQ(gs_semaphore_wait(&has_started, patience()), 0);
    MUST_EQ(gs_websocket_shutdown(served, 4000, "by another", patience()), 0);
    MUST_EQ(gs_websocket_shutdown(served, 4001, NULL, patience()), 0);
    MUST_EQ(gs_websocket_send(served, GS_WEBSOCKET_TEXT, "x", 1, patience()), -EPIPE);
    MUST_EQ((uintptr_t)join(receiver), 0);
    struct gs_websocket_end end;
    gs_websocket_end(socket, &end);
    MUST_EQ(end.code, 4000);
    MUST(!strcmp(end.reason, "by another"));
    gs_semaphore_post(&may_end);
    must_close(socket);
}

/* A ping arrives while a sender waits in the middle of a frame, whose end leaves no room for the
 * pong. Nobody sends anything more, so the receiver has to. */

static _Atomic(bool) has_sent;
static char parted[LARGE];

static void *send_some(void *n)
{
    MUST_EQ(
        gs_websocket_send(served, GS_WEBSOCKET_BINARY, parted, (size_t)(uintptr_t)n, patience()),
        0);
    has_sent = true;
    return NULL;
}

static void pause_for_others(void)
{
    MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

/* Receive until the sender has finished, and then the rest, whose end is the pong. */
static void hear_pong(int fd, size_t n)
{
    char bytes[8000] = "";
    size_t left = n, at = 0;
    while (left) {
        ssize_t part = gs_recv(fd, bytes, left < sizeof bytes ? left : sizeof bytes, 0, patience());
        MUST(part > 0);
        at = (size_t)part;
        left -= at;
        if (!has_sent)
            pause_for_others();
    }
    MUST(at >= 4 && !memcmp(bytes + at - 4, "ping", 4));
}

static int shake_hands(void)
{
    static struct heard heard;
    int fd = connect_client(), small = 32768;
    MUST_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    say(fd, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    heard.n = 0;
    MUST_EQ(hear(fd, &heard, "\r\n\r\n"), 0);
    MUST_EQ(gs_semaphore_wait(&has_started, patience()), 0);
    MUST_EQ(setsockopt(gs_websocket_fd(served), SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    return fd;
}

SERVE_TEST(pong_follows_a_frame_that_fills_the_socket, (struct gs_http_server){.handler = hold})
{
    int fd = shake_hands();
    for (size_t n = LARGE / 2; n < LARGE; n += 12001) {
        has_sent = false;
        struct gs_thread *sender = spawn(send_some, (void *)(uintptr_t)n);
        pause_for_others();
        say(fd, "\x89\x84"
                "\1\1\1\1"
                "qhof");
        pause_for_others();
        hear_pong(fd, n + 10 + 6);
        join(sender);
    }
    gs_close(fd);
    gs_semaphore_post(&may_end);
}

/* ---- 5: a send that fails within a frame ---- */

SERVE_TEST(send_that_fails_in_a_frame_is_the_last, (struct gs_http_server){.handler = hold})
{
    struct gs_websocket *socket = dial(NULL, "/");
    static char large[64 << 20];
    MUST_EQ(gs_semaphore_wait(&has_started, patience()), 0);
    MUST_EQ(gs_websocket_send(served, GS_WEBSOCKET_BINARY, large, sizeof large,
                              after(20 * GS_MILLISECOND)),
            -ETIMEDOUT);
    MUST_EQ(gs_websocket_send(served, GS_WEBSOCKET_TEXT, "x", 1, patience()), -EPIPE);
    MUST_EQ(gs_websocket_shutdown(served, 1000, NULL, patience()), -EPIPE);
    gs_websocket_abort(socket);
    gs_semaphore_post(&may_end);
}

/* A message of which nothing was sent can be sent later. */
SERVE_TEST(send_that_had_no_room_can_be_repeated, (struct gs_http_server){.handler = hold})
{
    static char some[1000];
    struct gs_websocket *socket = dial(NULL, "/");
    int err = 0;
    unsigned count = 0, received = 0;
    struct gs_websocket_message message;
    MUST_EQ(gs_semaphore_wait(&has_started, patience()), 0);
    while (!err) {
        err = gs_websocket_send(served, GS_WEBSOCKET_BINARY, some, sizeof some, 0);
        count += !err;
    }
    MUST_EQ(err, -ETIMEDOUT);
    while (received < count && !gs_websocket_receive(socket, &message, patience()))
        received++;
    /* The last message may have been sent in part. */
    err = gs_websocket_send(served, GS_WEBSOCKET_TEXT, "x", 1, patience());
    MUST(!err || err == -EPIPE);
    if (!err)
        must_receive(socket, "x");
    gs_websocket_abort(socket);
    gs_semaphore_post(&may_end);
}

/* ---- Keepalive ---- */

static void keep_alive(struct gs_http_exchange *exchange, void *unused)
{
    const struct gs_websocket_options options = {.keepalive_ns = 100 * GS_MILLISECOND};
    struct gs_websocket_message message;
    (void)unused;
    MUST_EQ(gs_websocket_accept(exchange, &options, &served), 0);
    served_err = gs_websocket_receive(served, &message, patience());
    gs_websocket_close(served, GS_WEBSOCKET_NORMAL, NULL, 0);
    gs_semaphore_post(&has_started);
}

/* A client that receives answers pings, for longer than the server would wait. */
SERVE_TEST(peer_that_answers_pings_stays, (struct gs_http_server){.handler = keep_alive})
{
    struct gs_websocket *socket = dial(NULL, "/");
    struct gs_websocket_message message;
    MUST_EQ(gs_websocket_receive(socket, &message, after(500 * GS_MILLISECOND)), -ETIMEDOUT);
    send_text(socket, "still here");
    MUST_EQ(gs_semaphore_wait(&has_started, patience()), 0);
    MUST_EQ(served_err, 0);
    gs_websocket_abort(socket);
}

SERVE_TEST(peer_that_does_not_answer_is_given_up, (struct gs_http_server){.handler = keep_alive})
{
    struct gs_websocket *socket = dial(NULL, "/");
    MUST_EQ(gs_semaphore_wait(&has_started, patience()), 0);
    MUST_EQ(served_err, -ECONNRESET);
    gs_websocket_abort(socket);
}

/* ---- Cancellation ---- */

static void serve_until_canceled(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    (void)unused;
    MUST_EQ(gs_websocket_accept(exchange, NULL, &socket), 0);
    MUST_EQ(echo_all(socket), -ECANCELED);
    gs_websocket_close(socket, GS_WEBSOCKET_GOING_AWAY, "restart", patience());
}

SERVE_TEST(canceled_handler_can_still_close,
           (struct gs_http_server){.handler = serve_until_canceled,
                                   .drain_timeout_ns = GS_MILLISECOND})
{
    struct gs_websocket *socket = dial(NULL, "/");
    struct gs_websocket_message message;
    struct gs_websocket_end end;
    send_text(socket, "hello");
    must_receive(socket, "hello");
    gs_thread_cancel(server_thread);
    MUST_EQ(gs_websocket_receive(socket, &message, patience()), -ENODATA);
    gs_websocket_end(socket, &end);
    MUST_EQ(end.code, GS_WEBSOCKET_GOING_AWAY);
    MUST(!strcmp(end.reason, "restart"));
    must_close(socket);
}
