/* Connections that the handler takes over. */
#include "tests/http_server/serving.h"

#include <stdatomic.h>

#define UPGRADE                                                                                    \
    "GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Upgrade\r\nUpgrade: h2c, Echo/1\r\n\r\n"

static atomic_int results; /* of gs_http_upgrade, the last one */
static atomic_int ends;    /* what ended the echo */

/* Echo until the client ends its stream; "abort" aborts, and "leave" leaves. */
static void echo(struct gs_http_exchange *exchange, void *unused)
{
    struct gs_http_upgraded *upgraded;
    char bytes[100];
    ssize_t n;
    (void)unused;
    MUST_EQ(gs_http_set_field(exchange, "X-Field", "value"), 0);
    int err = gs_http_upgrade(exchange, "echo/1", &upgraded);
    atomic_store(&results, err);
    if (err)
        return;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, NULL, 0), -EALREADY);
    MUST_EQ(gs_http_write(exchange, "x", 1), -EINVAL);
    MUST_EQ(gs_http_upgrade(exchange, "echo/1", &upgraded), -EALREADY);
    MUST_EQ(gs_http_upgraded_recv(upgraded, bytes, 0, 0), 0);
    while ((n = gs_http_upgraded_recv(upgraded, bytes, sizeof bytes, GS_NEVER)) > 0) {
        MUST_EQ(gs_http_upgraded_send_all(upgraded, bytes, (size_t)n, after(PATIENCE_NS)), n);
        if (n == 5 && !memcmp(bytes, "leave", 5))
            break;
        if (n == 5 && !memcmp(bytes, "abort", 5))
            gs_http_abort(exchange);
        if (n == 5 && !memcmp(bytes, "abort", 5))
            break;
    }
    atomic_store(&ends, (int)n);
}

static struct heard heard;

static int upgrade(const char *text)
{
    int fd = connect_client();
    heard.n = 0;
    say(fd, text);
    MUST_EQ(hear(fd, &heard, "\r\n\r\n"), 0);
    MUST(begins_with(heard.bytes, "HTTP/1.1 101 Switching Protocols\r\nDate: "));
    MUST_CONTAIN(heard.bytes,
                 "\r\nX-Field: value\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n");
    return fd;
}

SERVE_TEST(handler_speaks_another_protocol, (struct gs_http_server){.handler = echo})
{
    int fd = upgrade(UPGRADE);
    say(fd, "hello");
    MUST_EQ(hear(fd, &heard, "\r\n\r\nhello"), 0);
    MUST_EQ(gs_sys_shutdown(fd, SHUT_WR), 0);
    MUST_EQ(hear(fd, &heard, NULL), 0);
    gs_close(fd);
    MUST_EQ(atomic_load(&ends), 0);
}

SERVE_TEST(what_came_with_the_request_is_received_first, (struct gs_http_server){.handler = echo})
{
    int fd = upgrade(UPGRADE "early");
    say(fd, " and late");
    MUST_EQ(hear(fd, &heard, "\r\n\r\nearly and late"), 0);
    gs_close(fd);
}

SERVE_TEST(stream_ends_when_the_handler_returns, (struct gs_http_server){.handler = echo})
{
    int fd = upgrade(UPGRADE);
    say(fd, "leave");
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST(ends_with(heard.bytes, "\r\n\r\nleave"));
    say(fd, "this is discarded");
    gs_close(fd);
}

SERVE_TEST(connection_is_reset_after_an_abort, (struct gs_http_server){.handler = echo})
{
    int fd = upgrade(UPGRADE);
    say(fd, "abort");
    MUST_EQ(hear(fd, &heard, NULL), -ECONNRESET);
    gs_close(fd);
}

SERVE_TEST(request_that_asks_for_nothing_is_not_upgraded, (struct gs_http_server){.handler = echo})
{
    static const char *const requests[] = {
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: echo/1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo/12\r\n\r\n",
        "GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\n",
        ("POST / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n"
         "Content-Length: 1\r\n\r\nx"),
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        int fd = connect_client();
        heard.n = 0;
        atomic_store(&results, 1);
        say(fd, requests[i]);
        MUST_EQ(hear(fd, &heard, "\r\n\r\n"), 0);
        MUST(begins_with(heard.bytes, "HTTP/1.1 500 "));
        MUST_EQ(atomic_load(&results), -EINVAL);
        gs_close(fd);
    }
}

/* Timeouts of the server do not hold, nor does the connection give way to another client. */
SERVE_TEST(connection_counts_and_does_not_give_way,
           (struct gs_http_server){.handler = echo,
                                   .max_connections = 1,
                                   .header_timeout_ns = 10 * GS_MILLISECOND,
                                   .idle_timeout_ns = 10 * GS_MILLISECOND,
                                   .body_timeout_ns = 10 * GS_MILLISECOND,
                                   .write_timeout_ns = 10 * GS_SECOND})
{
    int fd = upgrade(UPGRADE), other = connect_client();
    say(other, UPGRADE);
    /* A second is the time after which a connection that waits for a request gives way. */
    MUST_EQ(gs_wait_readable(other, after(1500 * GS_MILLISECOND)), -ETIMEDOUT);
    say(fd, "hello");
    MUST_EQ(hear(fd, &heard, "\r\n\r\nhello"), 0);
    gs_close(fd);
    heard.n = 0;
    MUST_EQ(hear(other, &heard, "\r\n\r\n"), 0);
    MUST(begins_with(heard.bytes, "HTTP/1.1 101 "));
    gs_close(other);
}

SERVE_TEST(server_that_drains_cancels_the_handler_at_last,
           (struct gs_http_server){.handler = echo, .drain_timeout_ns = 50 * GS_MILLISECOND})
{
    int fd = upgrade(UPGRADE);
    atomic_store(&ends, 0);
    gs_thread_cancel(server_thread);
    say(fd, "hello");
    MUST_EQ(hear(fd, &heard, "\r\n\r\nhello"), 0);
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST_EQ(atomic_load(&ends), -ECANCELED);
    gs_close(fd);
}
