/* Requests over HTTP/2, as a client of libnghttp2 sends them. */
#include "http2/session.h"
#include "tests/http2/client.h"
#include "tests/test.h"

static struct client client;
static char large[1 << 20];

static void start(void)
{
    client_start(&client, NULL);
    drive_write(&client.drive, "f", "hello");
    drive_write_bytes(&client.drive, "large", large, sizeof large);
    drive_write_bytes(&client.drive, "middle", large, 30000);
}

static const struct client_stream *stream_of(int32_t id)
{
    return &client.streams[id];
}

static bool has_field(int32_t id, const char *line)
{
    return strstr(client.streams[id].fields, line) != NULL;
}

static struct gs_http2_session *session_of(void)
{
    return (struct gs_http2_session *)client.drive.conn.http2;
}

TEST(a_page_is_answered_with_its_fields)
{
    start();
    int32_t id = client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK_EQ(stream_of(id)->status, 200u);
    CHECK_STR(stream_of(id)->body, "hello");
    CHECK(stream_of(id)->is_closed && !stream_of(id)->error);
    CHECK(has_field(id, "date: " DRIVE_DATE "\n"));
    CHECK(has_field(id, "last-modified: " DRIVE_MODIFIED "\n"));
    CHECK(has_field(id, "content-length: 5\n"));
    CHECK(!has_field(id, "connection"));
    CHECK_EQ(client.drive.counts.http2_connections, 1u);
    CHECK_EQ(client.drive.counts.http2_requests, 1u);
    CHECK_STR(client.drive.logged[0].request_line, "GET /f HTTP/2.0");
    CHECK_EQ(client.drive.logged[0].body_bytes, 5u);
    CHECK(gs_http_conn_is_idle(&client.drive.conn));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(requests_are_decided_as_those_of_http_1)
{
    static const struct {
        const char *method, *path, *name, *value;
        unsigned status;
        size_t body_n;
    } rows[] = {
        {"GET", "/f", NULL, NULL, 200, 5},
        {"HEAD", "/f", NULL, NULL, 200, 0},
        {"GET", "/large", NULL, NULL, 200, sizeof large},
        {"GET", "/middle", NULL, NULL, 200, 30000},
        {"GET", "/none", NULL, NULL, 404, sizeof "404 Not Found"},
        {"GET", "/../f", NULL, NULL, 400, sizeof "400 Bad Request"},
        {"GET", "/f", "range", "bytes=1-2", 206, 2},
        {"GET", "/large", "range", "bytes=70000-199999", 206, 130000},
        {"GET", "/f", "range", "bytes=9-", 416, 0},
        {"GET", "/f", "if-modified-since", DRIVE_MODIFIED, 304, 0},
        {"GET", "/f", "if-match", "\"other\"", 412, sizeof "412 Precondition Failed"},
        {"GET", "/f", "host", "a", 200, 5},
        {"GET", "/f", "host", "b", 400, sizeof "400 Bad Request"},
        {"OPTIONS", "*", NULL, NULL, 200, 0},
        {"DELETE", "/f", NULL, NULL, 405, sizeof "405 Method Not Allowed"},
        {"OTHER", "/f", NULL, NULL, 501, sizeof "501 Not Implemented"},
    };
    start();
    for (size_t chunk = 0; chunk < 2; chunk++) {
        client.drive.input_chunk = client.drive.output_chunk = chunk;
        client_reopen(&client, NULL, 0);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            if (chunk && rows[i].body_n > 100)
                continue;
            int32_t id =
                client_get(&client, rows[i].method, rows[i].path, rows[i].name, rows[i].value);
            client_exchange(&client);
            CHECK_EQ(stream_of(id)->status, rows[i].status);
            CHECK_EQ(stream_of(id)->body_n, rows[i].body_n);
            CHECK(stream_of(id)->is_closed && !stream_of(id)->error);
        }
    }
    CHECK_EQ(client_stop(&client), 0);
}

TEST(many_streams_are_answered_at_once)
{
    start();
    for (int round = 0; round < 2; round++) {
        client_reopen(&client, NULL, 0);
        for (int i = 0; i < 100; i++)
            client_get(&client, "GET", i % 3 ? "/f" : i % 2 ? "/middle" : "/none", NULL, NULL);
        client_exchange(&client);
        for (int i = 0; i < 100; i++) {
            const struct client_stream *stream = stream_of(2 * i + 1);
            CHECK_EQ(stream->status, i % 3 || i % 2 ? 200u : 404u);
            CHECK(stream->is_closed && !stream->error);
        }
        CHECK_EQ(client.drive.counts.http2_refused, 0u);
    }
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_cached_page_does_not_wait_for_the_load_of_another)
{
    start();
    int32_t first = client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    client.drive.hold_loads = true;
    int32_t waits = client_get(&client, "GET", "/middle", NULL, NULL);
    int32_t cached = client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK_EQ(stream_of(first)->status, 200u);
    CHECK_EQ(stream_of(cached)->status, 200u);
    CHECK_EQ(stream_of(waits)->status, 0u);
    CHECK_EQ(gs_http_conn_wants(&client.drive.conn), (unsigned)GS_HTTP_LOAD);
    client.drive.hold_loads = false;
    drive_serve(&client.drive);
    client_exchange(&client);
    CHECK_EQ(stream_of(waits)->body_n, 30000u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_body_is_discarded_up_to_its_limit)
{
    start();
    int32_t fits = client_post(&client, "/f", 1 << 20);
    client_exchange(&client);
    CHECK_EQ(stream_of(fits)->status, 405u);
    int32_t too_long = client_post(&client, "/f", (1 << 20) + 1);
    client_exchange(&client);
    CHECK_EQ(stream_of(too_long)->status, 413u);
    CHECK(stream_of(too_long)->is_closed);
    int32_t next = client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK_EQ(stream_of(next)->status, 200u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_peer_that_expects_it_is_told_to_continue)
{
    start();
    int32_t id = client_get(&client, "GET", "/f", "expect", "100-continue");
    client_exchange(&client);
    CHECK_EQ(stream_of(id)->status, 200u);
    CHECK_EQ(client_stop(&client), 0);
}

/* ---- Ends ---- */

/* The GOAWAY frames in the output: their number, and the last one's error. The client does not look
 * so far. */
static unsigned count_goaways(uint32_t *ret_error)
{
    const uint8_t *at = (const uint8_t *)client.drive.output, *end = at + client.drive.output_n;
    unsigned count = 0;
    for (; end - at >= 9; at += 9 + (at[0] << 16 | at[1] << 8 | at[2])) {
        if (at[3] != NGHTTP2_GOAWAY)
            continue;
        *ret_error = at[9 + 7];
        count++;
    }
    return count;
}

TEST(draining_tells_the_peer_twice)
{
    start();
    client_exchange(&client);
    gs_http_conn_drain(&client.drive.conn, client.drive.now_ns);
    int32_t late = client_get(&client, "GET", "/f", NULL, NULL); /* before the peer knows */
    client_exchange(&client);
    uint32_t error;
    CHECK_EQ(count_goaways(&error), 2u);
    CHECK_EQ(error, (uint32_t)NGHTTP2_NO_ERROR);
    CHECK_EQ(stream_of(late)->status, 200u);
    CHECK(client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(an_idle_peer_is_told_that_the_connection_ends)
{
    start();
    client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK(gs_http_conn_is_kept_alive(&client.drive.conn));
    drive_advance_time(&client.drive, 60 * GS_SECOND);
    drive_serve(&client.drive);
    client_exchange(&client);
    CHECK_EQ(client.goaways, 1u);
    CHECK_EQ(client.drive.counts.timeouts, 0u);
    CHECK(client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_peer_that_opens_no_window_is_too_slow)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}};
    start();
    client_reopen(&client, settings, 1);
    int32_t id = client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK_EQ(stream_of(id)->status, 200u);
    CHECK_EQ(stream_of(id)->body_n, 0u);
    CHECK(!gs_http_conn_awaits_head(&client.drive.conn));
    drive_advance_time(&client.drive, 10 * GS_SECOND);
    drive_serve(&client.drive);
    client_exchange(&client);
    CHECK_EQ(client.goaways, 1u);
    CHECK_EQ(client.drive.counts.timeouts, 1u);
    CHECK_EQ(client_stop(&client), 0);
}

/* ---- Limits ---- */

TEST(an_idle_session_takes_little_memory)
{
    start();
    for (int i = 0; i < 20; i++)
        client_get(&client, "GET", i % 2 ? "/f" : "/middle", NULL, NULL);
    client_exchange(&client);
    CHECK(gs_http_conn_is_idle(&client.drive.conn));
    CHECK(session_of()->allocated + sizeof(struct gs_http2_session) < 5000);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(streams_that_wait_for_a_window_take_bounded_memory)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}};
    start();
    client_reopen(&client, settings, 1);
    for (int i = 0; i < 100; i++)
        client_get(&client, "GET", i % 2 ? "/f" : "/middle", "range", "bytes=0-1,3-4");
    client_exchange(&client);
    CHECK(session_of()->allocated <= GS_HTTP2_ABUSE_MAX);
    CHECK(session_of()->large <= GS_HTTP2_LARGE_MAX + 1);
    CHECK_EQ(client_stop(&client), 0);
}

static void check_ended_calmly(void)
{
    CHECK(client_is_over(&client));
    uint32_t error;
    CHECK_EQ(count_goaways(&error), 1u);
    CHECK_EQ(error, (uint32_t)NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK_EQ(client.drive.counts.http2_abuses, 1u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_peer_that_resets_too_many_streams_is_refused)
{
    start();
    client_exchange(&client);
    for (unsigned id = 1; id < 2100 && !client_is_over(&client); id += 2) {
        char frames[] = "\0\0\3\1\4\0\0\0\0\x82\x84\x86" /* HEADERS: GET / */
                        "\0\0\4\3\0\0\0\0\0\0\0\0\10";   /* RST_STREAM */
        frames[7] = frames[12 + 7] = (char)(id >> 8);
        frames[8] = frames[12 + 8] = (char)id;
        drive_send_bytes(&client.drive, frames, 12 + 13);
    }
    CHECK(client.drive.counts.http2_resets <= 1001);
    check_ended_calmly();
}

TEST(a_peer_that_sends_frames_without_use_is_refused)
{
    static const struct {
        size_t n;
        const char *frame;
    } rows[] = {
        {17, "\0\0\10\6\0\0\0\0\0"
             "12345678"},          /* PING */
        {9, "\0\0\0\4\0\0\0\0\0"}, /* SETTINGS */
        {13, "\0\0\4\10\0\0\0\0\0"
             "\0\0\0\1"}, /* WINDOW_UPDATE */
        {14, "\0\0\5\2\0\0\0\0\1"
             "\0\0\0\0\1"},          /* PRIORITY */
        {9, "\0\0\0\x63\0\0\0\0\0"}, /* of an unknown type */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        start();
        client_exchange(&client);
        for (int sent = 0; sent < 1001; sent++)
            if (!client_is_over(&client))
                drive_send_bytes(&client.drive, rows[i].frame, rows[i].n);
        check_ended_calmly();
    }
}

TEST(what_is_refilled_may_be_used_again)
{
    start();
    client_exchange(&client);
    for (int i = 0; i < 2000; i++) {
        drive_send_bytes(&client.drive,
                         "\0\0\10\6\0\0\0\0\0"
                         "12345678",
                         17);
        client.drive.now_ns += GS_SECOND / 33;
    }
    client_exchange(&client);
    CHECK_EQ(client.goaways, 0u);
    CHECK_EQ(client.pings, 2000u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_header_block_in_too_many_frames_ends_the_connection)
{
    start();
    client_exchange(&client);
    drive_send_bytes(&client.drive, "\0\0\3\1\1\0\0\0\1\x82\x84\x86", 12);
    for (int i = 0; i < 10 && !client_is_over(&client); i++)
        drive_send_bytes(&client.drive, "\0\0\0\11\0\0\0\0\1", 9);
    CHECK(client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_header_that_is_too_large_is_refused)
{
    static char value[40000];
    start();
    memset(value, 'x', sizeof value - 1);
    int32_t id = client_get(&client, "GET", "/f", "x-large", value);
    client_exchange(&client);
    CHECK_EQ(stream_of(id)->status, 431u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(without_the_module_the_preface_is_refused)
{
    drive_start(&client.drive, NULL);
    drive_send(&client.drive, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    CHECK(!strncmp(client.drive.output, "HTTP/1.1 505", 12));
    CHECK_EQ(drive_stop(&client.drive), 0);
}

TEST(a_peer_that_agreed_to_speak_http_2_must_do_so)
{
    client_start(&client, NULL);
    gs_http2_expect(&client.drive.conn);
    drive_send(&client.drive, "PRI * HTT");
    CHECK(!client_is_over(&client));
    drive_send(&client.drive, "Q");
    CHECK(client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}
