/* Which pages of other sites may read responses. */
#include "http/cors.h"
#include "tests/http/site_fixture.h"

static const char *const listed[] = {"https://one.example", "http://localhost:3000"};
static const char *const all[] = {"*"};
static struct gs_http_cors cors;

static void start(const char *const *origins, unsigned count)
{
    static const struct gs_http_rule rules[] = {{"/**", "X-All: 1\r\nVary: Accept\r\n"}};
    cors = (struct gs_http_cors){
        .origins = origins,
        .origin_count = count,
        .headers = "X-One, X-Two",
        .exposed = "ETag",
        .max_age = 600,
        .has_credentials = origins == listed,
    };
    site_start(&(struct gs_http_site){.rules = rules, .rule_count = 1, .cors = &cors});
    drive_write(&drive, "f", "file");
}

static bool has(const char *text)
{
    return memmem(response.head, response.head_length, text, strlen(text));
}

#define FROM(origin_) "Host: a\r\nOrigin: " origin_ "\r\n\r\n"
#define ALLOW "Access-Control-Allow-Origin: "

static void check_listed(const char *request, unsigned status)
{
    check_status(request, status);
    CHECK(drive_has_field(&response, "Vary: Origin"));
    CHECK(drive_has_field(&response, "Vary: Accept"));
    CHECK(drive_has_field(&response, ALLOW "https://one.example"));
    CHECK(drive_has_field(&response, "Access-Control-Allow-Credentials: true"));
    CHECK(drive_has_field(&response, "Access-Control-Expose-Headers: ETag"));
    CHECK(drive_has_field(&response, "X-All: 1"));
}

static void check_other(const char *request, unsigned status)
{
    check_status(request, status);
    CHECK(drive_has_field(&response, "Vary: Origin"));
    CHECK(!has("Access-Control-Allow-Origin"));
}

FIXTURE_TEST(a_listed_origin_may_read_responses, start(listed, 2), site_stop())
{
    for (int i = 0; i < 2; i++) {
        check_listed("GET /f HTTP/1.1\r\n" FROM("https://one.example"), 200);
        CHECK(!memcmp(response.body, "file", 4));
        check_listed("GET /none HTTP/1.1\r\n" FROM("https://one.example"), 404);
        check_listed("GET /f HTTP/1.1\r\nRange: bytes=1-2\r\n" FROM("https://one.example"), 206);
        check_listed("GET /f HTTP/1.1\r\nIf-None-Match: *\r\n" FROM("https://one.example"), 304);
        check_other("GET /f HTTP/1.1\r\n" FROM("https://two.example"), 200);
        check_other("GET /f HTTP/1.1\r\n" FROM("https://one.example.org"), 200);
        check_other("GET /f HTTP/1.1\r\n" FROM("null"), 200);
        check_other(GET("f"), 200);
        check_other(GET("none"), 404);
    }
    check_status("GET /f HTTP/1.1\r\n" FROM("http://localhost:3000"), 200);
    CHECK(drive_has_field(&response, ALLOW "http://localhost:3000"));
}

FIXTURE_TEST(a_preflight_tells_what_is_allowed, start(listed, 2), site_stop())
{
    check_listed(
        "OPTIONS /f HTTP/1.1\r\nAccess-Control-Request-Method: GET\r\n" FROM("https://one.example"),
        200);
    CHECK(drive_has_field(&response, "Access-Control-Allow-Methods: GET, HEAD, OPTIONS"));
    CHECK(drive_has_field(&response, "Access-Control-Allow-Headers: X-One, X-Two"));
    CHECK(drive_has_field(&response, "Access-Control-Max-Age: 600"));
    check_other("OPTIONS /f HTTP/1.1\r\n" FROM("https://two.example"), 200);
}

FIXTURE_TEST(all_origins_may_read_the_same_response, start(all, 1), site_stop())
{
    for (int i = 0; i < 2; i++) {
        check_status("GET /f HTTP/1.1\r\n" FROM("https://any.example"), 200);
        CHECK(drive_has_field(&response, ALLOW "*"));
        CHECK(drive_has_field(&response, "Access-Control-Expose-Headers: ETag"));
        CHECK(!has("Vary: Origin"));
        check_status(GET("f"), 200);
        CHECK(drive_has_field(&response, ALLOW "*"));
        check_status(GET("none"), 404);
        CHECK(drive_has_field(&response, ALLOW "*"));
    }
    check_status("OPTIONS * HTTP/1.1\r\n" FROM("https://any.example"), 200);
    CHECK(drive_has_field(&response, "Access-Control-Allow-Methods: GET, HEAD, OPTIONS"));
}

static void check_problem(bool expected, const char *origin, bool has_credentials,
                          const char *headers)
{
    struct gs_http_cors one = {.origins = &origin,
                               .origin_count = 1,
                               .headers = headers,
                               .has_credentials = has_credentials};
    if (!gs_http_site_cors_problem(&one) == expected)
        TEST_FAIL("%s is %s", origin, expected ? "taken" : "refused");
}

TEST(origins_are_as_browsers_write_them)
{
    check_problem(false, "https://example.org", true, "X-One,X-Two");
    check_problem(false, "http://[::1]:8080", false, NULL);
    check_problem(false, "*", false, "*");
    check_problem(true, "*", true, NULL);
    check_problem(true, "https://example.org/", false, NULL);
    check_problem(true, "https://Example.org", false, NULL);
    check_problem(true, "example.org", false, NULL);
    check_problem(true, "://a", false, NULL);
    check_problem(true, "https://*.example.org/", false, NULL);
    check_problem(true, "https://a\r\nX: y", false, NULL);
    check_problem(true, "https://a", false, "X-One\r\nX: y");
    check_problem(true, "https://a", false, "X One");
    CHECK(gs_http_site_cors_problem(&(struct gs_http_cors){.origin_count = 0}));
}
