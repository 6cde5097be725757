/* HTTP/2 by https, with a server of gs_http_serve: it is spoken if both sides offer it. */
#include "tests/http_client/http2/serving.h"
#include "tests/tls_stream/contexts.h"

#include <gossamer/tls_engine.h>

static const char *const both[] = {"h2", "http/1.1"}, *const old[] = {"http/1.1"};

static void make_contexts_for(const char *const *protocols, unsigned count)
{
    struct certificate_files files;
    certificate_make("localhost", &files);
    const struct gs_tls_certificate certificate = {.chain = files.chain, .key = files.key};
    const struct gs_tls_options for_server = {.certificates = &certificate,
                                              .certificate_count = 1,
                                              .protocols = protocols,
                                              .protocol_count = count};
    const struct gs_tls_options for_client = {
        .is_client = true, .ca_file = files.chain, .protocols = both, .protocol_count = 2};
    CHECK_EQ(gs_tls_context_new(&for_server, &server_context, NULL), 0);
    CHECK_EQ(gs_tls_context_new(&for_client, &client_context, NULL), 0);
}

static void start_tls_server(void)
{
    const struct gs_http_client_options options = {.tls = client_context};
    server.tls = server_context;
    start_server();
    snprintf(script_url, sizeof script_url, "https://localhost:%u", ntohs(script_address.sin_port));
    new_client(&options);
}

#define TLS_TEST(name_, ...)                                                                       \
    static void name_##_body(void);                                                                \
    static void *name_##_thread(void *unused)                                                      \
    {                                                                                              \
        start_tls_server();                                                                        \
        name_##_body();                                                                            \
        stop_server();                                                                             \
        return unused;                                                                             \
    }                                                                                              \
    TEST(name_)                                                                                    \
    {                                                                                              \
        make_contexts_for(__VA_ARGS__);                                                            \
        server = (struct gs_http_server){.max_body = 4 * PAGE, .drain_timeout_ns = 5 * GS_SECOND}; \
        run_both(name_##_thread);                                                                  \
        release_contexts();                                                                        \
    }                                                                                              \
    static void name_##_body(void)

TLS_TEST(all_threads_share_the_first_connection, both, 2)
{
    MUST_EQ(count_connections(40), 1);
    MUST_EQ(count_connections(40), 1);
    must_get("/hello", "hello");
}

TLS_TEST(a_connection_leaves_its_session_while_it_is_in_use, both, 2)
{
    must_get("/hello", "hello");
    struct gs_tls_session *session = gs_tls_session_take(client_context, script_url);
    MUST(session);
    gs_tls_session_free(session);
}

TLS_TEST(a_server_of_http_1_has_a_connection_for_each_thread, old, 1)
{
    MUST_EQ(count_connections(10), 10);
    must_get("/hello", "hello");
}

TLS_TEST(large_bodies_pass_in_both_directions_at_the_same_time, both, 2)
{
    for (unsigned i = 0; i < 20; i++)
        start_getter(i, "/large", 0);
    for (int i = 0; i < 5; i++) {
        const struct gs_http_client_request request = {
            .url = url_of("/count"), .body = page, .body_n = PAGE};
        must_end_with(fetch(&request), "1048576");
    }
    join_getters(20);
    for (unsigned i = 0; i < 20; i++)
        MUST_EQ(getters[i].n, PAGE);
}

/* The first one drives the connection until its deadline. */
TLS_TEST(a_deadline_ends_one_request_only, both, 2)
{
    must_get("/hello", "hello");
    start_getter(0, "/meet/2", after(50 * GS_MILLISECOND));
    for (unsigned i = 1; i <= 10; i++)
        start_getter(i, "/large", 0);
    join_getters(11);
    MUST_EQ(getters[0].err, -ETIMEDOUT);
    waiting++;
    for (unsigned i = 1; i <= 10; i++)
        MUST_EQ(getters[i].n, PAGE);
}

TLS_TEST(a_server_that_ends_completes_what_it_has_begun, both, 2)
{
    for (unsigned i = 0; i < 10; i++)
        start_getter(i, "/meet/11", 0);
    while (waiting < 10)
        MUST_EQ(gs_thread_sleep(after(GS_MILLISECOND)), 0);
    gs_thread_cancel(script_thread);
    waiting++;
    join_getters(10);
    for (unsigned i = 0; i < 10; i++)
        MUST_EQ(getters[i].err, 0);
}
