#include "http/request.h"
#include "tests/test.h"

static struct gs_http_request request;

static unsigned parse(const char *line)
{
    return gs_http_field_parse((struct gs_http_text){line, strlen(line)}, &request);
}

static void check_value(const char *line, const struct gs_http_text *field, const char *value)
{
    request = (struct gs_http_request){0};
    CHECK_EQ(parse(line), 0);
    if (!gs_http_text_is(*field, value) || !field->bytes)
        TEST_FAIL("not kept: %s", line);
}

TEST(known_field_is_stored_without_the_space_around_it)
{
    check_value("Host: a", &request.host, "a");
    check_value("hOST:a", &request.host, "a");
    check_value("RANGE:\t bytes=0- \t", &request.range, "bytes=0-");
    check_value("Expect: 100-continue", &request.expect, "100-continue");
    check_value("referer: a b\tc", &request.referer, "a b\tc");
    check_value("If-Range: \"x\"", &request.if_range, "\"x\"");
    check_value("If-Match: *", &request.if_match, "*");
    check_value("If-None-Match:", &request.if_none_match, "");
    check_value("Connection: close", &request.connection, "close");
    check_value("User-Agent: \xe9", &request.user_agent, "\xe9");
    check_value("If-Modified-Since: x", &request.if_modified_since, "x");
    check_value("If-Unmodified-Since: x", &request.if_unmodified_since, "x");
    check_value("Transfer-Encoding: chunked", &request.transfer_encoding, "chunked");
    request = (struct gs_http_request){0};
    CHECK_EQ(parse("Content-Length: 7"), 0);
    CHECK(request.has_length && request.content_length == 7);
}

TEST(unknown_fields_are_ignored)
{
    static const char *const lines[] = {"Hosts: a b", "Hos: ,", "X: y", "Ranges: x",
                                        "!#$%&'*+-.^_`|~0: z"};
    struct gs_http_request none = {0};
    request = none;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK_EQ(parse(lines[i]), 0);
    CHECK(!memcmp(&request, &none, sizeof none));
}

TEST(fields_that_are_stored_are_known_by_their_names)
{
    static const char *const names[] = {"host",
                                        "range",
                                        "expect",
                                        "referer",
                                        "if-range",
                                        "if-match",
                                        "if-none-match",
                                        "connection",
                                        "user-agent",
                                        "if-modified-since",
                                        "content-length",
                                        "if-unmodified-since",
                                        "cookie",
                                        "transfer-encoding",
                                        "accept",
                                        "authorization",
                                        "accept-encoding",
                                        "priority",
                                        "te",
                                        "x",
                                        "sec-ch-ua",
                                        "dnt",
                                        "cache-control",
                                        "sec-fetch-site",
                                        "upgrade-insecure-requests"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[64];
        const struct gs_http_request none = {0};
        request = none;
        snprintf(line, sizeof line, "%s: 1", names[i]);
        CHECK_EQ(parse(line), 0);
        bool is_stored = memcmp(&request, &none, sizeof none) != 0;
        bool is_looked_for = !strcmp(names[i], "accept") || !strcmp(names[i], "authorization");
        if (gs_http_request_stores((struct gs_http_text){names[i], strlen(names[i])}) !=
            (is_stored || is_looked_for))
            TEST_FAIL("not as the parser: %s", names[i]);
    }
}

TEST(malformed_lines_are_refused)
{
    static const char *const lines[] = {"",      ":",     ": x",    "a",        "a b: c",
                                        "a : b", " a: b", "\ta: b", "a\xff: b", "[a]: b"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (parse(lines[i]) != 400)
            TEST_FAIL("not refused: %s", lines[i]);
}

TEST(repeated_unique_fields_are_refused)
{
    static const char *const lines[] = {"Host: a", "Content-Length: 1",
                                        "Transfer-Encoding: chunked", "If-Range: x"};
    request = (struct gs_http_request){0};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        CHECK_EQ(parse(lines[i]), 0);
        CHECK_EQ(parse(lines[i]), 400);
    }
}

TEST(repeated_range_fields_are_ignored)
{
    request = (struct gs_http_request){0};
    CHECK_EQ(parse("Range: bytes=0-1"), 0);
    CHECK_EQ(parse("Range: bytes=0-1"), 0);
    CHECK(request.range.bytes && !request.range.n);
}

TEST(first_line_of_a_list_is_stored)
{
    request = (struct gs_http_request){0};
    CHECK_EQ(parse("If-Match: \"a\""), 0);
    CHECK_EQ(parse("If-Match: \"b\""), 0);
    CHECK(gs_http_text_is(request.if_match, "\"a\""));
}

TEST(every_line_of_a_list_is_found)
{
    static const char head[] =
        "If-Match: a\r\nX: If-Match\r\nif-MATCH:b\r\nIf-Match2: c\r\nIf-Match:\r\n\r\n";
    struct gs_http_text fields = {head, sizeof head - 1}, value;
    CHECK(gs_http_field_next(&fields, "if-match", &value) && gs_http_text_is(value, "a"));
    CHECK(gs_http_field_next(&fields, "if-match", &value) && gs_http_text_is(value, "b"));
    CHECK(gs_http_field_next(&fields, "if-match", &value) && gs_http_text_is(value, ""));
    CHECK(!gs_http_field_next(&fields, "if-match", &value));
    CHECK(!gs_http_field_next(&fields, "if-match", &value));
}
