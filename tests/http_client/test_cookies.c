/* The jar: what it accepts, keeps, and gives back (RFC 6265). */
#include "tests/test.h"

#include "http_client/cookies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW ((int64_t)1000000000) /* 9 September 2001 */

static struct gs_http_client_cookies *jar;

static void begin(void)
{
    CHECK_EQ(gs_http_client_cookies_new(100, &jar), 0);
}

#define JAR_TEST(name_) FIXTURE_TEST(name_, begin(), gs_http_client_cookies_free(jar))

/* "https://host/path" as a place, whose host is valid until the next call. */
static struct gs_http_client_place place_of(const char *url)
{
    static char host[300];
    bool is_https = !strncmp(url, "https://", 8);
    const char *name = url + (is_https ? 8 : 7), *slash = strchr(name, '/');
    snprintf(host, sizeof host, "%.*s", (int)(slash - name), name);
    return (struct gs_http_client_place){host, slash, is_https};
}

static void set_at(const char *url, const char *set_cookie, int64_t now)
{
    const struct gs_http_client_place place = place_of(url);
    CHECK_EQ(gs_http_client_cookies_store(jar, &place, set_cookie, now), 0);
}

static void set(const char *url, const char *set_cookie)
{
    set_at(url, set_cookie, NOW);
}

/* What is sent is this; "": no field. */
static void sends_at(const char *url, const char *expected, int64_t now)
{
    const struct gs_http_client_place place = place_of(url);
    char *value;
    CHECK_EQ(gs_http_client_cookies_write(jar, &place, now, &value), 0);
    CHECK_STR(value ? value : "", expected);
    free(value);
}

static void sends(const char *url, const char *expected)
{
    sends_at(url, expected, NOW);
}

static void begin_again(void)
{
    gs_http_client_cookies_free(jar);
    begin();
}

/* ---- Dates ---- */

TEST(dates_are_read_in_any_order_and_with_any_separators)
{
    static const char *const dates[] = {
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",      "Sun, 6-NOVEMBER-1994 8:49:37",
        "08:49:37 1994 nov 6",           "6 Nov 94 08:49:37 07:00:00 Dec 8 2004",
        "\t06/nov/1994;08:49:37xyz",     "6th Nov 1994ad 8:49:37.999"};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        int64_t seconds = 0;
        CHECK(gs_http_client_cookie_date(dates[i], &seconds));
        CHECK_EQ(seconds, 784111777);
    }
}

TEST(years_of_two_digits_are_from_1970_to_2069)
{
    static const struct {
        const char *date;
        int64_t seconds;
    } cases[] = {{"1 Jan 70 00:00:00", 0},
                 {"1 Jan 69 00:00:00", 3124224000},
                 {"1 Jan 99 00:00:00", 915148800},
                 {"1 Jan 00 00:00:00", 946684800},
                 {"29 Feb 2000 00:00:00", 951782400},
                 {"1 Jan 1601 00:00:00", -11644473600}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t seconds = 1;
        CHECK(gs_http_client_cookie_date(cases[i].date, &seconds));
        CHECK_EQ(seconds, cases[i].seconds);
    }
}

TEST(what_is_no_date_is_refused)
{
    static const char *const dates[] = {"",
                                        "never",
                                        "06 Nov 1994",
                                        "Nov 1994 08:49:37",
                                        "06 1994 08:49:37",
                                        "06 Nov 08:49:37",
                                        "06 Nov 1600 08:49:37",
                                        "06 Nov 100 08:49:37",
                                        "00 Nov 1994 08:49:37",
                                        "32 Nov 1994 08:49:37",
                                        "31 Nov 1994 08:49:37",
                                        "29 Feb 1900 08:49:37",
                                        "06 Nov 1994 24:49:37",
                                        "06 Nov 1994 08:60:37",
                                        "06 Nov 1994 08:49:60",
                                        "06 Nov 1994 08:49",
                                        "06 Nov 1994 008:49:37",
                                        "06 Nov 19940 08:49:37",
                                        "006 Nov 1994 08:49:37",
                                        "06 No 1994 08:49:37"};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        int64_t seconds = 1;
        CHECK(!gs_http_client_cookie_date(dates[i], &seconds));
        CHECK_EQ(seconds, 1);
    }
}

/* ---- Names and values ---- */

JAR_TEST(a_cookie_is_sent_back)
{
    set("http://example.com/", "SID=31d4d96e407aad42");
    sends("http://example.com/", "SID=31d4d96e407aad42");
    sends("http://example.com/any/path?x", "SID=31d4d96e407aad42");
    sends("https://example.com/", "SID=31d4d96e407aad42");
    sends("http://example.org/", "");
    sends("http://www.example.com/", "");
}

JAR_TEST(names_and_values_are_trimmed_and_otherwise_kept)
{
    static const struct {
        const char *set_cookie, *sent;
    } cases[] = {{" \ta\t = b c \t; Path=/", "a=b c"},
                 {"a=", "a="},
                 {"a=b=c", "a=b=c"},
                 {"a=\"b, c\"", "a=\"b, c\""},
                 {"a=b;", "a=b"},
                 {"a=\xc3\xa4; unknown=x; ; =", "a=\xc3\xa4"},
                 {"a", ""},
                 {"", ""},
                 {"=b", ""},
                 {" =b", ""},
                 {"; a=b", ""},
                 {"a=b\x01", ""},
                 {"a\x7f=b", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_again();
        set("http://example.com/", cases[i].set_cookie);
        sends("http://example.com/", cases[i].sent);
    }
}

JAR_TEST(a_cookie_replaces_one_of_the_same_name_domain_and_path)
{
    set("http://example.com/", "a=1");
    set("http://example.com/", "b=1");
    set("http://example.com/", "a=2");
    sends("http://example.com/", "a=2; b=1");
    set("http://example.com/", "A=3");
    set("http://example.com/", "a=4; Path=/p");
    sends("http://example.com/p", "a=4; a=2; b=1; A=3");
}

JAR_TEST(longer_paths_are_sent_first_then_older_cookies)
{
    set("http://example.com/", "a=1; Path=/");
    set("http://example.com/", "b=1; Path=/x/y");
    set("http://example.com/", "c=1; Path=/x");
    set("http://example.com/", "d=1; Path=/x/y");
    set("http://example.com/", "e=1; Path=/");
    sends("http://example.com/x/y/z", "b=1; d=1; c=1; a=1; e=1");
}

/* ---- Until when ---- */

JAR_TEST(cookies_expire)
{
    static const struct {
        const char *attributes;
        int64_t last; /* at which it is sent; 0: never */
    } cases[] = {{"Max-Age=10", NOW + 9},
                 {"max-age = 10 ", NOW + 9},
                 {"Max-Age=0", 0},
                 {"Max-Age=-1", 0},
                 {"Max-Age=-99999999999999999999999", 0},
                 {"Max-Age=99999999999999999999999", INT64_MAX - 1},
                 {"Max-Age=9223372036854775807", INT64_MAX - 1},
                 {"Max-Age=", INT64_MAX - 1},
                 {"Max-Age=-", INT64_MAX - 1},
                 {"Max-Age=1x", INT64_MAX - 1},
                 {"Max-Age=+1", INT64_MAX - 1},
                 {"Expires=Sun, 09 Sep 2001 01:46:50 GMT", NOW + 9},
                 {"Expires=Sun, 06 Nov 1994 08:49:37 GMT", 0},
                 {"Expires=tomorrow", INT64_MAX - 1},
                 {"Max-Age=10; Expires=Sun, 06 Nov 1994 08:49:37 GMT", NOW + 9},
                 {"Expires=Sun, 06 Nov 1994 08:49:37 GMT; Max-Age=10", NOW + 9},
                 {"Max-Age=5; Max-Age=10; Max-Age=x", NOW + 9},
                 {"HttpOnly; SameSite=Strict", INT64_MAX - 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        begin_again();
        snprintf(text, sizeof text, "a=1; %s", cases[i].attributes);
        set("http://example.com/", text);
        sends("http://example.com/", cases[i].last ? "a=1" : "");
        if (!cases[i].last)
            continue;
        sends_at("http://example.com/", "a=1", cases[i].last);
        sends_at("http://example.com/", "", cases[i].last + 1);
    }
}

JAR_TEST(a_cookie_of_the_past_removes_its_like)
{
    set("http://example.com/", "a=1");
    set("http://example.com/", "b=1");
    set("http://example.com/", "a=; Max-Age=0; Path=/x");
    sends("http://example.com/", "a=1; b=1");
    set("http://example.com/", "a=; Max-Age=0");
    sends("http://example.com/", "b=1");
}

/* ---- Where ---- */

JAR_TEST(domains_are_those_of_the_host_and_its_parents)
{
    static const struct {
        const char *from, *domain, *to;
        bool is_sent;
    } cases[] = {{"www.example.com", "example.com", "www.example.com", true},
                 {"www.example.com", ".Example.COM", "example.com", true},
                 {"www.example.com", "example.com", "a.b.example.com", true},
                 {"www.example.com", "www.example.com", "a.www.example.com", true},
                 {"www.example.com", "www.example.com", "example.com", false},
                 {"www.example.com", "example.com", "badexample.com", false},
                 {"example.com", "www.example.com", "example.com", false},
                 {"example.com", "www.example.com", "www.example.com", false},
                 {"www.example.com", "ample.com", "www.example.com", false},
                 {"www.example.com", "example.org", "example.org", false},
                 {"www.example.com", "com", "www.example.com", false},
                 {"www.example.com", ".com", "www.example.com", false},
                 {"www.example.com", "com.", "www.example.com", false},
                 {"www.example.com.", "com.", "www.example.com.", false},
                 {"www.example.com", "..example.com", "www.example.com", false},
                 {"www.example.com", "", "www.example.com", true},
                 {"www.example.com", ".", "www.example.com", true},
                 {"www.example.com", "", "a.www.example.com", false},
                 {"localhost", "localhost", "localhost", true},
                 {"localhost", "localhost", "a.localhost", false},
                 {"127.0.0.1", "127.0.0.1", "127.0.0.1", true},
                 {"127.0.0.1", "0.0.1", "127.0.0.1", false},
                 {"127.0.0.1", "127.0.0.1", "a.127.0.0.1", false},
                 {"::1", "::1", "::1", true},
                 {"::ffff:1.2.3.4", "2.3.4", "::ffff:1.2.3.4", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], from[100], to[100];
        begin_again();
        snprintf(text, sizeof text, "a=1; Domain=%s", cases[i].domain);
        snprintf(from, sizeof from, "http://%s/", cases[i].from);
        snprintf(to, sizeof to, "http://%s/", cases[i].to);
        set(from, text);
        sends(to, cases[i].is_sent ? "a=1" : "");
    }
}

JAR_TEST(paths_match_at_slashes)
{
    static const struct {
        const char *from, *path, *to;
        bool is_sent;
    } cases[] = {{"/", "/foo", "/foo", true},
                 {"/", "/foo", "/foo/bar", true},
                 {"/", "/foo", "/foo?bar", true},
                 {"/", "/foo", "/foobar", false},
                 {"/", "/foo", "/", false},
                 {"/", "/foo", "/Foo", false},
                 {"/", "/foo/", "/foo", false},
                 {"/", "/foo/", "/foo/bar", true},
                 {"/a/b/c", "", "/a/b", true},
                 {"/a/b/c", "", "/a/bc", false},
                 {"/a/b/c", "", "/a", false},
                 {"/a/b/", "", "/a/b/x", true},
                 {"/a", "", "/", true},
                 {"/a?b/c/d", "", "/", true},
                 {"/a/b?c/d", "relative", "/a", true},
                 {"/a/b", "/x; Path=", "/a", true},
                 {"/a/b", "/x; Path=/y", "/y", true},
                 {"/a/b", "/x; Path=/y", "/x", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], from[100], to[100];
        begin_again();
        snprintf(text, sizeof text, "a=1; Path=%s", cases[i].path);
        snprintf(from, sizeof from, "http://example.com%s", cases[i].from);
        snprintf(to, sizeof to, "http://example.com%s", cases[i].to);
        set(from, text);
        sends(to, cases[i].is_sent ? "a=1" : "");
    }
}

/* ---- Secure cookies ---- */

JAR_TEST(secure_cookies_come_from_https_and_go_there)
{
    set("http://example.com/", "a=1; Secure");
    sends("https://example.com/", "");
    set("https://example.com/", "a=1; secure=x");
    sends("https://example.com/", "a=1");
    sends("http://example.com/", "");
}

JAR_TEST(secure_cookies_are_not_replaced_or_hidden_from_http)
{
    set("https://www.example.com/", "a=1; Secure; Domain=example.com; Path=/p");
    set("http://www.example.com/", "a=2; Domain=example.com; Path=/p");
    set("http://www.example.com/", "a=; Domain=example.com; Path=/p; Max-Age=0");
    set("http://www.example.com/", "a=3; Path=/p/q");
    set("http://example.com/", "a=4; Path=/p/q");
    sends("https://www.example.com/p/q", "a=1");
    set("http://www.example.com/", "a=5; Path=/");
    set("http://www.example.com/", "b=6; Path=/p");
    sends("https://www.example.com/p/q", "a=1; b=6; a=5");
    set("https://www.example.com/", "a=7; Domain=example.com; Path=/p");
    sends("http://www.example.com/p/q", "a=7; b=6; a=5");
}

JAR_TEST(prefixes_of_names_promise_attributes)
{
    static const struct {
        const char *url, *set_cookie;
        bool is_kept;
    } cases[] = {{"https://example.com/", "__Secure-a=1; Secure", true},
                 {"https://example.com/", "__Secure-a=1; Secure; Domain=example.com", true},
                 {"https://example.com/", "__Secure-a=1", false},
                 {"https://example.com/", "__secure-a=1", false},
                 {"http://example.com/", "__Secure-a=1; Secure", false},
                 {"https://example.com/", "__Host-a=1; Secure; Path=/", true},
                 {"https://example.com/", "__Host-a=1; Path=/", false},
                 {"https://example.com/", "__Host-a=1; Secure", false},
                 {"https://example.com/", "__Host-a=1; Secure; Path=/x", false},
                 {"https://example.com/", "__HOST-a=1; Secure; Path=/; Domain=example.com", false},
                 {"http://example.com/", "__Host-a=1; Secure; Path=/", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gs_http_client_place place = {"example.com", "/x", true};
        char *value;
        begin_again();
        set(cases[i].url, cases[i].set_cookie);
        CHECK_EQ(gs_http_client_cookies_write(jar, &place, NOW, &value), 0);
        CHECK_EQ(value != NULL, cases[i].is_kept);
        free(value);
    }
}

/* ---- Limits ---- */

JAR_TEST(a_cookie_has_at_most_4_kilobytes)
{
    static const char host[] = "example.com";
    char text[GS_HTTP_COOKIE_MAX + 10] = "a=";
    size_t most = GS_HTTP_COOKIE_MAX - strlen(host) - strlen("a") - strlen("/");
    memset(text + 2, 'x', most);
    set("http://example.com/", text);
    sends("http://example.com/", text);
    text[2 + most] = 'x';
    text[2] = 'y';
    set("http://example.com/", text);
    text[2 + most] = '\0';
    text[2] = 'x';
    sends("http://example.com/", text);
}

/* Returns how many cookies the field has. */
static unsigned count_at(const char *url)
{
    const struct gs_http_client_place place = place_of(url);
    char *value;
    unsigned count = 0;
    CHECK_EQ(gs_http_client_cookies_write(jar, &place, NOW, &value), 0);
    for (const char *at = value; at && (at = strchr(at, '=')); at++)
        count++;
    free(value);
    return count;
}

JAR_TEST(a_domain_has_at_most_50_cookies_and_the_unused_go_first)
{
    char text[100];
    set("http://other.example/", "other=1");
    for (unsigned i = 0; i < 49; i++) {
        snprintf(text, sizeof text, "c%u=1; Path=/%u", i, i);
        set("http://example.com/", text);
    }
    sends("http://example.com/0", "c0=1");
    set("http://example.com/", "c49=1; Path=/49");
    sends("http://example.com/1", "c1=1");
    set("http://example.com/", "c50=1; Path=/50");
    sends("http://example.com/0", "c0=1");
    sends("http://example.com/1", "c1=1");
    sends("http://example.com/2", "");
    sends("http://example.com/3", "c3=1");
    sends("http://example.com/50", "c50=1");
    sends("http://other.example/", "other=1");
    for (unsigned i = 0; i < 200; i++) {
        snprintf(text, sizeof text, "d%u=1", i);
        set("http://example.com/", text);
    }
    CHECK_EQ(count_at("http://example.com/"), 50);
}

JAR_TEST(a_jar_has_at_most_max_cookies)
{
    char text[100];
    unsigned count = 0;
    for (unsigned i = 0; i < 150; i++) {
        snprintf(text, sizeof text, "http://h%u.example/", i);
        set(text, "a=1");
        sends("http://h0.example/", "a=1");
    }
    for (unsigned i = 0; i < 150; i++) {
        snprintf(text, sizeof text, "http://h%u.example/", i);
        CHECK_EQ(count_at(text), i == 0 || i > 50);
        count += count_at(text);
    }
    CHECK_EQ(count, 100);
}

JAR_TEST(expired_cookies_go_before_others)
{
    gs_http_client_cookies_free(jar);
    CHECK_EQ(gs_http_client_cookies_new(2, &jar), 0);
    set("http://example.com/", "a=1");
    set("http://example.com/", "b=1; Max-Age=5");
    set_at("http://example.com/", "c=1", NOW + 5);
    sends_at("http://example.com/", "a=1; c=1", NOW + 5);
}

JAR_TEST(a_field_has_at_most_8_kilobytes)
{
    char text[3100], name[10];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (unsigned i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "n%u=", i);
        memcpy(text, name, 3);
        set("http://example.com/", text);
    }
    set("http://example.com/", "small=1");
    CHECK_EQ(count_at("http://example.com/"), 3);
}
