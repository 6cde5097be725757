/* Pages in place of what is missing, or refused. */
#include "tests/http/site_fixture.h"

#include <gossamer/sys.h>
#include <sys/syscall.h>

static const struct gs_http_rule rules[] = {
    {"/**", "X-All: 1\r\n"},
    {"/assets/**", "Cache-Control: immutable\r\n"},
    {"/index.html", "Cache-Control: no-cache\r\n"},
    {"/errors/*", "X-Error: 1\r\nCache-Control: max-age=9\r\nExpires: 0\r\n"},
};
static const struct gs_http_error_page error_pages[] = {
    {404, "errors/404.html"}, {403, "errors/403.txt"},  {405, "errors/405.html"},
    {501, "errors/none"},     {503, "errors/503.html"},
};
static struct gs_http_site site = {
    .rules = rules,
    .rule_count = 4,
    .error_pages = error_pages,
    .error_page_count = 5,
};
static char large[200000];

static void start(const char *fallback)
{
    site.fallback = fallback;
    site_start(&site);
    drive_mkdir(&drive, "errors");
    drive_mkdir(&drive, "assets");
    drive_write(&drive, "errors/404.html", "not here");
    memset(large, 'l', sizeof large);
    drive_write_bytes(&drive, "errors/403.txt", large, sizeof large);
    drive_write(&drive, "errors/405.html", "no such method");
    drive_write(&drive, "errors/503.html", "later");
    drive_write(&drive, "index.html", "application");
    drive_write(&drive, "assets/a.css", "css");
}

static void check_page(const char *request, unsigned status, const char *body)
{
    check_status(request, status);
    if (response.body_length != strlen(body) || memcmp(response.body, body, response.body_length))
        TEST_FAIL("not %s but %.*s", body, (int)response.body_length, response.body);
    CHECK(drive_has_field(&response, "X-All: 1"));
}

static bool has(const char *text)
{
    return memmem(response.head, response.head_length, text, strlen(text));
}

FIXTURE_TEST(an_error_page_keeps_the_status, start(NULL), site_stop())
{
    for (int i = 0; i < 4; i++) {
        check_page(GET("assets/none.css"), 404, "not here");
        CHECK(drive_has_field(&response, "X-Error: 1"));
        CHECK(drive_has_field(&response, "Content-Type: text/html; charset=utf-8"));
        CHECK(!has("Cache-Control") && !has("ETag") && !has("Accept-Ranges") && !has("Last-"));
        CHECK(!has("Expires"));
        check_page(GET(".hidden"), 404, "not here");
        check_page("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", 405, "no such method");
        CHECK(drive_has_field(&response, "Allow: GET, HEAD, OPTIONS"));
        check_page("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 405,
                   "no such method");
        check_page("X / HTTP/1.1\r\nHost: a\r\n\r\n", 501, "501 Not Implemented\n");
        check_page(GET("assets/%2f"), 400, "400 Bad Request\n");
        check_status(GET("assets/"), 403);
        CHECK_EQ(response.body_length, sizeof large);
        CHECK(!memcmp(response.body, large, sizeof large));
        CHECK(drive_has_field(&response, "Content-Type: text/plain; charset=utf-8"));
        drive.now_ns += i == 1 ? GS_SECOND : 0;
    }
    CHECK_EQ(drive.counts.client_errors, 4 * 6);
}

/* A cache would keep the error for as long as the file. */
FIXTURE_TEST(an_error_is_not_kept_as_its_file_is, start(NULL), site_stop())
{
    for (int i = 0; i < 2; i++) {
        check_page("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n", 412,
                   "412 Precondition Failed\n");
        CHECK(!has("Cache-Control"));
        check_page("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nRange: bytes=9-\r\n\r\n", 416, "");
        CHECK(!has("Cache-Control") && has("ETag"));
        check_page("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nRange: bytes=1-\r\n\r\n", 206, "ss");
        CHECK(drive_has_field(&response, "Cache-Control: immutable"));
        check_page("GET /assets/a.css HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 304, "");
        CHECK(drive_has_field(&response, "Cache-Control: immutable"));
    }
}

FIXTURE_TEST(an_error_page_takes_no_conditions_and_no_ranges, start(NULL), site_stop())
{
    check_page("GET /none HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 404, "not here");
    check_page("GET /none HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n", 404, "not here");
    check_page("GET /none HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n", 404, "not here");
    drive_send(&drive, "HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(drive_next_response(&drive, true, &response));
    CHECK_EQ(response.status, 404);
    CHECK(drive_has_field(&response, "Content-Length: 8"));
    check_page("GET /none HTTP/1.0\r\n\r\n", 404, "not here");
    CHECK(drive_has_field(&response, "Connection: close"));
}

FIXTURE_TEST(an_error_page_is_a_file_as_well, start(NULL), site_stop())
{
    check_page(GET("none"), 404, "not here");
    check_page(GET("errors/404.html"), 200, "not here");
    CHECK(has("ETag"));
    check_page(GET("none"), 404, "not here");
    drive_write(&drive, "errors/404.html", "changed");
    drive.now_ns += GS_SECOND;
    check_page(GET("none"), 404, "changed");
    CHECK_EQ(unlink(drive_path(&drive, "errors/404.html")), 0);
    drive.now_ns += GS_SECOND;
    check_page(GET("none"), 404, "404 Not Found\n");
}

static bool are_descriptors_missing;

static long fail_open(long number, void *data)
{
    (void)data;
    return are_descriptors_missing && number == SYS_openat2 ? -EMFILE : 0;
}

FIXTURE_TEST(what_is_cached_stands_for_what_cannot_be_opened, start(NULL), site_stop())
{
    gs_sys_set_fault(fail_open, NULL);
    are_descriptors_missing = true;
    check_page(GET("assets/a.css"), 503, "503 Service Unavailable\n");
    are_descriptors_missing = false;
    check_page(GET("none"), 404, "not here");
    are_descriptors_missing = true;
    drive.now_ns += 10 * GS_SECOND;
    check_page(GET(".hidden"), 404, "not here");
    check_page(GET("none"), 503, "503 Service Unavailable\n");
    CHECK(drive_has_field(&response, "Retry-After: 1"));
    gs_sys_set_fault(NULL, NULL);
    are_descriptors_missing = false;
}

FIXTURE_TEST(the_fallback_is_sent_for_what_is_missing, start("index.html"), site_stop())
{
    for (int i = 0; i < 4; i++) {
        check_page(GET("users/1"), 200, "application");
        CHECK(drive_has_field(&response, "Cache-Control: no-cache"));
        CHECK(has("ETag"));
        check_page(GET("assets/none.css"), 200, "application");
        CHECK(drive_has_field(&response, "Cache-Control: no-cache"));
        check_page(GET("assets/"), 200, "application");
        check_page(GET("assets/a.css"), 200, "css");
        CHECK(drive_has_field(&response, "Cache-Control: immutable"));
        check_page(GET(".hidden"), 404, "not here");
        check_page("GET /x HTTP/1.1\r\nHost: a\r\nRange: bytes=0-2\r\n\r\n", 206, "app");
        check_page("GET /x HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 304, "");
        check_status(GET("assets"), 301);
        drive.now_ns += i == 1 ? GS_SECOND : 0;
    }
    CHECK_EQ(drive.service->cache.count, 3); /* not one for each path */
}

FIXTURE_TEST(a_missing_fallback_is_an_error, start("none.html"), site_stop())
{
    check_page(GET("users/1"), 404, "not here");
}

/* Each part of the input is handled when it arrives. */
FIXTURE_TEST(requests_behind_one_for_an_error_page_wait_for_it, start(NULL), site_stop())
{
    for (size_t chunk = 0; chunk < 30; chunk += 7) {
        drive.input_chunk = chunk;
        drive_send(&drive, GET("assets/a.css") GET("none") "POST / HTTP/1.1\r\nHost: a\r\n\r\n" GET(
                               "none") GET("assets/a.css"));
        static const unsigned expected[] = {200, 404, 405, 404, 200};
        for (int i = 0; i < 5; i++) {
            CHECK(drive_next_response(&drive, false, &response));
            CHECK_EQ(response.status, expected[i]);
        }
        drive.now_ns += 3 * GS_SECOND;
    }
}

static unsigned refused, refused_files;

static void count_refused(unsigned status, enum gs_http_refusal reason, const char *text, size_t n,
                          void *data)
{
    (void)status, (void)data;
    refused++;
    refused_files += reason == GS_HTTP_REFUSED_NOT_FOUND && n == 4 && !memcmp(text, "none", 4);
}

FIXTURE_TEST(a_refusal_is_reported_once, start(NULL), site_stop())
{
    drive.service->options.refused = count_refused;
    for (int i = 0; i < 3; i++)
        check_page(GET("none"), 404, "not here");
    CHECK_EQ(refused_files, 3);
    check_page(GET(".hidden"), 404, "not here");
    CHECK_EQ(refused, 4);
}

static void check_problem(bool expected, unsigned status, const char *path)
{
    struct gs_http_error_page page = {status, path};
    struct gs_http_site one = {.error_pages = &page, .error_page_count = 1};
    CHECK_EQ(gs_http_site_problem(&one, NULL) != NULL, expected);
}

TEST(pages_are_files_below_the_root)
{
    check_problem(false, 404, "a");
    check_problem(false, 503, "errors/.503.html");
    check_problem(true, 404, "");
    check_problem(true, 404, "/a");
    check_problem(true, 404, "a/");
    check_problem(true, 404, "../a");
    check_problem(true, 404, "a//b");
    check_problem(true, 404, "*.html");
    check_problem(true, 200, "a");
    check_problem(true, 400, "a");
    check_problem(true, 308, "a");
}
