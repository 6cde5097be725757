#include <gossamer/clock.h>
#include <gossamer/histogram.h>

#include "tests/test.h"

#include <math.h>

static struct gs_histogram fresh(uint64_t limit, int digits)
{
    struct gs_histogram histogram;
    CHECK_EQ(gs_histogram_init(&histogram, limit, digits), 0);
    return histogram;
}

/* A deterministic pseudorandom sequence. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

TEST(an_empty_histogram_is_all_zeros)
{
    struct gs_histogram h = fresh(3600 * GS_SECOND, 3);
    struct gs_histogram_cursor at = {0};
    CHECK_EQ(h.count, 0);
    CHECK_EQ(gs_histogram_min(&h), 0);
    CHECK_EQ(gs_histogram_max(&h), 0);
    CHECK_EQ(gs_histogram_percentile(&h, 50), 0);
    CHECK(gs_histogram_mean(&h) == 0 && gs_histogram_stddev(&h) == 0);
    CHECK(!gs_histogram_next(&h, &at));
    gs_histogram_done(&h);
}

TEST(parameters_out_of_range_are_refused)
{
    struct gs_histogram h;
    CHECK_EQ(gs_histogram_init(&h, 1, 3), -EINVAL);
    CHECK_EQ(gs_histogram_init(&h, (uint64_t)INT64_MAX + 1, 3), -EINVAL);
    CHECK_EQ(gs_histogram_init(&h, 1000, 0), -EINVAL);
    CHECK_EQ(gs_histogram_init(&h, 1000, 6), -EINVAL);
}

TEST(an_hour_of_nanoseconds_to_three_digits_has_33_thousand_buckets)
{
    struct gs_histogram h = fresh(3600 * GS_SECOND, 3);
    CHECK_EQ(h.buckets <= 33 * 1024, 1);
    gs_histogram_done(&h);
}

TEST(every_value_falls_into_a_bucket_that_holds_it_to_the_given_digits)
{
    for (int digits = 1; digits <= 5; digits++) {
        double error = pow(10, -digits);
        uint64_t values[200], state = 88172645463325252;
        struct gs_histogram h = fresh(INT64_MAX, digits);
        for (int i = 0; i < 200; i++) {
            values[i] = (next_random(&state) >> 1) >> (i % 63);
            gs_histogram_record(&h, values[i]);
        }
        gs_histogram_record(&h, INT64_MAX);
        qsort(values, 200, sizeof *values, by_value);
        struct gs_histogram_cursor at = {0};
        CHECK(gs_histogram_next(&h, &at));
        for (int i = 0; i < 200; i++) {
            while (values[i] > at.highest)
                CHECK(gs_histogram_next(&h, &at));
            CHECK(at.lowest <= values[i]);
            CHECK((double)(at.highest - at.lowest) <= (double)values[i] * error);
        }
        gs_histogram_done(&h);
    }
}

TEST(slots_lie_side_by_side_without_gaps)
{
    struct gs_histogram h = fresh(1 << 20, 1);
    for (uint64_t value = 0; value <= 1 << 20; value++)
        gs_histogram_record(&h, value);
    uint64_t expected = 0;
    struct gs_histogram_cursor at = {0};
    while (gs_histogram_next(&h, &at)) {
        CHECK_EQ(at.lowest, expected);
        CHECK_EQ(at.count, at.highest - at.lowest + 1);
        CHECK_EQ(at.total, at.highest + 1);
        expected = at.highest + 1;
    }
    CHECK_EQ(expected, (1 << 20) + 1);
    gs_histogram_done(&h);
}

TEST(percentiles_agree_with_the_sorted_values)
{
    static const size_t n = 20000;
    static uint64_t values[20000];
    struct gs_histogram h = fresh(3600 * GS_SECOND, 3);
    uint64_t state = 42, sum = 0;
    for (int i = 0; i < (int)n; i++) {
        values[i] = next_random(&state) % 1000000 >> (i % 10);
        sum += values[i];
        gs_histogram_record(&h, values[i]);
    }
    qsort(values, n, sizeof *values, by_value);
    static const double percents[] = {0, 10, 50, 75, 90, 99, 99.9, 100};
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        size_t rank = (size_t)ceil(percents[i] / 100 * (double)n - 1e-6);
        double exact = (double)values[rank ? rank - 1 : 0];
        double found = (double)gs_histogram_percentile(&h, percents[i]);
        CHECK(found >= exact && found <= exact * 1.001);
    }
    CHECK_EQ(gs_histogram_min(&h), values[0]);
    CHECK_EQ(gs_histogram_max(&h), values[n - 1]);
    CHECK_EQ(gs_histogram_percentile(&h, 100), values[n - 1]);
    CHECK(fabs(gs_histogram_mean(&h) - (double)sum / (double)n) < 1e-6);
    gs_histogram_done(&h);
}

TEST(a_percentile_that_is_a_whole_rank_is_that_value)
{
    struct gs_histogram h = fresh(100000, 3);
    for (uint64_t value = 1; value <= 1000; value++)
        gs_histogram_record(&h, value);
    for (unsigned tenth = 1; tenth <= 1000; tenth++)
        CHECK_EQ(gs_histogram_percentile(&h, tenth / 10.0), tenth);
    CHECK_EQ(gs_histogram_percentile(&h, -1), 1);
    CHECK_EQ(gs_histogram_percentile(&h, 200), 1000);
    CHECK(fabs(gs_histogram_stddev(&h) - 288.675) < 0.01);
    gs_histogram_done(&h);
}

TEST(a_value_above_the_limit_is_counted_as_saturated_and_stays_the_maximum)
{
    struct gs_histogram h = fresh(1000, 3);
    gs_histogram_record(&h, 1000);
    CHECK_EQ(h.saturated, 0);
    gs_histogram_record(&h, 123456);
    gs_histogram_record_many(&h, 2000, 3);
    CHECK_EQ(h.count, 5);
    CHECK_EQ(h.saturated, 4);
    CHECK_EQ(gs_histogram_max(&h), 123456);
    CHECK_EQ(gs_histogram_percentile(&h, 100), 123456);
    CHECK(fabs(gs_histogram_mean(&h) - (1000 + 123456 + 6000) / 5.0) < 1e-9);
    gs_histogram_reset(&h);
    CHECK_EQ(h.count + h.saturated + gs_histogram_max(&h), 0);
    struct gs_histogram_cursor at = {0};
    CHECK(!gs_histogram_next(&h, &at));
    gs_histogram_done(&h);
}

TEST(many_records_at_once_equal_as_many_single_ones)
{
    struct gs_histogram one = fresh(1 << 30, 2), many = fresh(1 << 30, 2);
    for (int i = 0; i < 1000; i++)
        gs_histogram_record(&one, 777777);
    gs_histogram_record_many(&many, 777777, 1000);
    gs_histogram_record_many(&many, 5, 0);
    CHECK_EQ(memcmp(one.counts, many.counts, one.buckets * sizeof *one.counts), 0);
    CHECK_EQ(one.count, many.count);
    CHECK_EQ(one.sum, many.sum);
    CHECK_EQ(many.min, 777777);
    gs_histogram_done(&one);
    gs_histogram_done(&many);
}

TEST(the_sum_does_not_overflow)
{
    struct gs_histogram h = fresh(INT64_MAX, 3);
    gs_histogram_record_many(&h, INT64_MAX, 1000);
    CHECK(fabs(gs_histogram_mean(&h) / (double)INT64_MAX - 1) < 1e-12);
    gs_histogram_done(&h);
}

TEST(added_histograms_hold_what_one_would_hold)
{
    struct gs_histogram a = fresh(1 << 20, 3), b = fresh(1 << 20, 3), both = fresh(1 << 20, 3);
    uint64_t state = 7;
    for (int i = 0; i < 5000; i++) {
        uint64_t value = next_random(&state) % (1 << 21);
        gs_histogram_record(i % 3 ? &a : &b, value);
        gs_histogram_record(&both, value);
    }
    CHECK_EQ(gs_histogram_add(&a, &b), 0);
    CHECK_EQ(memcmp(a.counts, both.counts, a.buckets * sizeof *a.counts), 0);
    CHECK_EQ(a.count, both.count);
    CHECK_EQ(a.saturated, both.saturated);
    CHECK_EQ(a.min, both.min);
    CHECK_EQ(a.max, both.max);
    CHECK_EQ(a.sum, both.sum);
    CHECK(a.saturated > 0);
    gs_histogram_done(&a);
    gs_histogram_done(&b);
    gs_histogram_done(&both);
}

TEST(an_empty_histogram_adds_nothing_and_other_shapes_are_refused)
{
    struct gs_histogram a = fresh(1 << 20, 3), empty = fresh(1 << 20, 3), other = fresh(1 << 20, 2);
    gs_histogram_record(&a, 17);
    CHECK_EQ(gs_histogram_add(&a, &empty), 0);
    CHECK_EQ(gs_histogram_min(&a), 17);
    CHECK_EQ(gs_histogram_max(&a), 17);
    CHECK_EQ(gs_histogram_add(&a, &other), -EINVAL);
    CHECK_EQ(gs_histogram_add(&empty, &a), 0);
    CHECK_EQ(gs_histogram_min(&empty), 17);
    gs_histogram_done(&a);
    gs_histogram_done(&empty);
    gs_histogram_done(&other);
}
