/* The requests that are sent, and the forms of responses that are accepted. */
#include "tests/load/run.h"

static struct load_result run_hello(serve_fn *serve, uint64_t expected_requests)
{
    char requests[32];
    snprintf(requests, sizeof requests, "%llu", (unsigned long long)expected_requests);
    struct load_result result =
        run_beside(serve, "-c", "2", "-n", requests, "--expect-length", "5", NULL);
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

enum { CHUNK = 5000, CHUNKS = 400 };

/* Chunks that end anywhere in what is received at once; those of the connections differ. */
static void serve_large_chunks(struct server *server, int fd, size_t index)
{
    char text[4096];
    char chunk[CHUNK + 64];
    size_t n = CHUNK - 512 * index;
    memset(chunk, 'x', sizeof chunk);
    while (server_read(server, fd, text, sizeof text)) {
        server_write(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (int i = 0; i < CHUNKS; i++) {
            char size[32];
            struct iovec parts[] = {{size, (size_t)snprintf(size, sizeof size, "%zx\r\n", n)},
                                    {chunk, n},
                                    {(char *)"\r\n", 2}};
            (void)!writev(fd, parts, 3);
        }
        server_write(fd, "0\r\n\r\n");
    }
}

TEST(clients_that_receive_much_at_the_same_time_do_not_disturb_each_other)
{
    struct load_result result = run_beside(serve_large_chunks, "-c", "8", "-n", "80", NULL);
    CHECK_EQ(result.metrics.requests, 80);
    CHECK_EQ(gs_load_metrics_error_count(&result.metrics), 0);
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
    struct load_result result = run_beside(serve_if_post, "-n", "3", "-c", "1", "--method", "POST",
                                           "--header", "Host: other", NULL);
    CHECK_EQ(result.metrics.requests, 3);
    gs_load_result_done(&result);
}

/* Answer with the body, the fields Host and Authorization, and the target of the request. */
static void serve_echo(struct server *server, int fd, size_t index)
{
    char text[4096] = "", response[8192];
    (void)index;
    (void)server;
    ssize_t n = recv(fd, text, sizeof text - 1, 0);
    while (n > 0 && !strstr(text, "end."))
        n += recv(fd, text + n, sizeof text - 1 - (size_t)n, 0);
    snprintf(response, sizeof response, "HTTP/1.0 200 OK\r\n\r\n%s", text);
    server_write(fd, response);
}

/* Run the command with one request, and check the request. Its body ends with "end." */
static void check_request(const char *expected, const char *url_format, char *body, char *field)
{
    struct server server;
    char url[128], length[32], request[512];
    server_start(&server, serve_echo);
    snprintf(url, sizeof url, url_format, server.port);
    snprintf(request, sizeof request, expected, server.port);
    snprintf(length, sizeof length, "%zu", strlen(request));
    struct load_result result = run_against(NULL, "-n", "1", "-c", "1", "--body", body, "-H", field,
                                            "--expect-length", length, url, NULL);
    server_stop(&server);
    if (result.metrics.requests != 1)
        TEST_FAIL("%s with %s has not sent %s", url, body, request);
    gs_load_result_done(&result);
}

TEST(a_request_has_the_body_the_user_name_and_the_host_that_were_given)
{
    char path[] = "/tmp/gossamer-body-XXXXXX", option[64];
    int fd = mkstemp(path);
    CHECK_EQ(write(fd, "file end.", 9), 9);
    close(fd);
    snprintf(option, sizeof option, "@%s", path);
    check_request("POST / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 4\r\nA: b\r\n\r\nend.",
                  "http://127.0.0.1:%u", "end.", "A: b");
    check_request("POST /?q HTTP/1.1\r\nContent-Length: 9\r\nHost: x\r\n\r\nfile end.",
                  "HTTP://127.0.0.1:%u?q#f", option, "Host: x");
    check_request("POST / HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nContent-Length: 4\r\n"
                  "Authorization: Basic dXNlcjpwQHNz\r\nA: b\r\n\r\nend.",
                  "us%%65r:p%%40ss@127.0.0.1:%u", "end.", "A: b");
    unlink(path);
}

static const char *form;
static bool form_closes;

static void serve_form(struct server *server, int fd, size_t index)
{
    char text[4096];
    (void)index;
    while (server_read(server, fd, text, sizeof text)) {
        server_write(fd, form);
        if (form_closes)
            return;
    }
}

/* What common clients accept of servers, and whether they keep the connection. */
TEST(responses_of_many_forms_are_accepted)
{
    static const struct {
        const char *form;
        bool is_kept, closes;
    } rows[] = {
        {"HTTP/1.1 200\ncOnTENT-lENGTH:2\n\nhi", true, false},
        {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nhi", true, false},
        {"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" SERVER_OK,
         true, false},
        {"HTTP/1.1 204 No Content\r\n\r\n", true, false},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", true, false},
        {"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 2\r\n\r\nhi", true, false},
        {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi", true, false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=\"b\"\r\nhi\r\n0\r\nX: "
         "y\r\n\r\n",
         true, false},
        {"HTTP/1.1 200 OK\r\n\r\nhi", false, true},
        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", false, false},
        {SERVER_OK "more", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct server server;
        form = rows[i].form;
        form_closes = rows[i].closes;
        server_start(&server, serve_form);
        struct load_result result = run_against(&server, "-c", "1", "-n", "3", NULL);
        server_stop(&server);
        if (result.metrics.requests != 3 || gs_load_metrics_error_count(&result.metrics) ||
            result.metrics.connections != (rows[i].is_kept ? 1 : 3))
            TEST_FAIL("%llu requests, %llu connections for %s",
                      (unsigned long long)result.metrics.requests,
                      (unsigned long long)result.metrics.connections, rows[i].form);
        CHECK_EQ(result.metrics.excessive, strstr(form, "more") ? 3 : 0);
        gs_load_result_done(&result);
    }
}

TEST(a_connection_is_closed_after_each_request_with_connection_close)
{
    struct load_result result =
        run_beside(serve_hello, "-c", "1", "-n", "3", "-H", "Connection: close", NULL);
    CHECK_EQ(result.metrics.requests, 3);
    CHECK_EQ(result.metrics.connections, 3);
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
