/* Metrics of several workers: sums, dropped responses, and transfer between processes. */
#include "load/metrics.h"

#include "tests/test.h"

/* A sample that is identified by its response time. */
static struct load_sample sample_ending_at(uint64_t end_ns)
{
    return (struct load_sample){.end_ns = end_ns,
                                .response_ns = end_ns,
                                .service_ns = end_ns,
                                .first_byte_ns = 1,
                                .connect_ns = 7,
                                .send_delay_ns = LOAD_NO_TIME};
}

/* Returns the sum of `threads` metrics. Responses that end at 1, 2, ... count are recorded in each
 * of them in turn; if is_lopsided, all but the first three in the last one. */
static struct load_metrics metrics_of(size_t threads, size_t drop, uint64_t count, bool is_lopsided)
{
    struct load_metrics all_metrics[4], sum;
    const struct load_metrics *pointers[4];
    for (size_t i = 0; i < threads; i++) {
        CHECK_EQ(gs_load_metrics_init(&all_metrics[i], drop), 0);
        pointers[i] = &all_metrics[i];
    }
    for (uint64_t at = 1; at <= count; at++) {
        struct load_sample sample = sample_ending_at(at);
        size_t thread = is_lopsided && at > 3 ? threads - 1 : at % threads;
        gs_load_metrics_record_response(&all_metrics[thread], &sample);
    }
    CHECK_EQ(gs_load_metrics_init(&sum, 0), 0);
    CHECK_EQ(gs_load_metrics_merge(&sum, pointers, threads), 0);
    for (size_t i = 0; i < threads; i++)
        gs_load_metrics_done(&all_metrics[i]);
    return sum;
}

/* Check that the histograms contain the responses from `first` to `last`, and no others. */
static void check_counted(const struct load_metrics *sum, uint64_t first, uint64_t last)
{
    CHECK_EQ(sum->times[LOAD_TIME_RESPONSE].count, last - first + 1);
    CHECK_EQ(sum->times[LOAD_TIME_FIRST_BYTE].count, last - first + 1);
    CHECK_EQ(sum->times[LOAD_TIME_CONNECT].count, last - first + 1);
    uint64_t expected = first;
    struct gs_histogram_cursor cursor = {0};
    while (gs_histogram_next(&sum->times[LOAD_TIME_RESPONSE], &cursor)) {
        CHECK_EQ(cursor.lowest, expected);
        CHECK_EQ(cursor.count, 1);
        expected++;
    }
    CHECK_EQ(expected, last + 1);
}

TEST(without_drop_every_response_is_recorded)
{
    struct load_metrics sum = metrics_of(2, 0, 100, false);
    check_counted(&sum, 1, 100);
    CHECK_EQ(sum.dropped, 0);
    gs_load_metrics_done(&sum);
}

TEST(the_first_and_last_responses_of_the_run_are_dropped_from_any_thread)
{
    for (size_t threads = 1; threads <= 4; threads++) {
        for (int is_lopsided = 0; is_lopsided < 2; is_lopsided++) {
            struct load_metrics sum = metrics_of(threads, 10, 500, is_lopsided);
            check_counted(&sum, 11, 490);
            CHECK_EQ(sum.dropped, 20);
            CHECK_EQ(sum.requests, 500);
            CHECK(sum.busy_ns == 125250 + 500 * 7);
            gs_load_metrics_done(&sum);
        }
    }
}

TEST(a_run_barely_longer_than_twice_k_keeps_the_middle)
{
    for (size_t threads = 1; threads <= 4; threads++) {
        struct load_metrics sum = metrics_of(threads, 10, 21, false);
        check_counted(&sum, 11, 11);
        gs_load_metrics_done(&sum);
    }
}

TEST(a_run_of_at_most_twice_k_responses_records_none)
{
    for (uint64_t count = 0; count <= 20; count++) {
        struct load_metrics sum = metrics_of(3, 10, count, false);
        CHECK_EQ(sum.times[LOAD_TIME_RESPONSE].count, 0);
        CHECK_EQ(sum.dropped, count);
        CHECK_EQ(sum.requests, count);
        gs_load_metrics_done(&sum);
    }
}

TEST(errors_are_counted_by_kind_and_their_connect_time_and_send_delay_are_recorded)
{
    struct load_metrics metrics;
    CHECK_EQ(gs_load_metrics_init(&metrics, 5), 0);
    const struct load_sample first = {.connect_ns = 123, .send_delay_ns = 45},
                             later = {.connect_ns = LOAD_NO_TIME, .send_delay_ns = LOAD_NO_TIME};
    gs_load_metrics_record_error(&metrics, LOAD_RESET, &first);
    gs_load_metrics_record_error(&metrics, LOAD_RESET, &later);
    gs_load_metrics_record_error(&metrics, LOAD_PARSE, &later);
    CHECK_EQ(metrics.errors[LOAD_RESET], 2);
    CHECK_EQ(gs_load_metrics_error_count(&metrics), 3);
    CHECK_EQ(metrics.times[LOAD_TIME_CONNECT].count, 1);
    CHECK_EQ(gs_histogram_max(&metrics.times[LOAD_TIME_CONNECT]), 123);
    CHECK_EQ(metrics.times[LOAD_TIME_SEND_DELAY].count, 1);
    CHECK_EQ(gs_histogram_max(&metrics.times[LOAD_TIME_SEND_DELAY]), 45);
    gs_load_metrics_done(&metrics);
}

TEST(exported_metrics_are_imported_unchanged)
{
    struct load_metrics shared, other;
    CHECK_EQ(gs_load_metrics_init(&shared, 4), 0);
    for (uint64_t i = 1; i <= 50; i++) {
        const struct load_sample sample = {.end_ns = i,
                                           .response_ns = i * 1000,
                                           .service_ns = i * 900,
                                           .first_byte_ns = i * 800,
                                           .connect_ns = LOAD_NO_TIME,
                                           .send_delay_ns = i};
        gs_load_metrics_record_response(&shared, &sample);
    }
    void *buffer = calloc(1, gs_load_metrics_export_size(&shared));
    gs_load_metrics_export(&shared, buffer);
    /* In the other process, the structure has the same members, with pointers to its own memory. */
    CHECK_EQ(gs_load_metrics_init(&other, 4), 0);
    struct load_metrics own = other;
    other = shared;
    for (int i = 0; i < LOAD_TIME_KINDS; i++)
        other.times[i].counts = own.times[i].counts;
    other.samples.first = own.samples.first;
    other.samples.ring = own.samples.ring;
    gs_load_metrics_import(&other, buffer);
    for (int i = 0; i < LOAD_TIME_KINDS; i++)
        CHECK_EQ(memcmp(other.times[i].counts, shared.times[i].counts,
                        shared.times[i].buckets * sizeof *shared.times[i].counts),
                 0);
    CHECK_EQ(memcmp(other.samples.first, shared.samples.first, 8 * sizeof *shared.samples.first),
             0);
    free(buffer);
    gs_load_metrics_done(&shared);
    gs_load_metrics_done(&other);
}
