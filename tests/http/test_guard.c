/* Paths that only users may request. */
#include "http/guard.h"

#include "http/load.h"
#include "tests/http/site_fixture.h"

#include <errno.h>

#define FILE_OF_USERS "ann:$2y$05$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234\n"
#define ANN "Authorization: Basic YW5uOnNlY3JldA==\r\n" /* ann:secret */
#define EVE "Authorization: Basic YW5uOnN0b2xlbg==\r\n" /* ann:stolen */
#define ASK(path_, fields_) "GET /" path_ " HTTP/1.1\r\nHost: a\r\n" fields_ "\r\n"

static unsigned verified;
static int fails_with; /* in place of a hash */

static int verify(const char *password, const char *hash)
{
    CHECK_EQ(strlen(hash), 60);
    verified++;
    return fails_with ? fails_with : strcmp(password, "secret") ? -EACCES : 0;
}

static struct gs_http_guard guards[] = {
    {.pattern = "/open/**"},
    {.pattern = "/plain/**", .realm = "plain", .allows_plain = true},
    {.pattern = "/**", .realm = "a realm"},
};
static struct gs_http_site site = {.guards = guards, .guard_count = 3, .listing = 1};

static void start(void)
{
    static const uint64_t key[] = {3, 4};
    struct gs_http_users_error error;
    struct gs_http_users *users;
    CHECK_EQ(gs_http_users_new(GS_HTTP_TEXT(FILE_OF_USERS), verify, key, &users, &error), 0);
    guards[1].users = guards[2].users = users;
    site_start(&site);
    drive_mkdir(&drive, "open");
    drive_mkdir(&drive, "plain");
    drive_write(&drive, "page.html", "page");
    drive_write(&drive, "open/page.html", "open");
    drive_write(&drive, "plain/page.html", "plain");
    verified = 0;
    fails_with = 0;
}

static void stop(void)
{
    site_stop();
    gs_http_users_free(guards[1].users);
}

FIXTURE_TEST(only_users_get_a_page, start(), stop())
{
    check_status(ASK("plain/page.html", ""), 401);
    CHECK(drive_has_field(&response, "WWW-Authenticate: Basic realm=\"plain\", charset=\"UTF-8\""));
    check_status(ASK("plain/page.html", EVE), 401);
    CHECK_EQ(verified, 1);
    check_body(ASK("plain/page.html", ANN), "plain");
    check_body(ASK("plain/page.html", ANN), "plain");
    CHECK_EQ(verified, 2);
    check_status(ASK("plain/page.html", EVE), 401);
    check_status(ASK("plain/page.html", ""), 401);
    check_status(ASK("plain/none", ""), 401);
    check_status(ASK("plain/none", ANN), 404);
    check_status(ASK("plain/page.html", ANN ANN), 401);
    check_body(ASK("open/page.html", ""), "open");
    check_body(ASK("open/page.html", EVE), "open");
}

/* A guarded page has a guard in each spelling of its path. */
FIXTURE_TEST(no_spelling_of_a_path_passes_by_its_guard, start(), stop())
{
    gs_http_conn_set_secure(&drive.conn);
    static const char *const requests[] = {
        ASK("plain", ""),
        ASK("plain/", ""),
        ASK("pl%61in/page.html", ""),
        ASK("/plain//page.html", ""),
        ASK("open/../plain/page.html", ""),
        ASK("open/%2e%2e/plain/page.html", ""),
        ASK("plain/./page.html", ""),
        "GET http://a/plain/page.html HTTP/1.1\r\nHost: a\r\n\r\n",
        ASK("plain/page.html?x", "")};
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        check_status(requests[i], 401);
    check_body(ASK("plain/../open/page.html", ""), "open");
}

FIXTURE_TEST(passwords_are_asked_for_with_tls_only, start(), stop())
{
    check_status(ASK("page.html", ANN), 403);
    CHECK(!drive_has_field(&response,
                           "WWW-Authenticate: Basic realm=\"a realm\", charset=\"UTF-8\""));
    CHECK_EQ(verified, 0);
    gs_http_conn_set_secure(&drive.conn);
    check_status(ASK("page.html", ""), 401);
    CHECK(
        drive_has_field(&response, "WWW-Authenticate: Basic realm=\"a realm\", charset=\"UTF-8\""));
    check_body(ASK("page.html", ANN), "page");
    check_body(ASK("page.html", ANN), "page");
}

/* A cached page is for those who are known, also if nobody can be verified. */
FIXTURE_TEST(what_cannot_be_verified_gets_no_page, start(), stop())
{
    check_body(ASK("plain/page.html", ANN), "plain");
    fails_with = -ENOMEM;
    check_status(ASK("plain/page.html", EVE), 503);
    check_body(ASK("plain/page.html", ANN), "plain");
    drive_advance_time(&drive, GS_HTTP_KNOWN_NS);
    drive_reopen(&drive);
    check_status(ASK("plain/page.html", ANN), 503);
    fails_with = 0;
    check_body(ASK("plain/page.html", ANN), "plain");
}

FIXTURE_TEST(a_load_that_is_refused_lets_nobody_pass, start(), stop())
{
    check_body(ASK("plain/page.html", ANN), "plain");
    gs_http_conn_receive(&drive.conn, ASK("plain/page.html", EVE),
                         strlen(ASK("plain/page.html", EVE)), drive.now_ns);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_load_refuse(load);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive_serve(&drive);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 503);
}

FIXTURE_TEST(listings_have_guards_too, start(), stop())
{
    check_status(ASK("plain/", ""), 401);
    check_status(ASK("plain/", ANN), 200);
    check_status(ASK("plain/", "Accept: application/json\r\n"), 401);
    check_status(ASK("open/", "Accept: application/json\r\n"), 200);
    CHECK(drive_has_field(&response, "Content-Type: application/json"));
    check_status(ASK("open/", "Accept: application/json, text/html\r\n"), 200);
    CHECK(drive_has_field(&response, "Content-Type: text/html; charset=utf-8"));
}

TEST(a_guard_needs_a_realm_that_can_be_quoted)
{
    static char longer[GS_HTTP_REALM_MAX + 2];
    struct gs_http_guard guard = {.pattern = "/**", .realm = "x", .users = (void *)longer};
    CHECK(!gs_http_guard_problem(&guard));
    static const char *const realms[] = {"a\"", "a\\", "\n", longer, NULL};
    memset(longer, 'x', sizeof longer - 1);
    for (size_t i = 0; i < sizeof realms / sizeof *realms; i++) {
        guard.realm = realms[i];
        CHECK(gs_http_guard_problem(&guard));
    }
    guard = (struct gs_http_guard){.pattern = "/**"};
    CHECK(!gs_http_guard_problem(&guard));
}
