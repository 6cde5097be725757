#include "http/siphash.h"

#include "tests/test.h"

static const uint64_t key[] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};

/* From the reference implementation's vectors of 128 bits: the first, and that of 15 bytes. */
TEST(the_hash_is_that_of_the_reference)
{
    uint8_t bytes[16];
    uint64_t hash[2];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    gs_http_siphash(key, bytes, 0, hash);
    CHECK_EQ(hash[0], UINT64_C(0xe6a825ba047f81a3));
    CHECK_EQ(hash[1], UINT64_C(0x930255c71472f66d));
    gs_http_siphash(key, bytes, 15, hash);
    CHECK_EQ(hash[0], UINT64_C(0x11a8b03399e99354));
    CHECK_EQ(hash[1], UINT64_C(0xd9c3cf970fec087e));
}

TEST(each_bit_of_the_text_and_of_the_key_counts)
{
    uint8_t bytes[24] = {0};
    uint64_t first[2], other[2], other_key[2] = {key[0], key[1] ^ 1};
    for (size_t n = 1; n <= sizeof bytes; n++) {
        gs_http_siphash(key, bytes, n, first);
        gs_http_siphash(key, bytes, n - 1, other);
        CHECK(first[0] != other[0] && first[1] != other[1]);
        bytes[n - 1] ^= 0x80;
        gs_http_siphash(key, bytes, n, other);
        CHECK(first[0] != other[0] && first[1] != other[1]);
        bytes[n - 1] ^= 0x80;
        gs_http_siphash(other_key, bytes, n, other);
        CHECK(first[0] != other[0] && first[1] != other[1]);
    }
}
