/* The check of UTF-8 accepts the encoding of each character, and nothing else. */
#include "tests/test.h"
#include "websocket/utf8.h"

/* Returns whether a text of these bytes is valid; the same must come out byte by byte. */
static bool is_valid(const char *bytes, size_t n)
{
    struct gs_websocket_utf8 whole = {0}, single = {0};
    bool is_good = gs_websocket_utf8_check(&whole, bytes, n), is_good_singly = true;
    for (size_t i = 0; i < n && is_good_singly; i++)
        is_good_singly = gs_websocket_utf8_check(&single, bytes + i, 1);
    CHECK_EQ(is_good, is_good_singly);
    CHECK(!is_good || whole.left == single.left);
    return is_good && gs_websocket_utf8_is_complete(&whole);
}

static size_t encode(uint32_t character, char out[4])
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    size_t n = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, character >>= 6)
        out[i] = (char)(0x80 | (character & 63));
    out[0] = (char)((0xf0u << (4 - n)) | character);
    return n;
}

TEST(each_character_is_valid_and_surrogates_are_not)
{
    char bytes[4];
    for (uint32_t character = 0; character < 0x110000; character++) {
        size_t n = encode(character, bytes);
        CHECK_EQ(is_valid(bytes, n), character < 0xd800 || character > 0xdfff);
    }
    for (uint32_t character = 0x110000; character < 0x200000; character += 0x111)
        CHECK(!is_valid(bytes, encode(character, bytes)));
}

/* Each sequence of three bytes that is valid is counted. */
TEST(there_are_as_many_valid_sequences_as_texts_of_three_bytes)
{
    unsigned long count = 0;
    for (uint32_t i = 0; i < 0x1000000; i++) {
        const char bytes[] = {(char)(i >> 16), (char)(i >> 8), (char)i};
        struct gs_websocket_utf8 utf8 = {0};
        count += gs_websocket_utf8_check(&utf8, bytes, 3) && gs_websocket_utf8_is_complete(&utf8);
    }
    CHECK_EQ(count, 128ul * 128 * 128 + 2ul * 128 * 1920 + 61440);
}

TEST(long_texts_of_ascii_are_checked_to_their_end)
{
    char bytes[40];
    for (size_t at = 0; at < sizeof bytes; at++) {
        memset(bytes, 'a', sizeof bytes);
        CHECK(is_valid(bytes, sizeof bytes));
        bytes[at] = (char)0xff;
        CHECK(!is_valid(bytes, sizeof bytes));
        bytes[at] = (char)0xc3;
        CHECK(!is_valid(bytes, sizeof bytes));
    }
}
