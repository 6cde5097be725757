#include "tests/http/drive.h"
#include "tests/test.h"

#include <inttypes.h>

static struct drive drive;
static struct drive_response response;
static char file[3000];

static void start(void)
{
    drive_start(&drive, NULL);
    for (size_t i = 0; i < sizeof file; i++)
        file[i] = (char)('a' + i * 7 % 26);
    drive_write_bytes(&drive, "page.txt", file, sizeof file);
}

static void get(const char *fields)
{
    char request[1024];
    snprintf(request, sizeof request, "GET /page.txt HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(drive.parsed, drive.output_n);
}

static void check_range(const char *range, const char *content_range, size_t first, size_t n)
{
    char field[128];
    snprintf(field, sizeof field, "Range: %s\r\n", range);
    get(field);
    CHECK_EQ(response.status, 206);
    snprintf(field, sizeof field, "Content-Range: bytes %s", content_range);
    if (!drive_has_field(&response, field))
        TEST_FAIL("not %s for %s", field, range);
    CHECK(drive_has_field(&response, "Content-Type: text/plain; charset=utf-8"));
    CHECK(drive_has_field(&response, "Date: " DRIVE_DATE));
    CHECK(drive_has_field(&response, "Last-Modified: " DRIVE_MODIFIED));
    CHECK_EQ(response.body_length, n);
    CHECK(!memcmp(response.body, file + first, n));
}

#define RESPONSE_TEST(name_) FIXTURE_TEST(name_, start(), CHECK_EQ(drive_stop(&drive), 0))

RESPONSE_TEST(one_range_is_sent_with_its_bytes)
{
    check_range("bytes=0-0", "0-0/3000", 0, 1);
    check_range("bytes=10-19", "10-19/3000", 10, 10);
    check_range("bytes=2990-", "2990-2999/3000", 2990, 10);
    check_range("bytes=2990-99999999999999999999", "2990-2999/3000", 2990, 10);
    check_range("bytes=-5", "2995-2999/3000", 2995, 5);
    check_range("bytes=-5000", "0-2999/3000", 0, 3000);
    check_range("bytes=0-", "0-2999/3000", 0, 3000);
    check_range("BYTES=7-8", "7-8/3000", 7, 2);
}

RESPONSE_TEST(touching_ranges_are_sent_as_one)
{
    check_range("bytes=0-9,10-19", "0-19/3000", 0, 20);
    check_range("bytes=0-100, 50-60, -3000", "0-2999/3000", 0, 3000);
    check_range("bytes=5-6, 9999-", "5-6/3000", 5, 2);
}

TEST(invalid_ranges_are_ignored)
{
    static const char *const ranges[] = {"bytes=5-4", "bytes=",    "bytes=x-y", "bytes=1-2-3",
                                         "lines=1-2", "bytes=--1", "bytes 0-1", "bytes=0-1,x"};
    start();
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        char field[64];
        snprintf(field, sizeof field, "Range: %s\r\n", ranges[i]);
        get(field);
        CHECK_EQ(response.status, 200);
        CHECK_EQ(response.body_length, sizeof file);
    }
    get("Range: bytes=0-1\r\nRange: bytes=0-1\r\n");
    CHECK_EQ(response.status, 200);
    CHECK_EQ(drive_stop(&drive), 0);
}

RESPONSE_TEST(unsatisfiable_range_returns_the_size)
{
    get("Range: bytes=3000-\r\n");
    CHECK_EQ(response.status, 416);
    CHECK(drive_has_field(&response, "Content-Range: bytes */3000"));
    CHECK(drive_has_field(&response, "Content-Length: 0"));
    CHECK(response.keep_alive);
    get("Range: bytes=-0\r\n");
    CHECK_EQ(response.status, 416);
    drive_write(&drive, "page.txt", "");
    drive.now_ns += GS_SECOND;
    get("Range: bytes=0-\r\n");
    CHECK_EQ(response.status, 416);
    CHECK(drive_has_field(&response, "Content-Range: bytes */0"));
    get("Range: bytes=-1\r\n");
    CHECK_EQ(response.status, 200);
}

RESPONSE_TEST(range_is_for_get_only)
{
    drive_send(&drive, "HEAD /page.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    CHECK(drive_next_response(&drive, true, &response));
    CHECK_EQ(response.status, 200);
    CHECK(drive_has_field(&response, "Content-Length: 3000"));
}

struct part {
    size_t first, last;
};

/* Check each part of a multipart body: the framing must be exact, and nothing else may follow. */
static void check_parts(const struct part *parts, size_t count, size_t size)
{
    static const char type[] = "\r\nContent-Type: multipart/byteranges; boundary=";
    const char *boundary = memmem(response.head, response.head_length, type, sizeof type - 1);
    CHECK(boundary);
    boundary += sizeof type - 1;
    int boundary_n = (int)strcspn(boundary, "\r");
    CHECK(boundary_n > 16 && boundary_n <= 70);
    char expected[512];
    const char *at = response.body, *end = response.body + response.body_length;
    for (size_t i = 0; i < count; i++) {
        size_t n = parts[i].last - parts[i].first + 1;
        int head =
            snprintf(expected, sizeof expected,
                     "%s--%.*s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "Content-Range: bytes %zu-%zu/%zu\r\n\r\n",
                     i ? "\r\n" : "", boundary_n, boundary, parts[i].first, parts[i].last, size);
        CHECK(end - at > head && !memcmp(at, expected, (size_t)head));
        at += head;
        CHECK((size_t)(end - at) > n && !memcmp(at, file + parts[i].first, n));
        at += n;
    }
    int last = snprintf(expected, sizeof expected, "\r\n--%.*s--\r\n", boundary_n, boundary);
    CHECK_EQ(end - at, last);
    CHECK(!memcmp(at, expected, (size_t)last));
}

RESPONSE_TEST(many_ranges_are_parts_of_the_content_length)
{
    static const struct part parts[] = {{100, 100}, {2999, 2999}, {0, 9}, {1000, 1999}};
    get("Range: bytes=100-100, 2999-, 0-9, 1000-1999\r\n");
    CHECK_EQ(response.status, 206);
    CHECK(!memmem(response.head, response.head_length, "\r\nContent-Range", 15));
    check_parts(parts, 4, sizeof file);
    CHECK(response.keep_alive);
}

TEST(sixteen_ranges_are_sent_and_more_give_the_full_page)
{
    char field[512] = "Range: bytes=", *at = field + strlen(field);
    struct part parts[16];
    start();
    for (size_t i = 0; i < 16; i++) {
        parts[i] = (struct part){2900 - i * 100, 2900 - i * 100 + i};
        at += sprintf(at, "%zu-%zu,", parts[i].first, parts[i].last);
    }
    strcpy(at, "\r\n");
    get(field);
    CHECK_EQ(response.status, 206);
    check_parts(parts, 16, sizeof file);
    strcpy(at, "0-0\r\n");
    get(field);
    CHECK_EQ(response.status, 200);
    CHECK_EQ(response.body_length, sizeof file);
    CHECK_EQ(drive_stop(&drive), 0);
}

RESPONSE_TEST(thousand_overlapping_ranges_cost_no_more_than_the_file)
{
    static char request[20000];
    char *at = stpcpy(request, "GET /page.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=");
    for (int i = 0; i < 1000; i++)
        at += sprintf(at, "%d-%d,", i, i + 2000);
    strcpy(at - 1, "\r\n\r\n");
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 206);
    CHECK_EQ(response.body_length, 3000);
}

TEST(ranges_of_a_large_file_with_the_longest_type_fit)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.max_cached_file = 100;
    drive_start(&drive, &options);
    drive_write(&drive, "x.docx", "x");
    CHECK_EQ(truncate(drive_path(&drive, "x.docx"), INT64_C(4000000000000)), 0);
    char request[1024], *at = request;
    at += sprintf(at, "GET /x.docx HTTP/1.1\r\nHost: a\r\nConnection: close\r\nRange: bytes=");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, "%" PRIu64 "-%" PRIu64 ",", UINT64_C(3000000000000) + 4 * (uint64_t)i,
                      UINT64_C(3000000000000) + 4 * (uint64_t)i);
    strcpy(at - 1, "\r\n\r\n");
    drive_send(&drive, request);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 206);
    CHECK_EQ(drive.parsed, drive.output_n);
    CHECK_EQ(drive_stop(&drive), 0);
}

RESPONSE_TEST(not_modified_has_validators_and_no_body)
{
    get("If-Modified-Since: " DRIVE_MODIFIED "\r\n");
    CHECK_EQ(response.status, 304);
    CHECK(drive_has_field(&response, "Last-Modified: " DRIVE_MODIFIED));
    CHECK(drive_has_field(&response, "Date: " DRIVE_DATE));
    CHECK(memmem(response.head, response.head_length, "\r\nETag: \"", 9));
    CHECK(!memmem(response.head, response.head_length, "\r\nContent-", 10));
    CHECK_EQ(response.body_length, 0);
    CHECK(response.keep_alive);
}

RESPONSE_TEST(own_etag_is_recognised)
{
    get("");
    const char *etag = memmem(response.head, response.head_length, "ETag: ", 6);
    CHECK(etag);
    char field[128];
    int n = (int)strcspn(etag + 6, "\r");
    snprintf(field, sizeof field, "If-None-Match: \"x\", %.*s\r\n", n, etag + 6);
    get(field);
    CHECK_EQ(response.status, 304);
    snprintf(field, sizeof field, "If-Range: %.*s\r\nRange: bytes=1-2\r\n", n, etag + 6);
    get(field);
    CHECK_EQ(response.status, 206);
    snprintf(field, sizeof field, "If-Match: %.*s\r\n", n, etag + 6);
    get(field);
    CHECK_EQ(response.status, 200);
    get("If-Match: \"x\"\r\nRange: bytes=1-2\r\n");
    CHECK_EQ(response.status, 412);
    CHECK(response.keep_alive);
}

RESPONSE_TEST(modification_time_in_the_future_is_not_sent)
{
    drive_set_mtime(&drive, "page.txt", DRIVE_WALL_S + 1);
    static const char *const fields[] = {"", "Connection: close\r\n", "Range: bytes=1-2\r\n",
                                         "If-None-Match: *\r\n"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        drive_reopen(&drive);
        get(fields[i]);
        CHECK(drive_has_field(&response, "Last-Modified: " DRIVE_DATE));
    }
    drive_reopen(&drive);
    drive.now_ns += GS_SECOND;
    get("");
    CHECK(drive_has_field(&response, "Last-Modified: Sat, 21 Nov 2026 12:00:01 GMT"));
    drive.now_ns += GS_SECOND;
    get("");
    CHECK(drive_has_field(&response, "Last-Modified: Sat, 21 Nov 2026 12:00:01 GMT"));
    CHECK(drive_has_field(&response, "Date: Sat, 21 Nov 2026 12:00:02 GMT"));
}

RESPONSE_TEST(empty_file_is_sent)
{
    drive_write(&drive, "page.txt", "");
    for (int i = 0; i < 2; i++) {
        get("");
        CHECK_EQ(response.status, 200);
        CHECK(drive_has_field(&response, "Content-Length: 0"));
    }
}

RESPONSE_TEST(status_responses_have_a_text_body)
{
    drive_send(&drive, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_STR(response.body, "404 Not Found\n");
    CHECK(drive_has_field(&response, "Content-Type: text/plain; charset=utf-8"));
    drive_send(&drive, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_STR(response.body, "501 Not Implemented\n");
}

TEST(fields_of_the_service_are_in_all_responses)
{
    static const char *const requests[] = {
        "GET /page.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /page.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,5-6\r\n\r\n",
        "GET /page.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=9000-\r\n\r\n",
        "GET /page.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.fields = "X-One: 1\r\nX-Two: 2\r\n";
    drive_start(&drive, &options);
    drive_write_bytes(&drive, "page.txt", file, sizeof file);
    for (size_t i = 0; i < 2 * sizeof requests / sizeof *requests; i++) {
        drive_send(&drive, requests[i / 2]);
        CHECK(drive_next_response(&drive, false, &response));
        CHECK(drive_has_field(&response, "X-One: 1"));
        CHECK(drive_has_field(&response, "X-Two: 2"));
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

static void start_redirecting(uint16_t port)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.fields = "X-One: 1\r\n";
    options.redirect_port = port;
    drive_start(&drive, &options);
    gs_http_conn_redirect(&drive.conn);
}

TEST(a_connection_that_redirects_answers_with_the_same_place_over_https)
{
    static const struct {
        const char *request, *location;
    } cases[] = {
        {"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "https://a.test:444/"},
        {"POST /b?c=%20 HTTP/1.1\r\nHost: a.test:80\r\nContent-Length: 2\r\n\r\nxy",
         "https://a.test:444/b?c=%20"},
        {"DELETE //e/../f HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "https://[::1]:444//e/../f"},
        {"GET /\xc3\xa4 HTTP/1.1\r\nHost: [::1]\r\n\r\n", "https://[::1]:444/%C3%A4"},
    };
    start_redirecting(444);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char field[128];
        drive_send(&drive, cases[i].request);
        CHECK(drive_next_response(&drive, false, &response));
        CHECK_EQ(response.status, 308);
        snprintf(field, sizeof field, "Location: %s", cases[i].location);
        if (!drive_has_field(&response, field))
            TEST_FAIL("not %s", field);
        CHECK(!drive_has_field(&response, "X-One: 1"));
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(a_redirect_leaves_out_the_usual_port_and_needs_a_host)
{
    start_redirecting(443);
    drive_send(&drive, "GET /a HTTP/1.1\r\nHost: b:8080\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response));
    CHECK(drive_has_field(&response, "Location: https://b/a"));
    drive_send(&drive, "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 400);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(a_redirect_of_the_longest_target_fits)
{
    static char request[8300];
    start_redirecting(65535);
    int n = snprintf(request, sizeof request,
                     "GET /%04090d?%03000d HTTP/1.1\r\nHost: %0255d\r\n\r\n", 0, 0, 1);
    drive_send_bytes(&drive, request, (size_t)n);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 308);
    n = snprintf(request, sizeof request, "GET /%05000d HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    drive_send_bytes(&drive, request, (size_t)n);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 414);
    CHECK_EQ(drive_stop(&drive), 0);
}
