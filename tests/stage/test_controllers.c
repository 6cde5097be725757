#include "stage/controllers.h"

#include "tests/test.h"

#define MS GS_MILLISECOND

/* ---- Threads ---- */

TEST(thread_is_added_when_ten_events_are_queued)
{
    static const struct {
        unsigned queued;
        uint64_t after_ns; /* time since the previous step */
        bool grows;
    } steps[] = {
        {0, 20 * MS, false}, {9, 20 * MS, false},  {10, 20 * MS, true}, {500, 1 * MS, false},
        {500, 9 * MS, true}, {9, 500 * MS, false}, {10, 0, true},       {10, 0, false},
    };
    struct gs_pool_control control = {0};
    uint64_t now_ns = GS_SECOND;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        now_ns += steps[i].after_ns;
        if (gs_pool_should_grow(&control, steps[i].queued, now_ns) != steps[i].grows)
            TEST_FAIL("step %zu", i);
    }
}

/* ---- Batches ---- */

static void start(struct gs_batch_control *control, uint64_t *ret_now_ns)
{
    *ret_now_ns = GS_SECOND;
    gs_batch_control_init(control, GS_BATCH_MAX);
    gs_batch_control_update(control, 0, *ret_now_ns);
}

/* Run the windows of one adjustment, at this number of events per second. */
static unsigned run_windows(struct gs_batch_control *control, unsigned rate, uint64_t *now_ns)
{
    unsigned batch = 0;
    for (int i = 0; i < 5; i++) {
        *now_ns += 100 * MS;
        batch = gs_batch_control_update(control, rate / 10, *now_ns);
    }
    return batch;
}

TEST(batches_shrink_while_throughput_is_constant)
{
    struct gs_batch_control control;
    uint64_t now_ns;
    start(&control, &now_ns);
    unsigned before = run_windows(&control, 10000, &now_ns);
    CHECK_EQ(before, 1024); /* the load has changed, so the controller resets */
    for (int i = 0; i < 60; i++) {
        unsigned batch = run_windows(&control, 10000, &now_ns);
        CHECK(batch <= before);
        before = batch;
    }
    CHECK_EQ(before, 1);
}

TEST(batches_grow_when_throughput_falls_and_shrink_when_it_recovers)
{
    struct gs_batch_control control;
    uint64_t now_ns;
    start(&control, &now_ns);
    for (int i = 0; i < 10; i++)
        run_windows(&control, 10000, &now_ns);
    unsigned small = run_windows(&control, 10000, &now_ns);
    CHECK(small < 1024);
    CHECK(run_windows(&control, 8000, &now_ns) > small);
    CHECK(run_windows(&control, 8000, &now_ns) > small);
    unsigned large =
        run_windows(&control, 9400, &now_ns); /* between the thresholds, the direction is kept */
    CHECK(large > small);
    run_windows(&control, 10000, &now_ns);
    CHECK(run_windows(&control, 10000, &now_ns) < 1024);
    CHECK(!control.is_growing);
}

TEST(batches_restart_at_the_maximum_when_the_load_changes)
{
    static const unsigned loads[] = {1000, 30000};
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        struct gs_batch_control control;
        uint64_t now_ns;
        start(&control, &now_ns);
        for (int j = 0; j < 20; j++)
            run_windows(&control, 10000, &now_ns);
        CHECK(gs_batch_control_update(&control, 0, now_ns) < 100);
        CHECK_EQ(run_windows(&control, loads[i], &now_ns), 1024);
    }
}

TEST(batches_do_not_change_within_a_window)
{
    struct gs_batch_control control;
    gs_batch_control_init(&control, 8);
    for (uint64_t now_ns = 1; now_ns < 100 * MS; now_ns += MS)
        CHECK_EQ(gs_batch_control_update(&control, 1, now_ns), 8);
    CHECK_EQ(control.windows, 0);
}

/* ---- Admission ---- */

#define TARGET (100 * MS)

static unsigned admitted(struct gs_admission_control *control, unsigned offered, uint64_t now_ns)
{
    unsigned count = 0;
    for (unsigned i = 0; i < offered; i++)
        count += gs_admission_admit(control, now_ns);
    return count;
}

TEST(ten_events_are_admitted_at_once_and_then_ten_a_second)
{
    struct gs_admission_control control;
    uint64_t now_ns = GS_SECOND;
    gs_admission_init(&control, TARGET, now_ns);
    CHECK_EQ(admitted(&control, 50, now_ns), 10);
    CHECK_EQ(admitted(&control, 50, now_ns + 99 * MS), 0);
    CHECK_EQ(admitted(&control, 50, now_ns + 101 * MS), 1);
    CHECK_EQ(admitted(&control, 50, now_ns + 602 * MS), 5);
    CHECK_EQ(admitted(&control, 50, now_ns + 100 * GS_SECOND), 10);
    CHECK_EQ(admitted(&control, 50, now_ns), 0); /* another thread's clock may lag behind */
}

/* Make one adjustment: 90 of 100 samples have this response time, and 10 have a hundred times
 * that. */
static double rate_after(struct gs_admission_control *control, uint64_t response_ns,
                         uint64_t now_ns)
{
    for (int i = 0; i < 100; i++)
        gs_admission_update(control, i % 10 ? response_ns : response_ns * 100, now_ns);
    return control->rate;
}

TEST(rate_follows_the_ninetieth_percentile)
{
    static const struct {
        uint64_t response_ns;
        double from, to;
    } rows[] = {
        {89 * MS, 20, 20.5},    {91 * MS, 20, 20},      {119 * MS, 20, 20},     {121 * MS, 20, 10},
        {1 * MS, 4999.8, 5000}, {900 * MS, 0.06, 0.05}, {500 * MS, 5000, 2500},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gs_admission_control control;
        gs_admission_init(&control, TARGET, GS_SECOND);
        control.rate = rows[i].from;
        double rate = rate_after(&control, rows[i].response_ns, GS_SECOND);
        if (rate < rows[i].to - 0.001 || rate > rows[i].to + 0.001)
            TEST_FAIL("row %zu: the rate is %f", i, rate);
    }
}

TEST(new_percentile_has_a_weight_of_three_tenths)
{
    struct gs_admission_control control;
    gs_admission_init(&control, TARGET, GS_SECOND);
    CHECK(rate_after(&control, 50 * MS, GS_SECOND) > 10.4);
    CHECK(rate_after(&control, 200 * MS, GS_SECOND) < 10.6); /* at 95, no change */
    CHECK_EQ(control.p90_ns / 1e6, 95);
    CHECK(rate_after(&control, 200 * MS, GS_SECOND) < 5.3); /* at 126.5, a decrease */
}

TEST(few_samples_are_evaluated_after_a_second)
{
    struct gs_admission_control control;
    gs_admission_init(&control, TARGET, GS_SECOND);
    gs_admission_update(&control, MS, GS_SECOND + 999 * MS);
    CHECK_EQ(control.rate * 10, 100);
    gs_admission_update(&control, MS, 2 * GS_SECOND);
    CHECK_EQ(control.rate * 10, 105);
}
