/* The deadlines of a connection, and the effects of their expiry. */
#include "tests/http/conn_fixture.h"

#define CONN_TEST(name_) FIXTURE_TEST(name_, start(), CHECK_EQ(drive_stop(&drive), 0))

CONN_TEST(new_connection_has_ten_seconds_for_its_first_request)
{
    check_wants(GS_HTTP_READ);
    check_deadline(10 * GS_SECOND);
    drive_advance_time(&drive, 10 * GS_SECOND - 1);
    check_wants(GS_HTTP_READ);
    drive_advance_time(&drive, 1);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive.output_n, 0);
}

CONN_TEST(header_has_ten_seconds_from_its_first_byte)
{
    drive_advance_time(&drive, 9 * GS_SECOND);
    drive_send(&drive, "G");
    check_deadline(10 * GS_SECOND);
    for (int i = 0; i < 9; i++) {
        drive_advance_time(&drive, GS_SECOND);
        drive_send(&drive, "E");
    }
    check_deadline(GS_SECOND);
    drive_advance_time(&drive, GS_SECOND);
    check_response(408, false);
    CHECK(drive.is_shut_down);
    check_deadline(5 * GS_SECOND);
    CHECK_EQ(drive.counts.timeouts, 1);
    drive_advance_time(&drive, 5 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(split_empty_lines_do_not_extend_the_deadline)
{
    for (int i = 0; i < 5; i++) {
        drive_send(&drive, "\r");
        check_deadline((uint64_t)(10 - 2 * i) * GS_SECOND);
        drive_advance_time(&drive, GS_SECOND);
        drive_send(&drive, "\n");
        check_deadline((uint64_t)(9 - 2 * i) * GS_SECOND);
        drive_advance_time(&drive, GS_SECOND);
    }
    check_response(408, false);
    CHECK_EQ(drive.counts.timeouts, 1);
}

CONN_TEST(request_after_a_split_empty_line_is_handled_and_followed_by_idleness)
{
    drive_send(&drive, "\r");
    drive_send(&drive, "\n");
    drive_advance_time(&drive, 9 * GS_SECOND);
    drive_send(&drive, GET);
    check_response(200, true);
    check_deadline(60 * GS_SECOND);
}

CONN_TEST(idle_connection_has_sixty_seconds)
{
    drive_send(&drive, GET);
    check_response(200, true);
    check_deadline(60 * GS_SECOND);
    drive_advance_time(&drive, 59 * GS_SECOND);
    drive_send(&drive, "\r\n");
    check_deadline(GS_SECOND);
    drive_send(&drive, GET);
    check_response(200, true);
    check_deadline(60 * GS_SECOND);
    drive_advance_time(&drive, 60 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive.parsed, drive.output_n);
}

CONN_TEST(header_after_a_response_has_a_deadline_of_its_own)
{
    drive.keep_output = true;
    drive_send(&drive, GET "GET /");
    drive_advance_time(&drive, 5 * GS_SECOND);
    drive.keep_output = false;
    drive_serve(&drive);
    check_wants(GS_HTTP_READ);
    check_deadline(10 * GS_SECOND);
}

CONN_TEST(expiry_before_the_deadline_does_nothing)
{
    drive_send(&drive, "G");
    gs_http_conn_expire(&drive.conn, 0, drive.now_ns + 10 * GS_SECOND - 1);
    check_wants(GS_HTTP_READ);
}

CONN_TEST(reader_must_keep_the_minimum_rate)
{
    drive.keep_output = true;
    drive_send(&drive, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    check_wants(GS_HTTP_WRITE);
    check_deadline(10 * GS_SECOND);
    for (int i = 0; i < 5; i++) {
        drive_advance_time(&drive, 6 * GS_SECOND);
        drive_take_output(&drive, 10240);
        check_deadline(4 * GS_SECOND);
        drive_advance_time(&drive, 4 * GS_SECOND);
        check_wants(GS_HTTP_WRITE);
        check_deadline(10 * GS_SECOND);
    }
    drive_take_output(&drive, 10239);
    drive_advance_time(&drive, 10 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive.counts.timeouts, 1);
    drive_reopen(&drive);
    CHECK_EQ(drive.logged_count, 1);
    CHECK(drive.logged[0].body_bytes > 50000 && drive.logged[0].body_bytes < UINT64_C(61440));
}

static void expire(uint64_t queued)
{
    drive.now_ns += 10 * GS_SECOND;
    gs_http_conn_expire(&drive.conn, queued, drive.now_ns);
}

CONN_TEST(sent_bytes_count_once_they_have_reached_the_peer)
{
    drive.keep_output = true;
    drive_send(&drive, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    drive_take_output(&drive, 200000);
    expire(200000 - 10240);
    check_wants(GS_HTTP_WRITE);
    /* Nothing was sent in this window, but the peer received many bytes. */
    expire(100000);
    check_wants(GS_HTTP_WRITE);
    expire(100000 - 10240);
    check_wants(GS_HTTP_WRITE);
    expire(100000 - 10240 - 10239);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(bytes_of_an_earlier_response_extend_the_deadline_once)
{
    drive.keep_output = true;
    drive_send(&drive, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    drive_take_output(&drive, 100);
    expire(50000);
    check_wants(GS_HTTP_WRITE);
    expire(50000);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(next_output_has_a_window_of_its_own)
{
    static char requests[40 * 32];
    for (size_t i = 0; i < 40; i++)
        strcat(requests, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n");
    drive.keep_output = true;
    drive_send(&drive, requests);
    uint64_t fit = drive.counts.requests;
    CHECK(fit < 40);
    drive_advance_time(&drive, 9 * GS_SECOND);
    check_deadline(GS_SECOND);
    for (int i = 0; i < 8192 && drive.counts.requests == fit; i++) {
        check_deadline(GS_SECOND);
        drive_take_output(&drive, 1);
    }
    CHECK(drive.counts.requests > fit);
    check_wants(GS_HTTP_WRITE);
    check_deadline(10 * GS_SECOND);
}

CONN_TEST(sender_must_keep_the_minimum_rate)
{
    drive_send(&drive, POST);
    check_wants(GS_HTTP_READ);
    check_deadline(10 * GS_SECOND);
    drive_send_bytes(&drive, large, 10240);
    drive_advance_time(&drive, 10 * GS_SECOND);
    check_deadline(10 * GS_SECOND);
    drive_send_bytes(&drive, large, 10239);
    drive_advance_time(&drive, 10 * GS_SECOND);
    check_response(408, false);
    CHECK_EQ(drive.counts.timeouts, 1);
    CHECK_EQ(drive.logged_count, 1);
    CHECK_STR(drive.logged[0].request_line, "POST /f HTTP/1.1");
}

TEST(transfers_without_a_minimum_rate_have_no_limit)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.min_rate = 0;
    drive_start(&drive, &options);
    drive_send(&drive, POST);
    check_deadline(GS_NEVER);
    drive_reopen(&drive);
    drive.keep_output = true;
    drive_send(&drive, NONE);
    check_wants(GS_HTTP_WRITE);
    check_deadline(GS_NEVER);
    CHECK_EQ(drive_stop(&drive), 0);
}

CONN_TEST(slow_sender_with_blocked_output_is_closed)
{
    drive.keep_output = true;
    drive_send(&drive, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n" POST);
    check_wants(GS_HTTP_READ | GS_HTTP_WRITE);
    drive_advance_time(&drive, 10 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(load_has_no_deadline)
{
    drive.hold_loads = true;
    drive_send(&drive, GET);
    check_wants(GS_HTTP_LOAD);
    check_deadline(GS_NEVER);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    check_wants(0);
    check_deadline(GS_NEVER);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    check_wants(GS_HTTP_WRITE);
    drive_serve(&drive);
    check_response(200, true);
}
