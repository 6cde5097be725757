/* A long session gives the same answers however its bytes are cut. */
#include "tests/http/drive.h"
#include "tests/test.h"

#include <sys/stat.h>

#define LARGE_SIZE 100000

static struct drive drive;
static struct drive_answer answer;

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
    drive_folder(&drive, "sub");
    drive_write(&drive, "sub/index.html", "index");
    text_n = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        size_t n = strlen(session[i]);
        memcpy(text + text_n, session[i], n);
        text_n += n;
    }
}

/* The session in one piece, once for the cache and once for what is expected. */
static void record_session(void)
{
    for (int i = 0; i < 2; i++) {
        drive_reopen(&drive);
        drive_forget(&drive);
        drive_say_bytes(&drive, text, text_n);
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

TEST(session_is_answered_request_by_request)
{
    start();
    record_session();
    for (size_t i = 0; i < REQUESTS - 1; i++) {
        if (!drive_next(&drive, !strncmp(session[i], "HEAD", 4), &answer))
            TEST_FAIL("no answer to %s", session[i]);
        if (answer.status != statuses[i])
            TEST_FAIL("%u, not %u, to %s", answer.status, statuses[i], session[i]);
        CHECK_EQ(answer.keep_alive, i < REQUESTS - 2);
    }
    CHECK_EQ(drive.read, drive.output_n);
    /* What came behind the last request is thrown away until the peer ends. */
    CHECK(drive.is_shut_down);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_READ);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(session_in_pieces_of_every_size_gives_the_same_bytes)
{
    start();
    record_session();
    for (drive.split = 1; drive.split < text_n; drive.split += drive.split < 64 ? 1 : 61) {
        drive_reopen(&drive);
        drive_forget(&drive);
        drive_say_bytes(&drive, text, text_n);
        check_same_output();
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(session_cut_in_two_anywhere_gives_the_same_bytes)
{
    start();
    record_session();
    for (size_t cut = 1; cut < text_n; cut++) {
        drive_reopen(&drive);
        drive_forget(&drive);
        drive_say_bytes(&drive, text, cut);
        drive_say_bytes(&drive, text + cut, text_n - cut);
        check_same_output();
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(output_taken_in_any_amounts_is_the_same)
{
    start();
    record_session();
    static const uint64_t amounts[] = {1, 7, 100, 1460, 65536};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        drive.take = amounts[i];
        drive.split = i % 2;
        drive_reopen(&drive);
        drive_forget(&drive);
        drive_say_bytes(&drive, text, text_n);
        check_same_output();
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(session_without_a_cache_gives_the_same_bytes)
{
    struct gs_http_options options;
    start();
    record_session();
    gs_http_options_default(&options);
    CHECK_EQ(drive_stop(&drive), 0);
    options.cache_most = 0;
    drive_start(&drive, &options);
    drive_write(&drive, "small", "small file");
    for (size_t i = 0; i < 3; i++) {
        drive_reopen(&drive);
        drive_forget(&drive);
        drive.split = i;
        drive_say_bytes(&drive, text, text_n);
        for (size_t request = 0; request < 2; request++)
            CHECK(drive_next(&drive, request == 1, &answer) && answer.status == 200);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(pipelined_requests_are_answered_while_the_output_has_room)
{
    static char requests[200 * 64];
    drive_start(&drive, NULL);
    for (size_t i = 0; i < 200; i++)
        strcat(requests, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n");
    drive.keep_output = true;
    drive_say(&drive, requests);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_WRITE);
    uint64_t first = drive.counts.requests;
    CHECK(first > 10 && first < 200);
    drive.keep_output = false;
    drive_serve(&drive);
    CHECK_EQ(drive.counts.requests, 200);
    for (size_t i = 0; i < 200; i++)
        CHECK(drive_next(&drive, false, &answer) && answer.status == 501);
    CHECK(gs_http_conn_is_idle(&drive.conn));
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(file_is_looked_for_once_the_answers_before_are_out)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "f", "x");
    drive.keep_output = true;
    drive_say(&drive, "BREW / HTTP/1.1\r\nHost: a\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_WRITE);
    drive.hold_loads = true;
    drive_take(&drive, UINT64_MAX);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_LOAD);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(idle_connection_keeps_no_memory)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "f", "x");
    drive.split = 1;
    drive_say(&drive, "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    drive_say(&drive, "GET /f HTTP/1.1\r\nHost: a\r\n\r\n\r\n");
    CHECK(gs_http_conn_is_idle(&drive.conn));
    CHECK(!drive.conn.tail && !drive.conn.output && !drive.conn.load);
    drive_say(&drive, "G");
    CHECK(!gs_http_conn_is_idle(&drive.conn));
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(body_is_asked_for_only_when_it_will_be_read)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "f", "x");
    drive_say(&drive,
              "GET /f HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    CHECK_STR(drive.output, "HTTP/1.1 100 Continue\r\n\r\n");
    drive_say(&drive, "hi");
    CHECK(drive_next(&drive, false, &answer) && answer.status == 200 && answer.keep_alive);

    drive_forget(&drive);
    drive_say(&drive, "POST /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                      "Transfer-Encoding: chunked\r\n\r\n");
    CHECK(drive_next(&drive, false, &answer));
    CHECK_EQ(answer.status, 405);
    CHECK(drive_has(&answer, "Connection: close"));
    CHECK_EQ(memcmp(drive.output, "HTTP/1.1 405", 12), 0);

    drive_reopen(&drive);
    drive_say(&drive, "GET /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    CHECK(drive_next(&drive, false, &answer) && answer.status == 200);
    CHECK(!memmem(answer.head, answer.head_n, "100", 3));

    drive_forget(&drive);
    drive_say(&drive, "GET /f HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    CHECK_EQ(drive.output_n, 0);
    drive_say(&drive, "x");
    CHECK(drive_next(&drive, false, &answer) && answer.status == 200);

    drive_reopen(&drive);
    drive_say(&drive, "GET /f HTTP/1.1\r\nHost: a\r\nExpect: something\r\n\r\n");
    CHECK(drive_next(&drive, false, &answer) && answer.status == 417 && !answer.keep_alive);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(body_that_turns_bad_behind_a_full_output_loses_no_answer)
{
    static char requests[4096];
    drive_start(&drive, NULL);
    drive.keep_output = true;
    /* As many as fit, then a body. */
    for (size_t i = 0; i < 40; i++)
        strcat(requests, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n");
    drive_say(&drive, requests);
    uint64_t fit = drive.counts.requests;
    CHECK(fit > 10 && fit < 40);
    drive_reopen(&drive);
    requests[fit * strlen("BREW / HTTP/1.1\r\nHost: a\r\n\r\n")] = '\0';
    strcat(requests, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    drive_say(&drive, requests);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_WRITE);
    drive.keep_output = false;
    drive_serve(&drive);
    for (uint64_t i = 0; i < fit; i++)
        CHECK(drive_next(&drive, false, &answer) && answer.status == 501);
    CHECK_EQ(drive.read, drive.output_n);
    CHECK(drive.is_shut_down);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(refusal_of_a_body_has_none_itself_for_head)
{
    drive_start(&drive, NULL);
    drive_say(&drive, "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
    CHECK(drive_next(&drive, true, &answer) && answer.status == 400);
    CHECK_EQ(drive.read, drive.output_n);
    CHECK_EQ(drive.logged_count, 1);
    CHECK_STR(drive.logged[0].request_line, "HEAD / HTTP/1.1");
    CHECK_EQ(drive_stop(&drive), 0);
}
