#include "load/tally.h"

#include "tests/test.h"

/* A sample whose response time names it. */
static struct load_sample sample_at(uint64_t end_ns)
{
    return (struct load_sample){.end_ns = end_ns,
                                .response_ns = end_ns,
                                .service_ns = end_ns,
                                .first_byte_ns = 1,
                                .connect_ns = 7,
                                .lag_ns = LOAD_NO_TIME};
}

/* Answers at 1, 2, ... count go to the tallies in turn, or all to the last if `is_lopsided`; sums
 * them up. */
static struct load_tally tally_of(size_t threads, size_t drop, uint64_t count, bool is_lopsided)
{
    struct load_tally tallies[4], sum;
    const struct load_tally *pointers[4];
    for (size_t i = 0; i < threads; i++) {
        CHECK_EQ(gs_load_tally_init(&tallies[i], drop), 0);
        pointers[i] = &tallies[i];
    }
    for (uint64_t at = 1; at <= count; at++) {
        struct load_sample sample = sample_at(at);
        size_t thread = is_lopsided && at > 3 ? threads - 1 : at % threads;
        gs_load_tally_answer(&tallies[thread], &sample);
    }
    CHECK_EQ(gs_load_tally_init(&sum, 0), 0);
    CHECK_EQ(gs_load_tally_merge(&sum, pointers, threads), 0);
    for (size_t i = 0; i < threads; i++)
        gs_load_tally_done(&tallies[i]);
    return sum;
}

/* Exactly the answers from `first` to `last` are in the histograms. */
static void check_counted(const struct load_tally *sum, uint64_t first, uint64_t last)
{
    CHECK_EQ(sum->times[LOAD_TIME_RESPONSE].count, last - first + 1);
    CHECK_EQ(sum->times[LOAD_TIME_FIRST_BYTE].count, last - first + 1);
    CHECK_EQ(sum->times[LOAD_TIME_CONNECT].count, last - first + 1);
    uint64_t expected = first;
    struct gs_histogram_cursor at = {0};
    while (gs_histogram_next(&sum->times[LOAD_TIME_RESPONSE], &at)) {
        CHECK_EQ(at.lowest, expected);
        CHECK_EQ(at.count, 1);
        expected++;
    }
    CHECK_EQ(expected, last + 1);
}

TEST(without_dropping_every_answer_is_counted)
{
    struct load_tally sum = tally_of(2, 0, 100, false);
    check_counted(&sum, 1, 100);
    CHECK_EQ(sum.dropped, 0);
    gs_load_tally_done(&sum);
}

TEST(the_first_and_last_answers_of_the_whole_run_are_dropped_whichever_threads_had_them)
{
    for (size_t threads = 1; threads <= 4; threads++) {
        for (int is_lopsided = 0; is_lopsided < 2; is_lopsided++) {
            struct load_tally sum = tally_of(threads, 10, 500, is_lopsided);
            check_counted(&sum, 11, 490);
            CHECK_EQ(sum.dropped, 20);
            CHECK_EQ(sum.requests, 500);
            CHECK(sum.busy_ns == 125250 + 500 * 7);
            gs_load_tally_done(&sum);
        }
    }
}

TEST(a_run_barely_longer_than_what_is_dropped_keeps_the_middle)
{
    for (size_t threads = 1; threads <= 4; threads++) {
        struct load_tally sum = tally_of(threads, 10, 21, false);
        check_counted(&sum, 11, 11);
        gs_load_tally_done(&sum);
    }
}

TEST(a_run_not_longer_than_what_is_dropped_has_nothing_left)
{
    for (uint64_t count = 0; count <= 20; count++) {
        struct load_tally sum = tally_of(3, 10, count, false);
        CHECK_EQ(sum.times[LOAD_TIME_RESPONSE].count, 0);
        CHECK_EQ(sum.dropped, count);
        CHECK_EQ(sum.requests, count);
        gs_load_tally_done(&sum);
    }
}

TEST(errors_are_counted_by_kind_and_keep_the_times_of_their_beginning)
{
    struct load_tally tally;
    CHECK_EQ(gs_load_tally_init(&tally, 5), 0);
    const struct load_sample first = {.connect_ns = 123, .lag_ns = 45},
                             later = {.connect_ns = LOAD_NO_TIME, .lag_ns = LOAD_NO_TIME};
    gs_load_tally_error(&tally, LOAD_RESET, &first);
    gs_load_tally_error(&tally, LOAD_RESET, &later);
    gs_load_tally_error(&tally, LOAD_PARSE, &later);
    CHECK_EQ(tally.errors[LOAD_RESET], 2);
    CHECK_EQ(gs_load_tally_errors(&tally), 3);
    CHECK_EQ(tally.times[LOAD_TIME_CONNECT].count, 1);
    CHECK_EQ(gs_histogram_max(&tally.times[LOAD_TIME_CONNECT]), 123);
    CHECK_EQ(tally.times[LOAD_TIME_LAG].count, 1);
    CHECK_EQ(gs_histogram_max(&tally.times[LOAD_TIME_LAG]), 45);
    gs_load_tally_done(&tally);
}
