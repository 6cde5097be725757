/* A client's connection with a server's of the same module. */
#include "tests/http2/engine.h"
#include "tests/test.h"

static struct engine engine;
static char large[1 << 20];

static void start(void)
{
    engine_start(&engine);
    drive_write(&engine.drive, "f", "hello");
    drive_write_bytes(&engine.drive, "large", large, sizeof large);
}

static const struct engine_call *get(const char *method, const char *path)
{
    unsigned at = engine_get(&engine, method, path);
    engine_exchange(&engine);
    return &engine.calls[at];
}

/* ---- Responses ---- */

TEST(a_response_has_its_status_fields_and_body)
{
    start();
    const struct engine_call *call = get("GET", "/f");
    CHECK_EQ(call->ends, 1u);
    CHECK_EQ(call->err, 0);
    CHECK_EQ(call->stream.status, 200u);
    CHECK_STR(call->body, "hello");
    CHECK(strstr(call->fields, "content-length: 5\n"));
    CHECK(strstr(call->fields, "\n--\n"));
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(responses_are_the_same_for_each_cut)
{
    static const size_t chunks[] = {1, 2, 3, 7, 100};
    start();
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        engine_close(&engine);
        engine.chunk = engine.drive.input_chunk = engine.drive.output_chunk = chunks[i];
        CHECK_EQ(engine_reopen(&engine), 0);
        unsigned first = engine_get(&engine, "GET", "/f");
        unsigned second = engine_get(&engine, "GET", "/none");
        unsigned third = engine_get(&engine, "HEAD", "/f");
        engine_next(&engine)->body_left = 1000;
        unsigned fourth = engine_get(&engine, "POST", "/f");
        engine_exchange(&engine);
        CHECK_EQ(engine.calls[first].stream.status, 200u);
        CHECK_STR(engine.calls[first].body, "hello");
        CHECK_EQ(engine.calls[second].stream.status, 404u);
        CHECK_EQ(engine.calls[third].stream.status, 200u);
        CHECK_EQ(engine.calls[third].body_n, 0u);
        CHECK_EQ(engine.calls[fourth].stream.status, 405u);
        for (unsigned at = first; at <= fourth; at++) {
            CHECK_EQ(engine.calls[at].ends, 1u);
            CHECK_EQ(engine.calls[at].err, 0);
        }
    }
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(fields_of_a_connection_are_not_sent)
{
    start();
    CHECK_EQ(engine_request(&engine, "GET", "/f",
                            "Host: other\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\n"
                            "Transfer-Encoding: chunked\r\nTE: gzip\r\nUpgrade: h2c\r\n"
                            "User-Agent: \t agent \r\nIf-Modified-Since: " DRIVE_MODIFIED "\r\n"),
             0);
    engine_exchange(&engine);
    CHECK_EQ(engine.calls[0].err, 0);
    CHECK_EQ(engine.calls[0].stream.status, 304u);
    CHECK_STR(engine.drive.logged[0].user_agent, "agent");
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(fields_that_are_too_large_are_not_sent)
{
    static char fields[GS_HTTP2_CLIENT_FIELDS_MAX + 100];
    start();
    for (size_t at = 0; at + 4 < sizeof fields; at += 4)
        memcpy(fields + at, "a:\r\n", 4);
    CHECK_EQ(engine_request(&engine, "GET", "/f", fields), -EMSGSIZE);
    fields[GS_HTTP2_CLIENT_FIELDS_MAX - 100] = '\0';
    CHECK_EQ(engine_request(&engine, "GET", "/f", fields), 0);
    engine_exchange(&engine);
    CHECK(!engine.calls[1].stream.is_unprocessed); /* the server refuses the fields, not we */
    CHECK_EQ(get("GET", "/f")->stream.status, 200u);
    CHECK_EQ(engine_stop(&engine), 0);
}

/* ---- Flow control ---- */

TEST(a_reader_that_is_slow_gets_one_window)
{
    start();
    engine_next(&engine)->is_slow = true;
    const struct engine_call *slow = get("GET", "/large");
    CHECK_EQ(slow->body_n, 256u << 10);
    CHECK_EQ(slow->ends, 0u);
    CHECK_EQ(get("GET", "/large")->body_n, sizeof large); /* it holds up nobody */
    CHECK_EQ(gs_http2_client_consume(&engine.client, &engine.calls[0].stream, 200u << 10), 0);
    engine_exchange(&engine);
    CHECK_EQ(slow->body_n, (256u + 200u) << 10);
    engine.calls[0].is_slow = false;
    CHECK_EQ(gs_http2_client_consume(&engine.client, &engine.calls[0].stream, 256u << 10), 0);
    engine_exchange(&engine);
    CHECK_EQ(slow->body_n, sizeof large);
    CHECK_EQ(slow->err, 0);
    CHECK_EQ(slow->ends, 1u);
    CHECK_EQ(gs_http2_client_consume(&engine.client, &engine.calls[0].stream, 1), 0); /* later */
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(many_readers_that_are_slow_hold_up_no_other)
{
    start();
    for (int i = 0; i < 8; i++) {
        engine_next(&engine)->is_slow = true;
        engine_get(&engine, "GET", "/large");
    }
    engine_exchange(&engine);
    CHECK_EQ(get("GET", "/large")->body_n, sizeof large);
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(a_body_is_sent_as_it_comes)
{
    start();
    struct engine_call *call = engine_next(&engine);
    call->is_held = true;
    engine_get(&engine, "POST", "/f");
    engine_exchange(&engine);
    CHECK_EQ(engine.client.count, 1u);
    call->is_held = false;
    call->body_left = 300;
    call->body_step = 100;
    CHECK_EQ(gs_http2_client_resume(&engine.client, &call->stream), 0);
    engine_exchange(&engine);
    CHECK_EQ(call->body_left, 0u);
    CHECK_EQ(call->stream.status, 405u);
    CHECK_EQ(call->err, 0);
    CHECK_EQ(engine_stop(&engine), 0);
}

/* ---- Ends ---- */

TEST(a_canceled_request_ends_alone)
{
    start();
    engine_next(&engine)->is_slow = true;
    const struct engine_call *call = get("GET", "/large");
    CHECK_EQ(gs_http2_client_cancel(&engine.client, &engine.calls[0].stream), 0);
    CHECK_EQ(engine.client.count, 0u);
    memset(&engine.calls[0], 0xff, sizeof engine.calls[0]); /* it may be gone */
    CHECK_STR(get("GET", "/f")->body, "hello");
    CHECK_EQ(engine.drive.counts.http2_resets, 1u);
    CHECK_EQ(call->ends, UINT32_MAX);
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(a_request_is_canceled_before_it_was_sent)
{
    start();
    engine_next(&engine)->body_left = 10;
    engine_get(&engine, "POST", "/f");
    CHECK_EQ(gs_http2_client_cancel(&engine.client, &engine.calls[0].stream), 0);
    memset(&engine.calls[0], 0xff, sizeof engine.calls[0]);
    CHECK_STR(get("GET", "/f")->body, "hello");
    CHECK_EQ(engine.drive.logged_count, 1u);
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(an_error_of_the_user_ends_the_request_alone)
{
    start();
    engine_next(&engine)->field_err = -ENOMEM;
    CHECK_EQ(get("GET", "/f")->err, -ENOMEM);
    engine_next(&engine)->body_err = -ENOSPC;
    CHECK_EQ(get("GET", "/large")->err, -ENOSPC);
    engine_next(&engine)->wanted_err = -EIO;
    CHECK_EQ(get("POST", "/f")->err, -EIO);
    CHECK_STR(get("GET", "/f")->body, "hello");
    for (int i = 0; i < 4; i++)
        CHECK_EQ(engine.calls[i].ends, 1u);
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(a_response_without_its_request_resets_the_rest)
{
    start();
    struct engine_call *call = engine_next(&engine);
    call->is_held = true;
    CHECK_EQ(engine_request(&engine, "POST", "/f", "Content-Length: 90000000\r\n"), 0);
    engine_exchange(&engine);
    CHECK_EQ(call->stream.status, 413u);
    CHECK_EQ(call->err, 0);
    CHECK_EQ(call->ends, 1u);
    CHECK_STR(get("GET", "/f")->body, "hello");
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(a_server_that_drains_completes_what_it_has_begun)
{
    start();
    engine_next(&engine)->is_slow = true;
    const struct engine_call *call = get("GET", "/large");
    gs_http_conn_drain(&engine.drive.conn, engine.drive.now_ns);
    drive_serve(&engine.drive);
    engine_exchange(&engine);
    CHECK(gs_http2_client_is_draining(&engine.client));
    CHECK_EQ(gs_http2_client_room(&engine.client), 0u);
    CHECK_EQ(engine_request(&engine, "GET", "/f", ""), -ESHUTDOWN);
    CHECK(!gs_http2_client_is_over(&engine.client));
    engine.calls[0].is_slow = false;
    CHECK_EQ(gs_http2_client_consume(&engine.client, &engine.calls[0].stream, 256u << 10), 0);
    engine_exchange(&engine);
    CHECK_EQ(call->body_n, sizeof large);
    CHECK_EQ(call->err, 0);
    CHECK(gs_http2_client_is_over(&engine.client));
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(an_end_is_told_to_the_server)
{
    start();
    CHECK_STR(get("GET", "/f")->body, "hello");
    gs_http2_client_close(&engine.client);
    engine_exchange(&engine);
    CHECK(gs_http2_client_is_over(&engine.client));
    CHECK_EQ(engine_stop(&engine), 0);
}

TEST(as_many_requests_start_as_the_server_allows)
{
    start();
    CHECK_EQ(gs_http2_client_room(&engine.client), 100u);
    for (int i = 0; i < 100; i++)
        engine_get(&engine, "GET", "/f");
    CHECK_EQ(gs_http2_client_room(&engine.client), 0u);
    for (int i = 0; i < 50; i++) /* they wait */
        engine_get(&engine, "GET", "/f");
    engine_exchange(&engine);
    for (int i = 0; i < 150; i++)
        CHECK_STR(engine.calls[i].body, "hello");
    CHECK_EQ(gs_http2_client_room(&engine.client), 100u);
    CHECK_EQ(engine_stop(&engine), 0);
}
