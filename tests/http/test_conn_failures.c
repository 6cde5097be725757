/* Responses when files cannot be read. */
#include "tests/http/drive_check.h"
#include "tests/newer_call.h"

static void start(void)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    drive_start(&drive, &options);
}

static void stop(void)
{
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(drive_stop(&drive), 0);
}

static long failing_call, failure;
static unsigned failures_left;

static long fail(long number, void *data)
{
    (void)data;
    if (!failures_left || !stands_for(number, failing_call))
        return 0;
    failures_left--;
    return -failure;
}

static void fail_next(long call, int err, unsigned times)
{
    failing_call = call;
    failure = err;
    failures_left = times;
    gs_sys_set_fault(fail, NULL);
}

#define CONN_TEST(name_) FIXTURE_TEST(name_, start(), stop())

TEST(kernel_errors_map_to_statuses)
{
    static const struct {
        int err;
        unsigned status;
    } errors[] = {{EMFILE, 503}, {ENFILE, 503}, {ENOMEM, 503},
                  {EACCES, 403}, {EPERM, 403},  {EIO, 500}};
    static const long calls[] = {SYS_openat2, SYS_fstat, SYS_pread64};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        for (size_t call = 0; call < sizeof calls / sizeof *calls; call++) {
            start();
            drive_write(&drive, "f", "one");
            fail_next(calls[call], errors[i].err, 1);
            check_status(GET("f"), errors[i].status);
            CHECK(response.keep_alive);
            CHECK_EQ(failures_left, 0);
            if (errors[i].status == 503)
                CHECK(drive_has_field(&response, "Retry-After: 1"));
            check_body(GET("f"), "one");
            stop();
        }
}

CONN_TEST(stale_page_is_served_for_a_minute_on_errors)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    for (int i = 0; i < 59; i++) {
        drive.now_ns += GS_SECOND;
        fail_next(SYS_openat2, i % 2 ? EMFILE : ENOMEM, 1);
        check_body(GET("f"), "one");
        CHECK_EQ(failures_left, 0);
    }
    drive.now_ns += GS_SECOND;
    fail_next(SYS_openat2, EMFILE, 2);
    check_status(GET("f"), 503);
    check_status(GET("f"), 503);
    check_body(GET("f"), "one");
}

/* Another connection, on a worker with a later time, requests the file and validates it. */
static void revalidate_later(void)
{
    struct gs_http_conn other;
    uint64_t later_ns = drive.now_ns + GS_MICROSECOND;
    gs_http_conn_init(&other, drive.service, later_ns);
    gs_http_conn_receive(&other, GET("f"), strlen(GET("f")), later_ns);
    struct gs_http_load *load = gs_http_conn_take_load(&other);
    CHECK(load);
    gs_http_load_run(load);
    gs_http_conn_loaded(&other, load, later_ns);
    gs_http_conn_done(&other);
}

CONN_TEST(stale_page_validated_later_than_now_is_served_on_errors)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    drive.now_ns += GS_SECOND;
    drive.hold_loads = true;
    drive_send(&drive, GET("f"));
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    CHECK(load);
    revalidate_later();
    fail_next(SYS_openat2, EMFILE, 1);
    gs_http_load_run(load);
    CHECK_EQ(failures_left, 0);
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive.hold_loads = false;
    drive_serve(&drive);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.status, 200);
    CHECK(response.body_length == 3 && !memcmp(response.body, "one", 3));
}

CONN_TEST(stale_page_is_replaced_by_the_next_successful_load)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    drive.now_ns += GS_SECOND;
    drive_write(&drive, "f", "three");
    fail_next(SYS_openat2, EMFILE, 1);
    check_body(GET("f"), "one");
    check_body(GET("f"), "three");
    drive.now_ns += GS_SECOND;
    fail_next(SYS_openat2, EIO, 1);
    check_status(GET("f"), 500);
}

CONN_TEST(interrupted_calls_are_repeated)
{
    drive_write(&drive, "f", "one");
    fail_next(SYS_openat2, EAGAIN, 2);
    check_body(GET("f"), "one");
    drive_write(&drive, "g", "two");
    fail_next(SYS_pread64, EINTR, 3);
    check_body(GET("g"), "two");
    CHECK_EQ(failures_left, 0);
}
