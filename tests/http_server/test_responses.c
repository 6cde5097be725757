/* Responses: complete, streamed, without a body, and refused. */
#include "tests/http_server/answers.h"

#define GET(path_) "GET " path_ " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

static const struct gs_http_server answering = {.handler = answer};

SERVE_TEST(fields_that_could_split_a_response_are_refused, answering)
{
    const char *text = ask(GET("/fields"));
    MUST(begins_with(text, "HTTP/1.1 299 \r\nDate: "));
    MUST(ends_with(text, " GMT\r\nSet-Cookie: a=b; Path=/\r\nSet-Cookie: c=d\r\n"
                         "Content-Type: text/plain\r\nConnection: close\r\n"
                         "Content-Length: 3\r\n\r\nabc"));
    MUST(!strstr(text, "stolen"));
}

SERVE_TEST(streamed_responses_end_by_chunks_by_length_or_with_the_connection, answering)
{
    MUST(ends_with(ask(GET("/stream")),
                   "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n1a\r\n"
                   "abcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n"));
    MUST(ends_with(ask(GET("/length")),
                   "Content-Length: 36\r\n\r\n0123456789abcdefghijklmnopqrstuvwxyz"));
    MUST(ends_with(ask(GET("/empty")), "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
    const char *text = ask("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    MUST(ends_with(text, "Content-Type: text/plain\r\nConnection: close\r\n\r\n"
                         "0123456789abcdefghijklmnopqrstuvwxyz"));
    text =
        ask("GET /length HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /length HTTP/1.0\r\n\r\n");
    MUST_EQ(count_of(text, "\r\n\r\n0123456789abcdefghijklmnopqrstuvwxyz"), 2);
    MUST_EQ(count_of(text, "Connection: keep-alive\r\n"), 1);
    MUST_EQ(count_of(text, "Connection: close\r\n"), 1);
}

#define HEAD(path_) "HEAD " path_ " HTTP/1.1\r\nHost: h\r\n\r\n"

SERVE_TEST(head_204_and_304_have_no_body, answering)
{
    const char *text = ask(HEAD("/stream") HEAD("/length") HEAD("/fields") HEAD(
        "/nothing") "GET /created HTTP/1.1\r\nHost: h\r\n\r\n" GET("/modified"));
    MUST_EQ(count_of(text, "HTTP/1.1 "), 6);
    MUST_EQ(count_of(text, "\r\n\r\n"), 6);
    MUST_EQ(count_of(text, "\r\n\r\nHTTP/1.1 "), 5);
    MUST(ends_with(text, "\r\n\r\n"));
    MUST_CONTAIN(text, "Transfer-Encoding: chunked\r\n");
    MUST_CONTAIN(text, "Content-Length: 36\r\n");
    MUST_CONTAIN(text, "HTTP/1.1 500 Internal Server Error\r\n");
    const char *created = strstr(text, "HTTP/1.1 204 No Content\r\n");
    MUST(created && strstr(created, "HTTP/1.1 304 Not Modified\r\n"));
    MUST(!strstr(created, "Content-Length"));
}

SERVE_TEST(no_response_is_500_and_an_incomplete_one_resets_the_connection, answering)
{
    static struct heard heard;
    const char *text = ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n" GET("/"));
    MUST_EQ(count_of(text, "HTTP/1.1 500 Internal Server Error\r\n"), 2);
    for (int i = 0; i < 2; i++) {
        heard.n = 0;
        int fd = connect_client();
        say(fd, i ? GET("/abort") : GET("/incomplete"));
        MUST_EQ(hear(fd, &heard, NULL), -ECONNRESET);
        gs_close(fd);
    }
}

/* ---- Clients that do not take their response ---- */

static int write_error;
static struct gs_wait_group written;

static void send_forever(struct gs_http_exchange *exchange, void *unused)
{
    static const char bytes[64 << 10];
    (void)unused;
    int err = gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN);
    while (!err)
        err = gs_http_write(exchange, bytes, sizeof bytes);
    MUST_EQ(gs_http_write(exchange, bytes, 1), -EPIPE);
    write_error = err;
    gs_wait_group_done(&written);
}

SERVE_TEST(write_to_a_client_that_does_not_read_is_timed_out,
           (struct gs_http_server){.handler = send_forever,
                                   .write_timeout_ns = 50 * GS_MILLISECOND})
{
    gs_wait_group_add(&written, 1);
    int fd = connect_client();
    say(fd, GET("/"));
    MUST_EQ(gs_wait_group_wait(&written, after(PATIENCE_NS)), 0);
    MUST_EQ(write_error, -ETIMEDOUT);
    gs_close(fd);
}

SERVE_TEST(write_to_a_client_that_has_gone_is_an_error,
           (struct gs_http_server){.handler = send_forever})
{
    gs_wait_group_add(&written, 1);
    int fd = connect_client();
    say(fd, GET("/"));
    gs_close(fd);
    MUST_EQ(gs_wait_group_wait(&written, after(PATIENCE_NS)), 0);
    MUST(write_error == -EPIPE || write_error == -ECONNRESET);
}

THREAD(send_on)
{
    static struct heard heard;
    heard.n = 0;
    start_server();
    int fd = connect_client();
    say(fd, "GET /nothing HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    MUST_EQ(hear(fd, &heard, "\r\n\r\n"), 0);
    for (int i = 0; i < 5; i++) {
        say(fd, "stray");
        gs_thread_sleep(after(10 * GS_MILLISECOND));
    }
    MUST_EQ(hear(fd, &heard, NULL), 0);
    gs_close(fd);
    stop_server();
}

TEST(client_may_send_on_after_its_last_response)
{
    serve_with(&answering, send_on);
}
