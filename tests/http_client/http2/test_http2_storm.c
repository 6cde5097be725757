/* Threads of several workers that make requests, give up, are canceled, read slowly, and share
 * connections with one another, while the server resets streams and closes connections. What was
 * not disturbed is right. */
#include "tests/http_client/http2/serving.h"

#define THREADS 40
#define REQUESTS 30 /* of each thread */

static _Atomic(unsigned) completed;

static unsigned next_random(unsigned *state)
{
    *state = *state * 1103515245u + 12345u;
    return *state >> 16;
}

static void check_body(const char *path, const char *body, size_t n)
{
    if (!strcmp(path, "/hello"))
        MUST(n == 5 && !memcmp(body, "hello", 5));
    if (!strcmp(path, "/large"))
        MUST_EQ(n, PAGE);
    completed++;
}

static void make_request(unsigned *random)
{
    static const char *const paths[] = {"/hello", "/hello", "/hello", "/large",
                                        "/soon",  "/abort", "/half",  "/late"};
    const char *path = paths[next_random(random) % 8];
    bool is_short = !strcmp(path, "/late") || next_random(random) % 8 == 0;
    uint64_t deadline_ns =
        after(is_short ? (uint64_t)next_random(random) % 5000 * 1000 : (uint64_t)PATIENCE_NS);
    struct gs_http_response *response = NULL;
    char url[200], *text = NULL;
    snprintf(url, sizeof url, "%s%s", script_url, path);
    ssize_t n = gs_http_get(client, url, deadline_ns, &response);
    if (!n && next_random(random) % 4)
        n = gs_http_response_read_all(response, 2 * PAGE, deadline_ns, &text);
    if (n >= 0 && text)
        check_body(path, text, (size_t)n);
    bool is_expected =
        n >= 0 || n == -ECONNRESET || n == -ECANCELED || (n == -ETIMEDOUT && is_short);
    if (!is_expected)
        fprintf(stderr, "%s: %zd: %s\n", path, n, gs_http_client_error());
    MUST(is_expected);
    free(text);
    gs_http_response_free(response);
}

static void *make_requests(void *argument)
{
    unsigned random = (unsigned)(uintptr_t)argument;
    for (int i = 0; i < REQUESTS; i++)
        make_request(&random);
    return NULL;
}

static void *storm(void *unused)
{
    struct gs_thread *threads[THREADS];
    start_server();
    completed = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = spawn(make_requests, (void *)(i + 1));
    for (int i = 0; i < THREADS; i += 4) { /* from then on all of its waits fail */
        MUST_EQ(gs_thread_sleep(after(2 * GS_MILLISECOND)), 0);
        gs_thread_cancel(threads[i]);
    }
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    MUST(completed > THREADS);
    stop_server();
    return unused;
}

TEST(what_is_not_disturbed_is_right)
{
    server = (struct gs_http_server){
        .max_streams = 10, .idle_timeout_ns = GS_MILLISECOND, .drain_timeout_ns = 10 * GS_SECOND};
    for (unsigned workers = 1; workers <= 4; workers++)
        run_with(workers, storm);
}
