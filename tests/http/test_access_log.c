#include "tests/http/drive.h"
#include "tests/test.h"

static struct drive drive;

static const struct drive_log_entry *logged(unsigned number, unsigned status, uint64_t body)
{
    CHECK(number < drive.logged_count);
    CHECK_EQ(drive.logged[number].status, status);
    CHECK_EQ(drive.logged[number].body_bytes, body);
    return &drive.logged[number];
}

#define LOG_TEST(name_)                                                                            \
    FIXTURE_TEST(name_, drive_start(&drive, NULL), CHECK_EQ(drive_stop(&drive), 0))

LOG_TEST(response_is_logged_once_it_was_sent)
{
    drive_write(&drive, "f", "hello");
    drive.keep_output = true;
    drive_send(&drive,
               "GET /f?q HTTP/1.1\r\nHost: a\r\nReferer: http://r/\r\nUser-Agent: u/1 (x)\r\n\r\n");
    CHECK_EQ(drive.logged_count, 0);
    drive.now_ns += 5 * GS_SECOND;
    drive.keep_output = false;
    drive_serve(&drive);
    CHECK_EQ(drive.logged_count, 1);
    const struct drive_log_entry *entry = logged(0, 200, 5);
    CHECK_STR(entry->request_line, "GET /f?q HTTP/1.1");
    CHECK_STR(entry->referer, "http://r/");
    CHECK_STR(entry->user_agent, "u/1 (x)");
    CHECK_EQ(entry->received, DRIVE_WALL_S);
}

LOG_TEST(body_bytes_exclude_the_head_of_any_response)
{
    static char large[200000];
    drive_write(&drive, "f", "hello");
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive_send(&drive,
               "GET /f HTTP/1.1\r\nHost: a\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n"
               "HEAD /f HTTP/1.1\r\nHost: a\r\n\r\nGET /large HTTP/1.1\r\nHost: a\r\n\r\n"
               "GET /f HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n"
               "GET /f HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n"
               "GET /none HTTP/1.1\r\nHost: a\r\n\r\n"
               "GET /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx"
               "GET /f HTTP/1.0\r\n\r\n");
    CHECK_EQ(drive.logged_count, 9);
    logged(0, 200, 5);
    logged(1, 200, 5);
    logged(2, 200, 0);
    logged(3, 200, sizeof large);
    logged(4, 206, 2);
    logged(5, 304, 0);
    logged(6, 404, strlen("404 Not Found\n"));
    logged(7, 200, 5);
    CHECK_STR(logged(8, 200, 5)->request_line, "GET /f HTTP/1.0");
}

LOG_TEST(aborted_response_is_logged_with_the_bytes_sent)
{
    drive_write(&drive, "f", "hello");
    drive.keep_output = true;
    drive_send(&drive, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    drive_take_output(&drive, 20);
    gs_http_conn_abort(&drive.conn);
    drive_reopen(&drive);
    CHECK_EQ(drive.logged_count, 1);
    logged(0, 404, 0);
    for (size_t cut = 1; cut < 5; cut++) {
        drive_discard_output(&drive);
        drive.logged_count = 0;
        drive_reopen(&drive);
        drive_send(&drive, "GET /f HTTP/1.1\r\nHost: a\r\n\r\n");
        struct gs_http_piece pieces[4];
        uint64_t n = 0;
        for (unsigned i = gs_http_conn_output(&drive.conn, pieces, 4); i-- > 0;)
            n += pieces[i].n;
        CHECK_EQ(drive_take_output(&drive, n - cut), n - cut);
        CHECK_EQ(drive.logged_count, 0);
        drive_reopen(&drive);
        logged(0, 200, 5 - cut);
    }
}

LOG_TEST(malformed_request_is_logged_with_what_was_received_of_its_line)
{
    drive_send(&drive, "\x01");
    CHECK_EQ(drive.logged_count, 1);
    const struct drive_log_entry *entry = logged(0, 400, strlen("400 Bad Request\n"));
    CHECK_STR(entry->request_line, "\x01");
    CHECK_STR(entry->referer, "-");
    drive_reopen(&drive);
    drive_send(&drive, "GET /x HTTP/1.1\r\nUser-Agent: u\r\n\r\n");
    CHECK_STR(logged(1, 400, strlen("400 Bad Request\n"))->request_line, "GET /x HTTP/1.1");
    CHECK_STR(drive.logged[1].user_agent, "u");
}

LOG_TEST(requests_responses_and_bytes_are_counted)
{
    drive_write(&drive, "f", "hello");
    drive_send(&drive, "GET /f HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n"
                       "GET /f HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n"
                       "BREW / HTTP/1.1\r\nHost: a\r\n\r\nGET /x\r\n\r\n");
    drive_reopen(&drive);
    CHECK_EQ(drive.counts.connections, 2);
    CHECK_EQ(drive.counts.requests, 5);
    CHECK_EQ(drive.counts.redirections, 1);
    CHECK_EQ(drive.counts.client_errors, 2);
    CHECK_EQ(drive.counts.server_errors, 1);
    CHECK_EQ(drive.counts.bytes, drive.output_n);
    CHECK_EQ(drive.counts.timeouts, 0);
}
