#include "serve/log/line.h"

#include "tests/serve/log_entry.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static char text[SERVE_LOG_LINE_MAX];
static const char *problem;

/* The line without its end. */
static const char *put(const struct serve_log_format *format, const struct serve_log_line *line)
{
    size_t n = serve_log_put_line(text, format, line);
    CHECK(n && n < sizeof text && text[n - 1] == '\n');
    text[n - 1] = '\0';
    CHECK_EQ(strlen(text), n - 1);
    return text;
}

static struct serve_log_format parse(const char *members, bool has_tls)
{
    struct serve_log_format format;
    CHECK_EQ(serve_log_format_parse("json", members, has_tls, &format, &problem), 0);
    return format;
}

TEST(an_object_has_the_usual_members)
{
    setenv("TZ", "CET-1", 1);
    struct gs_http_log_entry it = entry("GET /a?b HTTP/1.1");
    it.referer = "http://a/b";
    it.host = "example.org:80";
    const struct serve_log_line line = {
        .client = "::1", .entry = &it, .now_ns = 6 * GS_SECOND + 25 * GS_MICROSECOND};
    const struct serve_log_format format = parse(NULL, false);
    CHECK_STR(put(&format, &line),
              "{\"time\":\"2026-11-21T13:00:00+0100\",\"client\":\"::1\","
              "\"host\":\"example.org:80\",\"method\":\"GET\","
              "\"target\":\"/a?b\",\"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes\":6,"
              "\"duration\":1.000025,\"referer\":\"http://a/b\",\"user_agent\":null}");
}

TEST(members_of_tls_are_there_if_they_are_asked_for)
{
    const struct gs_tls_info tls = {.version = "TLSv1.3", .server_name = "a\"b"};
    struct gs_http_log_entry it = entry("GET / HTTP/1.1");
    const struct serve_log_line line = {.client = "::1", .entry = &it, .tls = &tls};
    const struct serve_log_format all = parse(NULL, true);
    CHECK(strstr(put(&all, &line), ",\"user_agent\":null,\"tls_version\":\"TLSv1.3\","
                                   "\"tls_cipher\":null,\"server_name\":\"a\\\"b\"}"));
    const struct serve_log_format one = parse("tls_version", false);
    CHECK_STR(put(&one, &line), "{\"tls_version\":\"TLSv1.3\"}");
}

TEST(members_are_in_the_order_that_was_asked_for)
{
    struct gs_http_log_entry it = entry("GET / HTTP/1.1");
    const struct serve_log_line line = {.client = "::1", .entry = &it};
    const struct serve_log_format format = parse("status,client,bytes", false);
    CHECK_STR(put(&format, &line), "{\"status\":200,\"client\":\"::1\",\"bytes\":6}");
}

TEST(a_malformed_request_is_a_target_alone)
{
    const char *const lines[] = {"nonsense", "GET /", ""};
    const struct serve_log_format format = parse("method,target,protocol", false);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct gs_http_log_entry it = entry(lines[i]);
        char expected[100];
        snprintf(expected, sizeof expected, "{\"method\":null,\"target\":\"%s\",\"protocol\":null}",
                 lines[i]);
        CHECK_STR(put(&format, &(struct serve_log_line){.client = "::1", .entry = &it}), expected);
    }
    struct gs_http_log_entry none = entry(NULL);
    CHECK_STR(put(&format, &(struct serve_log_line){.client = "::1", .entry = &none}),
              "{\"method\":null,\"target\":null,\"protocol\":null}");
}

TEST(every_byte_is_escaped_as_json_wants_it)
{
    char bytes[256];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    struct gs_http_log_entry it = entry("");
    it.request_line = bytes;
    it.request_line_length = sizeof bytes;
    const struct serve_log_format format = parse("target", false);
    const char *line = put(&format, &(struct serve_log_line){.client = "::1", .entry = &it});
    CHECK(strstr(line, "\\u0000\\u0001"));
    CHECK(strstr(line, "\\u001f !\\\"#"));
    CHECK(strstr(line, "[\\\\]"));
    CHECK(strstr(line, "~\\u007f\\u0080"));
    CHECK(strstr(line, "\\u00ff\"}"));
}

TEST(an_object_is_never_longer_than_a_line_may_be)
{
    static char longest[20000];
    memset(longest, '\x01', sizeof longest - 1);
    const struct gs_tls_info tls = {.version = longest, .cipher = longest, .server_name = longest};
    struct gs_http_log_entry it = entry(longest);
    const char *ends[] = {longest, " ", "a ", " a b"};
    it.referer = it.user_agent = it.host = longest;
    it.body_bytes = it.started_ns = UINT64_MAX;
    const struct serve_log_format format = parse(NULL, true);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        memcpy(longest + 100, ends[i], i ? strlen(ends[i]) : 0);
        memcpy(longest + 19000, ends[i], i ? strlen(ends[i]) : 0);
        const struct serve_log_line line = {
            .client = longest, .entry = &it, .tls = &tls, .now_ns = UINT64_MAX};
        const char *object = put(&format, &line);
        CHECK(object[0] == '{' && object[strlen(object) - 1] == '}');
    }
}

static const char *refused(const char *format, const char *members)
{
    struct serve_log_format unused;
    CHECK(serve_log_format_parse(format, members, false, &unused, &problem));
    return problem;
}

TEST(what_is_no_format_is_refused)
{
    CHECK(strstr(refused("xml", NULL), "neither combined nor json"));
    CHECK(strstr(refused("combined", "time"), "needs the format json"));
    CHECK(strstr(refused(NULL, "time"), "needs the format json"));
    CHECK(strstr(refused("json", ""), "none of time"));
    CHECK(strstr(refused("json", "time,time"), "twice"));
    CHECK(strstr(refused("json", "time,"), "none of time"));
    CHECK(strstr(refused("json", "tim"), "none of time"));
}
