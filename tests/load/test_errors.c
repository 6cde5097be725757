/* Each kind of error, caused by a server that misbehaves. */
#include "tests/load/run.h"

static struct load_result run_with_timeout(serve_fn *serve, const char *requests,
                                           const char *timeout)
{
    struct server server;
    server_start(&server, serve);
    struct load_result result =
        run_against(&server, "-c", "2", "-n", (char *)requests, "--timeout", (char *)timeout, NULL);
    server_stop(&server);
    return result;
}

/* The timeout is so long that it never expires, even on a slow machine. */
static struct load_result run_without_timeout(serve_fn *serve, const char *requests)
{
    return run_with_timeout(serve, requests, "1h");
}

TEST(a_refused_connection_is_a_connect_error)
{
    struct server server;
    server_reserve_port(&server);
    struct load_result result = run_against(&server, "-c", "2", "-n", "6", NULL);
    close(server.fd);
    check_errors(&result, LOAD_CONNECT, 6);
    CHECK_EQ(result.metrics.requests, 0);
    CHECK_EQ(result.metrics.connect_error, -ECONNREFUSED);
    CHECK(gs_load_measured_load(&result) == 0);
    gs_load_result_done(&result);
}

static void serve_nothing(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        ;
}

TEST(a_missing_response_is_a_timeout)
{
    struct load_result result = run_with_timeout(serve_nothing, "4", "100ms");
    check_errors(&result, LOAD_TIMEOUT, 4);
    CHECK(result.seconds >= 0.2);
    CHECK_EQ(result.metrics.times[LOAD_TIME_CONNECT].count, 4);
    gs_load_result_done(&result);
}

static void serve_half(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        server_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
}

TEST(a_stalled_response_is_a_timeout)
{
    struct load_result result = run_with_timeout(serve_half, "4", "100ms");
    check_errors(&result, LOAD_TIMEOUT, 4);
    gs_load_result_done(&result);
}

static void serve_reset(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    if (server_read(server, fd, text, sizeof text))
        server_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    server_reset(fd);
}

TEST(a_reset_connection_is_a_reset_error)
{
    struct load_result result = run_without_timeout(serve_reset, "6");
    check_errors(&result, LOAD_RESET, 6);
    gs_load_result_done(&result);
}

enum { CUT_REQUESTS = 3 };
static int kept_open[CUT_REQUESTS];

/* Answers after a part of the request, and does not read the rest. */
static void serve_413_early(struct server *server, int fd, size_t index)
{
    char byte;
    (void)server;
    kept_open[index] = kept_open[index] ? dup(fd) : 0;
    if (recv(fd, &byte, 1, 0) == 1)
        server_write(fd, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
}

TEST(a_response_is_received_although_the_server_reads_no_more_of_the_request)
{
    static char body[12 << 20];
    memset(body, 'x', sizeof body - 1);
    for (int is_kept_open = 0; is_kept_open < 2; is_kept_open++) {
        struct server server;
        for (int i = 0; i < CUT_REQUESTS; i++)
            kept_open[i] = is_kept_open;
        server_start(&server, serve_413_early);
        struct load_result result =
            run_against(&server, "-c", "1", "-n", "3", "--body", body, "--timeout", "5s", NULL);
        server_stop(&server);
        check_errors(&result, LOAD_STATUS, CUT_REQUESTS);
        CHECK_EQ(result.metrics.unexpected_statuses[413], CUT_REQUESTS);
        CHECK_EQ(result.metrics.connections, CUT_REQUESTS);
        gs_load_result_done(&result);
        for (int i = 0; i < CUT_REQUESTS && is_kept_open; i++)
            close(kept_open[i]);
    }
}

static void serve_404(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        server_write(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
}

TEST(a_status_other_than_2xx_is_a_status_error_and_the_connection_is_kept)
{
    struct server server;
    server_start(&server, serve_404);
    struct load_result result = run_against(&server, "-c", "2", "-n", "10", NULL);
    check_errors(&result, LOAD_STATUS, 10);
    CHECK_EQ(result.metrics.unexpected_statuses[404], 10);
    CHECK_EQ(__atomic_load_n(&server.connections, __ATOMIC_SEQ_CST), 2);
    gs_load_result_done(&result);
    result = run_against(&server, "-c", "2", "-n", "10", "--expect-status", "404", NULL);
    CHECK_EQ(result.metrics.requests, 10);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK_EQ(result.metrics.unexpected_statuses[404], 0);
    gs_load_result_done(&result);
    server_stop(&server);
}

static void serve_growing(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    for (int i = 0; server_read(server, fd, text, sizeof text); i++)
        server_write(fd, i ? "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!" : SERVER_OK);
}

TEST(a_length_other_than_the_first_one_is_a_length_error_if_asked_for)
{
    struct server server;
    server_start(&server, serve_growing);
    struct load_result result = run_against(&server, "-c", "1", "-n", "5", NULL);
    CHECK_EQ(result.metrics.requests, 5);
    check_errors(&result, LOAD_LENGTH, 0);
    gs_load_result_done(&result);
    result = run_against(&server, "-c", "1", "-n", "5", "--expect-length", "same", NULL);
    CHECK_EQ(result.metrics.requests, 1);
    check_errors(&result, LOAD_LENGTH, 4);
    CHECK_EQ(result.metrics.times[LOAD_TIME_RESPONSE].count, 1);
    gs_load_result_done(&result);
    result = run_against(&server, "-c", "1", "-n", "5", "--expect-length", "6", NULL);
    CHECK_EQ(result.metrics.requests, 4);
    check_errors(&result, LOAD_LENGTH, 1);
    gs_load_result_done(&result);
    server_stop(&server);
}

static void serve_ssh(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        server_write(fd, "SSH-2.0-server\r\n");
}

TEST(a_response_other_than_http_is_a_parse_error)
{
    struct load_result result = run_without_timeout(serve_ssh, "6");
    check_errors(&result, LOAD_PARSE, 6);
    CHECK(strstr(result.metrics.parse_reason, "status line"));
    gs_load_result_done(&result);
}

static void serve_short(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    if (server_read(server, fd, text, sizeof text))
        server_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello");
}

TEST(a_connection_closed_during_the_response_is_a_closed_error)
{
    struct load_result result = run_without_timeout(serve_short, "6");
    check_errors(&result, LOAD_CLOSED, 6);
    gs_load_result_done(&result);
}

static void serve_without_response(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    server_read(server, fd, text, sizeof text);
}

TEST(a_new_connection_closed_before_the_response_is_a_closed_error)
{
    struct load_result result = run_without_timeout(serve_without_response, "6");
    check_errors(&result, LOAD_CLOSED, 6);
    CHECK_EQ(result.metrics.retried, 0);
    gs_load_result_done(&result);
}

/* Send three responses per connection, and shut down without "Connection: close". */
static void serve_three(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    for (int i = 0; i < 3 && server_read(server, fd, text, sizeof text); i++)
        server_write(fd, SERVER_OK);
    shutdown(fd, SHUT_WR);
    while (recv(fd, text, sizeof text, 0) > 0)
        ;
}

TEST(a_kept_connection_that_the_server_closes_between_requests_is_no_error)
{
    struct load_result result = run_without_timeout(serve_three, "300");
    CHECK_EQ(result.metrics.requests, 300);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK(result.metrics.connections >= 100);
    gs_load_result_done(&result);
}

/* Like serve_three, but the kernel sends a reset because a request is unread. */
static void serve_two_then_reset(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    for (int i = 0; i < 2 && server_read(server, fd, text, sizeof text); i++)
        server_write(fd, SERVER_OK);
    recv(fd, text, 1, MSG_PEEK);
    server_reset(fd);
}

TEST(a_request_whose_reused_connection_is_reset_is_retried)
{
    struct load_result result = run_without_timeout(serve_two_then_reset, "100");
    CHECK_EQ(result.metrics.requests, 100);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK(result.metrics.retried >= 48);
    gs_load_result_done(&result);
}

static void serve_close_while_thinking(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    if (server_read(server, fd, text, sizeof text))
        server_write(fd, SERVER_OK);
}

TEST(a_connection_closed_during_the_think_time_is_reopened)
{
    struct server server;
    server_start(&server, serve_close_while_thinking);
    struct load_result result = run_against(&server, "-c", "2", "-n", "8", "--think", "30", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 8);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    CHECK_EQ(server.connections, 8);
    gs_load_result_done(&result);
}
