/* The requests that are sent, and the forms of responses that are accepted. */
#include "tests/load/run.h"

static struct load_result run_hello(serve_fn *serve, uint64_t expected_requests)
{
    struct server server;
    char requests[32];
    snprintf(requests, sizeof requests, "%llu", (unsigned long long)expected_requests);
    server_start(&server, serve);
    struct load_result result =
        run_against(&server, "-c", "2", "-n", requests, "--expect-length", "5", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, expected_requests);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
    return result;
}

static void serve_chunks(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text))
        server_write(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                         "chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n");
}

TEST(the_length_of_a_chunked_response_is_that_of_its_body)
{
    struct load_result result = run_hello(serve_chunks, 10);
    CHECK_EQ(result.metrics.connections, 2);
    gs_load_result_done(&result);
}

static void serve_until_close(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    if (server_read(server, fd, text, sizeof text))
        server_write(fd, "HTTP/1.0 200 OK\r\n\r\nhello");
}

TEST(a_response_may_end_with_the_connection)
{
    struct load_result result = run_hello(serve_until_close, 10);
    CHECK_EQ(result.metrics.connections, 10);
    gs_load_result_done(&result);
}

static void serve_bytes(struct server *server, int fd, size_t index)
{
    char text[4096];
    int on = 1;
    (void)index;
    setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
    while (server_read(server, fd, text, sizeof text)) {
        for (const char *byte = "HTTP/1.1 100 Continue\r\n\r\n" SERVER_OK; *byte; byte++)
            send(fd, byte, 1, MSG_NOSIGNAL);
    }
}

TEST(a_response_may_arrive_in_single_bytes)
{
    struct load_result result = run_hello(serve_bytes, 4);
    gs_load_result_done(&result);
}

enum { LARGE = 3000000 };

static void serve_large(struct server *server, int fd, size_t index)
{
    char text[4096];
    char *body = malloc(LARGE + 1);
    (void)index;
    memset(body, 'x', LARGE);
    body[LARGE] = '\0';
    while (server_read(server, fd, text, sizeof text)) {
        server_write(fd, "HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n");
        server_write(fd, body);
    }
    free(body);
}

TEST(large_responses_are_read_to_the_end)
{
    struct server server;
    server_start(&server, serve_large);
    struct load_result result =
        run_against(&server, "-c", "3", "-n", "12", "--expect-length", "3000000", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 12);
    CHECK_EQ(server.connections, 3);
    CHECK(result.metrics.bytes > 12 * (uint64_t)LARGE);
    gs_load_result_done(&result);
}

static void serve_if_head(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        bool is_expected = strstr(text, "HEAD /a?b HTTP/1.1\r\nHost: ") == text &&
                           strstr(text, "\r\nA: b\r\n") && strstr(text, "\r\nC: d\r\n\r\n");
        server_write(fd, is_expected ? "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
                                     : "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
    }
}

TEST(method_path_and_fields_are_sent_and_head_has_no_body)
{
    struct server server;
    char url[64];
    server_start(&server, serve_if_head);
    snprintf(url, sizeof url, "http://127.0.0.1:%u/a?b#c", server.port);
    struct load_result result = run_against(NULL, "-n", "9", "-c", "2", "--method", "HEAD",
                                            "--header", "A: b", "--header", "C: d", url, NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 9);
    gs_load_result_done(&result);
}

static void serve_if_post(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        bool is_expected =
            strstr(text, "POST / HTTP/1.1\r\nContent-Length: 0\r\nHost: other\r\n\r\n") == text;
        server_write(fd, is_expected ? SERVER_OK : "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n");
    }
}

TEST(a_given_host_replaces_the_default_and_a_post_has_an_empty_body)
{
    struct server server;
    server_start(&server, serve_if_post);
    struct load_result result = run_against(&server, "-n", "3", "-c", "1", "--method", "POST",
                                            "--header", "Host: other", NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 3);
    gs_load_result_done(&result);
}

static size_t requests_a, requests_b; /* accessed atomically */

static void serve_two_pages(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        bool is_a = !strncmp(text, "GET /a ", 7);
        __atomic_fetch_add(is_a ? &requests_a : &requests_b, 1, __ATOMIC_SEQ_CST);
        server_write(fd, is_a ? SERVER_OK : "HTTP/1.1 204 No Content\r\n\r\n");
    }
}

TEST(several_urls_are_requested_in_turn_each_with_its_own_expectation)
{
    struct server server;
    char a[64], b[64];
    server_start(&server, serve_two_pages);
    snprintf(a, sizeof a, "http://127.0.0.1:%u/a", server.port);
    snprintf(b, sizeof b, "http://127.0.0.1:%u/b", server.port);
    struct load_result result = run_against(NULL, "-n", "50", "-c", "3", a, b, NULL);
    server_stop(&server);
    CHECK_EQ(result.metrics.requests, 50);
    CHECK_EQ(requests_a, 25);
    CHECK_EQ(requests_b, 25);
    gs_load_result_done(&result);
}
