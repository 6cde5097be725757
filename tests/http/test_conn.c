/* How a connection ends: by the peer, by draining, by being broken off. */
#include "tests/http/drive.h"
#include "tests/test.h"

#define GET "GET /f HTTP/1.1\r\nHost: a\r\n\r\n"
#define NONE "GET /none HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"

static struct drive drive;
static struct drive_answer answer;
static char large[1 << 20];

static void start(void)
{
    drive_start(&drive, NULL);
    drive_write(&drive, "f", "hello");
    drive_write_bytes(&drive, "large", large, sizeof large);
}

static void check_wants(unsigned wants)
{
    CHECK_EQ(gs_http_conn_wants(&drive.conn), wants);
}

static void check_deadline(uint64_t after_ns)
{
    uint64_t deadline_ns = gs_http_conn_deadline(&drive.conn);
    if (after_ns == GS_NEVER)
        CHECK(deadline_ns == GS_NEVER);
    else
        CHECK_EQ(deadline_ns - drive.now_ns, after_ns);
}

static void check_answer(unsigned status, bool keep_alive)
{
    CHECK(drive_next(&drive, false, &answer));
    CHECK_EQ(answer.status, status);
    CHECK_EQ(answer.keep_alive, keep_alive);
}

/* ---- The peer's end ---- */

TEST(peer_that_ends_between_requests_is_done)
{
    start();
    drive_end(&drive);
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_say(&drive, GET "GET /f HT");
    drive_end(&drive);
    check_wants(GS_HTTP_CLOSE);
    check_answer(200, true);
    CHECK_EQ(drive.read, drive.output_n);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(peer_that_ends_in_a_body_is_done)
{
    start();
    drive_say(&drive, POST "abc");
    drive_end(&drive);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive.output_n, 0);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(peer_that_ends_in_a_body_still_gets_the_answers_before)
{
    start();
    drive.keep_output = true;
    drive_say(&drive, "BREW / HTTP/1.1\r\nHost: a\r\n\r\n" POST "abc");
    check_wants(GS_HTTP_READ | GS_HTTP_WRITE);
    drive_end(&drive);
    check_wants(GS_HTTP_WRITE);
    drive.keep_output = false;
    drive_serve(&drive);
    check_wants(GS_HTTP_CLOSE);
    check_answer(501, true);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(peer_that_ended_gets_the_answers_to_all_it_asked)
{
    start();
    drive.keep_output = true;
    drive_say(&drive, POST);
    drive_say_bytes(&drive, large, 1000000 - 1);
    check_wants(GS_HTTP_READ);
    drive_say(&drive, "x" GET GET);
    check_wants(GS_HTTP_WRITE);
    gs_http_conn_receive_end(&drive.conn, drive.now_ns);
    drive.keep_output = false;
    drive_serve(&drive);
    check_wants(GS_HTTP_CLOSE);
    check_answer(405, true);
    check_answer(200, true);
    check_answer(200, true);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(peer_that_ends_during_a_load_is_answered)
{
    start();
    drive.hold_loads = true;
    drive_say(&drive, GET);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_conn_receive_end(&drive.conn, drive.now_ns);
    check_wants(0);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive_serve(&drive);
    check_answer(200, true);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(refused_peer_is_listened_to_until_it_ends)
{
    start();
    drive.keep_output = true;
    drive_say(&drive, "nonsense\r\n\r\n");
    check_wants(GS_HTTP_WRITE);
    gs_http_conn_drain(&drive.conn, drive.now_ns);
    check_wants(GS_HTTP_WRITE);
    drive_take(&drive, UINT64_MAX);
    check_wants(GS_HTTP_SHUTDOWN);
    check_deadline(2 * GS_SECOND);
    gs_http_conn_shut_down(&drive.conn, drive.now_ns + GS_SECOND);
    check_wants(GS_HTTP_READ);
    check_deadline(2 * GS_SECOND);
    drive_say(&drive, GET GET);
    check_deadline(2 * GS_SECOND);
    check_answer(400, false);
    CHECK_EQ(drive.read, drive.output_n);
    drive_end(&drive);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(peer_that_says_more_than_its_last_request_is_listened_to)
{
    start();
    drive_say(&drive, GET);
    drive_reopen(&drive);
    drive_say(&drive, "GET /f HTTP/1.0\r\n\r\nx");
    CHECK(drive.is_shut_down);
    check_wants(GS_HTTP_READ);
    drive_reopen(&drive);
    drive_say(&drive, "GET /f HTTP/1.0\r\n\r\n");
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(peer_that_ended_before_it_was_refused_is_not_waited_for)
{
    start();
    drive.keep_output = true;
    drive_say(&drive, "nonsense\r\n\r\n");
    gs_http_conn_receive_end(&drive.conn, drive.now_ns);
    drive_take(&drive, UINT64_MAX);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

/* ---- Draining ---- */

static void drain(void)
{
    gs_http_conn_drain(&drive.conn, drive.now_ns);
}

TEST(idle_connection_is_drained_at_once)
{
    start();
    drain();
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_say(&drive, GET);
    drain();
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(idle_connection_that_is_drained_soon_is_open_for_a_last_request)
{
    start();
    drive_say(&drive, GET);
    check_answer(200, true);
    gs_http_conn_drain_soon(&drive.conn);
    check_wants(GS_HTTP_READ);
    drive_say(&drive, GET);
    check_answer(200, false);
    CHECK(drive.is_shut_down);
    drive_reopen(&drive);
    gs_http_conn_drain_soon(&drive.conn);
    drain();
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(request_under_way_is_answered_before_the_connection_is_drained)
{
    static const char *const parts[][2] = {
        {"GET /f", " HTTP/1.1\r\nHost: a\r\n\r\n"},
        {"GET /f HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n12", "34"},
        {"GET /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n\r\n"},
    };
    start();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        drive_reopen(&drive);
        drive_say(&drive, parts[i][0]);
        drain();
        check_wants(GS_HTTP_READ);
        drive_say(&drive, parts[i][1]);
        check_answer(200, false);
        CHECK(drive.is_shut_down);
        drive_end(&drive);
        check_wants(GS_HTTP_CLOSE);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(answer_under_way_is_sent_before_the_connection_is_drained)
{
    start();
    drive.keep_output = true;
    drive_say(&drive, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    drive_take(&drive, 1000);
    drain();
    check_wants(GS_HTTP_WRITE);
    drive.keep_output = false;
    drive_serve(&drive);
    check_answer(200, true);
    CHECK(drive.is_shut_down);
    drive_end(&drive);
    check_wants(GS_HTTP_CLOSE);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(load_under_way_is_answered_before_the_connection_is_drained)
{
    start();
    drive.hold_loads = true;
    drive_say(&drive, GET);
    drain();
    check_wants(GS_HTTP_LOAD);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    drain();
    check_wants(0);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive_serve(&drive);
    check_answer(200, false);
    CHECK_EQ(drive_stop(&drive), 0);
}

/* ---- Breaking off ---- */

TEST(connection_broken_off_in_any_state_only_wants_to_be_closed)
{
    static const char *const inputs[] = {"",         "GE",          GET,     NONE GET,
                                         POST "abc", "bad\r\n\r\n", GET POST};
    start();
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int keep = 0; keep < 2; keep++) {
            drive_reopen(&drive);
            drive.keep_output = keep;
            drive_say(&drive, inputs[i]);
            gs_http_conn_abort(&drive.conn);
            check_wants(GS_HTTP_CLOSE);
            check_deadline(GS_NEVER);
            gs_http_conn_expire(&drive.conn, 0, drive.now_ns + 1000 * GS_SECOND);
            check_wants(GS_HTTP_CLOSE);
        }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(connection_broken_off_during_a_load_takes_it_back)
{
    start();
    drive.hold_loads = true;
    drive_say(&drive, GET GET);
    check_wants(GS_HTTP_LOAD);
    gs_http_conn_abort(&drive.conn);
    check_wants(GS_HTTP_CLOSE);
    drive_reopen(&drive);
    drive_say(&drive, GET GET);
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_conn_abort(&drive.conn);
    check_wants(GS_HTTP_CLOSE);
    gs_http_load_run(load);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    check_wants(GS_HTTP_CLOSE);
    check_deadline(GS_NEVER);
    CHECK_EQ(drive.output_n, 0);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(connection_in_any_state_is_released_without_a_leak)
{
    static const char *const inputs[] = {"GE",       GET,           NONE GET,
                                         POST "abc", "bad\r\n\r\n", GET POST GET};
    start();
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        for (int how = 0; how < 4; how++) {
            drive_reopen(&drive);
            drive.keep_output = how & 1;
            drive.hold_loads = how & 2;
            drive_say(&drive, inputs[i]);
        }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(output_is_shown_piece_by_piece)
{
    struct gs_http_piece pieces[8];
    start();
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 8), 0);
    drive.keep_output = true;
    drive_say(&drive, "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,5-6\r\n\r\n");
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 8), 5);
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 2), 2);
    CHECK(pieces[0].bytes && !memcmp(pieces[0].bytes, "HTTP/1.1 206", 12));
    CHECK(!pieces[1].bytes && pieces[1].fd >= 0);
    CHECK_EQ(pieces[1].offset, 0);
    CHECK_EQ(pieces[1].n, 2);
    drive_take(&drive, pieces[0].n + 1);
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 1), 1);
    CHECK_EQ(pieces[0].offset, 1);
    CHECK_EQ(pieces[0].n, 1);
    CHECK_EQ(drive_stop(&drive), 0);
}
