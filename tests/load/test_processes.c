/* Runs with several processes. The server has a process of its own, so that the test's process has
 * only one thread when the run forks. */
#include "tests/load/remote.h"
#include "tests/load/run.h"

TEST(processes_together_make_exactly_the_requested_number_of_requests)
{
    struct remote remote;
    remote_start(&remote, serve_hello);
    struct load_result result =
        run_against(&remote.server, "-c", "7", "-n", "103", "--processes", "3", NULL);
    CHECK_EQ(remote_stop(&remote), 103);
    CHECK_EQ(result.metrics.requests, 103);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, 103);
    CHECK_EQ(result.metrics.times[LOAD_TIME_FIRST_BYTE].count, 103);
    CHECK_EQ(result.metrics.connections, result.metrics.times[LOAD_TIME_CONNECT].count);
    CHECK_EQ(result.metrics.bytes, 103 * strlen(SERVER_OK));
    CHECK(gs_histogram_min(&result.metrics.times[LOAD_TIME_RESPONSE]) > 0);
    CHECK(result.seconds > 0 && result.client_cpu_s > 0);
    CHECK(!result.is_interrupted && !result.is_invalid);
    gs_load_result_done(&result);
}

/* Returns the sum of the histogram's buckets, which must equal its count. */
static uint64_t count_in_buckets(const struct gs_histogram *histogram)
{
    uint64_t count = 0;
    struct gs_histogram_cursor cursor = {0};
    while (gs_histogram_next(histogram, &cursor))
        count += cursor.count;
    return count;
}

TEST(processes_may_have_several_workers_and_the_first_and_last_of_the_run_are_dropped)
{
    struct remote remote;
    remote_start(&remote, serve_hello);
    struct load_result result = run_against(&remote.server, "-c", "8", "-n", "200", "--processes",
                                            "2", "--workers", "2", "--drop", "10", NULL);
    CHECK_EQ(remote_stop(&remote), 200);
    CHECK_EQ(result.metrics.requests, 200);
    CHECK_EQ(result.metrics.dropped, 20);
    CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, 180);
    CHECK_EQ(count_in_buckets(&result.metrics.times[LOAD_TIME_RESPONSE]), 180);
    gs_load_result_done(&result);
}

TEST(processes_share_an_open_loop)
{
    struct remote remote;
    remote_start(&remote, serve_hello);
    struct load_result result =
        run_against(&remote.server, "-c", "6", "-n", "91", "-r", "1000", "--processes", "2", NULL);
    CHECK_EQ(remote_stop(&remote), 91);
    CHECK_EQ(result.metrics.requests, 91);
    CHECK_EQ(count_in_buckets(&result.metrics.times[LOAD_TIME_SEND_DELAY]), 91);
    CHECK_EQ(count_in_buckets(&result.metrics.times[LOAD_TIME_SERVICE]), 91);
    CHECK(result.seconds >= 90 / 1000.0);
    gs_load_result_done(&result);
}
