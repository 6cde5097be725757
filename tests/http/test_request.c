#include "http/request.h"
#include "tests/test.h"

static struct gs_http_options options;
static struct gs_http_request request;

static unsigned parse(const char *head)
{
    gs_http_options_default(&options);
    return gs_http_request_parse((struct gs_http_text){head, strlen(head)}, &options, &request);
}

#define LINE "GET /a?b HTTP/1.1\r\n"
#define HOST "Host: h\r\n"

TEST(request_is_parsed)
{
    CHECK_EQ(parse("HEAD /a?b HTTP/1.1\r\nHost: h:80\r\nUSER-AGENT:  me \t\r\nReferer: r\r\n\r\n"),
             0);
    CHECK_EQ(request.method, GS_HTTP_HEAD);
    CHECK(request.minor && request.keep_alive);
    CHECK(!request.chunked && !request.has_length && !request.expects_continue);
    CHECK(gs_http_text_is(request.line, "HEAD /a?b HTTP/1.1"));
    CHECK(gs_http_text_is(request.target.path, "/a"));
    CHECK(gs_http_text_is(request.target.query, "b"));
    CHECK(gs_http_text_is(request.host, "h:80"));
    CHECK(gs_http_text_is(request.user_agent, "me"));
    CHECK(gs_http_text_is(request.referer, "r"));
    CHECK(!request.range.bytes && !request.connection.bytes);
    CHECK(request.fields.n == strlen("Host: h:80\r\nUSER-AGENT:  me \t\r\nReferer: r\r\n\r\n"));
}

TEST(methods_are_case_sensitive)
{
    static const struct {
        const char *name;
        enum gs_http_method method;
    } methods[] = {
        {"GET", GS_HTTP_GET},
        {"HEAD", GS_HTTP_HEAD},
        {"OPTIONS", GS_HTTP_OPTIONS},
        {"POST", GS_HTTP_KNOWN_METHOD},
        {"PUT", GS_HTTP_KNOWN_METHOD},
        {"DELETE", GS_HTTP_KNOWN_METHOD},
        {"PATCH", GS_HTTP_KNOWN_METHOD},
        {"TRACE", GS_HTTP_KNOWN_METHOD},
        {"get", GS_HTTP_OTHER_METHOD},
        {"GE", GS_HTTP_OTHER_METHOD},
        {"Options", GS_HTTP_OTHER_METHOD},
    };
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char head[64];
        snprintf(head, sizeof head, "%s / HTTP/1.1\r\nHost: h\r\n\r\n", methods[i].name);
        CHECK_EQ(parse(head), 0);
        CHECK_EQ(request.method, methods[i].method);
    }
}

TEST(keep_alive_defaults_depend_on_the_version)
{
    CHECK_EQ(parse("GET / HTTP/1.0\r\n\r\n"), 0);
    CHECK(!request.minor && !request.keep_alive);
    CHECK_EQ(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 0);
    CHECK(request.keep_alive);
    CHECK_EQ(parse("GET / HTTP/1.7\r\nHost: h\r\n\r\n"), 0);
    CHECK(request.minor && request.keep_alive);
    CHECK_EQ(parse("GET / HTTP/1.1\r\n\r\n"), 400);
    CHECK_EQ(parse("GET / HTTP/2.0\r\n\r\n"), 505);
    CHECK_EQ(parse("GET / HTTP/1.1 \r\n\r\n"), 400);
}

TEST(forms_of_target_are_checked_against_the_method)
{
    CHECK_EQ(parse("OPTIONS * HTTP/1.1\r\n" HOST "\r\n"), 0);
    CHECK_EQ(request.target.form, GS_HTTP_TARGET_ASTERISK);
    CHECK_EQ(parse("POST * HTTP/1.1\r\n" HOST "\r\n"), 400);
    CHECK_EQ(parse("CONNECT h:1 HTTP/1.1\r\n" HOST "\r\n"), 0);
    CHECK_EQ(request.target.form, GS_HTTP_TARGET_AUTHORITY);
    CHECK_EQ(parse("OPTIONS h:1 HTTP/1.1\r\n" HOST "\r\n"), 400);
    CHECK_EQ(parse("CONNECT http://h/ HTTP/1.1\r\n" HOST "\r\n"), 400);
    CHECK_EQ(parse("BREW http://h/x HTTP/1.1\r\n" HOST "\r\n"), 0);
    CHECK(gs_http_text_is(request.target.path, "/x"));
    CHECK_EQ(parse("BREW https://h/x HTTP/1.1\r\n" HOST "\r\n"), 421);
}

TEST(length_and_coding_determine_the_framing)
{
    CHECK_EQ(parse(LINE HOST "Content-Length: 0042\r\n\r\n"), 0);
    CHECK(request.has_length);
    CHECK_EQ(request.content_length, 42);
    CHECK_EQ(parse(LINE HOST "Content-Length: 18446744073709551615\r\n\r\n"), 0);
    CHECK(request.content_length == UINT64_MAX);
    CHECK_EQ(parse(LINE HOST "Transfer-Encoding: , Chunked ,\r\n\r\n"), 0);
    CHECK(request.chunked && !request.has_length);
    CHECK_EQ(parse(LINE HOST "transfer-encoding: gzip, chunked\r\n\r\n"), 501);
    CHECK_EQ(parse(LINE HOST "Transfer-Encoding: chunked, gzip\r\n\r\n"), 400);
    CHECK_EQ(parse(LINE HOST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"), 400);
}

TEST(connection_options_are_read_from_every_line)
{
    CHECK_EQ(parse(LINE HOST "Connection: a, b\r\nConnection:\r\nConnection: c , Close\r\n\r\n"),
             0);
    CHECK(!request.keep_alive);
    CHECK_EQ(parse(LINE HOST "Connection: closed, xclose\r\nX-Connection: close\r\n\r\n"), 0);
    CHECK(request.keep_alive);
    CHECK_EQ(parse(LINE HOST "Connection: \"x, close\r\n\r\n"), 0);
    CHECK(!request.keep_alive);
}

TEST(unknown_expectation_fails)
{
    CHECK_EQ(parse(LINE HOST "Expect: 100-CONTINUE\r\n\r\n"), 0);
    CHECK(request.expects_continue);
    CHECK_EQ(parse(LINE HOST "Expect: 100-continue, 100-continue\r\nExpect:\r\n\r\n"), 0);
    CHECK(request.expects_continue);
    CHECK_EQ(parse(LINE HOST "Expect: ,\r\n\r\n"), 0);
    CHECK(!request.expects_continue);
    CHECK_EQ(parse(LINE HOST "Expect: 200-ok\r\n\r\n"), 417);
    CHECK_EQ(parse("GET / HTTP/1.0\r\nExpect: 200-ok\r\n\r\n"), 0);
    CHECK(!request.expects_continue);
}

TEST(refused_request_has_the_values_parsed_before_the_error)
{
    CHECK_EQ(parse("HEAD /x HTTP/1.1\r\n\r\n"), 400);
    CHECK_EQ(request.method, GS_HTTP_HEAD);
    CHECK(gs_http_text_is(request.line, "HEAD /x HTTP/1.1"));
    CHECK_EQ(parse("H@AD /x HTTP/1.1\r\n\r\n"), 400);
    CHECK_EQ(request.method, GS_HTTP_OTHER_METHOD);
}
