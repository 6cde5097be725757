#include "base/histogram.h"

#include <endian.h>
#include <string.h>

/* HdrHistogram's V2 encoding: a header in network byte order, then the buckets as ZigZag LEB128
 * numbers. A positive number is the count of a bucket, a negative one is the length of a run of
 * empty buckets. */
enum { COOKIE = 0x1c849303 | 0x10, HEADER = 40, LONGEST_NUMBER = 9 };

static uint8_t *put_u32(uint8_t *out, uint32_t value)
{
    value = htobe32(value);
    memcpy(out, &value, sizeof value);
    return out + sizeof value;
}

static uint8_t *put_u64(uint8_t *out, uint64_t value)
{
    value = htobe64(value);
    memcpy(out, &value, sizeof value);
    return out + sizeof value;
}

/* Seven bits per byte, lowest first; a ninth byte holds eight bits. */
static uint8_t *put_number(uint8_t *out, int64_t number)
{
    uint64_t left = ((uint64_t)number << 1) ^ (uint64_t)(number >> 63);
    for (int i = 1; i < LONGEST_NUMBER && left > 0x7f; i++) {
        *out++ = (uint8_t)(left | 0x80);
        left >>= 7;
    }
    *out++ = (uint8_t)left;
    return out;
}

size_t gs_histogram_encoded_bound(const struct gs_histogram *histogram)
{
    return HEADER + (size_t)gs_histogram_used(histogram) * LONGEST_NUMBER;
}

size_t gs_histogram_encode(const struct gs_histogram *histogram, uint8_t *bytes)
{
    uint8_t *out = bytes + HEADER;
    uint32_t used = gs_histogram_used(histogram);
    for (uint32_t bucket = 0; bucket < used;) {
        uint32_t start = bucket;
        while (bucket < used && !histogram->counts[bucket])
            bucket++;
        if (bucket > start)
            out = put_number(out, -(int64_t)(bucket - start));
        else
            out = put_number(out, (int64_t)histogram->counts[bucket++]);
    }
    double ratio = 1;
    uint64_t ratio_bits;
    memcpy(&ratio_bits, &ratio, sizeof ratio_bits);
    size_t length = (size_t)(out - bytes);
    out = put_u32(bytes, COOKIE);
    out = put_u32(out, (uint32_t)(length - HEADER));
    out = put_u32(out, 0); /* the index of the first bucket */
    out = put_u32(out, histogram->digits);
    out = put_u64(out, 1); /* lowest discernible value */
    out = put_u64(out, histogram->limit);
    put_u64(out, ratio_bits);
    return length;
}
