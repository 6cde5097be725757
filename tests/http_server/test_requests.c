/* What a handler sees of a request, and which requests it never sees. */
#include "tests/http_server/serving.h"

#include <limits.h>

static unsigned handled;

static void describe(struct gs_http_exchange *exchange, void *data)
{
    char text[4096], path[256] = "?", value[64] = "?";
    const char *field = gs_http_field(exchange, "x-FIRST");
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
    MUST(data == &handled);
    ssize_t n = gs_http_decode_path(exchange->path, path, sizeof path);
    ssize_t value_length = gs_http_query_value(exchange->query, "a b", value, sizeof value);
    int length =
        snprintf(text, sizeof text, "%s|%s|%s|%s|%u|%u|%s|%s|%zd|%s|%zd\n", exchange->method,
                 exchange->path, exchange->query ? exchange->query : "-",
                 exchange->host ? exchange->host : "-", exchange->field_count,
                 exchange->minor_version, field ? field : "-", path, n, value, value_length);
    MUST_EQ(gs_http_respond(exchange, 200, "text/plain", text, (size_t)length), 0);
}

static const struct gs_http_server describing = {.handler = describe, .data = &handled};

SERVE_TEST(handler_gets_method_path_query_host_and_fields, describing)
{
    const char *answer = ask("GET /x/%41/../b?q=1&a+b=c%2Bd&a%20b=2 HTTP/1.1\r\nHost: h:80\r\n"
                             "X-First:  one two \t\r\nX-First: 2\r\nX-Empty:\r\n"
                             "Connection: close\r\n\r\n");
    MUST_CONTAIN(answer, "HTTP/1.1 200 OK\r\nDate: ");
    MUST_CONTAIN(answer, "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: ");
    MUST_CONTAIN(answer, "\r\n\r\nGET|/x/%41/../b|q=1&a+b=c%2Bd&a%20b=2|h:80|5|1|one two|x/b|3|"
                         "c+d|3\n");
    MUST_CONTAIN(ask("PURGE / HTTP/1.0\r\n\r\n"), "\r\n\r\nPURGE|/|-|-|0|0|-||0|?|-2\n");
    answer = ask("GET http://other:8/p?q HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    MUST_CONTAIN(answer, "\r\n\r\nGET|/p|q|other:8|2|1|-|p|1|?|-2\n");
    answer = ask("GET http://other?q HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    MUST_CONTAIN(answer, "\r\n\r\nGET|/|q|other|2|1|-||0|?|-2\n");
    answer = ask("OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    MUST_CONTAIN(answer, "\r\n\r\nOPTIONS|*|-|h|2|1|-|?|-22|?|-2\n");
    answer = ask("GET /../x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    MUST_CONTAIN(answer, "\r\n\r\nGET|/../x|-|h|2|1|-|");
}

SERVE_TEST(pipelined_requests_are_answered_in_order_and_unread_bodies_are_skipped, describing)
{
    const char *answer = ask("\r\n\r\nGET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
                             "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345"
                             "\r\nPOST /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                             "3;x=y\r\nabc\r\n0\r\nT: t\r\n\r\n"
                             "GET /4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    MUST_EQ(count_of(answer, "HTTP/1.1 200 OK\r\n"), 4);
    MUST_EQ(count_of(answer, "Connection: close"), 1);
    const char *second = strstr(answer, "POST|/2|"), *third = strstr(answer, "POST|/3|");
    MUST(second && third && second < third && strstr(third, "GET|/4|"));
}

SERVE_TEST(head_may_arrive_byte_by_byte, describing)
{
    static const char text[] = "GET /slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    static struct heard heard;
    heard.n = 0;
    int fd = connect_client();
    for (size_t i = 0; i < sizeof text - 1; i++) {
        MUST_EQ(gs_send_all(fd, &text[i], 1, GS_NEVER), 1);
        gs_thread_yield();
    }
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST_CONTAIN(heard.bytes, "\r\n\r\nGET|/slow|-|h|2|1|");
    gs_close(fd);
}

/* ---- Refusals: those of the parser, and the handler is not called ---- */

static void refuse(const char *request, const char *status)
{
    char follow[9000];
    unsigned before = __atomic_load_n(&handled, __ATOMIC_RELAXED);
    snprintf(follow, sizeof follow, "%s%s", request, "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n");
    const char *answer = ask(follow);
    MUST_CONTAIN(answer, status);
    MUST_CONTAIN(answer, "Connection: close\r\n");
    MUST_EQ(count_of(answer, "HTTP/1.1 "), 1);
    MUST_EQ(__atomic_load_n(&handled, __ATOMIC_RELAXED), before);
}

THREAD(be_refused)
{
    start_server();
#define POST "POST / HTTP/1.1\r\nHost: h\r\n"
    refuse(POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", " 400 ");
    refuse(POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx", " 400 ");
    refuse(POST "Content-Length: +1\r\n\r\nx", " 400 ");
    refuse(POST "Transfer-Encoding: chunked, gzip\r\n\r\n", " 400 ");
    refuse(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", " 501 ");
    refuse(POST "Transfer-Encoding: identity\r\n\r\n", " 400 ");
    refuse(POST "Transfer-Encoding : chunked\r\n\r\n", " 400 ");
    refuse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", " 400 ");
    refuse("GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", " 400 ");
    refuse("GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", " 400 ");
    refuse("GET / HTTP/1.1\nHost: h\n\n", " 400 ");
    refuse("GET / HTTP/1.1\r\n\r\n", " 400 ");
    refuse("GET / HTTP/2.0\r\nHost: h\r\n\r\n", " 505 ");
    refuse("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", " 501 ");
    refuse(POST "Expect: miracles\r\nContent-Length: 1\r\n\r\nx", " 417 ");
    refuse(POST "Content-Length: 1001\r\n\r\n", " 413 ");
    refuse("GET /0123456789012345678901234567890123456789012345678901234567890123456789 "
           "HTTP/1.1\r\nHost: h\r\n\r\n",
           " 414 ");
    refuse("GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n\r\n", " 431 ");
    refuse("GET / HTTP/1.1\r\nHost: h\r\nA: 01234567890123456789012345678901234567890123456789"
           "01234567890123456789012345678901234567890123456789\r\n\r\n",
           " 431 ");
    stop_server();
}

TEST(ambiguous_malformed_and_large_requests_are_refused)
{
    struct gs_http_server strict = describing;
    strict.max_request_line = 64;
    strict.max_header = 100;
    strict.max_fields = 4;
    strict.max_body = 1000;
    serve_with(&strict, be_refused);
}

static void say_yes(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    MUST_EQ(gs_http_respond(exchange, 200, NULL, "yes", 3), 0);
}

SERVE_TEST(largest_limits_limit_nothing, (struct gs_http_server){.handler = say_yes,
                                                                 .max_connections = UINT_MAX,
                                                                 .max_request_line = SIZE_MAX,
                                                                 .max_header = SIZE_MAX,
                                                                 .max_fields = UINT_MAX,
                                                                 .max_body = UINT64_MAX,
                                                                 .header_timeout_ns = GS_NEVER,
                                                                 .idle_timeout_ns = GS_NEVER,
                                                                 .body_timeout_ns = GS_NEVER,
                                                                 .write_timeout_ns = GS_NEVER,
                                                                 .drain_timeout_ns = GS_NEVER})
{
    static char request[70000];
    static struct heard heard;
    strcpy(request, "GET /?");
    memset(request + 6, 'q', 20000);
    strcpy(request + 20006, " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Long: ");
    memset(request + strlen(request), 'x', 40000);
    heard.n = 0;
    int fd = connect_client();
    say(fd, request);
    gs_thread_sleep(after(GS_MILLISECOND)); /* so that parts of the head are looked at */
    say(fd, "\r\n\r\n");
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST(begins_with(heard.bytes, "HTTP/1.1 200 OK\r\n"));
    gs_close(fd);
}

THREAD(be_too_slow)
{
    static struct heard heard;
    start_server();
    MUST_CONTAIN(ask("GET / HTTP/1.1\r\nHo"), " 408 ");
    heard.n = 0;
    int fd = connect_client(); /* sends nothing */
    MUST_EQ(hear(fd, &heard, NULL), 0);
    MUST_EQ(heard.n, 0);
    gs_close(fd);
    MUST(ends_with(ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), "\n")); /* then is idle */
    stop_server();
}

TEST(slow_heads_and_idle_connections_are_timed_out)
{
    struct gs_http_server hasty = describing;
    hasty.header_timeout_ns = hasty.idle_timeout_ns = 50 * GS_MILLISECOND;
    serve_with(&hasty, be_too_slow);
}

/* ---- Names and values of queries ---- */

static void check_value(const char *query, const char *name, const char *expected)
{
    char value[8] = "";
    ssize_t n = gs_http_query_value(query, name, value, sizeof value);
    CHECK_EQ(n, strlen(expected));
    CHECK_STR(value, expected);
}

TEST(query_values_are_decoded)
{
    check_value("a=1&b=2", "b", "2");
    check_value("a=1&a=2", "a", "1");
    check_value("ab=1&a=2", "a", "2");
    check_value("a=1&ab=2", "ab", "2");
    check_value("%61=%31", "a", "1");
    check_value("a&b=1", "a", "");
    check_value("&&=x&a==y", "a", "=y");
    check_value("a=%C3%A4+%26", "a", "\xc3\xa4 &");
    check_value("%zz=1&a=3", "a", "3");
    check_value("a=1234567", "a", "1234567");
}

TEST(query_values_that_are_absent_malformed_or_too_long_are_errors)
{
    char value[8];
    CHECK_EQ(gs_http_query_value(NULL, "a", value, sizeof value), -ENOENT);
    CHECK_EQ(gs_http_query_value("", "a", value, sizeof value), -ENOENT);
    CHECK_EQ(gs_http_query_value("b=1", "a", value, sizeof value), -ENOENT);
    CHECK_EQ(gs_http_query_value("a=%", "a", value, sizeof value), -EINVAL);
    CHECK_EQ(gs_http_query_value("a=%2", "a", value, sizeof value), -EINVAL);
    CHECK_EQ(gs_http_query_value("a=%00", "a", value, sizeof value), -EINVAL);
    CHECK_EQ(gs_http_query_value("a=12345678", "a", value, sizeof value), -ENAMETOOLONG);
    CHECK_EQ(gs_http_query_value("a=", "a", value, 0), -ENAMETOOLONG);
}
