/* Requests that a server must refuse according to RFC 9110 and 9112 are refused, and all input
 * after them is ignored. */
#include "tests/http/drive.h"
#include "tests/test.h"

static struct drive drive;
static struct drive_response response;

/* n: number of bytes; they may include NUL. */
static void check_refused_bytes(const char *bytes, size_t n, unsigned status)
{
    for (drive.input_chunk = 0; drive.input_chunk < 3; drive.input_chunk++) {
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive.logged_count = 0;
        drive_send_bytes(&drive, bytes, n);
        drive_send(&drive, "GET /f HTTP/1.1\r\nHost: a\r\n\r\n");
        if (!drive_next_response(&drive, false, &response))
            TEST_FAIL("no response to %s", bytes);
        if (response.status != status)
            TEST_FAIL("%u, not %u, to %s", response.status, status, bytes);
        if (response.keep_alive || drive.parsed != drive.output_n || !drive.is_shut_down)
            TEST_FAIL("not closed after %s", bytes);
        CHECK(drive_has_field(&response, "Connection: close"));
        drive_send_eof(&drive);
        CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    }
}

static void check_refused(const char *const *requests, size_t count, unsigned status)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "f", "x");
    for (size_t i = 0; i < count; i++)
        check_refused_bytes(requests[i], strlen(requests[i]), status);
    CHECK_EQ(drive_stop(&drive), 0);
}

#define CHECK_REFUSED(status_, ...)                                                                \
    do {                                                                                           \
        static const char *const requests_[] = {__VA_ARGS__};                                      \
        check_refused(requests_, sizeof requests_ / sizeof *requests_, status_);                   \
    } while (0)

#define LINE "GET /f HTTP/1.1\r\n"
#define HOST "Host: a\r\n"
#define POST "POST /f HTTP/1.1\r\n" HOST

TEST(bare_line_ends_are_refused)
{
    CHECK_REFUSED(400, "GET /f HTTP/1.1\nHost: a\n\n", "GET /f HTTP/1.1\r\nHost: a\n\r\n",
                  "GET /f HTTP/1.1\nHost: a\r\n\r\n", "GET /f HTTP/1.1\r\nHost: a\r\n\n",
                  "GET /f HTTP/1.1\rHost: a\r\r", LINE HOST "X: a\rb\r\n\r\n",
                  LINE HOST "X: a\nb: c\r\n\r\n", "\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n",
                  "\r\rGET /f HTTP/1.1\r\nHost: a\r\n\r\n", "\r\n\nGET /f HTTP/1.1\r\n" HOST "\r\n",
                  LINE HOST "\rX\r\n\r\n", LINE HOST "X: a\r\r\n\r\n");
}

TEST(control_characters_are_refused)
{
    CHECK_REFUSED(400, LINE HOST "X: a\x01\r\n\r\n", LINE HOST "X: \x7f\r\n\r\n",
                  LINE HOST "X\x0b: a\r\n\r\n", "GET /\x1f HTTP/1.1\r\n" HOST "\r\n",
                  "\x16\x03\x01 / HTTP/1.1\r\n" HOST "\r\n", "GET /f\tHTTP/1.1\r\n" HOST "\r\n");
    drive_start(&drive, NULL);
    static const char inside[] = LINE HOST "X: a\0b\r\n\r\n", line[] = "GET /\0 HTTP/1.1\r\n" HOST;
    check_refused_bytes(inside, sizeof inside - 1, 400);
    check_refused_bytes(line, sizeof line - 1, 400);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(malformed_fields_are_refused)
{
    CHECK_REFUSED(400, LINE HOST "X: a\r\n b\r\n\r\n", LINE HOST "X: a\r\n\tb\r\n\r\n",
                  LINE " Host: a\r\n\r\n", LINE "Host : a\r\n\r\n", LINE HOST "X\t: a\r\n\r\n",
                  LINE HOST "no colon\r\n\r\n", LINE HOST "nocolon\r\n\r\n",
                  LINE HOST ": a\r\n\r\n", LINE HOST "X y: a\r\n\r\n", LINE HOST "X@: a\r\n\r\n",
                  LINE HOST "X(: a\r\n\r\n", LINE HOST "X\xc3\xa9: a\r\n\r\n",
                  LINE HOST "\"X\": a\r\n\r\n", LINE HOST "X/Y: a\r\n\r\n");
}

TEST(malformed_request_lines_are_refused)
{
    CHECK_REFUSED(
        400, "GET  /f HTTP/1.1\r\n" HOST "\r\n", "GET /f  HTTP/1.1\r\n" HOST "\r\n",
        "GET /f HTTP/1.1 \r\n" HOST "\r\n", " GET /f HTTP/1.1\r\n" HOST "\r\n", "GET /f\r\n\r\n",
        "GET\r\n\r\n", "GET HTTP/1.1\r\n" HOST "\r\n", "GET  HTTP/1.1\r\n" HOST "\r\n",
        "GET /f x HTTP/1.1\r\n" HOST "\r\n", "G(T /f HTTP/1.1\r\n" HOST "\r\n",
        "G\xc3\xa9T /f HTTP/1.1\r\n" HOST "\r\n", "GET: /f HTTP/1.1\r\n" HOST "\r\n",
        "GET /f#x HTTP/1.1\r\n" HOST "\r\n", "GET /f\xe9 HTTP/1.1\r\n" HOST "\r\n",
        "GET f HTTP/1.1\r\n" HOST "\r\n", "GET ftp://a/f HTTP/1.1\r\n" HOST "\r\n",
        "GET http:///f HTTP/1.1\r\n" HOST "\r\n", "GET http://u@a/f HTTP/1.1\r\n" HOST "\r\n",
        "GET * HTTP/1.1\r\n" HOST "\r\n", "GET http://\xc3\xa9/f HTTP/1.1\r\n" HOST "\r\n",
        "GET /f\xc3 HTTP/1.1\r\n" HOST "\r\n", "GET a:80 HTTP/1.1\r\n" HOST "\r\n",
        "CONNECT /f HTTP/1.1\r\n" HOST "\r\n", "OPTIONS *x HTTP/1.1\r\n" HOST "\r\n",
        "GET /f#\r\n" HOST "\r\n");
}

TEST(malformed_versions_are_bad_requests_and_unknown_ones_not_supported)
{
    CHECK_REFUSED(400, "GET /f HTTP/1\r\n\r\n", "GET /f HTTP/1.\r\n\r\n", "GET /f HTTP/.1\r\n\r\n",
                  "GET /f http/1.1\r\n" HOST "\r\n", "GET /f HTTP/1.10\r\n" HOST "\r\n",
                  "GET /f HTTP/01.1\r\n" HOST "\r\n", "GET /f HTTP 1.1\r\n" HOST "\r\n",
                  "GET /f HTTP/1,1\r\n" HOST "\r\n", "GET /f HTTP/a.b\r\n" HOST "\r\n",
                  "GET /f HTTPS/1.1\r\n" HOST "\r\n", "GET /f XTTP/1.1\r\n" HOST "\r\n",
                  "GET /f HTTP/+1.1\r\n" HOST "\r\n");
    CHECK_REFUSED(505, "GET /f HTTP/2.0\r\n" HOST "\r\n", "GET /f HTTP/0.9\r\n" HOST "\r\n",
                  "GET /f HTTP/9.9\r\n" HOST "\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

TEST(missing_repeated_and_malformed_hosts_are_refused)
{
    CHECK_REFUSED(400, LINE "\r\n", LINE "X: a\r\n\r\n", LINE HOST HOST "\r\n",
                  LINE HOST "host: b\r\n\r\n", LINE "Host:\r\n\r\n", LINE "Host: \t\r\n\r\n",
                  LINE "Host: a b\r\n\r\n", LINE "Host: a,b\r\n\r\n", LINE "Host: a/b\r\n\r\n",
                  LINE "Host: a:x\r\n\r\n", LINE "Host: a:80:80\r\n\r\n", LINE "Host: u@a\r\n\r\n",
                  LINE "Host: [::1\r\n\r\n", LINE "Host: http://a\r\n\r\n",
                  LINE "Host: a:65536\r\n\r\n", LINE "Host: a\\b\r\n\r\n", LINE "Host: a?\r\n\r\n",
                  "GET /f HTTP/1.0\r\n" HOST HOST "\r\n", "GET /f HTTP/1.0\r\nHost: a b\r\n\r\n",
                  "GET http://a/f HTTP/1.1\r\n\r\n");
}

TEST(content_lengths_other_than_one_number_are_refused)
{
    CHECK_REFUSED(400, POST "Content-Length: +1\r\n\r\nx", POST "Content-Length: -1\r\n\r\nx",
                  POST "Content-Length: 1,1\r\n\r\nx", POST "Content-Length: 1, 1\r\n\r\nx",
                  POST "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
                  POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
                  POST "Content-Length: 0x1\r\n\r\nx", POST "Content-Length: 1 1\r\n\r\nx",
                  POST "Content-Length:\r\n\r\nx", POST "Content-Length: 1.0\r\n\r\nx",
                  POST "Content-Length: 18446744073709551616\r\n\r\nx",
                  POST "Content-Length: 99999999999999999999999\r\n\r\nx",
                  POST "Content-Length: \"1\"\r\n\r\nx", POST "Content-Length: 1;\r\n\r\nx",
                  LINE HOST "Content-Length: nan\r\n\r\n", LINE HOST "Content-Length: 1e1\r\n\r\n");
}

TEST(codings_without_a_defined_end_of_body_are_refused)
{
    CHECK_REFUSED(400, POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                  POST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
                  POST "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
                  POST "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
                  POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
                  POST "Transfer-Encoding:\r\n\r\n", POST "Transfer-Encoding: ,\r\n\r\n",
                  POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                  "POST /f HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    CHECK_REFUSED(400, POST "Transfer-Encoding: gzip\r\n\r\n",
                  POST "Transfer-Encoding: identity\r\n\r\n",
                  POST "Transfer-Encoding: xchunked\r\n\r\n",
                  POST "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
                  POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
                  LINE HOST "Transfer-Encoding: deflate\r\n\r\n");
}

TEST(unknown_codings_are_not_implemented)
{
    CHECK_REFUSED(501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
                  POST "Transfer-Encoding: chunked;q=1, chunked\r\n\r\n0\r\n\r\n");
}

TEST(https_targets_are_misdirected)
{
    CHECK_REFUSED(421, "GET https://a/f HTTP/1.1\r\nHost: a\r\n\r\n",
                  "OPTIONS HTTPS://a HTTP/1.1\r\nHost: a\r\n\r\n");
}

TEST(expectations_other_than_100_continue_fail)
{
    CHECK_REFUSED(417, LINE HOST "Expect: 200-ok\r\n\r\n",
                  LINE HOST "Expect: 100-continue, x=y\r\n\r\n",
                  LINE HOST "Expect: 100-continue\r\nExpect: x\r\n\r\n",
                  POST "Content-Length: 1\r\nExpect: \"100-continue\"\r\n\r\n");
}

static void check_head_refused(const char *bytes, unsigned status)
{
    drive_reopen(&drive);
    drive_discard_output(&drive);
    drive_send(&drive, bytes);
    if (!drive.output_n)
        drive_advance_time(&drive, 11 * GS_SECOND);
    CHECK(drive_next_response(&drive, true, &response) && response.status == status);
    CHECK_EQ(drive.parsed, drive.output_n);
}

TEST(refusal_of_head_has_no_body_even_if_it_is_malformed)
{
    static char line[9000];
    memset(line, 'x', sizeof line - 1);
    memcpy(line, "HEAD /", 6);
    drive_start(&drive, NULL);
    check_head_refused("HEAD /\r\n\r\n", 400);
    check_head_refused("HEAD / HTTP/1.1\r\n\r\n", 400);
    check_head_refused("HEAD / HTTP/3.0\r\n\r\n", 505);
    check_head_refused("HEAD / HTTP/1.1\r\n\n", 400);
    check_head_refused("HEAD / HT", 408);
    check_head_refused(line, 414);
    CHECK_EQ(drive_stop(&drive), 0);
}

#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

TEST(malformed_chunks_are_refused)
{
    CHECK_REFUSED(400, CHUNKED "x\r\n", CHUNKED "\r\n", CHUNKED "-1\r\n", CHUNKED "+1\r\nx\r\n",
                  CHUNKED "0x1\r\nx\r\n", CHUNKED " 1\r\nx\r\n", CHUNKED "1 \r\nx\r\n",
                  CHUNKED "1\nx\r\n", CHUNKED "1\rx\r\n", CHUNKED "1\r\nxy\r\n", CHUNKED "1\r\nx\n",
                  CHUNKED "1\r\nx0\r\n\r\n", CHUNKED "00000000000000001\r\nx\r\n",
                  CHUNKED "1;\x01\r\nx\r\n", CHUNKED "0\r\nbad\r\n\r\n",
                  CHUNKED "0\r\n folded: x\r\n\r\n", CHUNKED "0\r\nx: y\n\r\n", CHUNKED "0\r\n\n",
                  CHUNKED "5;a=\"\r\n\"\r\nhello\r\n");
}

TEST(chunk_sizes_above_the_limits_are_too_large)
{
    CHECK_REFUSED(413, CHUNKED "10000000000000000\r\n", CHUNKED "ffffffffffffffff\r\n",
                  CHUNKED "8000000000000000\r\n", CHUNKED "fffffffffffffffff\r\n",
                  CHUNKED "1\r\nx\r\nffffffffffffffff\r\n", CHUNKED "100001\r\n");
}
