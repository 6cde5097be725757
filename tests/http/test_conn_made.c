/* Pages that are made rather than read, and the times that are counted. */
#include "http/service.h"
#include "tests/http/drive_check.h"

#include <errno.h>

#define SIZE 100

static int made;
static int64_t result;

static int64_t make(char *bytes, size_t n, void *data)
{
    CHECK_EQ(n, SIZE);
    CHECK(data == &made);
    made++;
    memset(bytes, 'a' + made - 1, n);
    return result;
}

static const struct gs_http_maker maker = {.path = "sub/made",
                                           .media_type = "text/x-made",
                                           .size_most = SIZE,
                                           .make = make,
                                           .data = &made};

static void start(void)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.makers = &maker;
    options.maker_count = 1;
    made = 0;
    result = 3;
    drive_start(&drive, &options);
}

TEST(page_is_made_anew_for_each_request)
{
    start();
    check_status(GET("sub/made"), 200);
    CHECK_EQ(answer.body_n, 3);
    CHECK(!memcmp(answer.body, "aaa", 3));
    CHECK(drive_has(&answer, "Content-Type: text/x-made"));
    CHECK(drive_has(&answer, "Cache-Control: no-store"));
    CHECK(!drive_has(&answer, "Accept-Ranges: bytes"));
    check_status("GET /sub/./made?query HTTP/1.1\r\nHost: a\r\nRange: bytes=1-1\r\n\r\n", 200);
    CHECK(answer.body_n == 3 && !memcmp(answer.body, "bbb", 3));
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(page_is_made_before_a_file_of_its_name_is_looked_for)
{
    start();
    drive_folder(&drive, "sub");
    drive_write(&drive, "sub/made", "file");
    drive_write(&drive, "sub/made2", "file");
    check_status(GET("sub/made"), 200);
    CHECK_EQ(answer.body_n, 3);
    check_status(GET("sub/made2"), 200);
    CHECK_EQ(answer.body_n, 4);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(pipelined_requests_for_made_pages_and_files_are_answered_in_order)
{
    start();
    drive_write(&drive, "f", "file");
    drive_say(&drive, GET("f") GET("sub/made") GET("sub/made") GET("f"));
    static const size_t lengths[] = {4, 3, 3, 4};
    for (size_t i = 0; i < 4; i++) {
        CHECK(drive_next(&drive, false, &answer));
        CHECK_EQ(answer.body_n, lengths[i]);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(head_of_a_made_page_has_its_length_and_no_body)
{
    start();
    drive_say(&drive, "HEAD /sub/made HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(drive_next(&drive, true, &answer));
    CHECK(drive_has(&answer, "Content-Length: 3"));
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(page_that_can_not_be_made_is_an_error)
{
    static const struct {
        int64_t result;
        unsigned status;
    } rows[] = {{-EIO, 500}, {-EAGAIN, 503}, {-ENOMEM, 503}, {0, 200}, {SIZE, 200}};
    start();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        result = rows[i].result;
        check_status(GET("sub/made"), rows[i].status);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(load_that_is_refused_is_answered_with_503)
{
    start();
    drive_write(&drive, "f", "file");
    drive.hold_loads = true;
    static const char *const requests[] = {GET("sub/made"), GET("f")};
    for (size_t i = 0; i < 2; i++) {
        drive_say(&drive, requests[i]);
        CHECK(gs_http_conn_wants(&drive.conn) & GS_HTTP_LOAD);
        struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
        CHECK((gs_http_load_maker(load) == &maker) == !i);
        gs_http_load_refuse(load);
        gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
        drive_serve(&drive);
        CHECK(drive_next(&drive, false, &answer));
        CHECK_EQ(answer.status, 503);
        CHECK(drive_has(&answer, "Retry-After: 1"));
        CHECK(answer.keep_alive);
    }
    CHECK_EQ(made, 0);
    CHECK_EQ(drive_stop(&drive), 0);
}

/* ---- Times ---- */

TEST(time_of_an_answer_is_counted_from_its_request_to_its_end)
{
    start();
    drive.hold_loads = true;
    drive_say(&drive, GET("sub/made"));
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_load_run(load);
    drive.now_ns += 3 * GS_MILLISECOND;
    drive.keep_output = true;
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive.now_ns += 2 * GS_MILLISECOND;
    CHECK_EQ(drive.counts.latency_ns, 0);
    drive_take(&drive, 10000);
    CHECK_EQ(drive.counts.latency_ns, 5 * GS_MILLISECOND);
    CHECK_EQ(drive.counts.latencies[13], 1); /* up to 8.192 ms */
    CHECK_EQ(drive_stop(&drive), 0);
    CHECK_EQ(drive.counts.closed, drive.counts.connections);
}

TEST(each_of_several_answers_that_are_sent_together_is_counted)
{
    start();
    drive_write(&drive, "f", "file");
    drive_say(&drive, GET("f"));
    drive_say(&drive, GET("f") GET("f") GET("f"));
    CHECK_EQ(drive.counts.latencies[0], 4);
    uint64_t sum = 0;
    for (unsigned i = 0; i < GS_HTTP_LATENCIES; i++)
        sum += drive.counts.latencies[i];
    CHECK_EQ(sum, drive.counts.requests);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(longest_times_are_all_in_the_last_slot)
{
    struct gs_http_service service = {.counts = &drive.counts};
    struct gs_http_output output = {.answers = 1};
    drive.counts = (struct gs_http_counts){0};
    gs_http_service_count_sent(&service, &output, 1000 * GS_SECOND);
    gs_http_service_count_sent(&service, &output, 1);
    output.began_ns = 5;
    gs_http_service_count_sent(&service, &output, 4); /* a clock that another thread read before */
    CHECK_EQ(drive.counts.latencies[GS_HTTP_LATENCIES - 1], 1);
    CHECK_EQ(drive.counts.latencies[0], 2);
}
