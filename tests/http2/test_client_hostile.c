/* A client's connection with a server that the test plays. */
#include "tests/http2/engine.h"
#include "tests/test.h"

#include <malloc.h>

#define END_HEADERS NGHTTP2_FLAG_END_HEADERS
#define ENDS (NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM)

static struct engine engine;

static void frame(uint8_t type, uint8_t flags, int32_t id, const void *payload, size_t n)
{
    const struct engine_frame received = {type, flags, id, payload, n};
    engine_frame(&engine, &received);
}

/* The server has received those of the client, too. */
static void exchange_settings(void)
{
    frame(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
    (void)engine_discard(&engine, 0);
    frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
}

/* A client that has made two requests, which it has sent; the server's settings have arrived. */
static void start(void)
{
    engine = (struct engine){.drive.now_ns = DRIVE_START_NS};
    if (engine_open(&engine))
        abort();
    exchange_settings();
    engine_get(&engine, "GET", "/");
    engine_get(&engine, "GET", "/");
    (void)engine_discard(&engine, 0);
}

static void stop(void)
{
    engine_close(&engine);
    for (unsigned i = 0; i < engine.count; i++)
        CHECK_EQ(engine.calls[i].ends, 1u);
}

/* The frames that the client has sent, until it has none. Returns whether one resets a stream. */
static bool resets(void)
{
    return engine_discard(&engine, NGHTTP2_RST_STREAM) > 0;
}

static bool goes_away(void)
{
    return engine_discard(&engine, NGHTTP2_GOAWAY) > 0;
}

static void headers(uint8_t flags, int32_t id, const char *block)
{
    frame(NGHTTP2_HEADERS, flags, id, block, strlen(block));
}

/* A field without compression; the name and the value are shorter than 127 bytes. */
static size_t put_field(char *at, const char *name, const char *value)
{
    size_t name_n = strlen(name), value_n = strlen(value);
    at[0] = 0;
    at[1] = (char)name_n;
    memcpy(at + 2, name, name_n);
    at[2 + name_n] = (char)value_n;
    memcpy(at + 3 + name_n, value, value_n);
    return 3 + name_n + value_n;
}

#define OK "\x88" /* :status: 200 */
#define HINTS                                                                                      \
    "\x08\x03"                                                                                     \
    "103"

/* ---- Limits of a response ---- */

TEST(a_response_may_not_have_too_many_fields)
{
    char block[4096] = OK;
    size_t n = 1;
    for (int i = 0; i < 300; i++)
        n += put_field(block + n, "a", "b");
    start();
    frame(NGHTTP2_HEADERS, ENDS, 1, block, n);
    CHECK(resets());
    CHECK_EQ(engine.calls[0].err, -EMSGSIZE);
    headers(ENDS, 3, OK);
    CHECK_EQ(engine.calls[1].err, 0);
    stop();
}

/* The table has a field of 4,000 bytes, to which each byte of the block refers. */
TEST(a_bomb_of_compression_ends_its_response)
{
    static char block[16384];
    size_t n = 1;
    block[0] = OK[0];
    memcpy(block + n,
           "\x40\x01"
           "a\x7f\xa1\x1e",
           6); /* 4000 = 127 + 0x21 + (0x1e << 7) */
    memset(block + n + 6, 'x', 4000);
    n += 6 + 4000;
    memset(block + n, 0xbe, 1000);
    n += 1000;
    start();
    frame(NGHTTP2_HEADERS, ENDS, 1, block, n);
    CHECK(resets());
    CHECK_EQ(engine.calls[0].err, -EMSGSIZE);
    CHECK(engine.calls[0].stream.field_bytes < 80000);
    headers(ENDS, 3, OK);
    CHECK_EQ(engine.calls[1].err, 0);
    stop();
}

TEST(trailers_count_with_the_fields)
{
    char block[4096];
    size_t n = 0;
    for (int i = 0; i < 200; i++)
        n += put_field(block + n, "a", "b");
    start();
    char first[4096] = OK;
    memcpy(first + 1, block, n);
    frame(NGHTTP2_HEADERS, END_HEADERS, 1, first, n + 1);
    frame(NGHTTP2_DATA, 0, 1, "body", 4);
    frame(NGHTTP2_HEADERS, ENDS, 1, block, n);
    CHECK(resets());
    CHECK_EQ(engine.calls[0].heads, 1u);
    CHECK_EQ(engine.calls[0].err, -EMSGSIZE);
    stop();
}

TEST(trailers_follow_the_body)
{
    char block[64];
    size_t n = put_field(block, "t", "u");
    start();
    headers(END_HEADERS, 1, OK);
    frame(NGHTTP2_DATA, 0, 1, "body", 4);
    frame(NGHTTP2_HEADERS, ENDS, 1, block, n);
    CHECK_STR(engine.calls[0].fields, "--\nt: u\n");
    CHECK_STR(engine.calls[0].body, "body");
    CHECK_EQ(engine.calls[0].err, 0);
    stop();
}

TEST(some_interim_responses_are_skipped)
{
    start();
    for (int i = 0; i < 32; i++)
        headers(END_HEADERS, 1,
                HINTS "\x10\x01"
                      "a\x01"
                      "b");
    CHECK(engine.calls[0].stream.has_begun);
    headers(ENDS, 1, OK);
    CHECK_EQ(engine.calls[0].stream.status, 200u);
    CHECK_STR(engine.calls[0].fields, "--\n");
    CHECK_EQ(engine.calls[0].err, 0);
    stop();
}

TEST(a_response_may_not_have_too_many_interim_ones)
{
    start();
    for (int i = 0; i < 33; i++)
        headers(END_HEADERS, 1, HINTS);
    CHECK(resets());
    CHECK_EQ(engine.calls[0].err, -EPROTO);
    stop();
}

TEST(a_malformed_response_ends_its_request_alone)
{
    static const char *const blocks[] = {
        "\x10\x01"
        "a\x01"
        "b", /* no status */
        "\x88\x10\x01"
        "A\x01"
        "b", /* an upper-case letter */
        "\x88\x10\x01"
        "a\x02"
        "b\n", /* a line end */
        "\x08\x03"
        "2x0",      /* no number */
        "\x88\x88", /* twice */
        "\x88\x10\x0a"
        "connection\x01"
        "b", /* of HTTP/1 */
        "\x08\x03"
        "101", /* not in HTTP/2 */
        "\x08\x03"
        "099", /* no status of HTTP */
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        start();
        headers(END_HEADERS, 1, blocks[i]);
        CHECK(resets());
        frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "x", 1);
        (void)resets();
        CHECK_EQ(engine.calls[0].ends, 1u);
        CHECK_EQ(engine.calls[0].err, -EPROTO);
        CHECK_EQ(engine.calls[0].heads, 0u);
        headers(ENDS, 3, OK);
        CHECK_EQ(engine.calls[1].err, 0);
        stop();
    }
}

TEST(a_body_of_another_length_is_malformed)
{
    start();
    headers(END_HEADERS, 1,
            "\x88\x0f\x0d\x01"
            "5");
    frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "four", 4);
    CHECK(resets());
    CHECK_EQ(engine.calls[0].err, -EPROTO);
    headers(END_HEADERS, 3,
            "\x88\x0f\x0d\x01"
            "5");
    frame(NGHTTP2_DATA, 0, 3, "sixsix", 6);
    CHECK(resets());
    CHECK_EQ(engine.calls[1].err, -EPROTO);
    stop();
}

TEST(a_stream_may_not_exceed_its_window)
{
    static char bytes[16384];
    start();
    engine.calls[0].is_slow = true;
    headers(END_HEADERS, 1, OK);
    for (int i = 0; i < 30; i++)
        frame(NGHTTP2_DATA, 0, 1, bytes, sizeof bytes);
    CHECK_EQ(engine.calls[0].body_n, 17 * sizeof bytes); /* with the frame that exceeds it */
    engine_discard(&engine, 0);
    CHECK_EQ(engine.calls[0].err, -EPROTO);
    stop();
}

TEST(the_window_of_the_connection_opens_for_bodies_that_nobody_reads)
{
    static char bytes[16384];
    size_t received = 0;
    start();
    for (int32_t id = 1; received < 64u << 20; id += 2) {
        engine.calls[0].is_slow = true;
        headers(END_HEADERS, id, OK);
        for (int i = 0; i < 16; i++)
            frame(NGHTTP2_DATA, 0, id, bytes, sizeof bytes);
        received += 16 * sizeof bytes;
        CHECK_EQ(engine.calls[engine.count - 2].body_n, 16 * sizeof bytes);
        (void)engine_discard(&engine, 0);
        engine_next(&engine)->is_slow = true;
        engine_get(&engine, "GET", "/");
    }
    stop();
}

TEST(a_stream_that_was_canceled_takes_nothing_from_the_others)
{
    static char bytes[16384];
    start();
    headers(END_HEADERS, 1, OK);
    CHECK_EQ(gs_http2_client_cancel(&engine.client, &engine.calls[0].stream), 0);
    engine.calls[0].ends = 1;
    for (int i = 0; i < 2000; i++) {
        frame(NGHTTP2_DATA, 0, 1, bytes, sizeof bytes);
        CHECK_EQ(goes_away(), false);
    }
    CHECK_EQ(engine.calls[0].body_n, 0u);
    headers(ENDS, 3, OK);
    CHECK_EQ(engine.calls[1].err, 0);
    stop();
}

TEST(fields_arrive_in_several_frames_for_each_cut)
{
    for (size_t chunk = 0; chunk < 12; chunk++) {
        start();
        engine.chunk = chunk;
        headers(0, 1, OK);
        for (int i = 0; i < 7; i++)
            frame(NGHTTP2_CONTINUATION, 0, 1,
                  "\x10\x01"
                  "a\x01"
                  "b",
                  5);
        frame(NGHTTP2_CONTINUATION, END_HEADERS, 1,
              "\x10\x01"
              "c\x01"
              "d",
              5);
        CHECK_EQ(engine.err, 0);
        CHECK_STR(engine.calls[0].fields + 35, "c: d\n--\n");
        stop();
    }
}

/* ---- Requests that may be repeated ---- */

TEST(a_refused_request_was_not_processed)
{
    start();
    frame(NGHTTP2_RST_STREAM, 0, 1, "\0\0\0\x07", 4);
    CHECK_EQ(engine.calls[0].err, -ECONNRESET);
    CHECK(engine.calls[0].stream.is_unprocessed);
    frame(NGHTTP2_RST_STREAM, 0, 3, "\0\0\0\x08", 4);
    CHECK_EQ(engine.calls[1].err, -ECONNRESET);
    CHECK(!engine.calls[1].stream.is_unprocessed);
    stop();
}

TEST(goaway_tells_which_requests_were_not_processed)
{
    start();
    frame(NGHTTP2_GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
    CHECK_EQ(engine.calls[1].ends, 1u);
    CHECK(engine.calls[1].stream.is_unprocessed);
    CHECK_EQ(engine.calls[0].ends, 0u);
    CHECK(gs_http2_client_is_draining(&engine.client));
    headers(ENDS, 1, OK);
    CHECK_EQ(engine.calls[0].err, 0);
    (void)resets();
    CHECK(gs_http2_client_is_over(&engine.client));
    stop();
}

TEST(a_request_that_was_not_sent_was_not_processed)
{
    start();
    engine_get(&engine, "GET", "/");
    gs_http2_client_fail(&engine.client, -ECONNRESET);
    CHECK(!engine.calls[0].stream.is_unprocessed);
    CHECK(engine.calls[2].stream.is_unprocessed);
    stop();
}

TEST(requests_beyond_what_the_server_allows_wait_and_end_with_goaway)
{
    start();
    frame(NGHTTP2_SETTINGS, 0, 0, "\0\3\0\0\0\2", 6);
    CHECK_EQ(gs_http2_client_room(&engine.client), 0u);
    engine_get(&engine, "GET", "/");
    CHECK_EQ(engine_discard(&engine, NGHTTP2_HEADERS), 0u);
    frame(NGHTTP2_GOAWAY, 0, 0, "\0\0\0\3\0\0\0\0", 8);
    (void)resets();
    CHECK_EQ(engine.calls[2].err, -ECONNRESET);
    CHECK(engine.calls[2].stream.is_unprocessed);
    stop();
}

TEST(a_server_may_allow_no_requests_for_a_time)
{
    start();
    frame(NGHTTP2_SETTINGS, 0, 0, "\0\3\0\0\0\0", 6);
    CHECK_EQ(gs_http2_client_room(&engine.client), 0u);
    CHECK(!gs_http2_client_is_draining(&engine.client));
    headers(ENDS, 1, OK);
    frame(NGHTTP2_SETTINGS, 0, 0, "\0\3\0\0\0\5", 6);
    CHECK_EQ(gs_http2_client_room(&engine.client), 4u);
    stop();
}

/* ---- Errors of the connection ---- */

TEST(a_server_that_speaks_something_else_ends_the_connection)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    engine = (struct engine){.drive.now_ns = DRIVE_START_NS};
    CHECK_EQ(engine_open(&engine), 0);
    engine_get(&engine, "GET", "/");
    (void)engine_discard(&engine, 0);
    engine_receive(&engine, text, sizeof text - 1);
    CHECK(goes_away());
    CHECK(gs_http2_client_is_over(&engine.client));
    stop();
    CHECK(!engine.calls[0].stream.is_unprocessed);
}

TEST(a_response_that_nobody_asked_for_ends_the_connection)
{
    static const char promise[] = "\0\0\0\2\x82\x84\x86\x41\x01"
                                  "a";
    start();
    frame(NGHTTP2_PUSH_PROMISE, END_HEADERS, 1, promise, sizeof promise - 1);
    CHECK(goes_away());
    CHECK(gs_http2_client_is_over(&engine.client));
    stop();
    CHECK_EQ(engine_open(&engine), 0);
    engine_get(&engine, "GET", "/");
    (void)engine_discard(&engine, 0);
    frame(NGHTTP2_SETTINGS, 0, 0, NULL, 0); /* ours are not acknowledged yet */
    frame(NGHTTP2_PUSH_PROMISE, END_HEADERS, 1, promise, sizeof promise - 1);
    CHECK(resets());
    CHECK_EQ(engine.calls[0].stream.status, 0u);
    headers(ENDS, 1, OK);
    CHECK_EQ(engine.calls[0].err, 0);
    stop();
}

TEST(invalid_frames_end_the_connection)
{
    static const struct engine_frame rows[] = {
        {NGHTTP2_SETTINGS, 0, 0, "\0\2\0\0\0\1", 6}, /* a server may not enable push */
        {NGHTTP2_SETTINGS, 0, 1, "", 0},
        {NGHTTP2_SETTINGS, 0, 0, "\0\4\x80\0\0\0", 6},
        {NGHTTP2_PING, 0, 0, "\0\0\0\0", 4},
        {NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4},
        {NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4},
        {NGHTTP2_DATA, 0, 0, "x", 1},
        {NGHTTP2_DATA, 0, 7, "x", 1}, /* no such stream yet */
        {NGHTTP2_DATA, 0, 2, "x", 1},
        {NGHTTP2_HEADERS, ENDS, 9, "\x88", 1},
        {NGHTTP2_HEADERS, ENDS, 1, "\xff\xff\xff\xff\xff\xff", 6},
        {NGHTTP2_HEADERS, 0, 1, "\x88", 1}, /* no CONTINUATION follows */
        {NGHTTP2_CONTINUATION, 0, 1, "\x88", 1},
        {NGHTTP2_RST_STREAM, 0, 0, "\0\0\0\0", 4},
        {NGHTTP2_RST_STREAM, 0, 9, "\0\0\0\0", 4},
        {NGHTTP2_GOAWAY, 0, 0, "\0\0\0\0", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        start();
        engine_frame(&engine, &rows[i]);
        frame(NGHTTP2_PING, 0, 0, "12345678", 8);
        if (!goes_away())
            TEST_FAIL("row %zu", i);
        CHECK(gs_http2_client_is_over(&engine.client));
        stop();
    }
}

/* ---- Floods ---- */

/* Returns how many frames were received until the client has had enough. */
static unsigned flood(const struct engine_frame *with, uint64_t step_ns)
{
    unsigned count = 0;
    start();
    headers(END_HEADERS, 1, OK);
    while (count < 20000 && !engine.err && !gs_http2_client_is_draining(&engine.client)) {
        engine.drive.now_ns += step_ns;
        engine_frame(&engine, with);
        (void)engine_discard(&engine, 0);
        count++;
    }
    stop();
    return count;
}

TEST(floods_end_the_connection)
{
    static const struct engine_frame floods[] = {
        {NGHTTP2_PING, 0, 0, "12345678", 8},
        {NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0, "12345678", 8},
        {NGHTTP2_SETTINGS, 0, 0, "", 0},
        {NGHTTP2_SETTINGS, 0, 0, "\0\3\0\0\0\5", 6},
        {NGHTTP2_WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4},
        {NGHTTP2_WINDOW_UPDATE, 0, 1, "\0\0\0\1", 4},
        {NGHTTP2_PRIORITY, 0, 1, "\0\0\0\0\1", 5},
        {NGHTTP2_DATA, 0, 1, "", 0},
        {NGHTTP2_RST_STREAM, 0, 3, "\0\0\0\1", 4},
        {NGHTTP2_GOAWAY, 0, 0, "\x7f\xff\xff\xff\0\0\0\0", 8},
        {0xbb, 0, 0, "unknown", 7},
    };
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
        unsigned count = flood(&floods[i], 0);
        if (count > 1010)
            TEST_FAIL("row %zu: %u frames", i, count);
        CHECK(floods[i].type == NGHTTP2_GOAWAY || flood(&floods[i], GS_SECOND / 20) == 20000);
    }
}

/* Those of a stream of messages. */
TEST(small_parts_of_a_body_are_no_flood)
{
    const struct engine_frame parts = {NGHTTP2_DATA, 0, 1, "x", 1};
    CHECK_EQ(flood(&parts, 0), 20000u);
}

/* What the client holds after each attack, whose answers are not taken. */
TEST(a_server_that_takes_nothing_costs_little_memory)
{
    static const struct engine_frame floods[] = {
        {NGHTTP2_PING, 0, 0, "12345678", 8},
        {NGHTTP2_SETTINGS, 0, 0, "", 0},
        {NGHTTP2_HEADERS, END_HEADERS, 1, HINTS, 5},
        {NGHTTP2_DATA, 0, 5, "x", 1},
    };
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
        start();
        size_t before = mallinfo2().uordblks;
        for (int j = 0; j < 20000 && !engine.err; j++)
            engine_frame(&engine, &floods[i]);
        CHECK(mallinfo2().uordblks - before < 64 << 10);
        stop();
    }
}

/* A block that never ends, in many frames, or in large ones. */
TEST(a_block_without_end_ends_the_connection)
{
    static char field[16000];
    for (int large = 0; large < 2; large++) {
        start();
        size_t before = mallinfo2().uordblks;
        memcpy(field,
               "\x88\x00\x01"
               "a\x7f\xff\xff\x7f",
               8); /* a value of 2 MiB */
        memset(field + 8, 'x', sizeof field - 8);
        frame(NGHTTP2_HEADERS, 0, 1, field, large ? sizeof field : 8);
        for (int i = 0; i < 30 && !engine.err; i++) {
            frame(NGHTTP2_CONTINUATION, 0, 1, field + 8, large ? sizeof field - 8 : 0);
            CHECK(mallinfo2().uordblks - before < 200 << 10);
        }
        CHECK(engine.err || goes_away());
        stop();
    }
}
