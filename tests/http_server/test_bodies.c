/* Bodies of requests: read by a handler, skipped, or never complete. */
#include "tests/http_server/serving.h"

#define POST "POST / HTTP/1.1\r\nHost: h\r\n"

/* Respond with the body, or with the error in reading it. */
static void echo(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[2000];
    (void)unused;
    ssize_t n = gs_http_read_all(exchange, bytes, sizeof bytes);
    if (n >= 0)
        MUST_EQ(gs_http_respond(exchange, 200, NULL, bytes, (size_t)n), 0);
}

static const struct gs_http_server echoing = {.handler = echo, .max_body = 1000};

SERVE_TEST(bodies_of_known_length_and_in_chunks_are_read, echoing)
{
    MUST(ends_with(ask(POST "Content-Length: 5\r\nConnection: close\r\n\r\nhello"),
                   "Content-Length: 5\r\n\r\nhello"));
    MUST(ends_with(ask(POST "Connection: close\r\n\r\n"), "Content-Length: 0\r\n\r\n"));
    MUST(ends_with(ask(POST "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                            "5\r\nhello\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"),
                   "Content-Length: 15\r\n\r\nhello0123456789"));
    MUST(ends_with(ask(POST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n" POST
                            "Content-Length: 1\r\nConnection: close\r\n\r\nb"),
                   "\r\n\r\nb"));
}

SERVE_TEST(chunks_may_arrive_byte_by_byte, echoing)
{
    static struct heard heard;
    static const char text[] = "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n";
    heard.n = 0;
    int fd = connect_client();
    say(fd, POST "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
    for (size_t i = 0; i < sizeof text - 1; i++) {
        MUST_EQ(gs_send_all(fd, &text[i], 1, GS_NEVER), 1);
        gs_thread_sleep(after(GS_MILLISECOND / 4));
    }
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST(ends_with(heard.bytes, "\r\n\r\nabcde"));
    gs_close(fd);
}

SERVE_TEST(client_that_waits_for_100_continue_gets_it_when_the_body_is_read, echoing)
{
    static struct heard heard;
    heard.n = 0;
    int fd = connect_client();
    say(fd, POST "Expect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n");
    MUST_EQ(hear(fd, &heard, "\r\n\r\n"), 0);
    MUST_EQ(strcmp(heard.bytes, "HTTP/1.1 100 Continue\r\n\r\n"), 0);
    say(fd, "abc");
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST(ends_with(heard.bytes, "\r\n\r\nabc"));
    gs_close(fd);
}

static void ignore(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 403, NULL, NULL, 0), 0);
}

SERVE_TEST(without_100_continue_the_connection_is_closed,
           (struct gs_http_server){.handler = ignore})
{
    const char *answer = ask(POST "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    MUST(begins_with(answer, "HTTP/1.1 403 Forbidden\r\n"));
    MUST_CONTAIN(answer, "Connection: close\r\n");
}

SERVE_TEST(long_rest_of_a_body_ends_the_connection_and_the_response_arrives,
           (struct gs_http_server){.handler = ignore})
{
    static char bytes[64 << 10];
    static struct heard heard;
    heard.n = 0;
    int fd = connect_client();
    say(fd, POST "Content-Length: 1048576\r\n\r\n");
    memset(bytes, 'x', sizeof bytes);
    for (int i = 0; i < 16; i++)
        MUST_EQ(gs_send_all(fd, bytes, sizeof bytes, after(PATIENCE_NS)), sizeof bytes);
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST(begins_with(heard.bytes, "HTTP/1.1 403 Forbidden\r\n"));
    MUST_CONTAIN(heard.bytes, "Connection: close\r\n");
    gs_close(fd);
}

THREAD(send_wrong_bodies)
{
    start_server();
    const char *answer = ask(POST "Transfer-Encoding: chunked\r\n\r\nzz\r\n");
    MUST_CONTAIN(answer, "HTTP/1.1 400 ");
    MUST_CONTAIN(answer, "Connection: close\r\n");
    answer = ask(POST "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" POST "Content-Length: 0\r\n\r\n");
    MUST_CONTAIN(answer, "HTTP/1.1 413 ");
    MUST_EQ(count_of(answer, "HTTP/1.1 "), 1);
    MUST_CONTAIN(ask(POST "Content-Length: 3\r\n\r\nab"), "HTTP/1.1 408 ");
    MUST_CONTAIN(ask(POST "Transfer-Encoding: chunked\r\n\r\n3\r\nab"), "HTTP/1.1 408 ");
    stop_server();
}

TEST(bodies_that_are_malformed_too_long_or_too_slow_are_refused)
{
    struct gs_http_server hasty = echoing;
    hasty.body_timeout_ns = 50 * GS_MILLISECOND;
    serve_with(&hasty, send_wrong_bodies);
}

static _Atomic(ssize_t) read_result;

static void read_once(struct gs_http_exchange *exchange, void *unused)
{
    char bytes[10];
    (void)unused;
    ssize_t n = gs_http_read_all(exchange, bytes, sizeof bytes);
    read_result = n;
    MUST(n != -ECONNRESET || gs_http_read(exchange, bytes, 1) == -ECONNRESET);
}

SERVE_TEST(end_of_the_stream_within_a_body_is_an_error,
           (struct gs_http_server){.handler = read_once})
{
    static struct heard heard;
    heard.n = 0;
    int fd = connect_client();
    say(fd, POST "Content-Length: 3\r\n\r\nab");
    MUST_EQ(gs_sys_shutdown(fd, SHUT_WR), 0);
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST_CONTAIN(heard.bytes, "HTTP/1.1 400 ");
    MUST_EQ(read_result, -ECONNRESET);
    gs_close(fd);
    MUST_CONTAIN(ask(POST "Content-Length: 11\r\nConnection: close\r\n\r\n01234567890"), " 500 ");
    MUST_EQ(read_result, -EMSGSIZE);
}
