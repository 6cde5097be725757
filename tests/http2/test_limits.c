/* What a peer may not do: its work, memory and time are bounded, and counted. */
#include "tests/http2/fixture.h"

static void send_frame(uint8_t type, uint8_t flags, unsigned id, const char *payload, size_t n)
{
    static char frame[9 + 16384];
    const char header[9] = {(char)(n >> 16),  (char)(n >> 8),  (char)n, (char)type, (char)flags, 0,
                            (char)(id >> 16), (char)(id >> 8), (char)id};
    memcpy(frame, header, sizeof header);
    memcpy(frame + sizeof header, payload, n);
    drive_send_bytes(&client.drive, frame, sizeof header + n);
}

#define END_STREAM NGHTTP2_FLAG_END_STREAM
#define END_HEADERS NGHTTP2_FLAG_END_HEADERS
#define GET "\x82\x84\x86\1\1a"
#define POST "\x83\x84\x86\1\1a"

/* ---- Memory ---- */

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

TEST(pages_that_wait_for_a_window_hold_up_no_other_response)
{
    static const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0}};
    int32_t ids[20];
    start();
    client_reopen(&client, settings, 1);
    for (int i = 0; i < 20; i++)
        ids[i] = client_get(&client, "GET", i % 2 ? "/f" : "/middle", NULL, NULL);
    client_exchange(&client);
    for (int i = 0; i < 20; i++)
        CHECK_EQ(stream_of(ids[i])->status, 200u);
    CHECK_EQ(session_of()->large, 0u);
    CHECK_EQ(client_stop(&client), 0);
}

/* A field of 3,000 bytes for the table of the peer's fields, and what refers to it. */
static size_t make_bomb(char *bytes, size_t references, bool is_first)
{
    size_t n = sizeof POST - 1;
    memcpy(bytes, POST, n);
    if (is_first) {
        memcpy(bytes + n, "\x7a\x7f\xb9\x16", 4); /* a User-Agent, which is kept */
        memset(bytes + n + 4, 'a', 3000);
        n += 4 + 3000;
    }
    memset(bytes + n, 0xbe, references);
    return n + references;
}

TEST(a_header_that_the_table_makes_huge_is_refused_in_bounded_memory)
{
    static char bomb[16384];
    start();
    client_exchange(&client);
    for (unsigned id = 1; id < 200; id += 2) {
        size_t n = make_bomb(bomb, 13000, id == 1);
        send_frame(NGHTTP2_HEADERS, END_STREAM | END_HEADERS, id, bomb, n);
        CHECK(session_of()->allocated <= GS_HTTP2_MEMORY_MAX);
    }
    CHECK_EQ(client.drive.counts.requests, 100u);
    CHECK_EQ(client.drive.counts.client_errors, 100u);
    CHECK_EQ(client.drive.logged[63].status, 431u);
    CHECK(gs_http_conn_is_idle(&client.drive.conn));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(headers_that_together_are_huge_are_refused)
{
    static char bomb[16384];
    start();
    client_exchange(&client);
    for (unsigned id = 1; id < 200; id += 2) {
        size_t n = make_bomb(bomb, 9, id == 1);
        send_frame(NGHTTP2_HEADERS, END_HEADERS, id, bomb, n);
        CHECK(session_of()->allocated <= GS_HTTP2_ABUSE_MAX);
    }
    CHECK(client.drive.counts.http2_refused > 90);
    CHECK_EQ(client.drive.counts.http2_refused + session_of()->base.streams, 100u);
    CHECK_EQ(client_stop(&client), 0);
}

/* ---- Floods ---- */

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

TEST(the_reset_of_a_stream_that_has_ended_is_not_counted)
{
    start();
    client_exchange(&client);
    for (unsigned id = 1; id < 200; id += 2) {
        send_frame(NGHTTP2_HEADERS, END_STREAM | END_HEADERS, id, GET, sizeof GET - 1);
        send_frame(NGHTTP2_RST_STREAM, 0, id, "\0\0\0\10", 4);
    }
    CHECK_EQ(client.drive.counts.requests, 100u);
    CHECK_EQ(client.drive.counts.http2_resets, 0u);
    CHECK_EQ(session_of()->resets, 1000u);
    CHECK(!client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_peer_that_has_streams_reset_is_refused)
{
    /* Its requests are malformed, or their bodies are longer than announced. */
    static const char capital[] = POST "\0\1A\1x", length[] = POST "\x0f\x0d\0011";
    for (unsigned i = 0; i < 2; i++) {
        start();
        client_exchange(&client);
        for (unsigned id = 1; id < 2100 && !client_is_over(&client); id += 2) {
            send_frame(NGHTTP2_HEADERS, END_HEADERS, id, i ? length : capital,
                       i ? sizeof length - 1 : sizeof capital - 1);
            if (i)
                send_frame(NGHTTP2_DATA, END_STREAM, id, large, 64);
        }
        CHECK_EQ(client.drive.counts.http2_resets, 0u);
        check_ended_calmly();
    }
}

/* Each time three streams, since there is another one with a large head. Returns how many. */
static unsigned repeat_what_is_refused(bool has_answers)
{
    static char bomb[16384];
    start();
    client_exchange(&client);
    send_frame(NGHTTP2_HEADERS, END_HEADERS, 1, bomb, make_bomb(bomb, 9, true));
    size_t n = make_bomb(bomb, 9, false);
    for (unsigned id = 3; id < 4000 && !client_is_over(&client);) {
        for (int i = 0; i < 3; i++, id += 2)
            send_frame(NGHTTP2_HEADERS, END_HEADERS, id, bomb, n);
        if (has_answers) {
            send_frame(NGHTTP2_HEADERS, END_STREAM | END_HEADERS, id, GET, sizeof GET - 1);
            id += 2;
        }
    }
    return (unsigned)client.drive.counts.http2_refused;
}

TEST(a_peer_may_repeat_streams_that_are_refused_while_others_are_answered)
{
    CHECK_EQ(repeat_what_is_refused(true), 1500u);
    CHECK_EQ(client.drive.counts.requests, 500u);
    CHECK(!client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_peer_that_repeats_streams_that_are_refused_without_end_is_refused)
{
    CHECK(repeat_what_is_refused(false) <= 1001);
    check_ended_calmly();
}

TEST(a_peer_that_sends_frames_without_use_is_refused)
{
    static const struct {
        uint8_t type;
        unsigned id;
        size_t n;
        const char *payload;
    } rows[] = {
        {NGHTTP2_PING, 0, 8, "12345678"},
        {NGHTTP2_SETTINGS, 0, 0, ""},
        {NGHTTP2_WINDOW_UPDATE, 0, 4, "\0\0\0\1"},
        {NGHTTP2_WINDOW_UPDATE, 1, 4, "\0\0\0\1"},
        {NGHTTP2_PRIORITY, 1, 5, "\0\0\0\0\1"},
        {NGHTTP2_PRIORITY_UPDATE, 0, 7, "\0\0\0\1u=1"},
        {NGHTTP2_DATA, 1, 0, ""},
        {NGHTTP2_DATA, 1, 1, "x"},
        {0x63, 0, 0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        start();
        client_exchange(&client);
        send_frame(NGHTTP2_HEADERS, END_HEADERS, 1, POST, sizeof POST - 1);
        for (int sent = 0; sent < 1001; sent++)
            if (!client_is_over(&client))
                send_frame(rows[i].type, 0, rows[i].id, rows[i].payload, rows[i].n);
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

/* Such as nobody reads are not kept, but count. */
TEST(fields_that_together_are_too_large_are_refused)
{
    static char value[20000];
    const char *fields[] = {":method",    "GET", ":path", "/f",  ":scheme", "http",
                            ":authority", "a",   "x-a",   value, "x-b",     value};
    memset(value, '{', sizeof value - 1);
    for (int count = 0; count < 3; count++) {
        const char *sent[13] = {NULL};
        memcpy(sent, fields, (size_t)(8 + 2 * count) * sizeof *fields);
        start();
        int32_t id = client_send_fields(&client, sent);
        client_exchange(&client);
        CHECK_EQ(stream_of(id)->status, count == 2 ? 431u : 200u);
        CHECK_EQ(client_stop(&client), 0);
    }
}

TEST(too_many_fields_are_refused)
{
    static const char *const names[] = {"x", "user-agent"};
    for (size_t i = 0; i < 2; i++)
        for (unsigned count = 99; count <= 100; count++) { /* and the authority */
            char block[2000] = GET;
            size_t n = sizeof GET - 1, name_n = strlen(names[i]);
            for (unsigned j = 0; j < count; j++, n += name_n + 4) {
                block[n + 1] = (char)name_n;
                memcpy(block + n + 2, names[i], name_n);
                memcpy(block + n + 2 + name_n, "\1x", 2);
            }
            start();
            drive_write(&client.drive, "index.html", "hello");
            client_exchange(&client);
            send_frame(NGHTTP2_HEADERS, END_STREAM | END_HEADERS, 1, block, n);
            CHECK_EQ(client.drive.logged[0].status, count == 99 ? 200u : 431u);
            CHECK_EQ(client_stop(&client), 0);
        }
}

/* ---- Slow peers ---- */

static void check_timed_out(void)
{
    uint32_t error;
    CHECK(client_is_over(&client));
    CHECK_EQ(client.drive.counts.timeouts, 1u);
    CHECK_EQ(count_goaways(&error), 1u);
    CHECK_EQ(error, (uint32_t)NGHTTP2_NO_ERROR);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_body_that_comes_too_slowly_ends_the_connection)
{
    start();
    client_exchange(&client);
    send_frame(NGHTTP2_HEADERS, END_HEADERS, 1, POST, sizeof POST - 1);
    for (int i = 0; i < 9; i++) {
        send_frame(NGHTTP2_DATA, 0, 1, large, 1000);
        drive_advance_time(&client.drive, GS_SECOND);
    }
    CHECK(!client_is_over(&client));
    drive_advance_time(&client.drive, GS_SECOND);
    check_timed_out();
}

TEST(a_body_that_comes_fast_enough_may_take_long)
{
    start();
    client_exchange(&client);
    send_frame(NGHTTP2_HEADERS, END_HEADERS, 1, POST, sizeof POST - 1);
    for (int i = 0; i < 60; i++) {
        send_frame(NGHTTP2_DATA, 0, 1, large, 2000);
        drive_advance_time(&client.drive, GS_SECOND);
    }
    send_frame(NGHTTP2_DATA, END_STREAM, 1, "", 0);
    CHECK_EQ(client.drive.logged[0].status, 405u);
    CHECK_EQ(client.drive.counts.timeouts, 0u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_header_that_comes_too_slowly_ends_the_connection)
{
    start();
    client_exchange(&client);
    send_frame(NGHTTP2_HEADERS, END_STREAM, 1, GET, sizeof GET - 1);
    for (int i = 0; i < 5; i++) {
        drive_advance_time(&client.drive, 2 * GS_SECOND - 1);
        send_frame(NGHTTP2_CONTINUATION, 0, 1, "\0\1a\1b", 5);
    }
    CHECK(!client_is_over(&client));
    drive_advance_time(&client.drive, 5);
    check_timed_out();
}

TEST(a_window_that_is_opened_too_slowly_ends_the_connection)
{
    start();
    client_exchange(&client);
    send_frame(NGHTTP2_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6);
    send_frame(NGHTTP2_HEADERS, END_STREAM | END_HEADERS, 1, "\x82\4\6/large\x86\1\1a", 13);
    for (int i = 0; i < 9; i++) {
        send_frame(NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\x64", 4);
        drive_advance_time(&client.drive, GS_SECOND);
    }
    CHECK(!client_is_over(&client));
    drive_advance_time(&client.drive, GS_SECOND);
    CHECK_EQ(client.drive.counts.http2_requests, 1u);
    check_timed_out();
    CHECK_EQ(client.drive.logged[0].body_bytes, 900u);
}
