#include "http/url.h"

#include "tests/test.h"

static void check_parsed(const char *text, const char *host, const char *port,
                         const char *authority, const char *path)
{
    struct gs_http_url url;
    const char *reason = "none";
    CHECK_EQ(gs_http_url_parse(text, &url, &reason), 0);
    CHECK_STR(url.host, host);
    CHECK_STR(url.port, port);
    CHECK_STR(url.authority, authority);
    CHECK_EQ(url.path_length, strlen(path));
    CHECK_EQ(strncmp(url.path, path, strlen(path)), 0);
}

static void check_refused(const char *text, const char *part_of_reason)
{
    struct gs_http_url url;
    const char *reason = "none";
    CHECK_EQ(gs_http_url_parse(text, &url, &reason), -EINVAL);
    if (!strstr(reason, part_of_reason))
        TEST_FAIL("\"%s\" was refused as it %s", text, reason);
}

TEST(a_url_is_split_into_host_port_authority_and_path)
{
    check_parsed("http://example.com", "example.com", "80", "example.com", "");
    check_parsed("http://127.0.0.1:8080/", "127.0.0.1", "8080", "127.0.0.1:8080", "/");
    check_parsed("HTTP://host/a/b?c=d#e", "host", "80", "host", "/a/b?c=d");
    check_parsed("http://host:65535?q", "host", "65535", "host:65535", "?q");
    check_parsed("http://[::1]/", "::1", "80", "[::1]", "/");
    check_parsed("host:81/a", "host", "81", "host:81", "/a");
    check_parsed("host?u=http://a/b", "host", "80", "host", "?u=http://a/b");
    check_parsed("[::1]:82", "::1", "82", "[::1]:82", "");
    check_parsed("http://host:/", "host", "80", "host", "/");
    check_parsed("http://me:a@b@host:83/x@y", "host", "83", "host:83", "/x@y");
    check_parsed("http://[fe80::1%25eth0]:84/", "fe80::1%eth0", "84", "[fe80::1]:84", "/");
    check_parsed("http://[fe80::1%eth0]", "fe80::1%eth0", "80", "[fe80::1]", "");
    check_parsed("http://[fe80::1]:81/x:y@z", "fe80::1", "81", "[fe80::1]:81", "/x:y@z");
    check_parsed("https://host/a", "host", "443", "host", "/a");
    check_parsed("HTTPS://[::1]:8443", "::1", "8443", "[::1]:8443", "");
}

TEST(only_a_url_that_begins_with_https_has_tls)
{
    static const struct {
        const char *text;
        bool is_https;
    } urls[] = {
        {"https://h", true}, {"HttpS://h:80/", true}, {"http://h:443", false}, {"h", false}};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct gs_http_url url;
        const char *reason;
        CHECK_EQ(gs_http_url_parse(urls[i].text, &url, &reason), 0);
        CHECK_EQ(url.is_https, urls[i].is_https);
    }
}

TEST(an_invalid_url_is_refused_with_a_reason)
{
    check_refused("https:///", "no host");
    check_refused("/path", "no host");
    check_refused("me@/path", "no host");
    check_refused("ftp://host/", "begin with http:// or https://");
    check_refused("http://", "no host");
    check_refused("http:///path", "no host");
    check_refused("http://:80/", "no host");
    check_refused("http://[::1/", "no host");
    check_refused("http://[]/", "no host");
    check_refused("http://[::1]8080/", "no host");
    check_refused("http://host:0/", "port");
    check_refused("http://host:65536/", "port");
    check_refused("http://host:8o/", "port");
    check_refused("http://host:123456/", "port");
    check_refused("://host/", "begin with http://");
    check_refused("http://host/a b", "space");
    check_refused("http://host/\r\nX: y", "control character");
}

TEST(a_host_that_is_too_long_is_refused)
{
    char text[600] = "http://";
    memset(text + 7, 'a', 300);
    check_refused(text, "too long");
    text[7 + 255] = '\0';
    struct gs_http_url url;
    const char *reason;
    CHECK_EQ(gs_http_url_parse(text, &url, &reason), 0);
    text[7 + 255] = 'a';
    text[7 + 256] = '\0';
    check_refused(text, "no host");
}

TEST(a_host_is_a_name_in_ascii_or_an_address)
{
    check_refused("http://ex ample/", "space");
    check_refused("http://ex\"ample/", "neither a name");
    check_refused("http://ex\\ample/", "neither a name");
    check_refused("http://b\xc3\xbc"
                  "cher/",
                  "neither a name");
    check_refused("http://[1:2:3]/", "neither a name");
    check_refused("http://[::1%25eth0/", "no host");
    check_refused("http://[::g]/", "neither a name");
    check_parsed("http://EXAMPLE.com:80", "example.com", "80", "example.com:80", "");
}

static void check_written(const char *text, const char *expected, const char *expected_target)
{
    struct gs_http_url url;
    const char *reason, *target;
    CHECK_EQ(gs_http_url_parse(text, &url, &reason), 0);
    char *out = malloc(gs_http_url_room(&url));
    gs_http_url_write(&url, out, &target);
    CHECK_STR(out, expected);
    CHECK_STR(target, expected_target);
    free(out);
}

TEST(a_url_is_written_without_user_and_fragment_and_with_what_is_invalid_encoded)
{
    check_written("http://h", "http://h/", "/");
    check_written("h?q", "http://h/?q", "/?q");
    check_written("HTTPS://me:x@H:443/a#b", "https://h:443/a", "/a");
    check_written("http://h/\xc3\xa4|{}^`\\<>\"%zz[]",
                  "http://h/%C3%A4%7C%7B%7D%5E%60%5C%3C%3E%22%zz[]",
                  "/%C3%A4%7C%7B%7D%5E%60%5C%3C%3E%22%zz[]");
    check_written("http://[::1%25lo]:8080/", "http://[::1]:8080/", "/");
}

static void check_resolved(const char *base, const char *reference, const char *expected)
{
    char out[300];
    CHECK_EQ(gs_http_url_resolve(base, reference, out, sizeof out), 0);
    CHECK_STR(out, expected);
}

/* Those of RFC 3986, 5.4, without fragments. */
TEST(references_are_resolved_as_by_the_standard)
{
    static const char *const cases[][2] = {
        {"g:h", "g:h"},
        {"g", "http://a/b/c/g"},
        {"./g", "http://a/b/c/g"},
        {"g/", "http://a/b/c/g/"},
        {"/g", "http://a/g"},
        {"//g", "http://g"},
        {"?y", "http://a/b/c/d;p?y"},
        {"g?y", "http://a/b/c/g?y"},
        {"#s", "http://a/b/c/d;p?q"},
        {"g#s", "http://a/b/c/g"},
        {"g?y#s", "http://a/b/c/g?y"},
        {";x", "http://a/b/c/;x"},
        {"g;x", "http://a/b/c/g;x"},
        {"", "http://a/b/c/d;p?q"},
        {".", "http://a/b/c/"},
        {"./", "http://a/b/c/"},
        {"..", "http://a/b/"},
        {"../", "http://a/b/"},
        {"../g", "http://a/b/g"},
        {"../..", "http://a/"},
        {"../../", "http://a/"},
        {"../../g", "http://a/g"},
        {"../../../g", "http://a/g"},
        {"../../../../g", "http://a/g"},
        {"/./g", "http://a/g"},
        {"/../g", "http://a/g"},
        {"g.", "http://a/b/c/g."},
        {".g", "http://a/b/c/.g"},
        {"g..", "http://a/b/c/g.."},
        {"..g", "http://a/b/c/..g"},
        {"./../g", "http://a/b/g"},
        {"./g/.", "http://a/b/c/g/"},
        {"g/./h", "http://a/b/c/g/h"},
        {"g/../h", "http://a/b/c/h"},
        {"g;x=1/./y", "http://a/b/c/g;x=1/y"},
        {"g;x=1/../y", "http://a/b/c/y"},
        {"g?y/./x", "http://a/b/c/g?y/./x"},
        {"g?y/../x", "http://a/b/c/g?y/../x"},
        {"http:g", "http:g"},
        {"https://x/a/../b?c#d", "https://x/b?c"},
        {"a b\t\xff", "http://a/b/c/a%20b%09%FF"},
        {"1:2", "http://a/b/c/1:2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_resolved("http://a/b/c/d;p?q", cases[i][0], cases[i][1]);
    check_resolved("http://a/", "..", "http://a/");
    check_resolved("http://a/", "x", "http://a/x");
}

TEST(a_reference_that_has_no_room_is_refused)
{
    char out[64];
    CHECK_EQ(gs_http_url_resolve("http://a/", "0123456789012345678", out, sizeof out),
             -ENAMETOOLONG);
    CHECK_EQ(gs_http_url_resolve("http://a/", "012345678901234", out, sizeof out), 0);
}

static void check_basic(const char *text, const char *expected)
{
    struct gs_http_url url;
    const char *reason;
    CHECK_EQ(gs_http_url_parse(text, &url, &reason), 0);
    char *out = malloc(GS_HTTP_BASIC_ROOM(url.user_length));
    gs_http_url_write_basic(&url, out);
    CHECK_STR(out, expected);
    free(out);
}

TEST(a_user_becomes_a_basic_authorization)
{
    check_basic("http://a:b@h/", "Basic YTpi");
    check_basic("http://Aladdin:open%20sesame@h/", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    check_basic("http://a@h/", "Basic YTo=");
    check_basic("http://ab@h/", "Basic YWI6");
    check_basic("http://abc@h/", "Basic YWJjOg==");
    check_basic("http://%@h/", "Basic JTo=");
    check_basic("http://%4@h/", "Basic JTQ6");
    check_basic("http://%40@h/", "Basic QDo=");
    check_basic("http://0123456789:0123456789@h/", "Basic MDEyMzQ1Njc4OTowMTIzNDU2Nzg5");
}
