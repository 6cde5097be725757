/* Runs that end early because no response arrives. */
#include "tests/load/run.h"

/* It forks, so it is the first test: no other thread has run yet. */
TEST(all_processes_of_a_run_give_up_together)
{
    struct server server;
    server_reserve_port(&server);
    struct load_result result = run_against(&server, "-d", "1h", "--give-up", "100ms", "--timeout",
                                            "50ms", "--processes", "3", NULL);
    close(server.fd);
    CHECK(result.has_given_up && !result.is_interrupted && !result.is_invalid);
    gs_load_result_done(&result);
}

TEST(a_run_whose_connections_are_all_refused_is_given_up)
{
    struct server server;
    server_reserve_port(&server);
    struct load_result result =
        run_against(&server, "-d", "1h", "--give-up", "100ms", "--timeout", "50ms", NULL);
    close(server.fd);
    CHECK(result.has_given_up && !result.is_interrupted);
    CHECK(result.metrics.errors[LOAD_CONNECT] > 0);
    gs_load_result_done(&result);
}

static void serve_nothing(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        ;
}

TEST(a_run_without_a_response_is_given_up_even_in_its_warmup)
{
    struct load_result result = run_beside(serve_nothing, "-d", "1h", "--warmup", "1h", "--give-up",
                                           "100ms", "--timeout", "50ms", NULL);
    CHECK(result.has_given_up && !result.is_interrupted);
    CHECK_EQ(result.metrics.requests, 0);
    gs_load_result_done(&result);
}

static void serve_late(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    if (!server_read(server, fd, text, sizeof text))
        return;
    usleep(400000);
    server_write(fd, SERVER_OK);
}

TEST(a_response_that_takes_less_than_the_timeout_is_waited_for)
{
    struct load_result result =
        run_beside(serve_late, "-c", "1", "-n", "1", "--give-up", "100ms", "--timeout", "1h", NULL);
    CHECK(!result.has_given_up);
    CHECK_EQ(result.metrics.requests, 1);
    gs_load_result_done(&result);
}

/* Send an unexpected response to the first request, and no other. */
static void serve_one_error(struct server *server, int fd, size_t index)
{
    char text[4096];
    if (server_read(server, fd, text, sizeof text) && index == 0)
        server_write(fd, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    while (server_read(server, fd, text, sizeof text))
        ;
}

/* The first response has time to arrive also on a slow machine. */
TEST(a_run_with_any_response_is_not_given_up)
{
    struct load_result result = run_beside(serve_one_error, "-c", "1", "-d", "3s", "--give-up",
                                           "2s", "--timeout", "1500ms", NULL);
    CHECK(!result.has_given_up);
    CHECK_EQ(result.metrics.errors[LOAD_STATUS], 1);
    gs_load_result_done(&result);
}

TEST(a_run_never_gives_up_if_the_option_is_zero)
{
    struct server server;
    server_reserve_port(&server);
    struct load_result result =
        run_against(&server, "-d", "300ms", "--give-up", "0", "--timeout", "50ms", NULL);
    close(server.fd);
    CHECK(!result.has_given_up);
    CHECK(result.seconds >= 0.3);
    gs_load_result_done(&result);
}
