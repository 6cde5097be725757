/* The life of the clients, against a server that does as it should. */
#include "tests/load/run.h"

#include <signal.h>

TEST(as_many_requests_are_made_as_were_asked_for)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "5", "-n", "103", "--threads", "3", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 103);
    CHECK_EQ(server.requests, 103);
    CHECK_EQ(gs_load_tally_errors(&result.tally), 0);
    CHECK_EQ(result.tally.times[LOAD_TIME_RESPONSE].count, 103);
    CHECK_EQ(result.tally.times[LOAD_TIME_FIRST_BYTE].count, 103);
    CHECK_EQ(result.tally.bytes, 103 * strlen(SERVER_OK));
    CHECK(result.seconds > 0 && !result.is_interrupted);
    gs_load_result_done(&result);
}

TEST(fewer_requests_than_connections_open_only_as_many)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result = run_against(&server, "-c", "20", "-n", "3", "--threads", "2", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 3);
    CHECK_EQ(server.connections, 3);
    gs_load_result_done(&result);
}

TEST(kept_connections_are_opened_once_each)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result = run_against(&server, "-c", "4", "-n", "200", NULL);
    server_stop(&server);
    CHECK_EQ(server.connections, 4);
    CHECK_EQ(result.tally.connections, 4);
    CHECK_EQ(result.tally.times[LOAD_TIME_CONNECT].count, 4);
    gs_load_result_done(&result);
}

/* Counts, in `requests` beyond the usual, nothing but those that say close at the right place. */
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

TEST(a_connection_is_closed_after_its_number_of_requests_and_the_last_one_says_so)
{
    struct server server;
    server_start(&server, serve_five);
    struct load_result result =
        run_against(&server, "-c", "1", "-n", "20", "--requests-per-connection", "5", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 20);
    CHECK_EQ(server.connections, 4);
    CHECK_EQ(result.tally.times[LOAD_TIME_CONNECT].count, 4);
    gs_load_result_done(&result);
}

TEST(a_connection_for_each_request)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "3", "-n", "60", "--requests-per-connection", "1", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 60);
    CHECK_EQ(server.connections, 60);
    CHECK_EQ(result.tally.times[LOAD_TIME_CONNECT].count, 60);
    gs_load_result_done(&result);
}

/* How many different addresses the first connections came from. */
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
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        usleep(50000);
        server_write(fd, SERVER_OK);
    }
}

TEST(a_known_delay_is_in_every_time_reported)
{
    struct server server;
    server_start(&server, serve_after_50_ms);
    struct load_result result = run_against(&server, "-c", "4", "-n", "12", NULL);
    server_stop(&server);
    const uint64_t delay_ns = 50 * GS_MILLISECOND;
    CHECK(gs_histogram_min(&result.tally.times[LOAD_TIME_RESPONSE]) >= delay_ns);
    CHECK(gs_histogram_min(&result.tally.times[LOAD_TIME_FIRST_BYTE]) >= delay_ns);
    CHECK(gs_histogram_percentile(&result.tally.times[LOAD_TIME_RESPONSE], 50) >= delay_ns);
    CHECK(gs_histogram_mean(&result.tally.times[LOAD_TIME_RESPONSE]) >= (double)delay_ns);
    CHECK(gs_histogram_mean(&result.tally.times[LOAD_TIME_FIRST_BYTE]) <=
          gs_histogram_mean(&result.tally.times[LOAD_TIME_RESPONSE]));
    /* Three rounds of each connection. */
    CHECK(result.seconds >= 0.15);
    gs_load_result_done(&result);
}

TEST(the_measured_load_is_the_mean_number_of_requests_under_way)
{
    struct server server;
    server_start(&server, serve_after_50_ms);
    struct load_result result = run_against(&server, "-c", "4", "-n", "16", "--think", "0", NULL);
    server_stop(&server);
    double measured = gs_load_measured(&result);
    /* Four clients can't have more than four requests under way. */
    CHECK(measured <= 4 && measured > 0);
    double total_ns = gs_histogram_mean(&result.tally.times[LOAD_TIME_RESPONSE]) * 16 +
                      gs_histogram_mean(&result.tally.times[LOAD_TIME_CONNECT]) * 4;
    double difference = measured * result.seconds * 1e9 - total_ns;
    CHECK(difference > -1000 && difference < 1000);
    gs_load_result_done(&result);
}

/* The header and the body some time apart. */
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

TEST(the_first_byte_is_timed_apart_from_the_last)
{
    struct server server;
    server_start(&server, serve_in_two_parts);
    struct load_result result = run_against(&server, "-c", "2", "-n", "6", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 6);
    double gap_ns = gs_histogram_mean(&result.tally.times[LOAD_TIME_RESPONSE]) -
                    gs_histogram_mean(&result.tally.times[LOAD_TIME_FIRST_BYTE]);
    CHECK(gap_ns >= (double)(25 * GS_MILLISECOND));
    gs_load_result_done(&result);
}

TEST(a_client_thinks_between_two_requests)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result = run_against(&server, "-c", "1", "-n", "5", "--think", "20", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 5);
    CHECK(result.seconds >= 4 * 0.020);
    CHECK(gs_load_measured(&result) < 1);
    gs_load_result_done(&result);
}

TEST(the_duration_ends_the_run)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "2", "-d", "200ms", "--threads", "2", NULL);
    server_stop(&server);
    CHECK(result.seconds >= 0.2);
    CHECK(result.tally.requests > 0 && result.tally.requests <= server.requests);
    CHECK_EQ(gs_load_tally_errors(&result.tally), 0);
    gs_load_result_done(&result);
}

/* The connections are made in the warm-up, and some requests, if the machine is not too slow for that:
 * then it takes a longer one. */
TEST(what_happens_in_the_warm_up_is_not_counted)
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
        CHECK_EQ(result.tally.requests, 50);
        CHECK_EQ(result.tally.times[LOAD_TIME_RESPONSE].count, 50);
        CHECK(result.tally.times[LOAD_TIME_CONNECT].count <= result.tally.connections);
        is_long_enough = result.tally.connections == 0 && server.requests > 50;
        gs_load_result_done(&result);
    }
    CHECK(is_long_enough);
}

TEST(the_first_and_last_answers_are_dropped)
{
    struct server server;
    server_start(&server, serve_hello);
    struct load_result result =
        run_against(&server, "-c", "4", "-n", "100", "--drop", "10", "--threads", "2", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 100);
    CHECK_EQ(result.tally.dropped, 20);
    CHECK_EQ(result.tally.times[LOAD_TIME_RESPONSE].count, 80);
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

TEST(an_interrupt_ends_the_run_early_with_what_was_measured)
{
    struct server server;
    server_start(&server, interrupt_after_ten);
    struct load_result result = run_against(&server, "-c", "1", "-d", "100", NULL);
    server_stop(&server);
    CHECK(result.is_interrupted);
    CHECK(result.tally.requests >= 9);
    CHECK_EQ(result.tally.times[LOAD_TIME_RESPONSE].count, result.tally.requests);
    CHECK(result.seconds < 100);
    gs_load_result_done(&result);
}

TEST(ipv6_works_as_well)
{
    struct server server;
    if (!server_start_family(&server, serve_hello, AF_INET6))
        return;
    struct load_result result = run_against(&server, "-c", "2", "-n", "10", NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 10);
    gs_load_result_done(&result);
}

TEST(of_the_addresses_of_a_name_the_one_that_answers_is_taken)
{
    struct server server;
    char url[64];
    server_start(&server, serve_hello);
    snprintf(url, sizeof url, "http://localhost:%u/", server.port);
    struct load_result result = run_against(NULL, "-c", "2", "-n", "10", url, NULL);
    server_stop(&server);
    CHECK_EQ(result.tally.requests, 10);
    gs_load_result_done(&result);
}
