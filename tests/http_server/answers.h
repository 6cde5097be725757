/* A handler that responds in each way, by the first letter of the path. */
#ifndef GS_TESTS_HTTP_SERVER_ANSWERS_H
#define GS_TESTS_HTTP_SERVER_ANSWERS_H

#include "tests/http_server/serving.h"

static void check_refused_fields(struct gs_http_exchange *exchange)
{
    static const char *const names[] = {"",
                                        "a b",
                                        "a:",
                                        "Date",
                                        "x\r\ny",
                                        "content-LENGTH",
                                        "Upgrade",
                                        "Content-Type",
                                        "Transfer-Encoding",
                                        "Trailer",
                                        "Connection",
                                        "Keep-Alive",
                                        "Proxy-Connection"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        MUST_EQ(gs_http_set_field(exchange, names[i], "x"), -EINVAL);
    MUST_EQ(gs_http_set_field(exchange, "Location", "/\r\nSet-Cookie: stolen"), -EINVAL);
    MUST_EQ(gs_http_set_field(exchange, "Location", "/\nx"), -EINVAL);
    MUST_EQ(gs_http_set_field(exchange, "Location", "/\rx"), -EINVAL);
    MUST_EQ(gs_http_set_field(exchange, "Location", "\x7f"), -EINVAL);
    MUST_EQ(gs_http_respond(exchange, 200, "text/plain\r\nX: y", NULL, 0), -EINVAL);
    MUST_EQ(gs_http_respond(exchange, 199, NULL, NULL, 0), -EINVAL);
    MUST_EQ(gs_http_respond(exchange, 600, NULL, NULL, 0), -EINVAL);
    MUST_EQ(gs_http_respond(exchange, 204, NULL, "x", 1), -EINVAL);
    static char large[70000];
    memset(large, 'x', sizeof large - 1);
    MUST_EQ(gs_http_set_field(exchange, "X", large), -EMSGSIZE);
}

static void stream(struct gs_http_exchange *exchange, uint64_t length)
{
    MUST_EQ(gs_http_start(exchange, 200, "text/plain", length), 0);
    MUST_EQ(gs_http_set_field(exchange, "Late", "x"), -EALREADY);
    MUST_EQ(gs_http_start(exchange, 200, NULL, 0), -EALREADY);
    MUST_EQ(gs_http_write(exchange, NULL, 0), 0);
    MUST_EQ(gs_http_write(exchange, "0123456789", 10), 0);
    MUST_EQ(gs_http_write(exchange, "abcdefghijklmnopqrstuvwxyz", 26), 0);
    if (length != GS_HTTP_UNKNOWN)
        MUST_EQ(gs_http_write(exchange, "x", 1), -EMSGSIZE);
}

static void answer(struct gs_http_exchange *exchange, void *unused)
{
    (void)unused;
    switch (exchange->path[1]) {
    case 'f':
        MUST_EQ(gs_http_write(exchange, "x", 1), -EINVAL);
        check_refused_fields(exchange);
        MUST_EQ(gs_http_set_field(exchange, "Set-Cookie", "taken=back"), 0);
        MUST_EQ(gs_http_clear_fields(exchange), 0);
        MUST_EQ(gs_http_set_field(exchange, "Set-Cookie", "a=b; Path=/"), 0);
        MUST_EQ(gs_http_set_field(exchange, "Set-Cookie", "c=d"), 0);
        MUST_EQ(gs_http_respond(exchange, 299, "text/plain", "abc", 3), 0);
        MUST_EQ(gs_http_respond(exchange, 200, NULL, NULL, 0), -EALREADY);
        MUST_EQ(gs_http_clear_fields(exchange), -EALREADY);
        MUST_EQ(gs_http_write(exchange, "x", 1), -EINVAL);
        break;
    case 's':
        stream(exchange, GS_HTTP_UNKNOWN);
        break;
    case 'l':
        stream(exchange, 36);
        break;
    case 'e':
        MUST_EQ(gs_http_start(exchange, 200, NULL, GS_HTTP_UNKNOWN), 0);
        break;
    case 'c':
        MUST_EQ(gs_http_respond(exchange, 204, NULL, NULL, 0), 0);
        break;
    case 'm':
        MUST_EQ(gs_http_respond(exchange, 304, NULL, "body", 4), 0);
        break;
    case 'i':
        MUST_EQ(gs_http_start(exchange, 200, NULL, 10), 0);
        MUST_EQ(gs_http_write(exchange, "123", 3), 0);
        break;
    case 'a':
        gs_http_abort(exchange);
        MUST_EQ(gs_http_write(exchange, "x", 1), -EPIPE);
        break;
    default:
        break;
    }
}

#endif
