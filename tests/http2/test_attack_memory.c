/* How much memory a connection takes while its peer attacks: all told, as the allocator counts it,
 * after each time that something was received. The peer takes what is sent, or nothing. */
#include "tests/http2/fixture.h"

#include <malloc.h>

#define MAX ((size_t)64 << 10)

#define ENDS (NGHTTP2_FLAG_END_STREAM | NGHTTP2_FLAG_END_HEADERS)
#define GET                                                                                        \
    "\x82\x86\x01\x01"                                                                             \
    "a" /* with an authority */
#define POST                                                                                       \
    "\x83\x86\x01\x01"                                                                             \
    "a"
#define PAGE GET "\x04\x07/middle"

/* ---- What is sent together ---- */

static struct {
    char bytes[65536];
    size_t n;
} sent;

static void put(const void *bytes, size_t n)
{
    memcpy(sent.bytes + sent.n, bytes, n);
    sent.n += n;
}

static void put_byte(size_t byte)
{
    sent.bytes[sent.n++] = (char)byte;
}

static void put_header(size_t n, uint8_t type, uint8_t flags, unsigned id)
{
    const char header[] = {(char)(n >> 16),  (char)(n >> 8),  (char)n, (char)type, (char)flags, 0,
                           (char)(id >> 16), (char)(id >> 8), (char)id};
    put(header, sizeof header);
}

static void put_frame(uint8_t type, uint8_t flags, unsigned id, const char *payload, size_t n)
{
    put_header(n, type, flags, id);
    put(payload, n);
}

/* The length of a string that is not compressed, of 127 bytes and more. */
static void put_length(size_t n, bool is_compressed)
{
    put_byte(is_compressed ? 0xff : 0x7f);
    for (n -= 127; n >= 128; n >>= 7)
        put_byte(n % 128 + 128);
    put_byte(n);
}

static void put_filler(size_t n)
{
    memset(sent.bytes + sent.n, 'u', n);
    sent.n += n;
}

/* A request with a field of n bytes, at least 127, which is not kept in the table. */
static void put_request(const char *block, uint8_t flags, unsigned id, const char *name, size_t n)
{
    size_t at = sent.n;
    put_header(0, NGHTTP2_HEADERS, flags, id);
    put(block, strlen(block));
    put_byte(0);
    put_byte(strlen(name));
    put(name, strlen(name));
    put_length(n, false);
    put_filler(n);
    size_t length = sent.n - at - 9;
    sent.bytes[at + 1] = (char)(length >> 8);
    sent.bytes[at + 2] = (char)length;
}

/* ---- The attacks: the i-th thing that is sent ---- */

static unsigned id_of(unsigned i)
{
    return 2 * i + 1;
}

static void close_windows(unsigned i)
{
    if (!i)
        put_frame(NGHTTP2_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6);
}

static void reset(unsigned i)
{
    for (unsigned j = 500 * i; j < 500 * (i + 1); j++) {
        put_frame(NGHTTP2_HEADERS, ENDS, id_of(j), PAGE, sizeof PAGE - 1);
        put_frame(NGHTTP2_RST_STREAM, 0, id_of(j), "\0\0\0\10", 4);
    }
}

static void provoke_resets(unsigned i)
{
    for (unsigned j = 500 * i; j < 500 * (i + 1); j++)
        put_frame(NGHTTP2_HEADERS, ENDS, id_of(j), "\x82", 1);
}

static void continue_block(unsigned i)
{
    if (!i)
        put_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, PAGE, sizeof PAGE - 1);
    put_header(6 + 16000, NGHTTP2_CONTINUATION, 0, 1);
    put("\0\1x", 3);
    put_length(16000, false);
    put_filler(16000);
}

static void send_settings(unsigned i)
{
    (void)i;
    for (unsigned j = 0; j < 100; j++)
        put_frame(NGHTTP2_SETTINGS, 0, 0, "", 0);
}

static void ping(unsigned i)
{
    (void)i;
    for (unsigned j = 0; j < 100; j++)
        put_frame(NGHTTP2_PING, 0, 0, "12345678", 8);
}

static void send_empty_data(unsigned i)
{
    if (!i)
        put_frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, POST "\x04\x02/f", sizeof POST + 3);
    for (unsigned j = 0; j < 100; j++)
        put_frame(NGHTTP2_DATA, 0, 1, "", 0);
}

static void update_windows(unsigned i)
{
    close_windows(i);
    put_frame(NGHTTP2_HEADERS, ENDS, id_of(i), PAGE, sizeof PAGE - 1);
    for (unsigned j = 0; j < 100; j++)
        put_frame(NGHTTP2_WINDOW_UPDATE, 0, id_of(i), "\0\0\0\1", 4);
}

static void wait_for_a_window(unsigned i)
{
    close_windows(i);
    put_request(PAGE, ENDS, id_of(i), "user-agent", 200);
}

static void wait_with_short_lines(unsigned i)
{
    close_windows(i);
    put_frame(NGHTTP2_HEADERS, ENDS, id_of(i), PAGE, sizeof PAGE - 1);
}

static void wait_together(unsigned i)
{
    for (unsigned j = 100 * i; j < 100 * (i + 1); j++)
        wait_with_short_lines(j);
}

static void wait_with_long_lines(unsigned i)
{
    close_windows(i);
    put_request(PAGE, ENDS, id_of(i), "user-agent", 4000);
}

static void wait_with_ranges(unsigned i)
{
    close_windows(i);
    put_frame(NGHTTP2_HEADERS, ENDS, id_of(i),
              PAGE "\x00\x05range\x0d"
                   "bytes=0-1,3-4",
              sizeof PAGE + 20);
}

static void wait_with_errors(unsigned i)
{
    close_windows(i);
    put_frame(NGHTTP2_HEADERS, ENDS, id_of(i), GET "\x04\x05/none", sizeof GET + 6);
}

static void refer_to_a_long_field(unsigned i)
{
    size_t n = sizeof POST - 1;
    put_header(n + (i ? 0 : 4 + 3000) + 9, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id_of(i));
    put(POST, n);
    if (!i) {
        put_byte(0x7a); /* user-agent */
        put_length(3000, false);
        put_filler(3000);
    }
    for (unsigned j = 0; j < 9; j++)
        put_byte(0xbe);
}

static void send_slow_bodies(unsigned i)
{
    put_request(POST "\x04\x02/f", NGHTTP2_FLAG_END_HEADERS, id_of(i), "user-agent", 3000);
    put_frame(NGHTTP2_DATA, 0, id_of(i), "x", 1);
}

static void send_large_heads(unsigned i)
{
    put_request(POST "\x04\x02/f", NGHTTP2_FLAG_END_HEADERS, id_of(i), "user-agent", 16000);
}

/* Half a frame of it each time. */
static void announce_a_field(unsigned i, size_t n)
{
    if (i % 2 == 0)
        put_header(16000, i ? NGHTTP2_CONTINUATION : NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM * !i,
                   1);
    size_t start = sent.n;
    if (!i) {
        put(PAGE "\0\1x", sizeof PAGE + 2);
        put_length(n, true);
    }
    put_filler(8000 - (sent.n - start));
}

static void announce_a_huge_field(unsigned i)
{
    announce_a_field(i, 65000);
}

static void announce_a_large_field(unsigned i)
{
    announce_a_field(i, 35000);
}

/* What cannot be answered waits in its bytes. */
static void ask_for_downloads(unsigned i)
{
    for (unsigned j = 20 * i; j < 20 * (i + 1); j++)
        put_request(GET "\x04\x06/large", ENDS, id_of(j), "user-agent", 3000);
}

static const struct {
    const char *name;
    void (*send)(unsigned i);
    unsigned count;
} attacks[] = {
    {"resets", reset, 10},
    {"resets that are provoked", provoke_resets, 10},
    {"CONTINUATION", continue_block, 12},
    {"SETTINGS", send_settings, 20},
    {"PING", ping, 20},
    {"empty DATA", send_empty_data, 20},
    {"window updates", update_windows, 100},
    {"closed windows", wait_for_a_window, 100},
    {"closed windows, short lines of the log", wait_with_short_lines, 100},
    {"closed windows, requests that arrive together", wait_together, 2},
    {"closed windows, long lines of the log", wait_with_long_lines, 100},
    {"closed windows, ranges", wait_with_ranges, 100},
    {"closed windows, errors", wait_with_errors, 100},
    {"references to a long field", refer_to_a_long_field, 100},
    {"slow bodies", send_slow_bodies, 100},
    {"large heads", send_large_heads, 100},
    {"a huge field", announce_a_huge_field, 10},
    {"a large field", announce_a_large_field, 4},
    {"downloads", ask_for_downloads, 10},
};

static size_t allocated(void)
{
    return mallinfo2().uordblks;
}

/* What connections share has been allocated before. */
static void warm_up(void)
{
    static const char *const paths[] = {"/f", "/middle", "/large", "/none"};
    start();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        client_get(&client, "GET", paths[i], NULL, NULL);
    client_exchange(&client);
    drive_reopen(&client.drive);
    drive_discard_output(&client.drive);
}

/* It is closed next, or as soon as its last frame is sent. */
static bool is_ending(void)
{
    bool is_closed = gs_http_conn_wants(&client.drive.conn) & GS_HTTP_CLOSE;
    return is_closed || !client.drive.conn.http2 || session_of()->is_ending;
}

static size_t attack(void (*send)(unsigned i), unsigned count, bool takes_output)
{
    static const char opening[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    size_t before = allocated(), most = 0;
    drive_send_bytes(&client.drive, opening, sizeof opening - 1);
    client.drive.keep_output = !takes_output;
    for (unsigned i = 0; i < count && !client_is_over(&client); i++) {
        sent.n = 0;
        send(i);
        CHECK(sent.n <= sizeof sent.bytes);
        drive_send_bytes(&client.drive, sent.bytes, sent.n);
        size_t now = allocated();
        if (!is_ending() && now > before && now - before > most)
            most = now - before;
    }
    return most;
}

TEST(a_connection_takes_little_memory_under_each_attack)
{
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++)
        for (int takes_output = 0; takes_output < 2; takes_output++) {
            warm_up();
            size_t most = attack(attacks[i].send, attacks[i].count, takes_output);
            CHECK_EQ(client_stop(&client), 0);
            fprintf(stderr, "%6zu  %s%s\n", most, attacks[i].name, takes_output ? "" : ", unread");
            CHECK(most <= MAX);
        }
}
