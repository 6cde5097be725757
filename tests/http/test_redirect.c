/* Redirects by path, clean URLs, and what is redirected to https. */
#include "http/redirect.h"
#include "tests/http/site_fixture.h"

static void check_location(const char *pattern, const char *target, const char *path,
                           const char *query, const char *expected)
{
    struct gs_http_redirect redirect = {pattern, target, 301};
    struct gs_http_site one = {.redirects = &redirect, .redirect_count = 1};
    struct gs_http_text path_text = {path, strlen(path)};
    struct gs_http_text query_text = {query, query ? strlen(query) : 0};
    char out[GS_HTTP_LOCATION_MAX + 1];
    const char *problem = gs_http_site_redirect_problem(&redirect);
    if (problem)
        TEST_FAIL("%s %s", target, problem);
    CHECK(gs_http_redirect_find(&one, path_text) == &redirect);
    out[gs_http_redirect_location(&redirect, path_text, query_text, out)] = '\0';
    CHECK_STR(out, expected);
}

TEST(a_target_takes_what_wildcards_stand_for)
{
    check_location("/old", "/new", "old", NULL, "/new");
    check_location("/old/**", "/new/$1", "old/a/b", NULL, "/new/a/b");
    check_location("/old/**", "/new/$1", "old/", NULL, "/new/");
    check_location("/blog/*/*.php", "/$2/$1/", "blog/2020/x.php", NULL, "/x/2020/");
    check_location("*.htm", "/p/$1?page=$1#$1", "a/b.htm", "q", "/p/b?page=b#b");
    check_location("/**", "https://example.org/$1", "a/b", NULL, "https://example.org/a/b");
    check_location("/a", "http://[::1]:80", "a", NULL, "http://[::1]:80");
    check_location("/a", "/$$1", "a", NULL, "/$1");
}

TEST(the_query_is_kept_unless_the_target_has_one)
{
    check_location("/a", "/b", "a", "x=1&y=%20", "/b?x=1&y=%20");
    check_location("/a", "/b", "a", "", "/b?");
    check_location("/a", "/b?", "a", "x=1", "/b?");
    check_location("/a", "/b?z", "a", "x=1", "/b?z");
    check_location("/a", "/b#f", "a", "x=1", "/b#f");
    check_location("/a", "https://h", "a", "//x", "https://h?//x");
    check_location("/a", "/b", "a", "\xc3\xbc\\", "/b?%C3%BC%5C");
}

TEST(a_client_cannot_choose_the_host_or_end_the_field)
{
    check_location("/**", "/$1", "evil.example/x", NULL, "/evil.example/x");
    check_location("/**/to/*", "/$1/$2", "to/evil.example", NULL, "/evil.example");
    check_location("/*", "/$1", "\\evil.example", NULL, "/%5Cevil.example");
    check_location("/*", "/$1", "a?b#c%d\"<> \x7f", NULL, "/a%3Fb%23c%25d%22%3C%3E%20%7F");
    check_location("/*", "/$1", "a\r\nSet-Cookie: b", NULL, "/a%0D%0ASet-Cookie:%20b");
    check_location("/*", "/$1", "\xc3\xbc", NULL, "/%C3%BC");
    check_location("/*", "/x?$1", "a?b&c", NULL, "/x?a%3Fb&c");
    check_location("/**", "https://example.org/$1", "", NULL, "https://example.org/");
}

static void check_problem(bool expected, const char *pattern, const char *target, unsigned status)
{
    struct gs_http_redirect redirect = {pattern, target, status};
    if (!gs_http_site_redirect_problem(&redirect) == expected)
        TEST_FAIL("%s is %s", target, expected ? "taken" : "refused");
}

TEST(targets_that_lead_to_a_host_of_the_client_are_refused)
{
    check_problem(false, "/**", "/$1", 301);
    check_problem(false, "/a", "/", 308);
    check_problem(true, "/**", "//$1", 301);
    check_problem(true, "/**", "$1", 301);
    check_problem(true, "/**", "", 301);
    check_problem(true, "/**", "https://$1", 301);
    check_problem(true, "/**", "https://example.org$1", 301);
    check_problem(true, "/**", "https://$1.example.org/", 301);
    check_problem(true, "/a", "https://", 301);
    check_problem(true, "/a", "https://user@host/", 301);
    check_problem(true, "/a", "javascript:alert(1)", 301);
    check_problem(true, "/a", "/\\evil", 301);
    check_problem(true, "/a", "/b\r\nX: y", 301);
    check_problem(true, "/a", "/b c", 301);
    check_problem(true, "/a", "/\xc3\xbc", 301);
    check_problem(true, "/*", "/$2", 301);
    check_problem(true, "/*", "/$0", 301);
    check_problem(true, "/*", "/$", 301);
    check_problem(true, "", "/", 301);
    check_problem(true, "/a", "/", 200);
    check_problem(true, "/a", "/", 303);
}

/* ---- Responses ---- */

static const struct gs_http_redirect redirects[] = {
    {"/old/**", "/new/$1", 301},     {"/temporary", "https://example.org/", 307},
    {"/docs/**", "/manual/$1", 302}, {"*.php", "/$1", 308},
    {"/long/*", "/$1$1$1", 301},
};
static const struct gs_http_rule rules[] = {{"/**", "X-All: 1\r\nCache-Control: no-cache\r\n"}};
static const struct gs_http_error_page error_pages[] = {{404, "404.html"}};
static struct gs_http_site site = {
    .rules = rules,
    .rule_count = 1,
    .redirects = redirects,
    .redirect_count = 5,
    .error_pages = error_pages,
    .error_page_count = 1,
};

static void start(bool clean_urls)
{
    site.clean_urls = clean_urls;
    site_start(&site);
    drive_mkdir(&drive, "docs");
    drive_mkdir(&drive, "about");
    drive_mkdir(&drive, "folder");
    drive_mkdir(&drive, "odd.html");
    drive_write(&drive, "docs/index.html", "docs");
    drive_write(&drive, "folder/index.html", "folder");
    drive_write(&drive, "about.html", "about us");
    drive_write(&drive, "LICENSE", "license");
    drive_write(&drive, "v1.2.html", "version");
    drive_write(&drive, "index.html", "root");
    drive_write(&drive, "404.html", "not here");
    drive_write(&drive, "a.css", "css");
}

static void check_redirect(const char *request, unsigned status, const char *location)
{
    char field[200];
    check_status(request, status);
    snprintf(field, sizeof field, "Location: %s", location);
    if (!drive_has_field(&response, field))
        TEST_FAIL("no %s but %.*s", field, (int)response.head_length, response.head);
    CHECK(drive_has_field(&response, "X-All: 1"));
}

FIXTURE_TEST(redirects_precede_files, start(false), site_stop())
{
    for (int i = 0; i < 2; i++) {
        check_redirect(GET("old/a%20b/?x"), 301, "/new/a%20b/?x");
        check_redirect(GET("temporary"), 307, "https://example.org/");
        check_redirect(GET("docs/"), 302, "/manual/");
        check_redirect(GET("docs/index.html"), 302, "/manual/index.html");
        check_redirect(GET("a/b.php?q=1"), 308, "/b?q=1");
        check_redirect(GET("docs"), 301, "/docs/");
        check_body(GET("a.css"), "css");
        check_body(GET("about.html"), "about us");
        check_status("POST /temporary HTTP/1.1\r\nHost: a\r\n\r\n", 405);
        check_status(GET("none"), 404);
    }
    drive_send(&drive, "HEAD /temporary HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(drive_next_response(&drive, true, &response));
    CHECK_EQ(response.status, 307);
}

FIXTURE_TEST(a_location_that_is_too_long_is_not_sent, start(false), site_stop())
{
    char request[3000] = "GET /long/";
    for (int i = 0; i < 2000; i++)
        strcat(request, "x");
    strcat(request, " HTTP/1.1\r\nHost: a\r\n\r\n");
    check_status(request, 414);
    CHECK(!memmem(response.head, response.head_length, "Location", 8));
    check_redirect(GET("long/abc"), 301, "/abcabcabc");
}

/* Pipelined, they wait for an output of their own. */
FIXTURE_TEST(many_redirects_at_once_have_room, start(false), site_stop())
{
    drive_send(&drive, GET("a.css") GET("old/1") GET("old/2") GET("a.css") GET("old/3"));
    static const unsigned expected[] = {200, 301, 301, 200, 301};
    for (int i = 0; i < 5; i++) {
        CHECK(drive_next_response(&drive, false, &response));
        CHECK_EQ(response.status, expected[i]);
    }
}

FIXTURE_TEST(a_clean_url_is_that_of_a_file, start(true), site_stop())
{
    for (int i = 0; i < 4; i++) {
        check_body(GET("about"), "about us");
        CHECK(drive_has_field(&response, "Content-Type: text/html; charset=utf-8"));
        check_body(GET("v1.2"), "version");
        check_body(GET("LICENSE"), "license");
        check_body(GET("a.css"), "css");
        check_body(GET(""), "root");
        check_body(GET("folder/"), "folder");
        check_redirect(GET("folder"), 301, "/folder/");
        check_redirect(GET("about.html?x=1"), 301, "/about?x=1");
        check_redirect(GET("about/index.html"), 301, "/about");
        check_redirect(GET("index.html"), 301, "/");
        check_redirect(GET("a/b.html"), 301, "/a/b");
        check_redirect(GET("xindex.html"), 301, "/xindex");
        check_status(GET("odd"), 404);
        CHECK(!memcmp(response.body, "not here", 8));
        check_status(GET("none"), 404);
        CHECK(!memcmp(response.body, "not here", 8));
        check_redirect(GET("404.html"), 301, "/404");
        drive.now_ns += i == 1 ? GS_SECOND : 0;
    }
}

FIXTURE_TEST(a_file_whose_name_becomes_a_clean_url_is_found, start(true), site_stop())
{
    check_body(GET("LICENSE"), "license");
    drive_write(&drive, "LICENSE.html", "new license");
    drive.now_ns += GS_SECOND;
    check_body(GET("LICENSE"), "new license");
    CHECK_EQ(unlink(drive_path(&drive, "LICENSE.html")), 0);
    drive.now_ns += GS_SECOND;
    check_body(GET("LICENSE"), "license");
}

/* Only connections without TLS are, and only where the site wants it. */
TEST(a_site_may_be_redirected_to_https)
{
    static const char *const host = "plain";
    struct gs_http_site two[2] = {{.https_port = 8443}, {.hosts = &host, .host_count = 1}};
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.sites = two;
    options.site_count = 2;
    drive_start(&drive, &options);
    two[0].root_fd = two[1].root_fd = drive.root_fd;
    drive_write(&drive, "f", "file");
    check_body(GET("f"), "file");
    drive_reopen(&drive);
    gs_http_conn_redirect(&drive.conn);
    check_status("GET /f?q HTTP/1.1\r\nHost: A:80\r\n\r\n", 308);
    CHECK(drive_has_field(&response, "Location: https://A:8443/f?q"));
    check_body("GET /f HTTP/1.1\r\nHost: plain\r\n\r\n", "file");
    CHECK_EQ(drive_stop(&drive), 0);
}
