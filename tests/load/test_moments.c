/* The moments of a request, and what follows from them; and what follows from that for the run. */
#include "load/moments.h"
#include "load/run.h"

#include "tests/test.h"

#include <gossamer/clock.h>

TEST(in_a_closed_loop_the_response_is_the_service_and_there_is_no_lag)
{
    const struct load_moments at = {.due_ns = LOAD_NO_TIME,
                                    .free_ns = LOAD_NO_TIME,
                                    .begun_ns = 100,
                                    .sent_ns = 130,
                                    .first_byte_ns = 180,
                                    .end_ns = 200};
    struct load_sample sample = gs_load_moments_sample(&at, 30);
    CHECK_EQ(sample.response_ns, 70);
    CHECK_EQ(sample.service_ns, 70);
    CHECK_EQ(sample.first_byte_ns, 50);
    CHECK_EQ(sample.connect_ns, 30);
    CHECK_EQ(sample.end_ns, 200);
    CHECK(sample.lag_ns == LOAD_NO_TIME);
    CHECK(!gs_load_moments_queued(&at));
}

TEST(a_response_counts_from_when_the_request_was_due_and_the_service_from_when_it_was_sent)
{
    const struct load_moments at = {.due_ns = 100,
                                    .free_ns = 60,
                                    .begun_ns = 104,
                                    .sent_ns = 110,
                                    .first_byte_ns = 150,
                                    .end_ns = 160};
    struct load_sample sample = gs_load_moments_sample(&at, LOAD_NO_TIME);
    CHECK_EQ(sample.response_ns, 60);
    CHECK_EQ(sample.service_ns, 50);
    CHECK_EQ(sample.first_byte_ns, 40);
    CHECK_EQ(sample.lag_ns, 4);
    CHECK(!gs_load_moments_queued(&at));
}

TEST(a_request_that_waits_for_a_connection_has_that_in_its_response_but_not_in_its_lag)
{
    const struct load_moments at = {.due_ns = 100,
                                    .free_ns = 400,
                                    .begun_ns = 403,
                                    .sent_ns = 403,
                                    .first_byte_ns = 430,
                                    .end_ns = 440};
    struct load_sample sample = gs_load_moments_sample(&at, LOAD_NO_TIME);
    CHECK_EQ(sample.response_ns, 340);
    CHECK_EQ(sample.service_ns, 37);
    CHECK_EQ(sample.lag_ns, 3);
    CHECK(gs_load_moments_queued(&at));
}

/* Requests due each 10 ms meet a server with one connection that stalls once, for 300 ms: each is
 * taken up when the one before has its answer. */
TEST(a_stall_is_in_the_responses_of_all_that_were_due_meanwhile_but_in_one_service_time_only)
{
    struct load_tally tally;
    uint64_t free_ns = 0;
    CHECK_EQ(gs_load_tally_init(&tally, 0), 0);
    for (uint64_t i = 0; i < 100; i++) {
        struct load_moments at = {.due_ns = i * 10 * GS_MILLISECOND, .free_ns = free_ns};
        at.begun_ns = at.sent_ns = at.due_ns < free_ns ? free_ns : at.due_ns;
        at.first_byte_ns = at.end_ns = at.sent_ns + (i == 20 ? 300 : 1) * GS_MILLISECOND;
        struct load_sample sample = gs_load_moments_sample(&at, LOAD_NO_TIME);
        gs_load_tally_answer(&tally, &sample);
        free_ns = at.end_ns;
    }
    const struct gs_histogram *service = &tally.times[LOAD_TIME_SERVICE],
                              *response = &tally.times[LOAD_TIME_RESPONSE];
    CHECK_EQ(gs_histogram_max(service), 300 * GS_MILLISECOND);
    CHECK_EQ(gs_histogram_percentile(service, 99) / GS_MILLISECOND, 1);
    CHECK_EQ(gs_histogram_max(response), 300 * GS_MILLISECOND);
    /* Responses of 300, 291, 282 ... down to 3 ms: 34 of them. */
    CHECK_EQ(gs_histogram_percentile(response, 66) / GS_MILLISECOND, 1);
    CHECK(gs_histogram_percentile(response, 67) >= 3 * GS_MILLISECOND);
    CHECK(gs_histogram_percentile(response, 99) >= 290 * GS_MILLISECOND);
    CHECK_EQ(gs_histogram_max(&tally.times[LOAD_TIME_LAG]), 0);
    gs_load_tally_done(&tally);
}

/* ---- The verdict ---- */

static struct load_result result_with(int late, double busiest)
{
    struct load_result result = {.busiest = busiest};
    CHECK_EQ(gs_load_tally_init(&result.tally, 0), 0);
    for (int i = 0; i < 1000; i++)
        gs_histogram_record(&result.tally.times[LOAD_TIME_LAG],
                            i < late ? 3 * GS_MILLISECOND : 50 * GS_MICROSECOND);
    return result;
}

static bool is_void(const struct load_settings *settings, int late, double busiest, const char *why)
{
    struct load_result result = result_with(late, busiest);
    gs_load_result_judge(&result, settings);
    CHECK_EQ(!strstr(result.void_reason, why), 0);
    CHECK_EQ(result.is_void, *why != '\0');
    gs_load_result_done(&result);
    return result.is_void;
}

TEST(an_open_loop_is_void_if_more_than_one_request_in_a_hundred_was_sent_late)
{
    struct load_settings settings = {.rate = 100, .late_ns = GS_MILLISECOND};
    CHECK(!is_void(&settings, 0, 0.5, ""));
    CHECK(!is_void(&settings, 10, 0.5, ""));
    CHECK(is_void(&settings, 11, 0.5, "one request in a hundred was sent 300"));
    settings.late_ns = 4 * GS_MILLISECOND;
    CHECK(!is_void(&settings, 1000, 0.5, ""));
}

TEST(an_open_loop_is_void_if_a_worker_had_hardly_anything_to_spare)
{
    const struct load_settings settings = {.rate = 100, .late_ns = GS_MILLISECOND};
    CHECK(!is_void(&settings, 0, 0.94, ""));
    CHECK(is_void(&settings, 0, 0.97, "had work 97 % of the time"));
}

TEST(a_closed_loop_is_never_void_for_its_client)
{
    const struct load_settings settings = {.late_ns = GS_MILLISECOND};
    CHECK(!is_void(&settings, 1000, 1, ""));
}

/* ---- From one process to another ---- */

TEST(a_tally_put_into_a_store_is_taken_out_whole)
{
    struct load_tally shared, other;
    CHECK_EQ(gs_load_tally_init(&shared, 4), 0);
    for (uint64_t i = 1; i <= 50; i++) {
        const struct load_sample sample = {.end_ns = i,
                                           .response_ns = i * 1000,
                                           .service_ns = i * 900,
                                           .first_byte_ns = i * 800,
                                           .connect_ns = LOAD_NO_TIME,
                                           .lag_ns = i};
        gs_load_tally_answer(&shared, &sample);
    }
    void *store = calloc(1, gs_load_tally_store_size(&shared));
    gs_load_tally_put(&shared, store);
    /* What the other process has: the same members, but memory of its own behind them. */
    CHECK_EQ(gs_load_tally_init(&other, 4), 0);
    struct load_tally own = other;
    other = shared;
    for (int i = 0; i < LOAD_TIMES; i++)
        other.times[i].counts = own.times[i].counts;
    other.samples.first = own.samples.first;
    other.samples.ring = own.samples.ring;
    gs_load_tally_take(&other, store);
    for (int i = 0; i < LOAD_TIMES; i++)
        CHECK_EQ(memcmp(other.times[i].counts, shared.times[i].counts,
                        shared.times[i].slots * sizeof *shared.times[i].counts),
                 0);
    CHECK_EQ(memcmp(other.samples.first, shared.samples.first, 8 * sizeof *shared.samples.first),
             0);
    free(store);
    gs_load_tally_done(&shared);
    gs_load_tally_done(&other);
}
