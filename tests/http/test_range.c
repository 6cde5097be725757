#include "http/range.h"
#include "tests/test.h"

#include <inttypes.h>

/* Returns text of the form "first-last first-last". */
static const char *render(const struct gs_http_range *ranges, size_t count, uint64_t size)
{
    static char out[1024];
    CHECK(count >= 1 && count <= GS_HTTP_RANGES_MAX);
    for (size_t i = 0; i < count; i++)
        CHECK(ranges[i].first <= ranges[i].last && ranges[i].last < size);
    int n = 0;
    for (size_t i = 0; i < count; i++)
        n += snprintf(out + n, sizeof out - (size_t)n, "%s%" PRIu64 "-%" PRIu64, i ? " " : "",
                      ranges[i].first, ranges[i].last);
    return out;
}

/* Parse the value for a file of `size` bytes. Returns "full", "unsatisfiable", or the ranges. */
static const char *parse(struct gs_http_text value, uint64_t size)
{
    struct gs_http_range ranges[GS_HTTP_RANGES_MAX];
    size_t count = 0;
    switch (gs_http_range_parse(value, size, ranges, &count)) {
    case GS_HTTP_RANGE_NONE:
        return "full";
    case GS_HTTP_RANGE_UNSATISFIABLE:
        return "unsatisfiable";
    case GS_HTTP_RANGE_SOME:
        break;
    }
    return render(ranges, count, size);
}

#define CHECK_RANGES(value, size, expected) CHECK_STR(parse(GS_HTTP_TEXT(value), size), expected)

TEST(examples_of_the_rfc_for_10000_bytes)
{
    CHECK_RANGES("bytes=0-499", 10000, "0-499");
    CHECK_RANGES("bytes=500-999", 10000, "500-999");
    CHECK_RANGES("bytes=-500", 10000, "9500-9999");
    CHECK_RANGES("bytes=9500-", 10000, "9500-9999");
    CHECK_RANGES("bytes=0-0,-1", 10000, "0-0 9999-9999");
    CHECK_RANGES("bytes= 0-0, -2", 10000, "0-0 9998-9999");
    CHECK_RANGES("bytes= 0-999, 4500-5499, -1000", 10000, "0-999 4500-5499 9000-9999");
    CHECK_RANGES("bytes=500-600,601-999", 10000, "500-999");
    CHECK_RANGES("bytes=500-700,601-999", 10000, "500-999");
}

TEST(range_is_clipped_to_the_file)
{
    CHECK_RANGES("bytes=0-9999", 100, "0-99");
    CHECK_RANGES("bytes=99-", 100, "99-99");
    CHECK_RANGES("bytes=99-100", 100, "99-99");
    CHECK_RANGES("bytes=-100", 100, "0-99");
    CHECK_RANGES("bytes=-101", 100, "0-99");
    CHECK_RANGES("bytes=0-", 1, "0-0");
}

TEST(range_after_the_end_is_unsatisfiable)
{
    CHECK_RANGES("bytes=100-", 100, "unsatisfiable");
    CHECK_RANGES("bytes=100-200", 100, "unsatisfiable");
    CHECK_RANGES("bytes=-0", 100, "unsatisfiable");
    CHECK_RANGES("bytes=100-, 200-300,-0", 100, "unsatisfiable");
}

TEST(one_satisfiable_range_makes_the_list_satisfiable)
{
    CHECK_RANGES("bytes=100-, 5-6, -0", 100, "5-6");
    CHECK_RANGES("bytes=5-6, 200-300", 100, "5-6");
}

TEST(empty_file_has_no_range)
{
    CHECK_RANGES("bytes=0-", 0, "unsatisfiable");
    CHECK_RANGES("bytes=0-0", 0, "unsatisfiable");
    CHECK_RANGES("bytes=-0", 0, "unsatisfiable");
    CHECK_RANGES("bytes=-5", 0, "full");
}

TEST(unit_is_case_insensitive_and_other_units_are_ignored)
{
    CHECK_RANGES("BYTES=1-2", 10, "1-2");
    CHECK_RANGES("Bytes=1-2", 10, "1-2");
    CHECK_RANGES("items=1-2", 10, "full");
    CHECK_RANGES("byte=1-2", 10, "full");
    CHECK_RANGES("bytess=1-2", 10, "full");
    CHECK_RANGES("bytes 1-2", 10, "full");
    CHECK_RANGES("bytes =1-2", 10, "full");
    CHECK_RANGES("1-2", 10, "full");
    CHECK_RANGES("=1-2", 10, "full");
    CHECK_RANGES("", 10, "full");
    CHECK_STR(parse((struct gs_http_text){NULL, 0}, 10), "full");
}

TEST(malformed_element_invalidates_the_list)
{
    CHECK_RANGES("bytes=", 10, "full");
    CHECK_RANGES("bytes=-", 10, "full");
    CHECK_RANGES("bytes=--1", 10, "full");
    CHECK_RANGES("bytes=1", 10, "full");
    CHECK_RANGES("bytes=a-b", 10, "full");
    CHECK_RANGES("bytes=1-b", 10, "full");
    CHECK_RANGES("bytes=1-2-3", 10, "full");
    CHECK_RANGES("bytes=2-1", 10, "full");
    CHECK_RANGES("bytes=1 -2", 10, "full");
    CHECK_RANGES("bytes=1- 2", 10, "full");
    CHECK_RANGES("bytes=+1-2", 10, "full");
    CHECK_RANGES("bytes=0x1-2", 10, "full");
    CHECK_RANGES("bytes=1-2;3-4", 10, "full");
    CHECK_RANGES("bytes=1-2, x", 10, "full");
    CHECK_RANGES("bytes=1-2, 3-2", 10, "full");
    CHECK_RANGES("bytes=100-, 3-2", 10, "full");
    CHECK_RANGES("bytes=\"1-2\"", 10, "full");
    CHECK_RANGES("bytes=1-2\0", 10, "full");
}

TEST(empty_elements_are_skipped)
{
    CHECK_RANGES("bytes=,1-2,, 5-6 ,", 10, "1-2 5-6");
    CHECK_RANGES("bytes=,", 10, "full");
    CHECK_RANGES("bytes= , ,", 10, "full");
}

TEST(numbers_above_64_bits_are_clamped)
{
    CHECK_RANGES("bytes=0-18446744073709551616", 10, "0-9");
    CHECK_RANGES("bytes=5-99999999999999999999999999999999", 10, "5-9");
    CHECK_RANGES("bytes=-99999999999999999999999999999999", 10, "0-9");
    CHECK_RANGES("bytes=99999999999999999999999999999999-", 10, "unsatisfiable");
    CHECK_RANGES("bytes=18446744073709551615-18446744073709551615", 10, "unsatisfiable");
    CHECK_RANGES("bytes=99999999999999999999999999999999-1", 10, "full");
    CHECK_RANGES("bytes=00000000000000000000000000000000000001-2", 10, "1-2");
    CHECK_RANGES("bytes=0-", UINT64_MAX, "0-18446744073709551614");
    CHECK_RANGES("bytes=18446744073709551614-, 0-0", UINT64_MAX,
                 "18446744073709551614-18446744073709551614 0-0");
    CHECK_RANGES("bytes=-1, 0-", UINT64_MAX, "0-18446744073709551614");
}

TEST(ranges_keep_the_order_of_the_request)
{
    CHECK_RANGES("bytes=90-99, 0-4, 50-59", 100, "90-99 0-4 50-59");
    CHECK_RANGES("bytes=-1, 0-0", 100, "99-99 0-0");
}

TEST(touching_ranges_are_merged_at_the_position_of_the_first)
{
    CHECK_RANGES("bytes=50-59, 0-4, 60-69", 100, "50-69 0-4");
    CHECK_RANGES("bytes=60-69, 0-4, 50-59", 100, "50-69 0-4");
    CHECK_RANGES("bytes=0-4, 50-59, 58-70, 3-8", 100, "0-8 50-70");
    CHECK_RANGES("bytes=5-5, 5-5, 5-5", 100, "5-5");
    CHECK_RANGES("bytes=10-20, 12-14", 100, "10-20");
    CHECK_RANGES("bytes=12-14, 10-20", 100, "10-20");
    CHECK_RANGES("bytes=0-1, 3-4", 100, "0-1 3-4");
}

TEST(range_that_connects_others_is_merged_with_all)
{
    CHECK_RANGES("bytes=0-1, 80-81, 10-11, 20-21, 90-91, 5-25", 100, "0-1 80-81 5-25 90-91");
    CHECK_RANGES("bytes=80-81, 10-11, 0-", 100, "0-99");
    CHECK_RANGES("bytes=0-1, 4-5, 2-3", 100, "0-5");
}

/* Returns a list of `count` ranges of one byte each, `step` bytes apart. */
static struct gs_http_text many(size_t count, size_t step)
{
    static char value[65536];
    size_t n = (size_t)snprintf(value, sizeof value, "bytes=");
    for (size_t i = 0; i < count; i++)
        n += (size_t)snprintf(value + n, sizeof value - n, "%s%zu-%zu", i ? "," : "", i * step,
                              i * step);
    return (struct gs_http_text){value, n};
}

TEST(sixteen_ranges_are_accepted_and_seventeen_are_not)
{
    CHECK_STR(
        parse(many(16, 2), 100),
        "0-0 2-2 4-4 6-6 8-8 10-10 12-12 14-14 16-16 18-18 20-20 22-22 24-24 26-26 28-28 30-30");
    CHECK_STR(parse(many(17, 2), 100), "full");
    CHECK_STR(parse(many(5000, 2), 100000), "full");
}

TEST(thousands_of_touching_ranges_are_merged)
{
    CHECK_STR(parse(many(5000, 1), 100000), "0-4999");
    CHECK_STR(parse(many(5000, 0), 100000), "0-0");
}

TEST(merging_frees_room_for_more_ranges)
{
    CHECK_RANGES("bytes=0-0,2-2,4-4,6-6,8-8,10-10,12-12,14-14,16-16,18-18,20-20,22-22,24-24,26-26,"
                 "28-28,30-30,0-12,32-32",
                 100, "0-12 14-14 16-16 18-18 20-20 22-22 24-24 26-26 28-28 30-30 32-32");
}

/* Returns a pseudo-random number below limit; each run yields the same sequence. */
static unsigned draw(unsigned limit)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % limit;
}

#define MODEL_SIZE 64

/* Append a range to the list and mark its bytes. */
static size_t draw_range(char *out, size_t room, char requested[MODEL_SIZE])
{
    unsigned first = draw(MODEL_SIZE), last = first + draw(6);
    for (unsigned at = first; at <= last && at < MODEL_SIZE; at++)
        requested[at] = 1;
    return (size_t)snprintf(out, room, "%u-%u,", first, last);
}

static void check_marks(struct gs_http_text value, const char requested[MODEL_SIZE])
{
    char got[MODEL_SIZE] = {0};
    struct gs_http_range ranges[GS_HTTP_RANGES_MAX];
    size_t count = 0;
    CHECK_EQ(gs_http_range_parse(value, MODEL_SIZE, ranges, &count), GS_HTTP_RANGE_SOME);
    for (size_t i = 0; i < count; i++)
        for (uint64_t at = ranges[i].first; at <= ranges[i].last; at++)
            got[at]++;
    CHECK(!memcmp(requested, got, sizeof got));
}

TEST(random_ranges_cover_the_requested_bytes_once)
{
    for (int round = 0; round < 20000; round++) {
        char value[256] = "bytes=", requested[MODEL_SIZE] = {0};
        size_t n = strlen(value);
        for (unsigned parts = 1 + draw(12); parts > 0; parts--)
            n += draw_range(value + n, sizeof value - n, requested);
        check_marks((struct gs_http_text){value, n}, requested);
    }
}
