/* Generated pages, and the counters of latencies. */
#include "http/service.h"
#include "tests/http/drive_check.h"

#define SIZE 100

static int generated;
static int64_t result;

static int64_t generate(char *bytes, size_t n, void *data)
{
    CHECK_EQ(n, SIZE);
    CHECK(data == &generated);
    generated++;
    memset(bytes, 'a' + generated - 1, n);
    return result;
}

static const struct gs_http_generator generator = {.path = "sub/generated",
                                                   .media_type = "text/x-generated",
                                                   .max_size = SIZE,
                                                   .generate = generate,
                                                   .data = &generated};

static void start(void)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.generators = &generator;
    options.generator_count = 1;
    generated = 0;
    result = 3;
    drive_start(&drive, &options);
}

#define CONN_TEST(name_) FIXTURE_TEST(name_, start(), CHECK_EQ(drive_stop(&drive), 0))

CONN_TEST(page_is_generated_for_each_request)
{
    check_status(GET("sub/generated"), 200);
    CHECK_EQ(response.body_length, 3);
    CHECK(!memcmp(response.body, "aaa", 3));
    CHECK(drive_has_field(&response, "Content-Type: text/x-generated"));
    CHECK(drive_has_field(&response, "Cache-Control: no-store"));
    CHECK(!drive_has_field(&response, "Accept-Ranges: bytes"));
    check_status("GET /sub/./generated?query HTTP/1.1\r\nHost: a\r\nRange: bytes=1-1\r\n\r\n", 200);
    CHECK(response.body_length == 3 && !memcmp(response.body, "bbb", 3));
}

CONN_TEST(generator_takes_precedence_over_a_file)
{
    drive_mkdir(&drive, "sub");
    drive_write(&drive, "sub/generated", "file");
    drive_write(&drive, "sub/generated2", "file");
    check_status(GET("sub/generated"), 200);
    CHECK_EQ(response.body_length, 3);
    check_status(GET("sub/generated2"), 200);
    CHECK_EQ(response.body_length, 4);
}

CONN_TEST(pipelined_requests_for_generated_pages_and_files_are_handled_in_order)
{
    drive_write(&drive, "f", "file");
    drive_send(&drive, GET("f") GET("sub/generated") GET("sub/generated") GET("f"));
    static const size_t lengths[] = {4, 3, 3, 4};
    for (size_t i = 0; i < 4; i++) {
        CHECK(drive_next_response(&drive, false, &response));
        CHECK_EQ(response.body_length, lengths[i]);
    }
}

CONN_TEST(head_of_a_generated_page_has_its_length_and_no_body)
{
    drive_send(&drive, "HEAD /sub/generated HTTP/1.1\r\nHost: a\r\n\r\n");
    CHECK(drive_next_response(&drive, true, &response));
    CHECK(drive_has_field(&response, "Content-Length: 3"));
}

TEST(failure_of_a_generator_is_an_error)
{
    static const struct {
        int64_t result;
        unsigned status;
    } rows[] = {{-EIO, 500}, {-EAGAIN, 503}, {-ENOMEM, 503}, {0, 200}, {SIZE, 200}};
    start();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        result = rows[i].result;
        check_status(GET("sub/generated"), rows[i].status);
    }
    CHECK_EQ(drive_stop(&drive), 0);
}

CONN_TEST(refused_load_is_a_503)
{
    drive_write(&drive, "f", "file");
    drive.hold_loads = true;
    static const char *const requests[] = {GET("sub/generated"), GET("f")};
    for (size_t i = 0; i < 2; i++) {
        drive_send(&drive, requests[i]);
        CHECK(gs_http_conn_wants(&drive.conn) & GS_HTTP_LOAD);
        struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
        CHECK((gs_http_load_generator(load) == &generator) == !i);
        gs_http_load_refuse(load);
        gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
        drive_serve(&drive);
        CHECK(drive_next_response(&drive, false, &response));
        CHECK_EQ(response.status, 503);
        CHECK(drive_has_field(&response, "Retry-After: 1"));
        CHECK(response.keep_alive);
    }
    CHECK_EQ(generated, 0);
}

/* ---- Latencies ---- */

TEST(latency_is_counted_from_the_request_to_the_end_of_its_response)
{
    start();
    drive.hold_loads = true;
    drive_send(&drive, GET("sub/generated"));
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_load_run(load);
    drive.now_ns += 3 * GS_MILLISECOND;
    drive.keep_output = true;
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive.now_ns += 2 * GS_MILLISECOND;
    CHECK_EQ(drive.counts.latency_ns, 0);
    drive_take_output(&drive, 10000);
    CHECK_EQ(drive.counts.latency_ns, 5 * GS_MILLISECOND);
    CHECK_EQ(drive.counts.latencies[13], 1); /* the slot up to 8.192 ms */
    CHECK_EQ(drive_stop(&drive), 0);
    CHECK_EQ(drive.counts.closed, drive.counts.connections);
}

CONN_TEST(each_of_several_responses_sent_together_is_counted)
{
    drive_write(&drive, "f", "file");
    drive_send(&drive, GET("f"));
    drive_send(&drive, GET("f") GET("f") GET("f"));
    CHECK_EQ(drive.counts.latencies[0], 4);
    uint64_t sum = 0;
    for (unsigned i = 0; i < GS_HTTP_LATENCIES; i++)
        sum += drive.counts.latencies[i];
    CHECK_EQ(sum, drive.counts.requests);
}

TEST(longest_latencies_are_in_the_last_bucket)
{
    struct gs_http_service service = {.counts = &drive.counts};
    struct gs_http_output output = {.responses = 1};
    drive.counts = (struct gs_http_counts){0};
    gs_http_service_count_sent(&service, &output, 1000 * GS_SECOND);
    gs_http_service_count_sent(&service, &output, 1);
    output.started_ns = 5;
    gs_http_service_count_sent(&service, &output, 4); /* another thread's time may be earlier */
    CHECK_EQ(drive.counts.latencies[GS_HTTP_LATENCIES - 1], 1);
    CHECK_EQ(drive.counts.latencies[0], 2);
}
