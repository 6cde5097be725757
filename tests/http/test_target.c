#include "http/target.h"
#include "tests/test.h"

static struct gs_http_target split(const char *text)
{
    struct gs_http_target target;
    if (!gs_http_target_split((struct gs_http_text){text, strlen(text)}, &target))
        TEST_FAIL("not split: %s", text);
    return target;
}

static void check_malformed(const char *text)
{
    struct gs_http_target target = {.form = GS_HTTP_TARGET_ASTERISK};
    if (gs_http_target_split((struct gs_http_text){text, strlen(text)}, &target))
        TEST_FAIL("split: %s", text);
    CHECK_EQ(target.form, GS_HTTP_TARGET_ASTERISK);
}

TEST(origin_form_is_path_and_query)
{
    struct gs_http_target target = split("/where?q=now?&x=/y");
    CHECK_EQ(target.form, GS_HTTP_TARGET_ORIGIN);
    CHECK(gs_http_text_is(target.path, "/where"));
    CHECK(gs_http_text_is(target.query, "q=now?&x=/y"));
    CHECK(!target.authority.bytes);

    target = split("//a//b");
    CHECK_EQ(target.form, GS_HTTP_TARGET_ORIGIN);
    CHECK(gs_http_text_is(target.path, "//a//b"));
}

TEST(query_is_absent_or_empty)
{
    CHECK(!split("/").query.bytes);
    struct gs_http_target target = split("/?");
    CHECK(target.query.bytes);
    CHECK_EQ(target.query.n, 0);
    CHECK(gs_http_text_is(target.path, "/"));
}

TEST(absolute_form_has_an_authority)
{
    struct gs_http_target target = split("http://www.example.org/pub/WWW/TheProject.html");
    CHECK_EQ(target.form, GS_HTTP_TARGET_ABSOLUTE);
    CHECK(gs_http_text_is(target.authority, "www.example.org"));
    CHECK(gs_http_text_is(target.path, "/pub/WWW/TheProject.html"));
    CHECK(!target.query.bytes);

    target = split("HTTPS://[::1]:8443/a?b");
    CHECK_EQ(target.form, GS_HTTP_TARGET_ABSOLUTE);
    CHECK(gs_http_text_is(target.authority, "[::1]:8443"));
    CHECK(gs_http_text_is(target.path, "/a"));
    CHECK(gs_http_text_is(target.query, "b"));
}

TEST(absolute_form_without_a_path_is_the_root)
{
    struct gs_http_target target = split("http://example.org:80");
    CHECK(gs_http_text_is(target.authority, "example.org:80"));
    CHECK(gs_http_text_is(target.path, "/"));
    CHECK(!target.query.bytes);

    target = split("http://example.org?x");
    CHECK(gs_http_text_is(target.authority, "example.org"));
    CHECK(gs_http_text_is(target.path, "/"));
    CHECK(gs_http_text_is(target.query, "x"));
}

TEST(asterisk_form_is_the_asterisk_alone)
{
    CHECK_EQ(split("*").form, GS_HTTP_TARGET_ASTERISK);
    CHECK(!split("*").path.bytes);
    check_malformed("**");
    check_malformed("*/");
}

TEST(authority_form_is_host_and_port)
{
    struct gs_http_target target = split("www.example.com:80");
    CHECK_EQ(target.form, GS_HTTP_TARGET_AUTHORITY);
    CHECK(gs_http_text_is(target.authority, "www.example.com:80"));
    CHECK(!target.path.bytes);
    CHECK_EQ(split("[::1]:443").form, GS_HTTP_TARGET_AUTHORITY);
    check_malformed("www.example.com");
    check_malformed("www.example.com:");
    check_malformed("[::1]");
    check_malformed("[::1]:");
    check_malformed("host1");
    check_malformed(":80");
    check_malformed("host:80/");
    check_malformed("host:99999");
}

TEST(other_targets_are_malformed)
{
    check_malformed("");
    check_malformed("index.html");
    check_malformed("../x");
    check_malformed("?x");
    check_malformed("ftp://example.org/");
    check_malformed("http:/example.org/");
    check_malformed("http:example.org");
    check_malformed("http//example.org/");
    check_malformed("file:///etc/passwd");
}

TEST(absolute_form_with_a_bad_authority_is_malformed)
{
    check_malformed("http://");
    check_malformed("http:///path");
    check_malformed("http://?x");
    check_malformed("http://:80/");
    check_malformed("http://user@example.org/");
    check_malformed("http://user:pass@example.org/");
    check_malformed("http://example.org:port/");
    check_malformed("http://example.org:65536/");
    check_malformed("http://[::1/");
    check_malformed("http://a,b/");
    check_malformed("http://a\\b/");
}

#define DIRECTORY GS_HTTP_PATH_DIRECTORY
#define HIDDEN GS_HTTP_PATH_HIDDEN

static void check_path(const char *path, const char *expected, unsigned flags)
{
    char out[256];
    unsigned got = 77;
    size_t n = strlen(path);
    memset(out, '#', sizeof out);
    ssize_t length = gs_http_path_normalise((struct gs_http_text){path, n}, out, n, &got);
    if (length < 0)
        TEST_FAIL("%s: %zd", path, length);
    CHECK_STR(out, expected);
    CHECK_EQ(length, strlen(expected));
    CHECK_EQ(got, flags);
    for (size_t i = n; i < sizeof out; i++)
        CHECK_EQ(out[i], '#');
}

static void check_bad_path(struct gs_http_text path)
{
    char out[256];
    unsigned flags = 77;
    ssize_t result = gs_http_path_normalise(path, out, sizeof out, &flags);
    if (result != -EINVAL)
        TEST_FAIL("%.*s: %zd", (int)path.n, path.bytes, result);
    CHECK_EQ(flags, 77);
}

#define BAD_PATH(path) check_bad_path(GS_HTTP_TEXT(path))

TEST(plain_paths_lose_their_leading_slash)
{
    check_path("/index.html", "index.html", 0);
    check_path("/a/b/c.txt", "a/b/c.txt", 0);
    check_path("/a", "a", 0);
    check_path("/a b?#;:@&=+$,|^{}[]`~", "a b?#;:@&=+$,|^{}[]`~", 0);
    check_path("/caf\xc3\xa9", "caf\xc3\xa9", 0);
}

TEST(root_is_the_empty_path)
{
    check_path("/", "", DIRECTORY);
    check_path("///", "", DIRECTORY);
    check_path("/.", "", DIRECTORY);
    check_path("/./", "", DIRECTORY);
    check_path("/a/..", "", DIRECTORY);
    check_path("/a/../", "", DIRECTORY);
}

TEST(trailing_slash_is_a_flag)
{
    check_path("/a/", "a", DIRECTORY);
    check_path("/a/b/", "a/b", DIRECTORY);
    check_path("/a/b//", "a/b", DIRECTORY);
}

TEST(repeated_slashes_are_merged)
{
    check_path("//a", "a", 0);
    check_path("/a//b///c", "a/b/c", 0);
    check_path("//a//../b", "b", 0);
}

TEST(dot_segments_are_resolved)
{
    check_path("/a/./b", "a/b", 0);
    check_path("/a/../b", "b", 0);
    check_path("/a/b/../../c", "c", 0);
    check_path("/a/b/c/../../d/./e", "a/d/e", 0);
    check_path("/./a", "a", 0);
    check_path("/a/.", "a", DIRECTORY);
    check_path("/a/b/..", "a", DIRECTORY);
    check_path("/a/b/../", "a", DIRECTORY);
    check_path("/a/b/../c", "a/c", 0);
    check_path("/abc/def/../g", "abc/g", 0);
}

TEST(dot_segments_may_be_escaped)
{
    check_path("/a/%2e/b", "a/b", 0);
    check_path("/a/%2e%2E/b", "b", 0);
    check_path("/a/.%2e/b", "b", 0);
    check_path("/a/%2e./b", "b", 0);
    check_path("/a/b/%2e%2e", "a", DIRECTORY);
}

TEST(nothing_is_above_the_root)
{
    BAD_PATH("/..");
    BAD_PATH("/../");
    BAD_PATH("/../a");
    BAD_PATH("/./..");
    BAD_PATH("//..");
    BAD_PATH("/a/../..");
    BAD_PATH("/a/../../a");
    BAD_PATH("/a/b/../../../c");
    BAD_PATH("/%2e%2e");
    BAD_PATH("/.%2e/etc/passwd");
    BAD_PATH("/a//..//..");
}

TEST(escapes_are_decoded_once)
{
    check_path("/%61%62%63", "abc", 0);
    check_path("/a%20b", "a b", 0);
    check_path("/%C3%A9%c3%a9", "\xc3\xa9\xc3\xa9", 0);
    check_path("/100%25", "100%", 0);
    check_path("/%252e%252e/x", "%2e%2e/x", 0);
    check_path("/%252f", "%2f", 0);
    check_path("/%3f%23", "?#", 0);
    check_path("/%c0%ae%c0%ae/x", "\xc0\xae\xc0\xae/x", 0);
}

TEST(bad_escapes_are_refused)
{
    BAD_PATH("/%");
    BAD_PATH("/a%");
    BAD_PATH("/%2");
    BAD_PATH("/%2/a");
    BAD_PATH("/%g1");
    BAD_PATH("/%1g");
    BAD_PATH("/% 1");
    BAD_PATH("/%u0041");
    BAD_PATH("/%%41");
    check_bad_path((struct gs_http_text){"/%41", 3});
    check_bad_path((struct gs_http_text){"/%41", 2});
}

TEST(invalid_bytes_of_names_are_refused)
{
    BAD_PATH("/%00");
    BAD_PATH("/a%00.html");
    BAD_PATH("/a\0b");
    BAD_PATH("/a%2fb");
    BAD_PATH("/..%2F..%2Fetc");
    BAD_PATH("/a\\b");
    BAD_PATH("/..\\..\\etc");
    BAD_PATH("/%5c..%5C");
    BAD_PATH("/a\nb");
    BAD_PATH("/a%0ab");
    BAD_PATH("/a%0d");
    BAD_PATH("/a\tb");
    BAD_PATH("/a\x7f");
    BAD_PATH("/a%7F");
    BAD_PATH("/a%1f");
}

TEST(path_begins_with_a_slash)
{
    BAD_PATH("");
    BAD_PATH("a");
    BAD_PATH("../a");
    BAD_PATH("%2fa");
    check_bad_path((struct gs_http_text){NULL, 0});
}

TEST(names_that_begin_with_a_dot_are_hidden)
{
    check_path("/.git", ".git", HIDDEN);
    check_path("/.git/", ".git", HIDDEN | DIRECTORY);
    check_path("/a/.b/c", "a/.b/c", HIDDEN);
    check_path("/%2egit", ".git", HIDDEN);
    check_path("/...", "...", HIDDEN);
    check_path("/..a", "..a", HIDDEN);
    check_path("/a/..b", "a/..b", HIDDEN);
    check_path("/a.b/c.", "a.b/c.", 0);
}

TEST(well_known_is_not_hidden_as_the_first_name)
{
    check_path("/.well-known", ".well-known", 0);
    check_path("/.well-known/", ".well-known", DIRECTORY);
    check_path("/.well-known/acme-challenge/x", ".well-known/acme-challenge/x", 0);
    check_path("//./.well-known/x", ".well-known/x", 0);
    check_path("/.well-known/.x", ".well-known/.x", HIDDEN);
    check_path("/.well-knownx/a", ".well-knownx/a", HIDDEN);
    check_path("/.well-know", ".well-know", HIDDEN);
    check_path("/a/.well-known/x", "a/.well-known/x", HIDDEN);
    check_path("/.Well-Known/x", ".Well-Known/x", HIDDEN);
}

TEST(hidden_name_removed_by_a_dot_segment_is_ignored)
{
    check_path("/.git/../a", "a", 0);
    check_path("/a/.b/../c", "a/c", 0);
    check_path("/.a/.b/..", ".a", HIDDEN | DIRECTORY);
    check_path("/x/../.well-known/y", ".well-known/y", 0);
}

TEST(buffer_must_hold_the_path_and_its_nul)
{
    char out[8];
    unsigned flags = 77;
    for (size_t size = 0; size < 6; size++)
        CHECK_EQ(gs_http_path_normalise(GS_HTTP_TEXT("/ab/cd"), out, size, &flags), -ENAMETOOLONG);
    CHECK_EQ(flags, 77);
    CHECK_EQ(gs_http_path_normalise(GS_HTTP_TEXT("/ab/cd"), out, 6, &flags), 5);
    CHECK_STR(out, "ab/cd");
    CHECK_EQ(gs_http_path_normalise(GS_HTTP_TEXT("/ab/"), out, 3, &flags), 2);
    CHECK_EQ(gs_http_path_normalise(GS_HTTP_TEXT("/%61%61"), out, 3, &flags), 2);
    CHECK_EQ(gs_http_path_normalise(GS_HTTP_TEXT("/"), out, 1, &flags), 0);
    CHECK_EQ(gs_http_path_normalise(GS_HTTP_TEXT("/"), out, 0, &flags), -ENAMETOOLONG);
    CHECK_EQ(gs_http_path_normalise(GS_HTTP_TEXT("/a/b/"), out, 2, &flags), -ENAMETOOLONG);
}
