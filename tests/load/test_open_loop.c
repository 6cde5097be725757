/* Open loops: requests are sent according to the schedule, independently of responses. */
#include "tests/load/run.h"

TEST(an_open_loop_makes_all_requests_and_none_before_its_scheduled_time)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "4", "-n", "41", "--rate", "500", "--workers", "2", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 41);
    CHECK_EQ(server.requests, 41);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK(result.seconds >= 40 / 500.0);
    for (int i = LOAD_TIME_FIRST_BYTE; i < LOAD_TIME_KINDS; i++)
        CHECK_EQ(result.metrics.times[i].count, 41);
    gs_load_result_done(&result);
}

TEST(no_more_requests_are_made_than_are_scheduled_in_the_duration)
{
    struct load_result result =
        run_beside(serve_hello, "-c", "8", "-d", "200ms", "-r", "100", NULL);
    CHECK(result.seconds >= 0.2);
    CHECK(result.metrics.requests <= 21);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    gs_load_result_done(&result);
}

TEST(poisson_requests_are_all_made)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "3", "-n", "50", "-r", "2000", "--poisson", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 50);
    CHECK_EQ(server.requests, 50);
    gs_load_result_done(&result);
}

TEST(requests_scheduled_in_the_warmup_are_not_counted)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "4", "-n", "20", "-r", "500", "--warmup", "100ms", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 20);
    CHECK(server.requests > 20);
    gs_load_result_done(&result);
}

TEST(an_open_loop_may_open_a_connection_for_each_request)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "3", "-n", "30", "-r", "1000", "-k", "1", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 30);
    CHECK_EQ(server.connections, 30);
    CHECK_EQ(result.metrics.times[LOAD_TIME_CONNECT].count, 30);
    /* The response time includes connecting, and the service time does not. */
    CHECK(gs_histogram_mean(&result.metrics.times[LOAD_TIME_RESPONSE]) >
          gs_histogram_mean(&result.metrics.times[LOAD_TIME_SERVICE]));
    gs_load_result_done(&result);
}

/* The tenth request takes 300 ms. */
static void serve_with_a_stall(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        if (__atomic_load_n(&server->requests, __ATOMIC_SEQ_CST) == 10)
            usleep(300000);
        server_write(fd, SERVER_OK);
    }
}

/* A request is scheduled every 5 ms, on one connection. None of the 50 requests that are scheduled
 * during or after the stall is sent before its end: the k-th of them waits for at least 300 - 5 k
 * ms. */
TEST(a_stall_of_the_server_is_in_the_response_times_of_all_requests_scheduled_meanwhile)
{
    struct load_result result =
        run_beside(serve_with_a_stall, "-c", "1", "-n", "60", "-r", "200", NULL);
    const struct gs_histogram *response = &result.metrics.times[LOAD_TIME_RESPONSE],
                              *service = &result.metrics.times[LOAD_TIME_SERVICE];
    CHECK_EQ(result.metrics.requests, 60);
    CHECK(gs_histogram_percentile(response, 50) >= 100 * GS_MILLISECOND);
    CHECK(gs_histogram_max(service) >= 300 * GS_MILLISECOND);
    CHECK(result.metrics.queued >= 49);
    double waited_ns = (gs_histogram_mean(response) - gs_histogram_mean(service)) * 60;
    CHECK(waited_ns >= 8575.0 * (double)GS_MILLISECOND);
    gs_load_result_done(&result);
}

TEST(failed_requests_have_a_send_delay_and_no_response_time)
{
    struct server server;
    server_reserve_port(&server);
    struct load_result result = run_against(&server, "-c", "2", "-n", "6", "-r", "500", NULL);
    close(server.fd);
    check_errors(&result, LOAD_CONNECT, 6);
    CHECK_EQ(result.metrics.times[LOAD_TIME_SEND_DELAY].count, 6);
    CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, 0);
    gs_load_result_done(&result);
}

TEST(requests_that_fail_at_once_behind_schedule_do_not_prevent_the_end_of_the_run)
{
    struct server server;
    server_reserve_port(&server);
    struct load_result result =
        run_against(&server, "-c", "3", "-d", "100ms", "-r", "100000000", NULL);
    close(server.fd);
    CHECK(result.metrics.errors[LOAD_CONNECT] > 0);
    CHECK_EQ(result.metrics.requests, 0);
    gs_load_result_done(&result);
}

static void serve_one_each(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    if (server_read(server, fd, text, sizeof text))
        server_write(fd, SERVER_OK);
}

TEST(a_connection_closed_while_no_request_is_scheduled_is_reopened)
{
    struct server server;
    server_start(&server, serve_one_each);
    struct load_result result = run_against(&server, "-c", "2", "-n", "20", "-r", "100", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 20);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK(server.connections >= 20);
    gs_load_result_done(&result);
}

static void serve_slowly(struct server *server, int fd, size_t index)
{
    (void)index;
    serve_after(server, fd, 20);
}

/* A connection has at most 50 responses per second. */
TEST(the_sent_rate_is_that_of_the_server_if_all_connections_are_busy)
{
    const struct load_settings settings = {.rate = 1000};
    struct server server;
    server_start(&server, serve_slowly);
    struct load_result timed = run_against(&server, "-c", "2", "-d", "300ms", "-r", "1000",
                                           "--workers", "2", "--warmup", "100ms", NULL);
    struct load_result counted = run_against(&server, "-c", "1", "-n", "8", "-r", "1000", NULL);
    server_stop(&server);
    CHECK(timed.sent_rate_per_s >= 0 && timed.sent_rate_per_s <= 110);
    CHECK(gs_load_misses_rate(&timed, &settings));
    CHECK(counted.sent_rate_per_s >= 0 && counted.sent_rate_per_s <= 60);
    CHECK(gs_load_misses_rate(&counted, &settings));
    gs_load_result_done(&timed);
    gs_load_result_done(&counted);
}

static void serve_very_slowly(struct server *server, int fd, size_t index)
{
    (void)index;
    serve_after(server, fd, 600);
}

/* The last request is scheduled at 180 ms. By their responses, there are at most 17 each second. */
TEST(the_sent_rate_counts_requests_and_not_their_responses)
{
    struct load_result result =
        run_beside(serve_very_slowly, "-c", "10", "-n", "10", "-r", "50", NULL);
    CHECK(result.seconds >= 0.6);
    CHECK(result.sent_rate_per_s > 17 && result.sent_rate_per_s <= 51);
    gs_load_result_done(&result);
}
