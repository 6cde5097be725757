/* Messages of both sides, whole and in parts, and the ends of connections. */
#include "tests/websocket_stream/sockets.h"

static const char *const protocols[] = {"new", "old"};
static struct gs_websocket_options options = {
    .protocols = protocols, .protocol_count = 2, .max_message = 100000};
static struct gs_websocket_end server_end;
static int server_err;
static struct gs_semaphore has_ended, has_refused;

/* Orders the client's writes of the options before the server's reads: the thread sanitizer does
 * not know the order of sockets. */
static void synchronise(void)
{
    static struct gs_mutex order;
    MUST_EQ(gs_mutex_lock(&order, GS_NEVER), 0);
    gs_mutex_unlock(&order);
}

static void serve_echo(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_websocket *socket;
    (void)unused;
    synchronise();
    if (gs_websocket_accept(exchange, &options, &socket)) {
        gs_semaphore_post(&has_refused);
        return;
    }
    server_err = echo_all(socket);
    gs_websocket_end(socket, &server_end);
    gs_websocket_close(socket, GS_WEBSOCKET_GOING_AWAY, NULL, patience());
    gs_semaphore_post(&has_ended);
}

static void must_refuse(const struct gs_websocket_options *client)
{
    struct gs_websocket *socket;
    has_refused = (struct gs_semaphore){0};
    synchronise();
    MUST_EQ(dial_with(client, "/", &socket), -ECONNREFUSED);
    MUST_EQ(gs_semaphore_wait(&has_refused, patience()), 0);
}

static void wait_for_server(void)
{
    MUST_EQ(gs_semaphore_wait(&has_ended, patience()), 0);
}

#define ECHO_TEST(name_) SERVE_TEST(name_, (struct gs_http_server){.handler = serve_echo})

ECHO_TEST(messages_come_back_and_the_close_is_answered)
{
    struct gs_websocket *socket = dial(&options, "/");
    struct gs_websocket_end end;
    MUST(!strcmp(gs_websocket_protocol(socket), "new"));
    MUST(gs_websocket_fd(socket) >= 0);
    send_text(socket, "hello");
    send_text(socket, "");
    must_receive(socket, "hello");
    must_receive(socket, "");
    gs_websocket_end(socket, &end);
    MUST_EQ(end.code, 0);
    must_close(socket);
    wait_for_server();
    MUST_EQ(server_err, -ENODATA);
    MUST_EQ(server_end.code, GS_WEBSOCKET_NORMAL);
    MUST(!strcmp(server_end.reason, "bye"));
}

ECHO_TEST(end_without_a_close_is_an_error)
{
    struct gs_websocket *socket = dial(NULL, "/");
    MUST(!gs_websocket_protocol(socket));
    gs_websocket_abort(socket);
    gs_websocket_abort(NULL);
    wait_for_server();
    MUST_EQ(server_err, -ECONNRESET);
    MUST_EQ(server_end.code, GS_WEBSOCKET_LOST);
}

ECHO_TEST(message_above_the_limit_ends_the_connection)
{
    static char large[100001];
    struct gs_websocket *socket = dial(NULL, "/");
    struct gs_websocket_message message;
    struct gs_websocket_end end;
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_BINARY, large, sizeof large - 1, patience()), 0);
    MUST_EQ(gs_websocket_receive(socket, &message, patience()), 0);
    MUST_EQ(message.n, sizeof large - 1);
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_BINARY, large, sizeof large, patience()), 0);
    MUST_EQ(gs_websocket_receive(socket, &message, patience()), -ENODATA);
    gs_websocket_end(socket, &end);
    MUST_EQ(end.code, GS_WEBSOCKET_TOO_LARGE);
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_TEXT, "x", 1, patience()), -EPIPE);
    must_close(socket);
    wait_for_server();
    MUST_EQ(server_err, -EMSGSIZE);
}

ECHO_TEST(parts_are_read_and_sent_as_they_come)
{
    struct gs_websocket *socket = dial(NULL, "/");
    struct gs_websocket_part part = {.type = GS_WEBSOCKET_BINARY, .bytes = "abc", .n = 3};
    enum gs_websocket_type type;
    char bytes[4];
    size_t n = 0;
    ssize_t some;
    for (int i = 0; i < 10; i++)
        MUST_EQ(gs_websocket_send_part(socket, &part, patience()), 0);
    MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_TEXT, "x", 1, patience()), -EBUSY);
    MUST_EQ(gs_websocket_ping(socket, "between", 7, patience()), 0);
    part.is_last = true;
    MUST_EQ(gs_websocket_send_part(socket, &part, patience()), 0);
    send_text(socket, "more");
    MUST_EQ(gs_websocket_next(socket, &type, patience()), 0);
    MUST_EQ(type, GS_WEBSOCKET_BINARY);
    while ((some = gs_websocket_read(socket, bytes, sizeof bytes, patience())) > 0) {
        for (ssize_t i = 0; i < some; i++)
            MUST_EQ(bytes[i], "abc"[(n + (size_t)i) % 3]);
        n += (size_t)some;
    }
    MUST_EQ(some, 0);
    MUST_EQ(n, 33);
    MUST_EQ(gs_websocket_read(socket, bytes, sizeof bytes, patience()), 0);
    must_receive(socket, "more");
    must_close(socket);
    wait_for_server();
}

ECHO_TEST(rest_of_a_message_that_is_not_read_is_discarded)
{
    static char large[50000];
    struct gs_websocket *socket = dial(NULL, "/");
    enum gs_websocket_type type;
    char bytes[10];
    memset(large, 'l', sizeof large);
    for (int i = 0; i < 3; i++) {
        MUST_EQ(gs_websocket_send(socket, GS_WEBSOCKET_TEXT, large, sizeof large, patience()), 0);
        send_text(socket, "next");
        MUST_EQ(gs_websocket_next(socket, &type, patience()), 0);
        if (i)
            MUST(gs_websocket_read(socket, bytes, sizeof bytes, patience()) > 0);
        must_receive(socket, "next");
    }
    must_close(socket);
    wait_for_server();
}

/* A client that waits in vain, then gets what has arrived meanwhile. */
ECHO_TEST(deadline_loses_nothing)
{
    struct gs_websocket *socket = dial(NULL, "/");
    struct gs_websocket_message message;
    enum gs_websocket_type type;
    MUST_EQ(gs_websocket_receive(socket, &message, 0), -ETIMEDOUT);
    MUST_EQ(gs_websocket_next(socket, &type, after(GS_MILLISECOND)), -ETIMEDOUT);
    send_text(socket, "hello");
    int err = -ETIMEDOUT;
    while (err == -ETIMEDOUT) {
        err = gs_websocket_receive(socket, &message, 0);
        gs_thread_yield();
    }
    MUST_EQ(err, 0);
    MUST(!strcmp(message.bytes, "hello"));
    must_close(socket);
    wait_for_server();
}

ECHO_TEST(arguments_are_checked)
{
    struct gs_websocket *socket = dial(NULL, "/");
    char long_reason[125];
    memset(long_reason, 'r', sizeof long_reason - 1);
    long_reason[124] = '\0';
    MUST_EQ(gs_websocket_send(socket, 0, "x", 1, patience()), -EINVAL);
    MUST_EQ(gs_websocket_ping(socket, long_reason, 126, patience()), -EINVAL);
    MUST_EQ(gs_websocket_shutdown(socket, 1005, NULL, patience()), -EINVAL);
    MUST_EQ(gs_websocket_shutdown(socket, 1000, long_reason, patience()), -EINVAL);
    MUST_EQ(gs_websocket_shutdown(socket, 1000, "\xff", patience()), -EINVAL);
    MUST_EQ(gs_websocket_shutdown(socket, 0, "reason", patience()), -EINVAL);
    MUST_EQ(gs_websocket_close(socket, 0, NULL, patience()), 0);
    wait_for_server();
    MUST_EQ(server_end.code, GS_WEBSOCKET_NO_CODE);
}

/* ---- Handshakes ---- */

#define HANDSHAKE                                                                                  \
    "Host: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"                                     \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

static void must_answer(const char *request, const char *start, const char *part)
{
    static struct heard heard;
    int fd = connect_client();
    heard.n = 0;
    say(fd, request);
    MUST_EQ(hear(fd, &heard, "\r\n\r\n"), 0);
    MUST(begins_with(heard.bytes, start));
    MUST_CONTAIN(heard.bytes, part);
    gs_close(fd);
}

ECHO_TEST(requests_that_are_not_right_are_refused)
{
    static const char version[] = "Sec-WebSocket-Version: 13\r\n";
    char request[1000];
    must_answer("GET / HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 426 ",
                "\r\nSec-WebSocket-Version: 13\r\n");
    must_answer("GET / HTTP/1.1\r\n" HANDSHAKE "Sec-WebSocket-Version: 8\r\n\r\n", "HTTP/1.1 426 ",
                "\r\nSec-WebSocket-Version: 13\r\n");
    snprintf(request, sizeof request, "POST / HTTP/1.1\r\n%s%s\r\n", HANDSHAKE, version);
    must_answer(request, "HTTP/1.1 405 ", "\r\nAllow: GET\r\n");
    snprintf(request, sizeof request, "GET / HTTP/1.1\r\n%sOrigin: http://evil\r\n%s\r\n",
             HANDSHAKE, version);
    must_answer(request, "HTTP/1.1 403 ", "\r\n\r\n");
    must_answer("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n",
                "HTTP/1.1 400 ", "\r\n\r\n");
    must_answer("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nUpgrade: websocket\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
                "HTTP/1.1 400 ", "\r\n\r\n");
    snprintf(
        request, sizeof request,
        "GET / HTTP/1.1\r\n%sOrigin: http://h\r\n%sSec-WebSocket-Protocol: x, old, new\r\n\r\n",
        HANDSHAKE, version);
    must_answer(request, "HTTP/1.1 101 ", "\r\nSec-WebSocket-Protocol: new\r\n");
    wait_for_server();
}

ECHO_TEST(origins_that_are_listed_may_connect)
{
    static const char *const origins[] = {"https://www.example.org"}, *const any[] = {"*"};
    const struct gs_http_field origin = {"Origin", "https://www.example.org"};
    const struct gs_http_field other = {"Origin", "https://example.org"};
    struct gs_websocket_options client = {.fields = &origin, .field_count = 1};
    must_refuse(&client);
    options.origins = origins;
    options.origin_count = 1;
    synchronise();
    must_close(dial(&client, "/"));
    wait_for_server();
    client.fields = &other;
    must_refuse(&client);
    options.origins = any;
    synchronise();
    must_close(dial(&client, "/"));
    wait_for_server();
    options.origin_count = 0;
}

ECHO_TEST(client_refuses_options_that_are_malformed)
{
    static const char *const spaced[] = {"a b"};
    const struct gs_http_field broken[] = {{"X", "a\r\nY: b"}, {"X:", "a"}};
    struct gs_websocket *socket;
    char text[GS_WEBSOCKET_TEXT_SIZE];
    struct gs_websocket_options client = {.protocols = spaced, .protocol_count = 1};
    MUST_EQ(dial_with(&client, "/", &socket), -EINVAL);
    for (unsigned i = 0; i < 2; i++) {
        client = (struct gs_websocket_options){.fields = &broken[i], .field_count = 1};
        MUST_EQ(dial_with(&client, "/", &socket), -EINVAL);
    }
    MUST_EQ(gs_websocket_connect("http://h", NULL, patience(), &socket, text), -EINVAL);
    MUST_EQ(gs_websocket_connect("wss://h", NULL, patience(), &socket, NULL), -EINVAL);
}
