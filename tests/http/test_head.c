#include "http/head_end.h"
#include "tests/test.h"

#define HEAD "GET / HTTP/1.1\r\nHost: example.org\r\nX:\ty\xff\r\n\r\n"

static ssize_t find(const char *bytes, size_t n)
{
    size_t scanned = 0;
    return gs_http_find_head_end(bytes, n, &scanned);
}

TEST(head_ends_after_its_empty_line)
{
    CHECK_EQ(find(HEAD, sizeof HEAD - 1), sizeof HEAD - 1);
    CHECK_EQ(find(HEAD "body\n", sizeof HEAD + 4), sizeof HEAD - 1);
    CHECK_EQ(find("a\r\n\r\n", 5), 5);
}

TEST(end_of_head_is_found_for_any_scanned_length)
{
    for (size_t first = 0; first < sizeof HEAD - 1; first++) {
        size_t scanned = 0;
        CHECK_EQ(gs_http_find_head_end(HEAD, first, &scanned), 0);
        CHECK(scanned <= first);
        CHECK_EQ(gs_http_find_head_end(HEAD, sizeof HEAD - 1, &scanned), sizeof HEAD - 1);
    }
    size_t scanned = 0;
    for (size_t n = 1; n < sizeof HEAD - 1; n++)
        CHECK_EQ(gs_http_find_head_end(HEAD, n, &scanned), 0);
    CHECK(scanned >= sizeof HEAD - 5);
}

TEST(scanned_bytes_are_not_scanned_again)
{
    char bytes[64];
    memset(bytes, 'x', sizeof bytes);
    size_t scanned = 0;
    CHECK_EQ(gs_http_find_head_end(bytes, 32, &scanned), 0);
    CHECK_EQ(scanned, 32);
    bytes[3] = '\n';
    CHECK_EQ(gs_http_find_head_end(bytes, sizeof bytes, &scanned), 0);
    CHECK_EQ(scanned, 64);
}

/* At every position, so that both the vector code and the scalar code are tested. */
TEST(control_character_is_found_at_every_position)
{
    for (int c = 0; c < 256; c++) {
        int is_bad = (c < 0x20 && c != '\t') || c == 0x7f;
        for (size_t place = 0; place < 24; place++) {
            char bytes[24];
            memset(bytes, 0xc3, sizeof bytes);
            memset(bytes + place / 2, '~', 5);
            bytes[place] = (char)c;
            ssize_t expected = is_bad && !(c == '\r' && place == 23) ? -EPROTO : 0;
            if (find(bytes, sizeof bytes) != expected)
                TEST_FAIL("byte %d at %zu", c, place);
        }
    }
}

TEST(line_end_is_cr_and_lf)
{
    CHECK_EQ(find("a\n", 2), -EPROTO);
    CHECK_EQ(find("a\ra", 3), -EPROTO);
    CHECK_EQ(find("a\r\r\n", 4), -EPROTO);
    CHECK_EQ(find("a\r\n\n", 4), -EPROTO);
    CHECK_EQ(find("a\r\n\ra", 5), -EPROTO);
    CHECK_EQ(find("a\r\n\r\r", 5), -EPROTO);
    CHECK_EQ(find("a\r", 2), 0);
    CHECK_EQ(find("a\r\n", 3), 0);
    CHECK_EQ(find("a\r\n\r", 4), 0);
    CHECK_EQ(find("", 0), 0);
}
