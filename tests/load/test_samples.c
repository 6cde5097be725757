/* The durations of a request, computed from its timestamps. */
#include "load/metrics.h"

#include "tests/test.h"

#include <gossamer/clock.h>

TEST(in_a_closed_loop_the_response_time_is_the_service_time_and_there_is_no_send_delay)
{
    const struct load_timestamps times = {.scheduled_ns = LOAD_NO_TIME,
                                          .free_ns = LOAD_NO_TIME,
                                          .start_ns = 100,
                                          .sent_ns = 130,
                                          .first_byte_ns = 180,
                                          .end_ns = 200};
    struct load_sample sample = gs_load_timestamps_sample(&times, 30);
    CHECK_EQ(sample.response_ns, 70);
    CHECK_EQ(sample.service_ns, 70);
    CHECK_EQ(sample.first_byte_ns, 50);
    CHECK_EQ(sample.connect_ns, 30);
    CHECK_EQ(sample.end_ns, 200);
    CHECK(sample.send_delay_ns == LOAD_NO_TIME);
    CHECK(!gs_load_timestamps_is_queued(&times));
}

TEST(the_response_time_starts_when_scheduled_and_the_service_time_when_sent)
{
    const struct load_timestamps times = {.scheduled_ns = 100,
                                          .free_ns = 60,
                                          .start_ns = 104,
                                          .sent_ns = 110,
                                          .first_byte_ns = 150,
                                          .end_ns = 160};
    struct load_sample sample = gs_load_timestamps_sample(&times, LOAD_NO_TIME);
    CHECK_EQ(sample.response_ns, 60);
    CHECK_EQ(sample.service_ns, 50);
    CHECK_EQ(sample.first_byte_ns, 40);
    CHECK_EQ(sample.send_delay_ns, 4);
    CHECK(!gs_load_timestamps_is_queued(&times));
}

TEST(the_wait_for_a_connection_is_in_the_response_time_and_not_in_the_send_delay)
{
    const struct load_timestamps times = {.scheduled_ns = 100,
                                          .free_ns = 400,
                                          .start_ns = 403,
                                          .sent_ns = 403,
                                          .first_byte_ns = 430,
                                          .end_ns = 440};
    struct load_sample sample = gs_load_timestamps_sample(&times, LOAD_NO_TIME);
    CHECK_EQ(sample.response_ns, 340);
    CHECK_EQ(sample.service_ns, 37);
    CHECK_EQ(sample.send_delay_ns, 3);
    CHECK(gs_load_timestamps_is_queued(&times));
}

/* A request is scheduled every 10 ms, on one connection to a server that stalls once, for 300 ms:
 * each request is sent when the previous one has its response. */
TEST(a_stall_is_in_all_response_times_scheduled_meanwhile_but_in_one_service_time_only)
{
    struct load_metrics metrics;
    uint64_t free_ns = 0;
    CHECK_EQ(gs_load_metrics_init(&metrics, 0), 0);
    for (uint64_t i = 0; i < 100; i++) {
        struct load_timestamps times = {.scheduled_ns = i * 10 * GS_MILLISECOND,
                                        .free_ns = free_ns};
        times.start_ns = times.sent_ns =
            times.scheduled_ns < free_ns ? free_ns : times.scheduled_ns;
        times.first_byte_ns = times.end_ns = times.sent_ns + (i == 20 ? 300 : 1) * GS_MILLISECOND;
        struct load_sample sample = gs_load_timestamps_sample(&times, LOAD_NO_TIME);
        gs_load_metrics_record_response(&metrics, &sample);
        free_ns = times.end_ns;
    }
    const struct gs_histogram *service = &metrics.times[LOAD_TIME_SERVICE],
                              *response = &metrics.times[LOAD_TIME_RESPONSE];
    CHECK_EQ(gs_histogram_max(service), 300 * GS_MILLISECOND);
    CHECK_EQ(gs_histogram_percentile(service, 99) / GS_MILLISECOND, 1);
    CHECK_EQ(gs_histogram_max(response), 300 * GS_MILLISECOND);
    /* There are 34 delayed responses, of 300, 291, 282 ... 3 ms. */
    CHECK_EQ(gs_histogram_percentile(response, 66) / GS_MILLISECOND, 1);
    CHECK(gs_histogram_percentile(response, 67) >= 3 * GS_MILLISECOND);
    CHECK(gs_histogram_percentile(response, 99) >= 290 * GS_MILLISECOND);
    CHECK_EQ(gs_histogram_max(&metrics.times[LOAD_TIME_SEND_DELAY]), 0);
    gs_load_metrics_done(&metrics);
}
