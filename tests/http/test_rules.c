/* The header fields that the rules of a site give to responses. */
#include "http/rules.h"
#include "tests/http/site_fixture.h"

#include <errno.h>

#define CSP "Content-Security-Policy: default-src 'self'\r\n"

static const struct gs_http_rule rules[] = {
    {"/**", "X-Frame-Options: DENY\r\nCache-Control: no-cache\r\n" CSP},
    {"/assets/**", "cache-control: max-age=31536000, immutable\r\n"},
    {"*.html", "Link: </a>; rel=preload\r\nLink: </b>; rel=preload\r\n"},
    {"/open.html", "X-FRAME-OPTIONS:\r\nLink: </c>\r\n"},
};
static struct gs_http_site site = {.rules = rules, .rule_count = 4};

static void check_fields(const char *path, bool is_file, const char *expected)
{
    char out[GS_HTTP_FIELDS_MAX + 1];
    struct gs_http_text text = {path, strlen(path)};
    size_t n = gs_http_rules_fields(&site, "X-Common: 1\r\n", text, is_file, out);
    out[n] = '\0';
    CHECK_STR(out, expected);
}

TEST(a_later_rule_replaces_the_fields_of_an_earlier_one)
{
    check_fields("a", true,
                 "X-Common: 1\r\nX-Frame-Options: DENY\r\nCache-Control: no-cache\r\n" CSP);
    check_fields("assets/a.css", true,
                 "X-Common: 1\r\nX-Frame-Options: DENY\r\n" CSP
                 "cache-control: max-age=31536000, immutable\r\n");
    check_fields("a.html", true,
                 "X-Common: 1\r\nX-Frame-Options: DENY\r\nCache-Control: no-cache\r\n" CSP
                 "Link: </a>; rel=preload\r\nLink: </b>; rel=preload\r\n");
    check_fields("open.html", true,
                 "X-Common: 1\r\nCache-Control: no-cache\r\n" CSP "Link: </c>\r\n");
}

TEST(a_response_without_a_file_says_nothing_about_caching)
{
    check_fields("assets/none.css", false, "X-Common: 1\r\nX-Frame-Options: DENY\r\n" CSP);
}

TEST(the_most_that_rules_add_is_what_of_each_name_one_rule_adds)
{
    struct gs_http_rules_size max = gs_http_rules_max(&site, "X-Common: 1\r\nLink: </0>\r\n");
    CHECK_EQ(max.bytes, strlen("X-Common: 1\r\nX-Frame-Options: DENY\r\n" CSP
                               "cache-control: max-age=31536000, immutable\r\n"
                               "Link: </a>; rel=preload\r\nLink: </b>; rel=preload\r\n"));
    CHECK_EQ(max.lines, 6);
}

static void check_problem(bool expected, const char *pattern, const char *fields)
{
    struct gs_http_rule rule = {pattern, fields};
    struct gs_http_site one = {.rules = &rule, .rule_count = 1};
    const char *problem = gs_http_site_problem(&one, NULL);
    if (!problem == expected)
        TEST_FAIL("%s", problem ? problem : fields);
}

TEST(fields_that_break_a_head_are_refused)
{
    check_problem(false, "*", "");
    check_problem(false, "*", "A: b\r\nC:\r\n");
    check_problem(true, "", "A: b\r\n");
    check_problem(true, "*", "A: b");
    check_problem(true, "*", "A: b\n");
    check_problem(true, "*", "A: b\r\n\r\n");
    check_problem(true, "*", "A: b\rC: d\r\n");
    check_problem(true, "*", "A : b\r\n");
    check_problem(true, "*", ": b\r\n");
    check_problem(true, "*", "A\r\n");
    check_problem(true, "*", "A: \x01\r\n");
    check_problem(true, "*", "Content-Length: 1\r\n");
    check_problem(true, "*", "A: b\r\nTRANSFER-encoding: chunked\r\n");
    check_problem(true, "*", "Connection: close\r\n");
}

TEST(rules_may_not_add_more_than_a_head_has_room_for)
{
    static char large[2][GS_HTTP_FIELDS_MAX + 1];
    for (int i = 0; i < 2; i++) {
        memset(large[i], 'v', GS_HTTP_FIELDS_MAX / 2 + 10);
        memcpy(large[i], i ? "A:" : "B:", 2);
        strcpy(large[i] + GS_HTTP_FIELDS_MAX / 2 + 8, "\r\n");
    }
    struct gs_http_rule two[] = {{"*", large[0]}, {"*", large[1]}};
    struct gs_http_site one = {.rules = two, .rule_count = 2};
    CHECK(gs_http_site_problem(&one, NULL));
    large[1][0] = 'B';
    CHECK(!gs_http_site_problem(&one, NULL));
}

/* ---- Responses ---- */

static char csp[4001];

static void start(void)
{
    static struct gs_http_rule all[3];
    static char fields[4200];
    memset(csp, 'x', sizeof csp - 1);
    snprintf(fields, sizeof fields, "Content-Security-Policy: %s\r\n", csp);
    all[0] = (struct gs_http_rule){"/**", fields};
    all[1] = (struct gs_http_rule){"/assets/**", "Cache-Control: max-age=1\r\n"};
    all[2] = (struct gs_http_rule){"index.html", "X-Index: 1\r\n"};
    site_start(&(struct gs_http_site){.rules = all, .rule_count = 3});
    drive_mkdir(&drive, "assets");
    drive_mkdir(&drive, "docs");
    drive_write(&drive, "docs/index.html", "index");
    drive_write(&drive, "assets/a.css", "0123456789");
    char large[100000];
    memset(large, 'l', sizeof large);
    drive_write_bytes(&drive, "large", large, sizeof large);
}

static void check_csp(void)
{
    static char field[4200];
    snprintf(field, sizeof field, "Content-Security-Policy: %s", csp);
    CHECK(drive_has_field(&response, field));
}

static void check_response(const char *request, unsigned status)
{
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, !strncmp(request, "HEAD", 4), &response));
    CHECK_EQ(response.status, status);
    check_csp();
}

FIXTURE_TEST(responses_of_all_kinds_have_their_fields, start(), site_stop())
{
    for (int i = 0; i < 2; i++) {
        check_response(GET("assets/a.css"), 200);
        CHECK(drive_has_field(&response, "Cache-Control: max-age=1"));
        CHECK(!memcmp(response.body, "0123456789", 10));
        check_response("HEAD /assets/a.css HTTP/1.1\r\nHost: a\r\n\r\n", 200);
        CHECK(drive_has_field(&response, "Cache-Control: max-age=1"));
        check_response(GET("docs/"), 200);
        CHECK(drive_has_field(&response, "X-Index: 1"));
        CHECK(!memmem(response.head, response.head_length, "Cache-Control", 13));
        check_response(GET("large"), 200);
        CHECK_EQ(response.body_length, 100000);
        check_response(GET("assets/none.css"), 404);
        CHECK(!memmem(response.head, response.head_length, "Cache-Control", 13));
        check_response(GET("docs"), 301);
        check_response("POST / HTTP/1.1\r\nHost: a\r\n\r\n", 405);
        check_response("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200);
        check_response("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 304);
        CHECK(drive_has_field(&response, "Cache-Control: max-age=1"));
        check_response("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nRange: bytes=2-4\r\n\r\n", 206);
        CHECK(!memcmp(response.body, "234", 3));
        check_response("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,4-5\r\n\r\n",
                       206);
        check_response("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nRange: bytes=99-\r\n\r\n", 416);
        check_response("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n", 412);
    }
    check_response("GET /assets/a.css HTTP/1.0\r\n\r\n", 200);
    drive_reopen(&drive);
    check_response("GET  HTTP/1.1\r\n\r\n", 400);
}

/* Their heads have no room in one output. */
FIXTURE_TEST(pipelined_requests_have_room_for_their_fields, start(), site_stop())
{
    char requests[2000] = "";
    for (int i = 0; i < 20; i++)
        strcat(requests, i % 3 ? GET("none") : GET("assets/a.css"));
    drive_send(&drive, requests);
    for (int i = 0; i < 20; i++) {
        CHECK(drive_next_response(&drive, false, &response));
        CHECK_EQ(response.status, i % 3 ? 404 : 200);
        check_csp();
    }
}
