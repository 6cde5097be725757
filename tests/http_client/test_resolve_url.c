#include "tests/test.h"

#include <errno.h>
#include <gossamer/http_client.h>

static const char base[] = "https://Example.org/a/b/c.html?x=1";

TEST(references_of_a_page_become_urls)
{
    static const struct {
        const char *reference, *url;
    } cases[] = {{"d.html", "https://example.org/a/b/d.html"},
                 {"../../../d", "https://example.org/d"},
                 {"e/../f/./g", "https://example.org/a/b/f/g"},
                 {"/h?i#j", "https://example.org/h?i"},
                 {"?k=l", "https://example.org/a/b/c.html?k=l"},
                 {"", "https://example.org/a/b/c.html?x=1"},
                 {"#top", "https://example.org/a/b/c.html?x=1"},
                 {"//EXAMPLE.net", "https://example.net/"},
                 {" \n http://me:secret@example.com:81/a b \t", "http://example.com:81/a%20b"},
                 {"\xc3\xa4", "https://example.org/a/b/%C3%A4"}};
    char url[100];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_EQ(gs_http_resolve_url(base, cases[i].reference, url, sizeof url), 0);
        CHECK_STR(url, cases[i].url);
    }
}

TEST(what_leads_to_no_url_of_http_is_an_error)
{
    static const char *const references[] = {"mailto:a@b", "ftp://example.org/", "javascript:x",
                                             "//",         "http://a:x/",        "data:,x"};
    char url[100] = "unchanged";
    for (size_t i = 0; i < sizeof references / sizeof *references; i++)
        CHECK_EQ(gs_http_resolve_url(base, references[i], url, sizeof url), -EINVAL);
    CHECK_EQ(gs_http_resolve_url("example.org/", "a", url, sizeof url), -EINVAL);
    CHECK_EQ(gs_http_resolve_url("", "http://example.org/", url, sizeof url), -EINVAL);
    CHECK_STR(url, "unchanged");
}

TEST(a_url_needs_room_for_itself_and_its_end)
{
    static const char expected[] = "https://example.org/a/b/d";
    char url[100] = "unchanged";
    CHECK_EQ(gs_http_resolve_url(base, "d", url, sizeof expected - 1), -ENAMETOOLONG);
    CHECK_STR(url, "unchanged");
    CHECK_EQ(gs_http_resolve_url(base, "d", url, sizeof expected), 0);
    CHECK_STR(url, expected);
}
