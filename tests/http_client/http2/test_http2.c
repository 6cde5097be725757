/* Requests by HTTP/2: what they bring, and that they share connections. */
#include "tests/http_client/http2/serving.h"

/* ---- One at a time ---- */

SERVE_TEST(a_page_is_got_with_its_status_and_fields, {0})
{
    struct gs_http_response *response = get("/hello");
    MUST_EQ(response->status, 200);
    MUST_EQ(response->content_length, 5);
    MUST_STR(gs_http_response_field(response, "X-Field"), "value");
    MUST_STR(gs_http_response_field(response, "content-type"), "text/plain");
    must_end_with(response, "hello");
    response = get("/empty");
    MUST_EQ(response->status, 204);
    MUST_EQ(response->content_length, 0);
    must_end_with(response, "");
    response = get("/none");
    MUST_EQ(response->status, 404);
    must_end_with(response, "");
}

SERVE_TEST(cookies_are_sent_back, {0})
{
    new_client(&(struct gs_http_client_options){.assumes_http2 = true, .max_cookies = 10});
    must_get("/cookie", "");
    must_get("/cookie", "id=1");
}

SERVE_TEST(head_has_a_length_and_no_body, {0})
{
    const struct gs_http_client_request request = {.method = "HEAD", .url = url_of("/hello")};
    struct gs_http_response *response = fetch(&request);
    MUST_EQ(response->content_length, 5);
    must_end_with(response, "");
}

SERVE_TEST(a_large_body_is_read_in_parts, {0})
{
    char bytes[10000];
    size_t total = 0;
    ssize_t n;
    struct gs_http_response *response = get("/large");
    while ((n = gs_http_response_read(response, bytes, sizeof bytes, after(PATIENCE_NS))) > 0)
        total += (size_t)n;
    MUST_EQ(n, 0);
    MUST_EQ(total, PAGE);
    gs_http_response_free(response);
}

SERVE_TEST(a_body_in_memory_is_sent, {.max_body = 4 * PAGE})
{
    static const size_t sizes[] = {0, 1, 16384, 65536, PAGE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char length[20];
        const struct gs_http_client_request request = {
            .url = url_of("/count"), .body = page, .body_n = sizes[i]};
        snprintf(length, sizeof length, "%zu", sizes[i]);
        must_end_with(fetch(&request), length);
    }
}

static size_t body_left;

static ssize_t read_part(void *unused, void *bytes, size_t n, uint64_t deadline_ns)
{
    (void)unused;
    if (gs_thread_sleep(after(GS_MILLISECOND / 10)) || !deadline_ns)
        return -ECANCELED;
    n = n < 7000 ? n : 7000;
    n = n < body_left ? n : body_left;
    body_left -= n;
    memset(bytes, 'x', n);
    return (ssize_t)n;
}

SERVE_TEST(a_body_by_function_is_sent, {.max_body = 4 * PAGE})
{
    for (int has_length = 0; has_length < 2; has_length++) {
        const struct gs_http_client_request request = {.url = url_of("/count"),
                                                       .read_body = read_part,
                                                       .body_length = has_length ? 300000 : 0};
        body_left = 300000;
        must_end_with(fetch(&request), "300000");
    }
}

/* The server answers, and resets the rest. */
SERVE_TEST(a_response_without_the_whole_body_is_returned, {.max_body = 1000})
{
    const struct gs_http_client_request request = {
        .url = url_of("/count"), .body = page, .body_n = PAGE};
    struct gs_http_response *response = fetch(&request);
    MUST_EQ(response->status, 413);
    gs_http_response_free(response);
    must_get("/hello", "hello");
}

/* The end of a larger body is not sent, so the server waits for it. */
SERVE_TEST(a_body_that_is_answered_while_it_is_sent_arrives_up_to_a_window, {.max_body = 4 * PAGE})
{
    char *body;
    const struct gs_http_client_request small = {
        .url = url_of("/echo"), .body = page, .body_n = 250000};
    struct gs_http_response *response = fetch(&small);
    MUST_EQ(gs_http_response_read_all(response, PAGE, after(PATIENCE_NS), &body), 250000);
    free(body);
    gs_http_response_free(response);
    const struct gs_http_client_request large = {
        .url = url_of("/echo"), .body = page, .body_n = PAGE};
    response = fetch(&large);
    size_t total = 0;
    ssize_t n = 1;
    body = malloc(PAGE);
    for (; n > 0 && total < 262144; total += n > 0 ? (size_t)n : 0)
        n = gs_http_response_read(response, body, PAGE, after(PATIENCE_NS));
    free(body);
    MUST(total >= 262144);
    gs_http_response_free(response);
    must_get("/hello", "hello");
}

SERVE_TEST(a_stream_that_the_server_resets_is_an_error, {0})
{
    MUST_EQ(get_error("/abort"), -ECONNRESET);
    MUST_CONTAIN(gs_http_client_error(), "the server has reset the stream");
    MUST_EQ(get_error("/half"), -ECONNRESET);
    must_get("/hello", "hello");
}

/* ---- Many at a time ---- */

SERVE_TEST(all_threads_share_a_connection, {0})
{
    char first[20];
    for (unsigned i = 0; i < 60; i++)
        start_getter(i, "/soon", 0);
    join_getters(60);
    snprintf(first, sizeof first, "%s", getters[0].body);
    for (unsigned i = 0; i < 60; i++) {
        MUST_EQ(getters[i].err, 0);
        MUST_STR(getters[i].body, first);
    }
    must_get("/connection", first); /* later, too */
}

/* They are in their handlers at the same time. Requests that the first connection refuses, since
 * its limit was not known, are sent again. */
SERVE_TEST(more_requests_than_streams_get_further_connections, {.max_streams = 10})
{
    unsigned count = count_connections(35);
    MUST(count >= 4 && count <= 8);
    count = count_connections(35);
    MUST(count >= 4 && count <= 8);
    must_get("/hello", "hello");
}

SERVE_TEST(connections_that_are_limited_are_waited_for, {.max_streams = 10})
{
    const struct gs_http_client_options options = {.assumes_http2 = true,
                                                   .max_host_connections = 3};
    new_client(&options);
    for (unsigned i = 0; i < 50; i++)
        start_getter(i, "/soon", 0);
    join_getters(50);
    for (unsigned i = 0; i < 50; i++)
        MUST_EQ(getters[i].err, 0);
}

SERVE_TEST(a_response_that_is_read_slowly_holds_up_no_other, {0})
{
    struct gs_http_response *slow[20];
    for (int i = 0; i < 20; i++)
        slow[i] = get("/large");
    must_get("/hello", "hello");
    start_getter(0, "/large", 0);
    join_getters(1);
    MUST_EQ(getters[0].n, PAGE);
    for (int i = 0; i < 20; i++) {
        char *text;
        MUST_EQ(gs_http_response_read_all(slow[i], PAGE, after(PATIENCE_NS), &text), PAGE);
        free(text);
        gs_http_response_free(slow[i]);
    }
}

SERVE_TEST(bodies_of_many_threads_are_sent_and_received, {.max_body = 4 * PAGE})
{
    for (unsigned i = 0; i < 30; i++)
        start_getter(i, i % 3 ? "/large" : "/soon", 0);
    for (int i = 0; i < 5; i++) {
        const struct gs_http_client_request request = {
            .url = url_of("/count"), .body = page, .body_n = PAGE};
        must_end_with(fetch(&request), "1048576");
    }
    join_getters(30);
    for (unsigned i = 0; i < 30; i++) {
        MUST_EQ(getters[i].err, 0);
        MUST(i % 3 == 0 || getters[i].n == PAGE);
    }
}

/* ---- Ends of single requests ---- */

static void await(const _Atomic(unsigned) *count, unsigned wanted)
{
    while (*count < wanted)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
}

static void read_connection(char text[20])
{
    start_getter(GETTERS_MAX - 1, "/connection", 0);
    join(getters[GETTERS_MAX - 1].thread);
    memcpy(text, getters[GETTERS_MAX - 1].body, 20);
}

/* The first one drives the connection until its deadline, and another one goes on. */
SERVE_TEST(a_deadline_ends_one_request_only, {0})
{
    char before[20], afterwards[20];
    read_connection(before);
    start_getter(0, "/never", after(100 * GS_MILLISECOND));
    await(&sleeping, 1);
    for (unsigned i = 1; i <= 10; i++)
        start_getter(i, "/meet/11", 0);
    await(&waiting, 10);
    join(getters[0].thread);
    MUST_EQ(getters[0].err, -ETIMEDOUT);
    waiting++; /* the others meet */
    for (unsigned i = 1; i <= 10; i++) {
        join(getters[i].thread);
        MUST_EQ(getters[i].err, 0);
    }
    read_connection(afterwards);
    MUST_STR(afterwards, before);
}

SERVE_TEST(a_cancellation_ends_one_request_only, {0})
{
    char before[20], afterwards[20];
    read_connection(before);
    for (unsigned i = 0; i < 5; i++) {
        start_getter(i, "/never", 0);
        start_getter(5 + i, "/meet/6", 0);
    }
    await(&sleeping, 5);
    await(&waiting, 5);
    for (unsigned i = 0; i < 5; i++) {
        gs_thread_cancel(getters[i].thread);
        join(getters[i].thread);
        MUST_EQ(getters[i].err, -ECANCELED);
    }
    waiting++;
    for (unsigned i = 5; i < 10; i++) {
        join(getters[i].thread);
        MUST_EQ(getters[i].err, 0);
    }
    read_connection(afterwards);
    MUST_STR(afterwards, before);
}

/* The handler's stream is reset: its write fails, and the others go on. */
SERVE_TEST(a_response_may_be_freed_before_its_end, {0})
{
    char before[20], afterwards[20];
    read_connection(before);
    for (int i = 0; i < 20; i++) {
        char bytes[100];
        struct gs_http_response *response = get("/large");
        if (i % 2)
            MUST_EQ(gs_http_response_read(response, bytes, sizeof bytes, after(PATIENCE_NS)),
                    sizeof bytes);
        gs_http_response_free(response);
    }
    read_connection(afterwards);
    MUST_STR(afterwards, before);
}

SERVE_TEST(a_read_is_repeated_after_its_deadline, {0})
{
    char bytes[10];
    struct gs_http_response *response = get("/half");
    ssize_t n, total = 0;
    while ((n = gs_http_response_read(response, bytes, sizeof bytes, 0)) > 0 || n == -ETIMEDOUT) {
        total += n > 0 ? n : 0;
        gs_thread_yield();
    }
    MUST_EQ(n, -ECONNRESET);
    MUST(total <= 500);
    gs_http_response_free(response);
}

/* ---- Ends of connections ---- */

SERVE_TEST(an_idle_connection_that_the_server_has_ended_is_not_used,
           {.idle_timeout_ns = 10 * GS_MILLISECOND})
{
    for (int i = 0; i < 3; i++) {
        must_get("/hello", "hello");
        MUST_EQ(gs_thread_sleep(after(60 * GS_MILLISECOND)), 0);
    }
}

SERVE_TEST(a_server_that_ends_completes_what_it_has_begun, {.drain_timeout_ns = 30 * GS_SECOND})
{
    for (unsigned i = 0; i < 10; i++)
        start_getter(i, "/meet/11", 0);
    await(&waiting, 10);
    gs_thread_cancel(script_thread);
    MUST_EQ(gs_thread_sleep(after(5 * GS_MILLISECOND)), 0);
    waiting++;
    join_getters(10);
    for (unsigned i = 0; i < 10; i++)
        MUST_EQ(getters[i].err, 0);
}
