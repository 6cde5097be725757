#include <gossamer/histogram.h>

#include "tests/test.h"

#include <endian.h>

static struct gs_histogram fresh(uint64_t limit, int digits)
{
    struct gs_histogram histogram;
    CHECK_EQ(gs_histogram_init(&histogram, limit, digits), 0);
    return histogram;
}

static char *printed(const struct gs_histogram *histogram, int ticks, double unit)
{
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    CHECK(file);
    CHECK_EQ(gs_histogram_print(histogram, file, ticks, unit), 0);
    fclose(file);
    return text;
}

TEST(the_percentile_table_has_the_lines_that_its_readers_expect)
{
    struct gs_histogram h = fresh(1000000, 3);
    for (uint64_t value = 1; value <= 4; value++)
        gs_histogram_record(&h, value * 1000);
    char *text = printed(&h, 1, 1000);
    /* The bucket of 3000 covers 3000 and 3001. */
    CHECK_STR(text, "       Value     Percentile TotalCount 1/(1-Percentile)\n"
                    "\n"
                    "       1.000 0.000000000000          1           1.00\n"
                    "       2.000 0.500000000000          2           2.00\n"
                    "       3.001 0.750000000000          3           4.00\n"
                    "       4.000 0.875000000000          4           8.00\n"
                    "       4.000 1.000000000000          4\n"
                    "#[Mean    =        2.500, StdDeviation   =        1.118]\n"
                    "#[Max     =        4.000, Total count    =            4]\n"
                    "#[Buckets =           10, SubBuckets     =         2048]\n");
    free(text);
    gs_histogram_done(&h);
}

TEST(an_empty_histogram_prints_a_table_without_lines)
{
    struct gs_histogram h = fresh(1000, 2);
    char *text = printed(&h, 5, 1);
    CHECK(strstr(text, "Percentile)\n\n#[Mean"));
    CHECK(strstr(text, "Total count    =            0]"));
    free(text);
    gs_histogram_done(&h);
}

TEST(more_ticks_give_more_lines_that_never_fall)
{
    struct gs_histogram h = fresh(1000000, 3);
    for (uint64_t value = 1; value <= 100000; value++)
        gs_histogram_record(&h, value);
    char *few = printed(&h, 1, 1), *many = printed(&h, 10, 1);
    CHECK(strlen(many) > 5 * strlen(few));
    double last_value = 0, last_percentile = -1, value, percentile;
    char *line = strstr(many, "\n\n") + 2;
    for (; *line != '#'; line = strchr(line, '\n') + 1) {
        char *rest;
        value = strtod(line, &rest);
        percentile = strtod(rest, NULL);
        CHECK(value >= last_value && percentile > last_percentile);
        last_value = value;
        last_percentile = percentile;
    }
    CHECK(last_percentile == 1 && last_value == 100000);
    free(few);
    free(many);
    gs_histogram_done(&h);
}

/* ---- Decoding the V2 encoding ---- */

static int64_t take_number(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 9; i++) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(i == 8 ? byte : byte & 0x7f) << (7 * i);
        if (i == 8 || !(byte & 0x80))
            break;
    }
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static uint32_t u32_at(const uint8_t *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return be32toh(value);
}

static void check_encoding(const struct gs_histogram *h)
{
    size_t bound = gs_histogram_encoded_bound(h);
    uint8_t *bytes = malloc(bound);
    CHECK(bytes);
    size_t length = gs_histogram_encode(h, bytes);
    CHECK(length <= bound);
    CHECK_EQ(u32_at(bytes), 0x1c849313);
    CHECK_EQ(u32_at(bytes + 4), length - 40);
    CHECK_EQ(u32_at(bytes + 12), h->digits);
    const uint8_t *at = bytes + 40, *end = bytes + length;
    uint64_t *counts = calloc(h->buckets, sizeof *counts);
    uint32_t bucket = 0;
    while (at < end) {
        int64_t number = take_number(&at);
        if (number < 0)
            bucket += (uint32_t)-number;
        else
            counts[bucket++] = (uint64_t)number;
        CHECK(bucket <= h->buckets);
    }
    CHECK(at == end);
    CHECK_EQ(memcmp(counts, h->counts, h->buckets * sizeof *counts), 0);
    free(counts);
    free(bytes);
}

TEST(the_encoding_reads_back_to_the_same_counts)
{
    struct gs_histogram h = fresh(3600000000000, 3);
    check_encoding(&h);
    gs_histogram_record(&h, 0);
    check_encoding(&h);
    for (uint64_t i = 0; i < 50; i++)
        gs_histogram_record_many(&h, UINT64_C(3) << (i % 40), UINT64_C(1) << i);
    check_encoding(&h);
    gs_histogram_record(&h, UINT64_C(1) << 60);
    check_encoding(&h);
    gs_histogram_done(&h);
}

TEST(counts_up_to_2_to_the_62_take_nine_bytes_and_read_back)
{
    struct gs_histogram h = fresh(100, 1);
    gs_histogram_record_many(&h, 1, UINT64_C(1) << 62);
    gs_histogram_record_many(&h, 3, (UINT64_C(1) << 55) - 1);
    gs_histogram_record_many(&h, 4, UINT64_C(1) << 55);
    check_encoding(&h);
    gs_histogram_done(&h);
}

TEST(the_encoding_of_a_small_histogram_is_byte_for_byte_this)
{
    struct gs_histogram h = fresh(1000, 1);
    gs_histogram_record(&h, 2);
    gs_histogram_record_many(&h, 3, 64);
    uint8_t bytes[128];
    CHECK(gs_histogram_encoded_bound(&h) <= sizeof bytes);
    size_t length = gs_histogram_encode(&h, bytes);
    static const uint8_t expected[] = {
        0x1c, 0x84, 0x93, 0x13, 0, 0, 0, 4, 0,    0,    0,    0,    0, 0, 0, 1, 0, 0, 0, 0, 0,    0,
        0,    1,    0,    0,    0, 0, 0, 0, 0x03, 0xe8, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 3, 2, 0x80, 1,
    };
    CHECK_EQ(length, sizeof expected);
    CHECK_EQ(memcmp(bytes, expected, length), 0);
    gs_histogram_done(&h);
}
