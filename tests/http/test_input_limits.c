/* Each limit is exact: a request that reaches it is served, and a request that exceeds it by one is
 * refused. */
#include "tests/http/drive.h"
#include "tests/test.h"

static struct drive drive;
static struct drive_response response;
static char request[3 << 20];

static void check_status(unsigned status, bool keep_alive)
{
    static const size_t splits[] = {0, 1, 7, 8192, 8193, 16384};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        drive.input_chunk = splits[i];
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive.logged_count = 0;
        drive_send(&drive, request);
        CHECK(drive_next_response(&drive, false, &response));
        CHECK_EQ(response.status, status);
        CHECK_EQ(response.keep_alive, keep_alive);
        CHECK_EQ(drive.parsed, drive.output_n);
    }
}

/* Build a request with a request line of n bytes. */
static void put_line(size_t n)
{
    char *at = stpcpy(request, "GET /");
    memset(at, 'x', n - strlen("GET / HTTP/1.1"));
    strcpy(at + n - strlen("GET / HTTP/1.1"), " HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_EQ(strstr(request, "\r\n") - request, (long)n);
}

#define DRIVE_TEST(name_)                                                                          \
    FIXTURE_TEST(name_, drive_start(&drive, NULL), CHECK_EQ(drive_stop(&drive), 0))

DRIVE_TEST(request_line_is_limited)
{
    put_line(8192);
    check_status(404, true);
    put_line(8193);
    check_status(414, false);
    memset(request, 'x', 9000); /* no known method is that long */
    request[9000] = '\0';
    check_status(501, false);
    strcpy(request + 9000, " / HTTP/1.1\r\nHost: a\r\n\r\n");
    check_status(501, false);
}

/* Build a request with header fields of n bytes in total, including line ends. */
static void put_fields(size_t n, size_t lines)
{
    char *at = stpcpy(request, "BREW /a HTTP/1.1\r\n"), *end = at + n;
    at = stpcpy(at, "Host: a\r\n");
    for (size_t i = 1; i < lines - 1; i++)
        at = stpcpy(at, "X: y\r\n");
    at = stpcpy(at, "X:");
    memset(at, 'y', (size_t)(end - at));
    strcpy(end - 2, "\r\n\r\n");
    CHECK_EQ(strstr(request, "\r\n\r\n") + 4 - request, (long)(18 + n + 2));
}

DRIVE_TEST(header_is_limited)
{
    put_fields(32768, 2);
    check_status(501, true);
    put_fields(32769, 2);
    check_status(431, false);
}

DRIVE_TEST(endless_header_is_refused_at_the_limit)
{
    put_fields(40000, 2);
    request[18 + 32768] = '\0';
    drive_send(&drive, request);
    CHECK_EQ(drive.output_n, 0);
    drive_send(&drive, "yyy");
    CHECK(drive_next_response(&drive, false, &response) && response.status == 431);
}

DRIVE_TEST(number_of_fields_is_limited)
{
    put_fields(1000, 100);
    check_status(501, true);
    put_fields(1000, 101);
    check_status(431, false);
}

static void put_body(const char *field, size_t data)
{
    char *at = stpcpy(request, "POST /a HTTP/1.1\r\nHost: a\r\n");
    at = stpcpy(at, field);
    at = stpcpy(at, "\r\n\r\n");
    memset(at, 'b', data);
    at[data] = '\0';
}

DRIVE_TEST(body_with_a_length_is_limited)
{
    put_body("Content-Length: 1048576", 1048576);
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response) && response.status == 405 &&
          response.keep_alive);
    put_body("Content-Length: 1048577", 0);
    check_status(413, false);
    put_body("Content-Length: 18446744073709551615", 0);
    check_status(413, false);
    put_body("Content-Length: 1048577\r\nExpect: 100-continue", 0);
    check_status(413, false);
}

static void put_chunks(size_t last)
{
    put_body("Transfer-Encoding: chunked", 0);
    char *at = request + strlen(request);
    for (int i = 0; i < 15; i++) {
        at = stpcpy(at, "10000\r\n");
        memset(at, 'c', 65536);
        at = stpcpy(at + 65536, "\r\n");
    }
    at += sprintf(at, "%zx\r\n", last);
    memset(at, 'c', last);
    strcpy(at + last, "\r\n0\r\n\r\n");
}

DRIVE_TEST(chunked_body_is_limited)
{
    put_chunks(65536);
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response) && response.status == 405 &&
          response.keep_alive);
    put_chunks(65537);
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response) && response.status == 413 &&
          !response.keep_alive);
}

TEST(limits_are_taken_from_the_options)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.max_request_line = 32;
    options.max_header = 20;
    options.max_fields = 2;
    options.max_body = 3;
    drive_start(&drive, &options);
    put_line(32);
    check_status(404, true);
    put_line(33);
    check_status(414, false);
    put_fields(20, 2);
    check_status(501, true);
    put_fields(21, 2);
    check_status(431, false);
    strcpy(request, "GET / HTTP/1.1\r\nHost: a\r\nA:\r\nB:\r\n\r\n");
    check_status(431, false);
    CHECK_EQ(drive_stop(&drive), 0);
}

DRIVE_TEST(directory_with_a_name_too_long_for_a_redirect_is_refused)
{
    drive_mkdir(&drive, "sub");
    char *at = stpcpy(request, "GET /");
    for (int i = 0; i < 2100; i++)
        at = stpcpy(at, "./");
    strcpy(at, "sub HTTP/1.1\r\nHost: a\r\n\r\n");
    check_status(414, true);
    strcpy(at - 4000, "sub?aa HTTP/1.1\r\nHost: a\r\n\r\n");
    check_status(301, true);
    at = stpcpy(request, "GET /sub?");
    memset(at, 'q', 5000);
    strcpy(at + 5000, " HTTP/1.1\r\nHost: a\r\n\r\n");
    check_status(301, true);
    CHECK(drive_has_field(&response, "Location: /sub/"));
}
