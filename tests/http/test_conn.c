/* The end of a connection: by the client, by draining, or aborted. */
#include "http/conn.h"

#include "tests/http/conn_fixture.h"

#define CONN_TEST(name_) FIXTURE_TEST(name_, start(), CHECK_EQ(drive_stop(&drive), 0))

/* ---- End of input ---- */

CONN_TEST(eof_between_requests_closes_the_connection)
{
    drive_send_eof(&drive);
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_send(&drive, GET "GET /f HT");
    drive_send_eof(&drive);
    check_wants(GS_HTTP_CLOSE);
    check_response(200, true);
    CHECK_EQ(drive.parsed, drive.output_n);
}

CONN_TEST(eof_in_a_body_closes_the_connection)
{
    drive_send(&drive, POST "abc");
    drive_send_eof(&drive);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive.output_n, 0);
}

CONN_TEST(eof_in_a_body_does_not_cancel_earlier_responses)
{
    drive.keep_output = true;
    drive_send(&drive, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n" POST "abc");
    check_wants(GS_HTTP_READ | GS_HTTP_WRITE);
    drive_send_eof(&drive);
    check_wants(GS_HTTP_WRITE);
    drive.keep_output = false;
    drive_serve(&drive);
    check_wants(GS_HTTP_CLOSE);
    check_response(501, true);
}

CONN_TEST(all_requests_before_eof_get_their_responses)
{
    drive.keep_output = true;
    drive_send(&drive, POST);
    drive_send_bytes(&drive, large, 1000000 - 1);
    check_wants(GS_HTTP_READ);
    drive_send(&drive, "x" GET GET);
    check_wants(GS_HTTP_WRITE);
    gs_http_conn_receive_eof(&drive.conn, drive.now_ns);
    drive.keep_output = false;
    drive_serve(&drive);
    check_wants(GS_HTTP_CLOSE);
    check_response(405, true);
    check_response(200, true);
    check_response(200, true);
}

CONN_TEST(eof_during_a_load_does_not_cancel_the_response)
{
    drive.hold_loads = true;
    drive_send(&drive, GET);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_conn_receive_eof(&drive.conn, drive.now_ns);
    check_wants(0);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive_serve(&drive);
    check_response(200, true);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(connection_lingers_until_a_refused_peer_sends_eof)
{
    drive.keep_output = true;
    drive_send(&drive, "nonsense\r\n\r\n");
    check_wants(GS_HTTP_WRITE);
    gs_http_conn_drain(&drive.conn, drive.now_ns);
    check_wants(GS_HTTP_WRITE);
    drive_take_output(&drive, UINT64_MAX);
    check_wants(GS_HTTP_SHUTDOWN);
    check_deadline(5 * GS_SECOND);
    gs_http_conn_shut_down(&drive.conn, drive.now_ns + GS_SECOND);
    check_wants(GS_HTTP_READ);
    check_deadline(5 * GS_SECOND);
    drive_send(&drive, GET GET);
    check_deadline(5 * GS_SECOND);
    check_response(400, false);
    CHECK_EQ(drive.parsed, drive.output_n);
    drive_send_eof(&drive);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(connection_lingers_after_a_long_last_response_whatever_the_peer_announced)
{
    drive_send(&drive, GET);
    drive_reopen(&drive);
    drive_send(&drive, "GET /f HTTP/1.0\r\n\r\nx");
    CHECK(drive.is_shut_down);
    check_wants(GS_HTTP_READ);
    drive_reopen(&drive);
    drive_send(&drive, "GET /large HTTP/1.0\r\n\r\n");
    CHECK(drive.is_shut_down);
    check_wants(GS_HTTP_READ);
    drive_send_eof(&drive);
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_send(&drive, "GET /f HTTP/1.0\r\n\r\n");
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(lingering_connection_whose_peer_is_silent_is_closed)
{
    drive_send(&drive, "nonsense\r\n\r\n");
    check_wants(GS_HTTP_READ);
    drive_advance_time(&drive, 5 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive.counts.timeouts, 0);
}

CONN_TEST(lingering_lasts_as_long_as_the_peer_sends_fast_but_not_longer_than_30_s)
{
    drive_send(&drive, "nonsense\r\n\r\n");
    for (int i = 0; i < 5; i++) {
        drive_send_bytes(&drive, large, 5120);
        drive_advance_time(&drive, 5 * GS_SECOND);
        check_wants(GS_HTTP_READ);
        check_deadline(5 * GS_SECOND);
    }
    drive_send_bytes(&drive, large, sizeof large);
    drive_advance_time(&drive, 5 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_send(&drive, "nonsense\r\n\r\n");
    drive_send_bytes(&drive, large, 5119);
    drive_advance_time(&drive, 5 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
}

TEST(without_a_minimum_rate_any_byte_extends_lingering)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.min_rate = 0;
    drive_start(&drive, &options);
    drive_send(&drive, "nonsense\r\n\r\n");
    drive_send(&drive, "x");
    drive_advance_time(&drive, 5 * GS_SECOND);
    check_wants(GS_HTTP_READ);
    drive_advance_time(&drive, 5 * GS_SECOND);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

static void expire(uint64_t queued)
{
    drive.now_ns += 5 * GS_SECOND;
    gs_http_conn_expire(&drive.conn, queued, drive.now_ns);
}

CONN_TEST(lingering_lasts_while_the_peer_takes_what_is_queued)
{
    drive_send(&drive, "GET /large HTTP/1.0\r\n\r\n");
    expire(100000);
    check_wants(GS_HTTP_READ);
    expire(100000 - 5 * 1024);
    check_wants(GS_HTTP_READ);
    expire(100000 - 5 * 1024 - 5 * 1024 + 1);
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_send(&drive, "GET /large HTTP/1.0\r\n\r\n");
    expire(100000);
    expire(0);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(connection_does_not_linger_if_the_refused_peer_sent_eof)
{
    drive.keep_output = true;
    drive_send(&drive, "nonsense\r\n\r\n");
    gs_http_conn_receive_eof(&drive.conn, drive.now_ns);
    drive_take_output(&drive, UINT64_MAX);
    check_wants(GS_HTTP_CLOSE);
}

TEST(connection_that_the_transport_ends_lingers_and_drops_its_output)
{
    start();
    drive.keep_output = true;
    drive_send(&drive, GET);
    check_wants(GS_HTTP_WRITE);
    gs_http_conn_linger(&drive.conn, drive.now_ns);
    check_wants(GS_HTTP_SHUTDOWN);
    check_deadline(5 * GS_SECOND);
    gs_http_conn_shut_down(&drive.conn, drive.now_ns);
    drive_send(&drive, GET);
    check_wants(GS_HTTP_READ);
    drive_send_eof(&drive);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

/* ---- Draining ---- */

static void drain(void)
{
    gs_http_conn_drain(&drive.conn, drive.now_ns);
}

CONN_TEST(idle_connection_is_drained_at_once)
{
    drain();
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_send(&drive, GET);
    drain();
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(idle_connection_without_keep_alive_accepts_one_more_request)
{
    drive_send(&drive, GET);
    check_response(200, true);
    gs_http_conn_disable_keep_alive(&drive.conn);
    check_wants(GS_HTTP_READ);
    drive_send(&drive, GET);
    check_response(200, false);
    CHECK(drive.is_shut_down);
    drive_reopen(&drive);
    gs_http_conn_disable_keep_alive(&drive.conn);
    drain();
    check_wants(GS_HTTP_CLOSE);
}

TEST(request_in_progress_gets_its_response_before_draining)
{
    static const char *const parts[][2] = {
        {"GET /f", " HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"GET /f HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12", "34"},
        {"GET /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"},
    };
    start();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        drive_reopen(&drive);
        drive_send(&drive, parts[i][0]);
        drain();
        check_wants(GS_HTTP_READ);
        drive_send(&drive, parts[i][1]);
        check_response(200, false);
        CHECK(drive.is_shut_down);
        drive_send_eof(&drive);
        check_wants(GS_HTTP_CLOSE);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

CONN_TEST(response_in_progress_is_sent_before_draining)
{
    drive.keep_output = true;
    drive_send(&drive, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    drive_take_output(&drive, 1000);
    drain();
    check_wants(GS_HTTP_WRITE);
    drive.keep_output = false;
    drive_serve(&drive);
    check_response(200, true);
    CHECK(drive.is_shut_down);
    drive_send_eof(&drive);
    check_wants(GS_HTTP_CLOSE);
}

CONN_TEST(load_in_progress_gets_its_response_before_draining)
{
    drive.hold_loads = true;
    drive_send(&drive, GET);
    drain();
    check_wants(GS_HTTP_LOAD);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    drain();
    check_wants(0);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive_serve(&drive);
    check_response(200, false);
}

/* ---- Aborting ---- */

TEST(aborted_connection_in_any_state_wants_only_to_be_closed)
{
    static const char *const inputs[] = {"",         "GE",          GET,     NONE GET,
                                         POST "abc", "bad\r\n\r\n", GET POST};
    start();
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int keep = 0; keep < 2; keep++) {
            drive_reopen(&drive);
            drive.keep_output = keep;
            drive_send(&drive, inputs[i]);
            gs_http_conn_abort(&drive.conn);
            check_wants(GS_HTTP_CLOSE);
            check_deadline(GS_NEVER);
            gs_http_conn_expire(&drive.conn, 0, drive.now_ns + 1000 * GS_SECOND);
            check_wants(GS_HTTP_CLOSE);
        }
    CHECK_EQ(drive_stop(&drive), 0);
}

CONN_TEST(connection_aborted_during_a_load_accepts_its_result)
{
    drive.hold_loads = true;
    drive_send(&drive, GET GET);
    check_wants(GS_HTTP_LOAD);
    gs_http_conn_abort(&drive.conn);
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_send(&drive, GET GET);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_conn_abort(&drive.conn);
    check_wants(GS_HTTP_CLOSE);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    check_wants(GS_HTTP_CLOSE);
    check_deadline(GS_NEVER);
    CHECK_EQ(drive.output_n, 0);
}

TEST(connection_in_any_state_is_destroyed_without_a_leak)
{
    static const char *const inputs[] = {"GE",       GET,           NONE GET,
                                         POST "abc", "bad\r\n\r\n", GET POST GET};
    start();
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int how = 0; how < 4; how++) {
            drive_reopen(&drive);
            drive.keep_output = how & 1;
            drive.hold_loads = how & 2;
            drive_send(&drive, inputs[i]);
        }
    CHECK_EQ(drive_stop(&drive), 0);
}

CONN_TEST(output_is_returned_piece_by_piece)
{
    struct gs_http_piece pieces[8];
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 8), 0);
    drive.keep_output = true;
    drive_send(&drive, "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,5-6\r\n\r\n");
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 8), 5);
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 2), 2);
    CHECK(pieces[0].bytes && !memcmp(pieces[0].bytes, "HTTP/1.1 206", 12));
    CHECK(!pieces[1].bytes && pieces[1].fd >= 0);
    CHECK_EQ(pieces[1].offset, 0);
    CHECK_EQ(pieces[1].n, 2);
    drive_take_output(&drive, pieces[0].n + 1);
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 1), 1);
    CHECK_EQ(pieces[0].offset, 1);
    CHECK_EQ(pieces[0].n, 1);
}
