/* The schedule of an open loop. */
#include "load/schedule.h"

#include "tests/test.h"

#include <gossamer/clock.h>

#include <math.h>

#define COUNT 20000

static struct load_schedule schedule_of(const struct load_settings *settings, size_t index,
                                        size_t count)
{
    struct load_schedule schedule;
    gs_load_schedule_init(&schedule, settings, (struct load_share){index, count}, GS_SECOND);
    return schedule;
}

TEST(constant_spacing_is_even_and_does_not_drift)
{
    const struct load_settings settings = {.rate = 3};
    struct load_schedule schedule = schedule_of(&settings, 0, 1);
    CHECK_EQ(gs_load_schedule_next(&schedule), GS_SECOND);
    CHECK_EQ(gs_load_schedule_next(&schedule), GS_SECOND + 333333333);
    CHECK_EQ(gs_load_schedule_next(&schedule), GS_SECOND + 666666666);
    for (int i = 3; i < 3000; i++)
        gs_load_schedule_next(&schedule);
    CHECK_EQ(gs_load_schedule_next(&schedule), 1001 * GS_SECOND);
}

TEST(the_constant_schedules_of_all_shares_interleave)
{
    const struct load_settings settings = {.rate = 1000};
    struct load_schedule whole = schedule_of(&settings, 0, 1), shares[3];
    for (size_t i = 0; i < 3; i++)
        shares[i] = schedule_of(&settings, i, 3);
    for (int i = 0; i < 300; i++)
        CHECK_EQ(gs_load_schedule_next(&shares[i % 3]), gs_load_schedule_next(&whole));
}

/* Draw intervals, in units of their mean. */
static void draw_intervals(const struct load_settings *settings, struct load_share share,
                           double intervals[COUNT])
{
    struct load_schedule schedule = schedule_of(settings, share.index, share.count);
    double mean_ns = (double)GS_SECOND * (double)share.count / (double)settings->rate;
    uint64_t before_ns = GS_SECOND;
    for (int i = 0; i < COUNT; i++) {
        uint64_t scheduled_ns = gs_load_schedule_next(&schedule);
        CHECK(scheduled_ns >= before_ns);
        intervals[i] = (double)(scheduled_ns - before_ns) / mean_ns;
        before_ns = scheduled_ns;
    }
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* Returns the Kolmogorov-Smirnov statistic against the exponential distribution. */
static double distance_to_exponential(double intervals[COUNT])
{
    double largest = 0;
    qsort(intervals, COUNT, sizeof *intervals, by_value);
    for (int i = 0; i < COUNT; i++) {
        double expected = 1 - exp(-intervals[i]);
        largest = fmax(largest, fmax(expected - (double)i / COUNT, (i + 1.0) / COUNT - expected));
    }
    return largest;
}

TEST(random_intervals_are_exponentially_distributed_and_independent)
{
    static double intervals[COUNT];
    for (uint64_t seed = 0; seed < 3; seed++) {
        const struct load_settings settings = {.rate = 5000, .is_poisson = true, .seed = seed};
        double sum = 0, squares = 0, products = 0;
        draw_intervals(&settings, (struct load_share){seed, 4}, intervals);
        for (int i = 0; i < COUNT; i++) {
            sum += intervals[i];
            squares += intervals[i] * intervals[i];
            products += i ? (intervals[i] - 1) * (intervals[i - 1] - 1) : 0;
        }
        /* The tolerance is three standard deviations of each estimate. */
        CHECK(fabs(sum / COUNT - 1) < 3 / sqrt(COUNT));
        CHECK(fabs(squares / COUNT - 2) < 3 * sqrt(20.0 / COUNT));
        CHECK(fabs(products / COUNT) < 3 / sqrt(COUNT));
        CHECK(distance_to_exponential(intervals) < 1.63 / sqrt(COUNT));
    }
}

TEST(the_same_seed_gives_the_same_times_and_another_seed_or_share_other_times)
{
    const struct load_settings settings = {.rate = 100, .is_poisson = true, .seed = 1},
                               other = {.rate = 100, .is_poisson = true, .seed = 2};
    struct load_schedule one = schedule_of(&settings, 0, 2), same = schedule_of(&settings, 0, 2);
    struct load_schedule share = schedule_of(&settings, 1, 2), seed = schedule_of(&other, 0, 2);
    int as_share = 0, as_seed = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t scheduled_ns = gs_load_schedule_next(&one);
        CHECK_EQ(gs_load_schedule_next(&same), scheduled_ns);
        as_share += gs_load_schedule_next(&share) == scheduled_ns;
        as_seed += gs_load_schedule_next(&seed) == scheduled_ns;
    }
    CHECK_EQ(as_share + as_seed, 0);
}

TEST(the_lag_is_the_time_since_the_next_request_became_due)
{
    for (int is_poisson = 0; is_poisson < 2; is_poisson++) {
        const struct load_settings settings = {.rate = 1000, .is_poisson = is_poisson};
        struct load_schedule schedule = schedule_of(&settings, 0, 1);
        struct load_schedule same = schedule_of(&settings, 0, 1);
        for (int i = 0; i < 10; i++)
            CHECK_EQ(gs_load_schedule_next(&schedule), gs_load_schedule_next(&same));
        uint64_t due_ns = gs_load_schedule_next(&same);
        CHECK_EQ(gs_load_schedule_lag(&schedule, due_ns - 1), 0);
        CHECK_EQ(gs_load_schedule_lag(&schedule, due_ns + 7), 7);
        CHECK_EQ(gs_load_schedule_next(&schedule), due_ns);
    }
}
