/* Open loops: requests are sent when they are due, whatever the answers do. */
#include "tests/load/run.h"

#include <unistd.h>

TEST(an_open_loop_makes_as_many_requests_as_were_asked_for_and_none_before_it_is_due)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "4", "-n", "41", "--rate", "500", "--workers", "2", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 41);
    CHECK_EQ(server.requests, 41);
    CHECK_EQ(gs_load_tally_errors(&result.tally), 0);
    CHECK(result.seconds >= 40 / 500.0);
    for (int i = LOAD_TIME_FIRST_BYTE; i < LOAD_TIMES; i++)
        CHECK_EQ(result.tally.times[i].count, 41);
    gs_load_result_done(&result);
}

TEST(in_a_time_no_more_requests_are_made_than_are_due)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result = run_against(&server, "-c", "8", "-d", "200ms", "-r", "100", NULL);
    server_stop(&server);
    CHECK(result.seconds >= 0.2);
    CHECK(result.tally.requests <= 21);
    CHECK_EQ(gs_load_tally_errors(&result.tally), 0);
    gs_load_result_done(&result);
}

TEST(requests_at_random_times_are_made_as_well)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "3", "-n", "50", "-r", "2000", "--poisson", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 50);
    CHECK_EQ(server.requests, 50);
    gs_load_result_done(&result);
}

TEST(what_is_due_in_the_warm_up_is_not_counted)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "4", "-n", "20", "-r", "500", "--warmup", "100ms", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 20);
    CHECK(server.requests > 20);
    gs_load_result_done(&result);
}

TEST(an_open_loop_may_take_a_connection_for_each_request)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "3", "-n", "30", "-r", "1000", "-k", "1", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 30);
    CHECK_EQ(server.connections, 30);
    CHECK_EQ(result.tally.times[LOAD_TIME_CONNECT].count, 30);
    /* Connecting is part of the response, and not of the service. */
    CHECK(gs_histogram_mean(&result.tally.times[LOAD_TIME_RESPONSE]) >
          gs_histogram_mean(&result.tally.times[LOAD_TIME_SERVICE]));
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

/* A request each 5 ms, on one connection. None of the 50 that are due during or after the stall goes out
 * before its end: whatever the machine does, the k-th of them waits for at least 300 - 5 k ms. */
TEST(a_stall_of_the_server_is_in_the_response_times_of_all_requests_that_were_due_meanwhile)
{
    struct server server;
    server_start(&server, serve_with_a_stall);
    struct load_result result = run_against(&server, "-c", "1", "-n", "60", "-r", "200", NULL);
    server_stop(&server);
    const struct gs_histogram *response = &result.tally.times[LOAD_TIME_RESPONSE],
                              *service = &result.tally.times[LOAD_TIME_SERVICE];
    CHECK_EQ(result.tally.requests, 60);
    CHECK(gs_histogram_percentile(response, 50) >= 100 * GS_MILLISECOND);
    CHECK(gs_histogram_max(service) >= 300 * GS_MILLISECOND);
    CHECK(result.tally.queued >= 49);
    double waited_ns = (gs_histogram_mean(response) - gs_histogram_mean(service)) * 60;
    CHECK(waited_ns >= 8575.0 * (double)GS_MILLISECOND);
    gs_load_result_done(&result);
}

TEST(requests_that_fail_have_been_due_and_sent_as_well)
{
    struct server server;
    server_start(&server, serve_hello);
    server_stop(&server); /* so that nobody listens on its port */
    struct load_result result = run_against(&server, "-c", "2", "-n", "6", "-r", "500", NULL);
    check_errors(&result, LOAD_CONNECT, 6);
    CHECK_EQ(result.tally.times[LOAD_TIME_LAG].count, 6);
    CHECK_EQ(result.tally.times[LOAD_TIME_RESPONSE].count, 0);
    gs_load_result_done(&result);
}

TEST(requests_that_fail_at_once_and_are_always_late_do_not_keep_the_run_from_its_end)
{
    struct server server;
    server_start(&server, serve_hello);
    server_stop(&server);
    struct load_result result =
        run_against(&server, "-c", "3", "-d", "100ms", "-r", "100000000", NULL);
    CHECK(result.tally.errors[LOAD_CONNECT] > 0);
    CHECK_EQ(result.tally.requests, 0);
    gs_load_result_done(&result);
}

static void serve_one_each(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    if (server_read(server, fd, text, sizeof text))
        server_write(fd, SERVER_OK);
}

TEST(a_connection_that_the_server_closes_while_no_request_is_due_is_opened_anew)
{
    struct server server;
    server_start(&server, serve_one_each);
    struct load_result result = run_against(&server, "-c", "2", "-n", "20", "-r", "100", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 20);
    CHECK_EQ(gs_load_tally_errors(&result.tally), 0);
    CHECK(server.connections >= 20);
    gs_load_result_done(&result);
}
