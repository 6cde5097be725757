#include "load/url.h"

#include "tests/test.h"

static void check_parsed(const char *text, const char *host, const char *port,
                         const char *authority, const char *path)
{
    struct load_url url;
    const char *reason = "none";
    CHECK_EQ(gs_load_url_parse(text, &url, &reason), 0);
    CHECK_STR(url.host, host);
    CHECK_STR(url.port, port);
    CHECK_STR(url.authority, authority);
    CHECK_EQ(url.path_length, strlen(path));
    CHECK_EQ(strncmp(url.path, path, strlen(path)), 0);
}

static void check_refused(const char *text, const char *part_of_reason)
{
    struct load_url url;
    const char *reason = "none";
    CHECK_EQ(gs_load_url_parse(text, &url, &reason), -EINVAL);
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
        struct load_url url;
        const char *reason;
        CHECK_EQ(gs_load_url_parse(urls[i].text, &url, &reason), 0);
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
    struct load_url url;
    const char *reason;
    CHECK_EQ(gs_load_url_parse(text, &url, &reason), 0);
    text[7 + 255] = 'a';
    text[7 + 256] = '\0';
    check_refused(text, "no host");
}
