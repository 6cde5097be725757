#include "base/histogram.h"

#include <endian.h>
#include <string.h>

/* HdrHistogram's V2 encoding: a header in network order, then the counts of the slots from the
 * first on, each a ZigZag LEB128 number: a count, or, negative, how many slots in a row are empty.
 */
enum { COOKIE = 0x1c849303 | 0x10, HEADER = 40, LONGEST_NUMBER = 9 };

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, sizeof value);
    return at + sizeof value;
}

/* Seven bits a byte, the lowest first; the ninth byte, if it comes to that, holds eight. */
static uint8_t *put_number(uint8_t *at, int64_t number)
{
    uint64_t left = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    for (int i = 1; i < LONGEST_NUMBER && left > 0x7f; i++) {
        *at++ = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    *at++ = (uint8_t)left;
    return at;
}

size_t gs_histogram_encoded_bound(const struct gs_histogram *histogram)
{
    return HEADER + (size_t)gs_histogram_used(histogram) * LONGEST_NUMBER;
}

size_t gs_histogram_encode(const struct gs_histogram *histogram, uint8_t *bytes)
{
    uint8_t *at = bytes + HEADER;
    uint32_t used = gs_histogram_used(histogram);
    for (uint32_t slot = 0; slot < used;) {
        uint32_t start = slot;
        while (slot < used && !histogram->counts[slot])
            slot++;
        if (slot > start)
            at = put_number(at, -(int64_t)(slot - start));
        else
            at = put_number(at, (int64_t)histogram->counts[slot++]);
    }
    double ratio = 1;
    uint64_t ratio_bits;
    memcpy(&ratio_bits, &ratio, sizeof ratio_bits);
    size_t length = (size_t)(at - bytes);
    at = put_u32(bytes, COOKIE);
    at = put_u32(at, (uint32_t)(length - HEADER));
    at = put_u32(at, 0); /* the index of the first slot */
    at = put_u32(at, histogram->digits);
    at = put_u64(at, 1); /* the smallest difference that is seen */
    at = put_u64(at, histogram->limit);
    put_u64(at, ratio_bits);
    return length;
}
