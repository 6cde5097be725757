/* A long session gets the same responses for any split of its bytes. */
#include "tests/http/drive.h"
#include "tests/test.h"

#define LARGE_SIZE 100000

static struct drive drive;
static struct drive_response response;

static const char *const session[] = {
    "GET /small HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /small HTTP/1.1\r\nHost: a\r\nUser-Agent: tester\r\nReferer: http://x/\r\n\r\n",
    "\r\n\r\nGET /large HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
    "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello\r\nbody",
    "GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    "5;name=value;q=\"x;\\\"y\"\r\nhello\r\n00a\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:chunked\r\n\r\n0\r\n\r\n",
    "GET /none HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nbody",
    "HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /sub HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "BREW /pot HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "GET http://b/sub/?x=y HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=-10\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=5-6, 100-, -1\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=1-1,3-3,5-5,7-7\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nRange: bytes=100-\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\nIf-Range: \"no\"\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\nIf-Range: " DRIVE_MODIFIED "\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: " DRIVE_MODIFIED "\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nIf-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"x\", *, \"y\"\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\nIf-Match: W/\"y\"\r\n\r\n",
    "GET /../x HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /never HTTP/1.1\r\nHost: a\r\n\r\n",
};
#define REQUESTS (sizeof session / sizeof *session)

static const unsigned statuses[REQUESTS - 1] = {
    200, 200, 200, 405, 200, 405, 200, 404, 404, 301, 200, 501, 200, 200,
    206, 206, 206, 206, 416, 200, 206, 304, 412, 200, 304, 412, 400, 200,
};

static char large[LARGE_SIZE], text[8192];
static char expected[20 * LARGE_SIZE];
static size_t text_n, expected_n;

static void start(void)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "small", "small file");
    for (size_t i = 0; i < LARGE_SIZE; i++)
        large[i] = (char)('a' + i % 26);
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive_mkdir(&drive, "sub");
    drive_write(&drive, "sub/index.html", "index");
    text_n = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        size_t n = strlen(session[i]);
        memcpy(text + text_n, session[i], n);
        text_n += n;
    }
}

/* Run the session in one piece: once to fill the cache, and once to record the expected output. */
static void record_session(void)
{
    for (int i = 0; i < 2; i++) {
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive_send_bytes(&drive, text, text_n);
    }
    CHECK(drive.output_n < sizeof expected);
    memcpy(expected, drive.output, drive.output_n);
    expected_n = drive.output_n;
    drive.logged_count = 0;
}

static void check_same_output(void)
{
    CHECK_EQ(drive.output_n, expected_n);
    CHECK(!memcmp(drive.output, expected, expected_n));
    drive.logged_count = 0;
}

#define INPUT_TEST(name_) FIXTURE_TEST(name_, start(), CHECK_EQ(drive_stop(&drive), 0))

#define DRIVE_TEST(name_)                                                                          \
    FIXTURE_TEST(name_, drive_start(&drive, NULL), CHECK_EQ(drive_stop(&drive), 0))

INPUT_TEST(session_is_handled_request_by_request)
{
    record_session();
    for (size_t i = 0; i < REQUESTS - 1; i++) {
        if (!drive_next_response(&drive, !strncmp(session[i], "HEAD", 4), &response))
            TEST_FAIL("no response to %s", session[i]);
        if (response.status != statuses[i])
            TEST_FAIL("%u, not %u, to %s", response.status, statuses[i], session[i]);
        CHECK_EQ(response.keep_alive, i < REQUESTS - 2);
    }
    CHECK_EQ(drive.parsed, drive.output_n);
    /* Input after the last request is discarded until EOF. */
    CHECK(drive.is_shut_down);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_READ);
}

INPUT_TEST(input_in_pieces_of_every_size_gives_the_same_output)
{
    record_session();
    for (drive.input_chunk = 1; drive.input_chunk < text_n;
         drive.input_chunk += drive.input_chunk < 64 ? 1 : 61) {
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive_send_bytes(&drive, text, text_n);
        check_same_output();
    }
}

INPUT_TEST(input_split_in_two_anywhere_gives_the_same_output)
{
    record_session();
    for (size_t cut = 1; cut < text_n; cut++) {
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive_send_bytes(&drive, text, cut);
        drive_send_bytes(&drive, text + cut, text_n - cut);
        check_same_output();
    }
}

INPUT_TEST(output_sent_in_any_amounts_is_the_same)
{
    record_session();
    static const uint64_t amounts[] = {1, 7, 100, 1460, 65536};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        drive.output_chunk = amounts[i];
        drive.input_chunk = i % 2;
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive_send_bytes(&drive, text, text_n);
        check_same_output();
    }
}

INPUT_TEST(session_without_a_cache_gives_the_same_output)
{
    static struct gs_http_options options;
    record_session();
    gs_http_options_default(&options);
    CHECK_EQ(drive_stop(&drive), 0);
    options.max_cache = 0;
    drive_start(&drive, &options);
    drive_write(&drive, "small", "small file");
    for (size_t i = 0; i < 3; i++) {
        drive_reopen(&drive);
        drive_discard_output(&drive);
        drive.input_chunk = i;
        drive_send_bytes(&drive, text, text_n);
        for (size_t request = 0; request < 2; request++)
            CHECK(drive_next_response(&drive, request == 1, &response) && response.status == 200);
    }
}

DRIVE_TEST(pipelined_requests_are_handled_while_the_output_has_room)
{
    static char requests[200 * 64];
    for (size_t i = 0; i < 200; i++)
        strcat(requests, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n");
    drive.keep_output = true;
    drive_send(&drive, requests);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_WRITE);
    uint64_t first = drive.counts.requests;
    CHECK(first > 10 && first < 200);
    drive.keep_output = false;
    drive_serve(&drive);
    CHECK_EQ(drive.counts.requests, 200);
    for (size_t i = 0; i < 200; i++)
        CHECK(drive_next_response(&drive, false, &response) && response.status == 501);
    CHECK(gs_http_conn_is_idle(&drive.conn));
}

DRIVE_TEST(load_starts_once_earlier_responses_are_sent)
{
    drive_write(&drive, "f", "x");
    drive.keep_output = true;
    drive_send(&drive, "BREW / HTTP/1.1\r\nHost: a\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_WRITE);
    drive.hold_loads = true;
    drive_take_output(&drive, UINT64_MAX);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_LOAD);
    CHECK(!gs_http_conn_awaits_head(&drive.conn));
}

DRIVE_TEST(idle_connection_holds_no_memory)
{
    drive_write(&drive, "f", "x");
    drive.input_chunk = 1;
    drive_send(&drive, "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    drive_send(&drive, "GET /f HTTP/1.1\r\nHost: a\r\n\r\n\r\n");
    CHECK(gs_http_conn_is_idle(&drive.conn));
    CHECK(!drive.conn.input && !drive.conn.output && !drive.conn.load);
    drive_send(&drive, "G");
    CHECK(!gs_http_conn_is_idle(&drive.conn));
    CHECK(gs_http_conn_awaits_head(&drive.conn));
}

DRIVE_TEST(what_a_connection_waits_for_and_since_when)
{
    drive_write(&drive, "f", "x");
    uint64_t start_ns = drive.now_ns;
    CHECK(!gs_http_conn_is_kept_alive(&drive.conn));
    CHECK_EQ(gs_http_conn_phase_start(&drive.conn), start_ns);
    drive.now_ns += 3 * GS_SECOND;
    drive_send(&drive, "GET /f HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(gs_http_conn_is_kept_alive(&drive.conn));
    CHECK_EQ(gs_http_conn_phase_start(&drive.conn), start_ns + 3 * GS_SECOND);
    drive.now_ns += GS_SECOND;
    drive_send(&drive, "GET");
    CHECK(!gs_http_conn_is_kept_alive(&drive.conn));
    CHECK_EQ(gs_http_conn_phase_start(&drive.conn), start_ns + 4 * GS_SECOND);
}

DRIVE_TEST(continue_is_sent_only_if_the_body_will_be_read)
{
    drive_write(&drive, "f", "x");
    drive_send(&drive,
               "GET /f HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    CHECK_STR(drive.output, "HTTP/1.1 100 Continue\r\n\r\n");
    drive_send(&drive, "hi");
    CHECK(drive_next_response(&drive, false, &response) && response.status == 200 &&
          response.keep_alive);

    drive_discard_output(&drive);
    drive_send(&drive, "POST /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 405);
    CHECK(drive_has_field(&response, "Connection: close"));
    CHECK_EQ(memcmp(drive.output, "HTTP/1.1 405", 12), 0);

    drive_reopen(&drive);
    drive_send(&drive, "GET /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response) && response.status == 200);
    CHECK(!memmem(response.head, response.head_length, "100", 3));

    drive_discard_output(&drive);
    drive_send(&drive, "GET /f HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    CHECK_EQ(drive.output_n, 0);
    drive_send(&drive, "x");
    CHECK(drive_next_response(&drive, false, &response) && response.status == 200);

    drive_reopen(&drive);
    drive_send(&drive, "GET /f HTTP/1.1\r\nHost: a\r\nExpect: something\r\n\r\n");
    CHECK(drive_next_response(&drive, false, &response) && response.status == 417 &&
          !response.keep_alive);
}

DRIVE_TEST(malformed_body_behind_a_full_output_loses_no_response)
{
    static char requests[4096];
    drive.keep_output = true;
    /* As many responses as fit, followed by a body. */
    for (size_t i = 0; i < 40; i++)
        strcat(requests, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n");
    drive_send(&drive, requests);
    uint64_t fit = drive.counts.requests;
    CHECK(fit > 10 && fit < 40);
    drive_reopen(&drive);
    requests[fit * strlen("BREW / HTTP/1.1\r\nHost: a\r\n\r\n")] = '\0';
    strcat(requests, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    drive_send(&drive, requests);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_WRITE);
    drive.keep_output = false;
    drive_serve(&drive);
    for (uint64_t i = 0; i < fit; i++)
        CHECK(drive_next_response(&drive, false, &response) && response.status == 501);
    CHECK_EQ(drive.parsed, drive.output_n);
    CHECK(drive.is_shut_down);
}

DRIVE_TEST(refusal_of_a_head_request_has_no_body)
{
    drive_send(&drive, "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    CHECK(drive_next_response(&drive, true, &response) && response.status == 400);
    CHECK_EQ(drive.parsed, drive.output_n);
    CHECK_EQ(drive.logged_count, 1);
    CHECK_STR(drive.logged[0].request_line, "HEAD / HTTP/1.1");
}
