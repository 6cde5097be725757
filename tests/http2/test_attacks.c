/* Peers that do what a client of libnghttp2 cannot: their frames are written by hand. */
#include "tests/http2/fixture.h"

#include <malloc.h>

static void begin(void)
{
    start();
    client_exchange(&client);
}

/* Frames that are sent together. */
static struct {
    char bytes[8192];
    size_t n;
} frames;

static void add_frame(uint8_t type, uint8_t flags, int32_t id, const char *payload, size_t n)
{
    const char header[] = {0, (char)(n >> 8),  (char)n, (char)type, (char)flags, 0,
                           0, (char)(id >> 8), (char)id};
    memcpy(frames.bytes + frames.n, header, sizeof header);
    memcpy(frames.bytes + frames.n + sizeof header, payload, n);
    frames.n += sizeof header + n;
}

static void send_frames(void)
{
    drive_send_bytes(&client.drive, frames.bytes, frames.n);
    frames.n = 0;
}

#define ENDS (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS)
#define GET "\x82\x86"      /* :method: GET, :scheme: http */
#define PATH_F "\x04\x02/f" /* :path: /f */
#define MALFORMED                                                                                  \
    GET "\x04\x03/no"                                                                              \
        "\x01\x04"                                                                                 \
        "evil" /* :authority */                                                                    \
        "\x00\x0a"                                                                                 \
        "connection"                                                                               \
        "\x05"                                                                                     \
        "close"
#define WITH_HOST                                                                                  \
    GET PATH_F "\x00\x04"                                                                          \
               "host"                                                                              \
               "\x01"                                                                              \
               "a"

#define HEADERS(flags_, id_, block_)                                                               \
    add_frame(NGHTTP2_HEADERS, flags_, id_, block_, sizeof(block_) - 1)

static void check_only_answer(void)
{
    CHECK_EQ(client.drive.logged_count, 1u);
    CHECK_EQ(client.drive.logged[0].status, 200u);
    CHECK_STR(client.drive.logged[0].request_line, "GET /f HTTP/2.0");
    CHECK_EQ(client_stop(&client), 0);
}

TEST(the_fields_of_a_malformed_request_are_not_those_of_the_next)
{
    begin();
    HEADERS(ENDS, 1, MALFORMED);
    HEADERS(ENDS, 3, WITH_HOST);
    send_frames();
    check_only_answer();
}

TEST(the_reset_of_a_malformed_request_leaves_the_next_its_fields)
{
    begin();
    HEADERS(ENDS, 1, MALFORMED);
    HEADERS(NGHTTP2_FLAG_END_STREAM, 3, GET PATH_F);
    send_frames();
    add_frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3,
              "\x01\x01"
              "a",
              3);
    send_frames();
    check_only_answer();
}

TEST(malformed_requests_leave_no_memory_allocated)
{
    begin();
    HEADERS(ENDS, 1, MALFORMED);
    send_frames();
    size_t before = session_of()->allocated;
    for (int32_t id = 3; id < 100; id += 2)
        HEADERS(ENDS, id, MALFORMED);
    send_frames();
    CHECK_EQ(session_of()->allocated, before);
    CHECK(gs_http_conn_is_idle(&client.drive.conn));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(cookies_in_many_fields_are_one)
{
    begin();
    add_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, WITH_HOST, sizeof WITH_HOST - 1);
    for (int i = 0; i < 4; i++) {
        char cookies[150];
        for (size_t at = 0; at < sizeof cookies; at += 3)
            memcpy(cookies + at,
                   "\x60\x01"
                   "c",
                   3); /* an index would be shorter */
        add_frame(NGHTTP2_CONTINUATION, i == 3 ? NGHTTP2_FLAG_END_HEADERS : 0, 1, cookies,
                  sizeof cookies);
    }
    send_frames();
    CHECK_EQ(client.drive.logged[0].status, 200u);
    CHECK_EQ(client_stop(&client), 0);
}

/* ---- Memory ---- */

/* The field is sent once: the other requests refer to it. */
TEST(lines_of_the_log_that_wait_for_a_window_take_bounded_memory)
{
    static char first[2 + 4 + 3 + 4 + 4000] = GET "\x04\x02/m"
                                                  "\x01\x01"
                                                  "a"
                                                  "\x7a\x7f\xa1\x1e"; /* user-agent: 4000 bytes */
    static char page[30000];
    memset(first + sizeof first - 4000, 'u', 4000);
    begin();
    drive_write_bytes(&client.drive, "m", page, sizeof page);
    add_frame(NGHTTP2_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6);
    add_frame(NGHTTP2_HEADERS, ENDS, 1, first, sizeof first);
    send_frames();
    size_t before = mallinfo2().uordblks;
    for (int32_t id = 3; id < 200; id += 2)
        HEADERS(ENDS, id,
                GET "\x04\x02/m"
                    "\x01\x01"
                    "a"
                    "\xbe");
    send_frames();
    CHECK(mallinfo2().uordblks - before < (size_t)128 << 10);
    CHECK(session_of()->base.streams > 5);
    CHECK(!client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

/* The last frame of the output is GOAWAY, with this error. */
static void check_goaway(uint32_t error)
{
    const char *at = client.drive.output, *end = at + client.drive.output_n, *last = at;
    for (; end - at >= 9; at += 9 + (((uint8_t)at[1] << 8) | (uint8_t)at[2]))
        last = at;
    CHECK_EQ(last[3], NGHTTP2_GOAWAY);
    CHECK_EQ((uint32_t)last[9 + 7], error);
}

static void check_ended_calmly(void)
{
    CHECK(client_is_over(&client));
    check_goaway(NGHTTP2_ENHANCE_YOUR_CALM);
    CHECK_EQ(client.drive.counts.http2_abuses + client.drive.counts.http2_overloads, 1u);
    CHECK(!client.drive.conn.http2); /* while it lingers */
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_peer_that_splits_a_header_block_too_often_is_told_why_it_is_refused)
{
    begin();
    add_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, WITH_HOST, sizeof WITH_HOST - 1);
    for (int i = 0; i < 10; i++)
        add_frame(NGHTTP2_CONTINUATION, 0, 1, "", 0);
    send_frames();
    check_ended_calmly();
}

static void send_frames_byte_by_byte(void)
{
    for (size_t at = 0; at < frames.n; at++)
        drive_send_bytes(&client.drive, frames.bytes + at, 1);
    frames.n = 0;
}

/* Of the header of a CONTINUATION frame, libnghttp2 counts each piece as a frame. */
TEST(a_header_block_in_frames_may_arrive_byte_by_byte)
{
    begin();
    add_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, WITH_HOST, sizeof WITH_HOST - 1);
    for (int i = 0; i < 7; i++)
        add_frame(NGHTTP2_CONTINUATION, 0, 1, "\x10\1b\1b", 5);
    add_frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, "", 0);
    send_frames_byte_by_byte();
    check_only_answer();
}

TEST(a_header_block_that_is_too_large_may_arrive_byte_by_byte)
{
    static char field[6 + 7900] = "\x10\1b\x7f\xdd\x3c";
    memset(field + 6, 'b', sizeof field - 6);
    begin();
    HEADERS(NGHTTP2_FLAG_END_STREAM, 1, WITH_HOST);
    for (int i = 0; i < 6; i++) {
        send_frames();
        add_frame(NGHTTP2_CONTINUATION, 0, 1, field, sizeof field);
    }
    send_frames();
    add_frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, "", 0);
    send_frames_byte_by_byte();
    CHECK_EQ(client.drive.logged_count, 1u);
    CHECK_EQ(client.drive.logged[0].status, 431u);
    CHECK_EQ(client_stop(&client), 0);
}

static struct {
    char bytes[4 * 31000];
    size_t n, sent;
} heads;

/* As long as they are received: a part each time, as from a socket. */
static void send_rest_of_heads(size_t part)
{
    while (heads.sent < heads.n && gs_http_conn_wants(&client.drive.conn) & GS_HTTP_READ) {
        size_t left = heads.n - heads.sent, n = left < part ? left : part;
        drive_send_bytes(&client.drive, heads.bytes + heads.sent, n);
        heads.sent += n;
    }
}

/* Requests with large heads, each with another one. */
static void send_large_heads(int count, size_t part)
{
    static char value[31000];
    const uint8_t *bytes;
    ssize_t n;
    heads.n = heads.sent = 0;
    memset(value, 'x', sizeof value - 1);
    for (int i = 0; i < count; i++) {
        value[0] = (char)('a' + i);
        client_get(&client, "GET", i ? "/f" : "/other", "referer", value);
    }
    while ((n = nghttp2_session_mem_send(client.session, &bytes)) > 0) {
        memcpy(heads.bytes + heads.n, bytes, (size_t)n);
        heads.n += (size_t)n;
    }
    send_rest_of_heads(part);
}

TEST(a_peer_that_makes_a_session_too_large_is_told_why_it_is_refused)
{
    begin();
    HEADERS(0, 1,
            WITH_HOST "\0\1x\xff\xe9\xfa\x03"); /* a compressed value of 65,000 bytes follows */
    send_frames();
    for (int i = 0; i < 6; i++) {
        static const char part[8000];
        CHECK(!client_is_over(&client));
        add_frame(NGHTTP2_CONTINUATION, 0, 1, part, sizeof part);
        send_frames();
    }
    CHECK_EQ(client.drive.counts.http2_overloads, 1u);
    check_ended_calmly();
}

/* Those that have arrived with the first one are more than may be kept. */
TEST(large_heads_that_arrive_together_while_a_file_is_loaded_are_refused)
{
    start();
    client.drive.hold_loads = true;
    send_large_heads(4, sizeof heads.bytes);
    client.drive.hold_loads = false;
    drive_serve(&client.drive);
    client_exchange(&client);
    CHECK_EQ(client.drive.logged_count + client.drive.counts.http2_refused, 4u);
    CHECK(client.drive.logged_count > 0 && client.drive.counts.http2_refused > 0);
    CHECK(gs_http_conn_is_idle(&client.drive.conn));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(large_heads_wait_while_a_file_is_loaded)
{
    start();
    client.drive.hold_loads = true;
    send_large_heads(4, 16384);
    CHECK(heads.sent < heads.n);
    CHECK(session_of()->allocated < GS_HTTP2_MEMORY_MAX);
    client.drive.hold_loads = false;
    drive_serve(&client.drive);
    send_rest_of_heads(16384);
    client_exchange(&client);
    CHECK_EQ(client.drive.logged_count, 4u);
    CHECK_EQ(client.drive.counts.http2_refused, 0u);
    CHECK(!session_of()->base.has_input && gs_http_conn_is_idle(&client.drive.conn));
    CHECK_EQ(client_stop(&client), 0);
}

/* ---- Time ---- */

#define PING "12345678"

static void send_ping(void)
{
    add_frame(NGHTTP2_PING, 0, 0, PING, sizeof PING - 1);
    send_frames();
}

TEST(pings_give_a_peer_without_a_request_no_time)
{
    begin();
    drive_advance_time(&client.drive, 9 * GS_SECOND);
    send_ping();
    CHECK(!client_is_over(&client));
    drive_advance_time(&client.drive, GS_SECOND);
    drive_serve(&client.drive);
    CHECK(client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(malformed_requests_give_a_peer_no_time)
{
    begin();
    for (int32_t id = 1; id < 10; id += 2) {
        add_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, id, MALFORMED, sizeof MALFORMED - 1);
        send_frames();
        add_frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, id, "", 0);
        send_frames();
        if (id == 1)
            drive_advance_time(&client.drive, 9 * GS_SECOND);
    }
    drive_advance_time(&client.drive, GS_SECOND);
    drive_serve(&client.drive);
    CHECK(client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}

TEST(pings_give_a_slow_body_no_time)
{
    begin();
    HEADERS(NGHTTP2_FLAG_END_HEADERS, 1, WITH_HOST);
    send_frames();
    drive_advance_time(&client.drive, 9 * GS_SECOND);
    send_ping();
    CHECK(!client_is_over(&client));
    drive_advance_time(&client.drive, GS_SECOND);
    drive_serve(&client.drive);
    CHECK(client_is_over(&client));
    CHECK_EQ(client.drive.counts.timeouts, 1u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(other_requests_give_a_stream_without_a_window_no_time)
{
    begin();
    add_frame(NGHTTP2_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6);
    HEADERS(ENDS, 1, WITH_HOST);
    send_frames();
    for (int32_t id = 3; id < 9; id += 2) {
        drive_advance_time(&client.drive, 3 * GS_SECOND);
        HEADERS(ENDS, id,
                GET "\x04\x05/none\x01\x01"
                    "a"); /* is loaded */
        send_frames();
    }
    CHECK_EQ(client.drive.counts.requests, 4u);
    drive_advance_time(&client.drive, GS_SECOND);
    drive_serve(&client.drive);
    CHECK(client_is_over(&client));
    CHECK_EQ(client.drive.counts.timeouts, 1u);
    CHECK_EQ(client_stop(&client), 0);
}

TEST(a_slow_load_is_not_the_peers_fault)
{
    begin();
    client.drive.hold_loads = true;
    HEADERS(NGHTTP2_FLAG_END_HEADERS, 1, WITH_HOST); /* its body is slow */
    HEADERS(ENDS, 3, WITH_HOST);
    send_frames();
    drive_advance_time(&client.drive, 11 * GS_SECOND);
    CHECK(!client_is_over(&client));
    client.drive.hold_loads = false;
    drive_serve(&client.drive);
    CHECK(!client_is_over(&client));
    drive_advance_time(&client.drive, 10 * GS_SECOND);
    drive_serve(&client.drive);
    CHECK(client_is_over(&client));
    CHECK_EQ(client_stop(&client), 0);
}
