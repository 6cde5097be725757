#include "http/etag.h"
#include "tests/test.h"

static const char *format(uint64_t inode, uint64_t size, uint64_t ns)
{
    static char out[GS_HTTP_ETAG_MAX + 1];
    const struct stat stat = {.st_ino = inode, .st_size = (off_t)size, .st_mtim.tv_nsec = (long)ns};
    size_t n = gs_http_etag_format(out, &stat, !inode);
    CHECK(n <= GS_HTTP_ETAG_MAX);
    out[n] = '\0';
    return out;
}

TEST(tag_is_a_hash_and_the_size_in_quotes)
{
    CHECK_STR(format(0, 0, 0), "\"0000000000000000-0\"");
    CHECK_STR(format(0, 0x131, 0) + 17, "-131\"");
    CHECK_STR(format(1, 0x10, 0) + 17, "-10\"");
    CHECK_STR(format(UINT64_MAX, UINT64_MAX, UINT64_MAX) + 17, "-ffffffffffffffff\"");
}

TEST(tag_does_not_show_the_inode)
{
    CHECK(!strstr(format(0x1234567, 1, 0x1234567890), "1234567"));
    CHECK(!strstr(format(0x1234567, 1, 0), "1234567"));
}

TEST(tag_differs_when_one_number_does)
{
    char first[GS_HTTP_ETAG_MAX + 1];
    snprintf(first, sizeof first, "%s", format(0x11, 1, 1));
    CHECK(strcmp(first, format(1, 0x11, 1)));
    CHECK(strcmp(first, format(0x11, 1, 2)));
    CHECK(!strcmp(first, format(0x11, 1, 1)));
}

/* Such as a file that replaces another, whose inode it gets, and has its times set to the same. */
TEST(tag_of_a_file_whose_status_has_changed_differs_unless_it_is_portable)
{
    for (unsigned is_portable = 0; is_portable < 2; is_portable++) {
        char first[GS_HTTP_ETAG_MAX], second[GS_HTTP_ETAG_MAX];
        struct stat stat = {.st_ino = 0x11, .st_size = 1};
        size_t n = gs_http_etag_format(first, &stat, is_portable);
        stat.st_ctim.tv_nsec++;
        CHECK_EQ(gs_http_etag_format(second, &stat, is_portable), n);
        CHECK_EQ(!memcmp(first, second, n), is_portable);
    }
}

TEST(written_tag_matches_itself)
{
    char out[GS_HTTP_ETAG_MAX];
    const struct stat stat = {.st_ino = 42, .st_size = 305, .st_mtim.tv_sec = 1795260676};
    struct gs_http_text etag = {out, gs_http_etag_format(out, &stat, false)};
    CHECK(gs_http_etag_list_matches(etag, etag, true));
    CHECK(gs_http_etag_list_matches(etag, etag, false));
}

static bool matches(const char *list, const char *etag, bool strong)
{
    return gs_http_etag_list_matches((struct gs_http_text){list, strlen(list)},
                                     (struct gs_http_text){etag, strlen(etag)}, strong);
}

TEST(comparisons_are_those_of_the_rfc)
{
    CHECK(!matches("W/\"1\"", "W/\"1\"", true));
    CHECK(matches("W/\"1\"", "W/\"1\"", false));
    CHECK(!matches("W/\"1\"", "W/\"2\"", true));
    CHECK(!matches("W/\"1\"", "W/\"2\"", false));
    CHECK(!matches("W/\"1\"", "\"1\"", true));
    CHECK(matches("W/\"1\"", "\"1\"", false));
    CHECK(!matches("\"1\"", "W/\"1\"", true));
    CHECK(matches("\"1\"", "W/\"1\"", false));
    CHECK(matches("\"1\"", "\"1\"", true));
    CHECK(matches("\"1\"", "\"1\"", false));
}

TEST(tag_is_found_anywhere_in_the_list)
{
    CHECK(matches("\"xyzzy\", \"r2d2xxxx\", \"c3piozzzz\"", "\"xyzzy\"", true));
    CHECK(matches("\"xyzzy\", \"r2d2xxxx\", \"c3piozzzz\"", "\"r2d2xxxx\"", true));
    CHECK(matches("\"xyzzy\",\"r2d2xxxx\",\"c3piozzzz\"", "\"c3piozzzz\"", true));
    CHECK(matches("W/\"xyzzy\" ,\tW/\"r2d2xxxx\"", "\"r2d2xxxx\"", false));
    CHECK(!matches("\"xyzzy\", \"r2d2xxxx\"", "\"r2d2\"", true));
    CHECK(!matches("\"xyzzy\"", "\"XYZZY\"", true));
    CHECK(matches(" , ,\"a\",, ", "\"a\"", true));
    CHECK(matches("  \"a\"  ", "\"a\"", true));
}

TEST(strong_tag_after_the_same_weak_one_is_found)
{
    CHECK(matches("W/\"a\", \"a\"", "\"a\"", true));
    CHECK(!matches("W/\"a\", W/\"a\"", "\"a\"", true));
}

TEST(asterisk_alone_matches_anything)
{
    CHECK(matches("*", "\"a\"", true));
    CHECK(matches("*", "W/\"a\"", true));
    CHECK(matches(" * ", "\"a\"", false));
    CHECK(!matches("*, \"b\"", "\"a\"", false));
    CHECK(!matches("\"b\", *", "\"a\"", false));
    CHECK(!matches("**", "\"a\"", false));
    CHECK(!matches("\"*\"", "\"a\"", false));
}

TEST(comma_and_backslash_are_ordinary_in_a_tag)
{
    CHECK(matches("\"a,b\"", "\"a,b\"", true));
    CHECK(matches("\"x,y\", \"a,b\"", "\"a,b\"", true));
    CHECK(!matches("\"a,b\"", "\"a\"", true));
    CHECK(!matches("\"x,\"a\",y\"", "\"a\"", true));
    CHECK(matches("\"\\\", \"a\"", "\"a\"", true));
    CHECK(matches("\"\\\"", "\"\\\"", true));
}

TEST(empty_tag_is_a_tag)
{
    CHECK(matches("\"\"", "\"\"", true));
    CHECK(matches("\"\", \"a\"", "\"a\"", true));
    CHECK(!matches("\"\"", "\"a\"", true));
}

TEST(malformed_elements_match_nothing)
{
    CHECK(!matches("", "\"a\"", false));
    CHECK(!matches(",", "\"a\"", false));
    CHECK(!matches("a", "\"a\"", false));
    CHECK(!matches("\"a", "\"a\"", false));
    CHECK(!matches("a\"", "\"a\"", false));
    CHECK(!matches("\"", "\"\"", false));
    CHECK(!matches("w/\"a\"", "\"a\"", false));
    CHECK(!matches("W/ \"a\"", "\"a\"", false));
    CHECK(!matches("W\"a\"", "\"a\"", false));
    CHECK(!matches("W/W/\"a\"", "\"a\"", false));
    CHECK(!matches("W/", "\"\"", false));
    CHECK(!matches("\"a\"b", "\"a\"", false));
    CHECK(!matches("b\"a\"", "\"a\"", false));
    CHECK(!matches("\"a\" \"b\"", "\"a\"", false));
    CHECK(!matches("\"a b\"", "\"a b\"", false));
    CHECK(!matches("'a'", "\"a\"", false));
    CHECK(!gs_http_etag_list_matches((struct gs_http_text){NULL, 0}, GS_HTTP_TEXT("\"a\""), false));
    CHECK(!gs_http_etag_list_matches(GS_HTTP_TEXT("\"a\0\""), GS_HTTP_TEXT("\"a\0\""), false));
}

TEST(malformed_element_does_not_affect_the_next)
{
    CHECK(matches("a, \"a\"", "\"a\"", true));
    CHECK(matches("\"a\"x, \"a\"", "\"a\"", true));
    CHECK(matches("W/, \"a\"", "\"a\"", true));
    CHECK(matches("\"a b\", \"a\"", "\"a\"", true));
}
