/* Clients of a server that behaves correctly, and the reasons why a run is invalid. */
#include "tests/load/run.h"

TEST(exactly_the_requested_number_of_requests_is_made)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "5", "-n", "103", "--threads", "3", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 103);
    CHECK_EQ(server.requests, 103);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, 103);
    CHECK_EQ(result.metrics.times[LOAD_TIME_FIRST_BYTE].count, 103);
    CHECK_EQ(result.metrics.bytes, 103 * strlen(SERVER_OK));
    CHECK(result.seconds > 0 && !result.is_interrupted);
    gs_load_result_done(&result);
}

TEST(fewer_requests_than_connections_open_one_connection_each)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result = run_against(&server, "-c", "20", "-n", "3", "--threads", "2", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 3);
    CHECK_EQ(server.connections, 3);
    gs_load_result_done(&result);
}

TEST(kept_connections_are_opened_once)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result = run_against(&server, "-c", "4", "-n", "200", NULL);
    server_stop(&server);
    CHECK_EQ(server.connections, 4);
    CHECK_EQ(result.metrics.connections, 4);
    CHECK_EQ(result.metrics.times[LOAD_TIME_CONNECT].count, 4);
    gs_load_result_done(&result);
}

/* Send 200 if exactly the fifth request of the connection has "Connection: close", and 500
 * otherwise. */
static void serve_five(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    for (int i = 1; server_read(server, fd, text, sizeof text); i++) {
        bool says_close = strstr(text, "\r\nConnection: close\r\n");
        server_write(fd, says_close == (i == 5)
                             ? SERVER_OK
                             : "HTTP/1.1 500 Wrong\r\nContent-Length: 0\r\n\r\n");
    }
}

TEST(a_connection_is_closed_after_k_requests_and_the_last_one_has_connection_close)
{
    struct server server;
    server_start(&server, serve_five);
    struct load_result result =
        run_against(&server, "-c", "1", "-n", "20", "--requests-per-connection", "5", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 20);
    CHECK_EQ(server.connections, 4);
    CHECK_EQ(result.metrics.times[LOAD_TIME_CONNECT].count, 4);
    gs_load_result_done(&result);
}

TEST(each_request_may_have_a_connection_of_its_own)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "3", "-n", "60", "--requests-per-connection", "1", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 60);
    CHECK_EQ(server.connections, 60);
    CHECK_EQ(result.metrics.times[LOAD_TIME_CONNECT].count, 60);
    gs_load_result_done(&result);
}

/* Returns the number of different source addresses of the first 64 connections. */
static size_t count_peers(const struct server *server)
{
    size_t count = 0, connections = server->connections < 64 ? server->connections : 64;
    for (size_t i = 0; i < connections; i++) {
        size_t j = 0;
        while (j < i && server->peers[j] != server->peers[i])
            j++;
        count += j == i;
    }
    return count;
}

TEST(connections_rotate_through_source_addresses)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "2", "-n", "40", "--requests-per-connection", "1",
                    "--source-addresses", "3", NULL);
    server_stop(&server);
    CHECK_EQ(count_peers(&server), 3);
    for (size_t i = 0; i < 40; i++)
        CHECK_EQ(server.peers[i] >> 24, 127);
    gs_load_result_done(&result);
    server_start(&server, serve_hello);
    result = run_against(&server, "-c", "2", "-n", "40", "--requests-per-connection", "1", NULL);
    server_stop(&server);
    CHECK_EQ(count_peers(&server), 40);
    gs_load_result_done(&result);
}

static void serve_after_50_ms(struct server *server, int fd, size_t index)
{
    (void)index;
    serve_after(server, fd, 50);
}

TEST(the_delay_of_the_server_is_in_every_reported_time)
{
    struct load_result result = run_beside(serve_after_50_ms, "-c", "4", "-n", "12", NULL);
    const uint64_t delay_ns = 50 * GS_MILLISECOND;
    CHECK(gs_histogram_min(&result.metrics.times[LOAD_TIME_RESPONSE]) >= delay_ns);
    CHECK(gs_histogram_min(&result.metrics.times[LOAD_TIME_FIRST_BYTE]) >= delay_ns);
    CHECK(gs_histogram_percentile(&result.metrics.times[LOAD_TIME_RESPONSE], 50) >= delay_ns);
    CHECK(gs_histogram_mean(&result.metrics.times[LOAD_TIME_RESPONSE]) >= (double)delay_ns);
    CHECK(gs_histogram_mean(&result.metrics.times[LOAD_TIME_FIRST_BYTE]) <=
          gs_histogram_mean(&result.metrics.times[LOAD_TIME_RESPONSE]));
    /* Each connection makes three requests. */
    CHECK(result.seconds >= 0.15);
    gs_load_result_done(&result);
}

TEST(the_measured_load_is_the_mean_number_of_requests_in_flight)
{
    struct load_result result =
        run_beside(serve_after_50_ms, "-c", "4", "-n", "16", "--think", "0", NULL);
    double measured = gs_load_measured_load(&result);
    /* Four clients have at most four requests in flight. */
    CHECK(measured <= 4 && measured > 0);
    double total_ns = gs_histogram_mean(&result.metrics.times[LOAD_TIME_RESPONSE]) * 16 +
                      gs_histogram_mean(&result.metrics.times[LOAD_TIME_CONNECT]) * 4;
    double difference = measured * result.seconds * 1e9 - total_ns;
    CHECK(difference > -1000 && difference < 1000);
    gs_load_result_done(&result);
}

/* Send the response in two parts, 30 ms apart. */
static void serve_in_two_parts(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        server_write(fd, "HTTP/1.1 200 OK\r\nContent-Le");
        usleep(30000);
        server_write(fd, "ngth: 5\r\n\r\nhello");
    }
}

TEST(the_first_byte_is_timed_separately_from_the_last)
{
    struct load_result result = run_beside(serve_in_two_parts, "-c", "2", "-n", "6", NULL);
    CHECK_EQ(result.metrics.requests, 6);
    double gap_ns = gs_histogram_mean(&result.metrics.times[LOAD_TIME_RESPONSE]) -
                    gs_histogram_mean(&result.metrics.times[LOAD_TIME_FIRST_BYTE]);
    CHECK(gap_ns >= (double)(25 * GS_MILLISECOND));
    gs_load_result_done(&result);
}

TEST(a_client_pauses_for_the_think_time_between_two_requests)
{
    struct load_result result =
        run_beside(serve_hello, "-c", "1", "-n", "5", "--think", "20", NULL);
    CHECK_EQ(result.metrics.requests, 5);
    CHECK(result.seconds >= 4 * 0.020);
    CHECK(gs_load_measured_load(&result) < 1);
    gs_load_result_done(&result);
}

TEST(a_run_ends_after_the_duration)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "2", "-d", "700ms", "--threads", "2", NULL);
    server_stop(&server);
    CHECK(result.seconds >= 0.7);
    CHECK(result.metrics.requests > 0 && result.metrics.requests <= server.requests);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    gs_load_result_done(&result);
}

/* Connections and some requests occur during the warm-up. If the machine is too slow for that, the
 * test repeats with a longer warm-up. */
TEST(requests_and_connections_in_the_warmup_are_not_counted)
{
    bool is_long_enough = false;
    for (unsigned ms = 100; !is_long_enough && ms < 20000; ms *= 3) {
        struct server server;
        char warmup[16];
        server_start(&server, serve_hello);
        snprintf(warmup, sizeof warmup, "%ums", ms);
        struct load_result result =
            run_against(&server, "-c", "2", "-n", "50", "--warmup", warmup, "--think", "1", NULL);
        server_stop(&server);
        CHECK_EQ(result.metrics.requests, 50);
        CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, 50);
        CHECK(result.metrics.times[LOAD_TIME_CONNECT].count <= result.metrics.connections);
        is_long_enough = result.metrics.connections == 0 && server.requests > 50;
        gs_load_result_done(&result);
    }
    CHECK(is_long_enough);
}

TEST(the_first_and_last_responses_are_dropped)
{
    struct load_result result =
        run_beside(serve_hello, "-c", "4", "-n", "100", "--drop", "10", "--threads", "2", NULL);
    CHECK_EQ(result.metrics.requests, 100);
    CHECK_EQ(result.metrics.dropped, 20);
    CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, 80);
    gs_load_result_done(&result);
}

static void interrupt_after_ten(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        server_write(fd, SERVER_OK);
        if (__atomic_load_n(&server->requests, __ATOMIC_SEQ_CST) == 10)
            kill(getpid(), SIGINT);
    }
}

TEST(an_interrupted_run_reports_what_was_measured)
{
    struct load_result result = run_beside(interrupt_after_ten, "-c", "1", "-d", "100", NULL);
    CHECK(result.is_interrupted);
    CHECK(result.metrics.requests >= 9);
    CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, result.metrics.requests);
    CHECK(result.seconds < 100);
    gs_load_result_done(&result);
}

TEST(a_server_may_have_an_ipv6_address)
{
    struct server server;
    if (!server_start_family(&server, serve_hello, AF_INET6))
        return;
    struct load_result result = run_against(&server, "-c", "2", "-n", "10", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 10);
    gs_load_result_done(&result);
}

TEST(of_the_addresses_of_a_name_the_first_that_accepts_is_used)
{
    struct server server;
    char url[64];
    server_start(&server, serve_hello);
    snprintf(url, sizeof url, "http://localhost:%u/", server.port);
    struct load_result result = run_against(NULL, "-c", "2", "-n", "10", url, NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 10);
    gs_load_result_done(&result);
}

/* ---- Validity ---- */

static struct load_result result_with(int delayed, double utilization)
{
    struct load_result result = {.max_utilization = utilization};
    CHECK_EQ(gs_load_metrics_init(&result.metrics, 0), 0);
    for (int i = 0; i < 1000; i++)
        gs_histogram_record(&result.metrics.times[LOAD_TIME_SEND_DELAY],
                            i < delayed ? 3 * GS_MILLISECOND : 50 * GS_MICROSECOND);
    return result;
}

/* `delayed` of 1000 requests were sent 3 ms late. reason: the expected reason; "" for a valid
 * run. */
static bool is_invalid(const struct load_settings *settings, int delayed, double utilization,
                       const char *reason)
{
    struct load_result result = result_with(delayed, utilization);
    gs_load_result_validate(&result, settings);
    CHECK_EQ(!strstr(result.invalid_reason, reason), 0);
    CHECK_EQ(result.is_invalid, *reason != '\0');
    gs_load_result_done(&result);
    return result.is_invalid;
}

TEST(an_open_loop_is_invalid_if_more_than_one_percent_of_requests_are_sent_late)
{
    struct load_settings settings = {.rate = 100, .max_send_delay_ns = GS_MILLISECOND};
    CHECK(!is_invalid(&settings, 0, 0.5, ""));
    CHECK(!is_invalid(&settings, 10, 0.5, ""));
    CHECK(is_invalid(&settings, 11, 0.5, "the 99th percentile of the send delay is 300"));
    settings.max_send_delay_ns = 4 * GS_MILLISECOND;
    CHECK(!is_invalid(&settings, 1000, 0.5, ""));
}

TEST(an_open_loop_is_invalid_if_a_worker_was_hardly_ever_idle)
{
    const struct load_settings settings = {.rate = 100, .max_send_delay_ns = GS_MILLISECOND};
    CHECK(!is_invalid(&settings, 0, 0.94, ""));
    CHECK(is_invalid(&settings, 0, 0.97, "was busy 97 % of the time"));
}

TEST(a_closed_loop_is_valid_though_the_client_is_busy)
{
    const struct load_settings settings = {.max_send_delay_ns = GS_MILLISECOND};
    CHECK(!is_invalid(&settings, 1000, 1, ""));
}
