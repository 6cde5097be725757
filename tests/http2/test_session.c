/* Requests over HTTP/2, as a client of libnghttp2 sends them. */
#include "tests/http2/fixture.h"

static bool has_field(int32_t id, const char *line)
{
    return strstr(client.streams[id].fields, line) != NULL;
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

/* The fields are kept with the page once it is not from the future any more. */
/* As many as there may be, with and without space in front of their values. */
TEST(a_response_has_all_fields_of_the_options)
{
    char fields[GS_HTTP_FIELDS_MAX + 1] = "";
    struct gs_http_options options;
    size_t n = 0;
    unsigned count = 0;
    for (; count < GS_HTTP_FIELD_LINES_MAX; count++)
        n +=
            (size_t)snprintf(fields + n, sizeof fields - n, count % 2 ? "%c%c:1\r\n" : "%c%c: \r\n",
                             'g' + (int)count % 20, 'g' + (int)count / 20);
    gs_http_options_default(&options);
    options.fields = fields;
    client_start(&client, &options);
    drive_write(&client.drive, "f", "hello");
    for (int i = 0; i < 2; i++) {
        int32_t id = client_get(&client, "GET", i ? "/none" : "/f", NULL, NULL);
        client_exchange(&client);
        unsigned found = 0;
        for (unsigned j = 0; j < count; j++) {
            char line[16];
            snprintf(line, sizeof line, "\n%c%c: %s\n", 'g' + (int)j % 20, 'g' + (int)j / 20,
                     j % 2 ? "1" : "");
            found += strstr(stream_of(id)->fields, line) != NULL;
        }
        CHECK(count > 35);
        CHECK_EQ(found, count);
        CHECK(strstr(stream_of(id)->fields, "\ncontent-length: "));
    }
    CHECK_EQ(client_stop(&client), 0);
}

TEST(what_depends_on_the_time_is_not_kept_with_a_page)
{
    start();
    drive_set_mtime(&client.drive, "f", DRIVE_WALL_S + 1);
    int32_t early = client_get(&client, "GET", "/f", NULL, NULL);
    client_exchange(&client);
    CHECK(has_field(early, "last-modified: " DRIVE_DATE "\n"));
    for (int i = 1; i <= 2; i++) {
        client.drive.now_ns += GS_SECOND;
        int32_t later = client_get(&client, "GET", "/f", NULL, NULL);
        client_exchange(&client);
        CHECK(has_field(later, "last-modified: Sat, 21 Nov 2026 12:00:01 GMT\n"));
        CHECK(has_field(later, i == 1 ? "date: Sat, 21 Nov 2026 12:00:01 GMT\n"
                                      : "date: Sat, 21 Nov 2026 12:00:02 GMT\n"));
    }
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

/* Without a path; the next request arrives before its stream has ended. */
TEST(a_malformed_request_leaves_nothing_to_the_next_one)
{
    static const char *const malformed[] = {":method",    "GET", ":scheme", "http",
                                            ":authority", "a",   NULL},
                             *const valid[] = {":method", "GET",  ":scheme", "http", ":path",
                                               "/f",      "host", "b",       NULL};
    start();
    int32_t bad = client_send_fields(&client, malformed);
    int32_t good = client_send_fields(&client, valid);
    client_exchange(&client);
    CHECK_EQ(stream_of(bad)->error, NGHTTP2_PROTOCOL_ERROR);
    CHECK_EQ(stream_of(good)->status, 200u);
    CHECK_EQ(client_stop(&client), 0);
}

/* The stream of the malformed request ends between the two frames of the other one's header. */
TEST(a_malformed_request_takes_nothing_from_the_next_one)
{
    start();
    client_exchange(&client);
    drive_send_bytes(&client.drive,
                     "\0\0\2\1\5\0\0\0\1\x82\x86"
                     "\0\0\6\1\1\0\0\0\3\x82\x86\4\2/f",
                     26);
    CHECK(session_of()->base.is_in_header);
    drive_send_bytes(&client.drive, "\0\0\3\11\4\0\0\0\3\1\1a", 12);
    CHECK_EQ(client.drive.logged_count, 1u);
    CHECK_STR(client.drive.logged[0].request_line, "GET /f HTTP/2.0");
    CHECK_EQ(client.drive.logged[0].status, 200u);
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

TEST(a_load_does_not_wait_for_the_end_of_a_download)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 24}};
    start();
    client_reopen(&client, settings, 1);
    nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, 1 << 24);
    int32_t download = client_get(&client, "GET", "/large", NULL, NULL);
    int32_t page = client_get(&client, "GET", "/middle", "priority", "u=0");
    client_exchange(&client);
    CHECK_EQ(stream_of(download)->body_n, sizeof large);
    CHECK_EQ(stream_of(page)->body_n, 30000u);
    unsigned before = 0;
    while (before < CLIENT_FRAMES && client.frames[before] == download)
        before++;
    CHECK(before > 0 && before <= GS_HTTP2_OUTPUT_MAX / 16384 + 1);
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
    id = client_post_expecting(&client, "/f", 1000);
    client_exchange(&client);
    CHECK(!stream_of(id)->awaits_continue);
    CHECK_EQ(stream_of(id)->status, 405u);
    CHECK(stream_of(id)->is_closed && !stream_of(id)->error);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_malformed_request_leaves_nothing_for_the_next)
{
    /* The first has a name in capitals. */
    static const char malformed[] = "\0\0\13\1\5\0\0\0\1\x82\x84\x86\x41\1b"
                                    "\0\1A\1x";
    static const char start_of_next[] = "\0\0\7\1\1\0\0\0\3\x82\x44\2/f\x86\0";
    static const char rest_of_next[] = "\0\0\7\11\4\0\0\0\3\4host\1a";
    static char both[200];
    const size_t n = sizeof malformed - 1, start_n = sizeof start_of_next - 1,
                 rest_n = sizeof rest_of_next - 1;
    memcpy(both, malformed, n);
    memcpy(both + n, start_of_next, start_n);
    memcpy(both + n + start_n, rest_of_next, rest_n);
    for (unsigned i = 0; i < 2; i++) {
        start();
        client_exchange(&client);
        size_t at_once = n + start_n + (i ? 0 : rest_n);
        drive_send_bytes(&client.drive, both, at_once);
        drive_send_bytes(&client.drive, both + at_once, n + start_n + rest_n - at_once);
        CHECK_EQ(client.drive.logged_count, 1u);
        CHECK_STR(client.drive.logged[0].request_line, "GET /f HTTP/2.0");
        CHECK_EQ(client.drive.logged[0].status, 200u);
        CHECK(gs_http_conn_is_idle(&client.drive.conn));
        CHECK_EQ(client_stop(&client), 0);
    }
}

/* ---- Ends ---- */

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

TEST(a_peer_that_agreed_to_speak_http_1_must_do_so)
{
    client_start(&client, NULL);
    gs_http2_forbid(&client.drive.conn);
    drive_send(&client.drive, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    CHECK(!strncmp(client.drive.output, "HTTP/1.1 505", 12));
    CHECK_EQ(client.drive.counts.http2_connections, 0u);
    CHECK_EQ(client_stop(&client), 0);
}
