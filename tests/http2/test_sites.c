/* Sites over HTTP/2: each request of a connection may be for another one. */
#include "http/site.h"
#include "tests/http2/client.h"
#include "tests/test.h"

static struct client client;

static const struct gs_http_rule rules[] = {{"/**", "X-All: 1\r\n"}, {"*.css", "X-Css: 1\r\n"}};
static const struct gs_http_error_page error_pages[] = {{404, "404.html"}, {405, "404.html"}};
static const struct gs_http_redirect redirects[] = {{"/old/**", "/new/$1", 308}};
static const char *const origin = "https://one.example";
static const struct gs_http_cors cors = {.origins = &origin, .origin_count = 1};
static const char *const hosts[] = {"pages.example", "*.application.example"};
static struct gs_http_site sites[3];

static void start(void)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.max_cached_file = 100;
    options.sites = sites;
    options.site_count = 3;
    sites[0] = (struct gs_http_site){.is_default = true};
    sites[1] = (struct gs_http_site){
        .hosts = &hosts[0],
        .host_count = 1,
        .rules = rules,
        .rule_count = 2,
        .error_pages = error_pages,
        .error_page_count = 2,
        .redirects = redirects,
        .redirect_count = 1,
        .clean_urls = true,
        .cors = &cors,
    };
    sites[2] = (struct gs_http_site){.hosts = &hosts[1], .host_count = 1, .fallback = "index.html"};
    client_start(&client, &options);
    for (int i = 0; i < 3; i++)
        sites[i].root_fd = client.drive.root_fd;
    drive_write(&client.drive, "index.html", "application");
    drive_write(&client.drive, "about.html", "about");
    drive_write(&client.drive, "a.css", "css");
    drive_write(&client.drive, "404.html",
                "not here, and a text that is longer than what the cache keeps in memory: "
                "so it is sent from its descriptor");
}

static void stop(void)
{
    CHECK_EQ(client_stop(&client), 0);
}

static int32_t ask(const char *host, const char *method, const char *path)
{
    const char *const fields[] = {
        ":method", method,       ":scheme", "http",   ":path",
        path,      ":authority", host,      "origin", "https://one.example",
        NULL};
    return client_send_fields(&client, fields);
}

static bool has(int32_t id, const char *line)
{
    return strstr(client.streams[id].fields, line) != NULL;
}

static void check(int32_t id, unsigned status, const char *body)
{
    const struct client_stream *stream = &client.streams[id];
    CHECK(stream->is_closed && !stream->error);
    CHECK_EQ(stream->status, status);
    if (strncmp(stream->body, body, strlen(body)) != 0)
        TEST_FAIL("not %s but %s", body, stream->body);
}

static void check_pages(const int32_t *ids)
{
    check(ids[0], 200, "css");
    CHECK(!has(ids[0], "x-all"));
    check(ids[1], 200, "css");
    CHECK(has(ids[1], "x-all: 1\n") && has(ids[1], "x-css: 1\n"));
    CHECK(has(ids[1], "access-control-allow-origin: https://one.example\n"));
    CHECK(has(ids[1], "vary: Origin\n") && !has(ids[1], "connection"));
    check(ids[2], 404, "not here");
    CHECK(has(ids[2], "x-all: 1\n") && has(ids[2], "access-control-allow-origin"));
    check(ids[3], 405, "not here");
    CHECK(has(ids[3], "allow: GET, HEAD, OPTIONS\n"));
    check(ids[4], 308, "308 Permanent Redirect");
    CHECK(has(ids[4], "location: /new/a?b\n"));
    check(ids[5], 200, "about");
    check(ids[6], 301, "301");
    CHECK(has(ids[6], "location: /about\n"));
    check(ids[7], 200, "application");
    check(ids[8], 404, "404 Not Found");
}

static void ask_all(bool is_at_once)
{
    static const char *const requests[][3] = {
        {"none.example", "GET", "/a.css"},          {"PAGES.example:80", "GET", "/a.css"},
        {"pages.example", "GET", "/none"},          {"pages.example", "DELETE", "/"},
        {"pages.example", "GET", "/old/a?b"},       {"pages.example", "GET", "/about"},
        {"pages.example", "GET", "/about.html"},    {"a.application.example", "GET", "/users/1"},
        {"application.example", "GET", "/users/1"},
    };
    enum { COUNT = sizeof requests / sizeof *requests };
    int32_t ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ids[i] = ask(requests[i][0], requests[i][1], requests[i][2]);
        if (!is_at_once)
            client_exchange(&client);
    }
    client_exchange(&client);
    check_pages(ids);
}

FIXTURE_TEST(each_request_is_answered_by_its_site, start(), stop())
{
    for (int i = 0; i < 3; i++) {
        ask_all(false);
        client.drive.now_ns += (uint64_t)i * GS_SECOND;
    }
}

FIXTURE_TEST(requests_at_once_wait_for_their_loads, start(), stop())
{
    for (int i = 0; i < 3; i++) {
        ask_all(true);
        client.drive.now_ns += (uint64_t)i * GS_SECOND;
    }
}
