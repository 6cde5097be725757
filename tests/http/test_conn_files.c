/* Responses when files change or are removed. */
#include "http/service.h"
#include "tests/http/drive_check.h"
#include "tests/newer_call.h"

static struct gs_http_conn other;
static struct gs_http_options options;
static unsigned opened;

/* Counts opened files. */
static long count_opened(long number, void *data)
{
    (void)data;
    opened += stands_for(number, SYS_openat2);
    return 0;
}

static void start(void)
{
    gs_http_options_default(&options);
    options.max_cached_file = 100;
    drive_start(&drive, &options);
    opened = 0;
    gs_sys_set_fault(count_opened, NULL);
}

static void stop(void)
{
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(drive_stop(&drive), 0);
}

#define CONN_TEST(name_) FIXTURE_TEST(name_, start(), stop())

CONN_TEST(page_is_served_from_the_cache_while_it_is_fresh)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 1);
    for (int i = 0; i < 10; i++)
        check_body(GET("f"), "one");
    drive_reopen(&drive);
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 1);
    drive.now_ns += GS_SECOND;
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 2);
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 2);
}

/* Workers read the clock independently, so their times differ. */
CONN_TEST(page_validated_later_than_now_is_served_from_the_cache)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 1);
    for (int i = 0; i < 3; i++) {
        drive.now_ns -= i == 2 ? GS_SECOND : GS_MICROSECOND;
        drive_reopen(&drive);
        check_body(GET("f"), "one");
        CHECK_EQ(opened, 1);
    }
    drive.now_ns += 2 * GS_SECOND;
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 2);
}

CONN_TEST(changed_file_is_served_within_a_second)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    drive_write(&drive, "f", "other");
    drive.now_ns += GS_SECOND - 1;
    check_body(GET("f"), "other");
    /* The new text has the same length and the same modification time. */
    drive_write(&drive, "f", "OTHER");
    drive.now_ns += GS_SECOND - 1;
    check_body(GET("f"), "OTHER");
}

CONN_TEST(replaced_file_is_served_within_a_second)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    drive_write(&drive, "new", "two");
    char from[512];
    strcpy(from, drive_path(&drive, "new"));
    CHECK_EQ(rename(from, drive_path(&drive, "f")), 0);
    drive.now_ns += GS_SECOND - 1;
    check_body(GET("f"), "two");
}

CONN_TEST(removed_file_disappears_within_a_second_and_may_return)
{
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    CHECK_EQ(unlink(drive_path(&drive, "f")), 0);
    drive.now_ns += GS_SECOND - 1;
    check_status(GET("f"), 404);
    CHECK_EQ(drive.service->cache.count, 0);
    drive_write(&drive, "f", "two");
    check_body(GET("f"), "two");
    CHECK_EQ(unlink(drive_path(&drive, "f")), 0);
    drive_mkdir(&drive, "f");
    drive.now_ns += GS_SECOND - 1;
    check_status(GET("f"), 301);
}

CONN_TEST(slow_load_does_not_make_a_page_fresh)
{
    drive_write(&drive, "f", "one");
    drive.hold_loads = true;
    drive_send(&drive, GET("f"));
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_load_run(load);
    drive_write(&drive, "f", "two");
    drive.now_ns += GS_SECOND - 1;
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive.hold_loads = false;
    drive_serve(&drive);
    CHECK(drive_next_response(&drive, false, &response));
    check_body(GET("f"), "two");
}

/* Another connection requests the file. */
static struct gs_http_load *request_concurrently(void)
{
    gs_http_conn_init(&other, drive.service, drive.now_ns);
    gs_http_conn_receive(&other, GET("f"), strlen(GET("f")), drive.now_ns);
    return gs_http_conn_take_load(&other);
}

CONN_TEST(loads_of_several_connections_share_the_cache)
{
    drive_write(&drive, "f", "one");
    drive.hold_loads = true;
    drive_send(&drive, GET("f"));
    struct gs_http_load *second = request_concurrently();
    struct gs_http_load *first = gs_http_conn_take_load(&drive.conn);
    gs_http_load_run(first);
    drive_write(&drive, "f", "three");
    gs_http_load_run(second);
    gs_http_conn_loaded(&other, second, drive.now_ns);
    gs_http_conn_loaded(&drive.conn, first, drive.now_ns);
    drive.hold_loads = false;
    drive_serve(&drive);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK(!memcmp(response.body, "one", 3));
    CHECK_EQ(gs_http_conn_wants(&other), GS_HTTP_WRITE);
    gs_http_conn_done(&other);
    drive.now_ns += GS_SECOND;
    check_body(GET("f"), "three");
}

/* The file changes, and another connection requests it once the page is stale. */
static struct gs_http_load *change_and_request(void)
{
    check_body(GET("f"), "one");
    drive_write(&drive, "f", "two");
    drive.now_ns += GS_SECOND * 6 / 10;
    return request_concurrently();
}

CONN_TEST(one_of_many_requests_revalidates_the_page)
{
    drive_write(&drive, "f", "one");
    struct gs_http_load *load = change_and_request();
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 1);
    gs_http_load_run(load);
    gs_http_conn_loaded(&other, load, drive.now_ns);
    check_body(GET("f"), "two");
    CHECK_EQ(opened, 2);
    gs_http_conn_done(&other);
}

CONN_TEST(another_request_revalidates_if_the_first_connection_closes)
{
    drive_write(&drive, "f", "one");
    CHECK(change_and_request());
    gs_http_conn_done(&other);
    drive.now_ns += GS_SECOND * 2 / 10;
    check_body(GET("f"), "two");
}

CONN_TEST(large_file_is_sent_from_its_descriptor)
{
    static char large[300000];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)('a' + i % 23);
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive.output_chunk = 70000;
    for (int i = 0; i < 2; i++) {
        check_status(GET("large"), 200);
        CHECK_EQ(response.body_length, sizeof large);
        CHECK(!memcmp(response.body, large, sizeof large));
    }
    CHECK_EQ(opened, 1);
}

CONN_TEST(file_exactly_at_the_limit_is_kept_in_memory)
{
    static char bytes[101];
    struct gs_http_piece pieces[4];
    memset(bytes, 'x', sizeof bytes);
    drive_write_bytes(&drive, "f", bytes, 100);
    drive_write_bytes(&drive, "g", bytes, 101);
    drive.keep_output = true;
    drive_send(&drive, GET("f"));
    for (unsigned i = gs_http_conn_output(&drive.conn, pieces, 4); i-- > 0;)
        CHECK(pieces[i].bytes);
    drive_reopen(&drive);
    drive_send(&drive, GET("g"));
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 4), 2);
    CHECK(!pieces[1].bytes && pieces[1].n == 101);
}

CONN_TEST(file_truncated_while_it_is_sent_aborts_the_connection)
{
    static char large[300000];
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive.keep_output = true;
    drive_send(&drive, GET("large"));
    drive_take_output(&drive, 100000);
    CHECK_EQ(truncate(drive_path(&drive, "large"), 150000), 0);
    drive.keep_output = false;
    drive_serve(&drive);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    CHECK(!drive_next_response(&drive, false, &response));
    drive_reopen(&drive);
    CHECK_EQ(drive.logged_count, 1);
    CHECK(drive.logged[0].body_bytes < 100000);
    drive_discard_output(&drive);
    drive.now_ns += GS_SECOND;
    check_status(GET("large"), 200);
    CHECK_EQ(response.body_length, 150000);
}

CONN_TEST(old_state_of_a_file_is_sent_to_its_end)
{
    static char large[300000];
    memset(large, 'o', sizeof large);
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive.keep_output = true;
    drive_send(&drive, GET("large"));
    drive_take_output(&drive, 1000);
    CHECK_EQ(unlink(drive_path(&drive, "large")), 0);
    drive_write(&drive, "large", "new");
    /* Meanwhile, another connection updates the cache. */
    drive.now_ns += GS_SECOND;
    gs_http_conn_init(&other, drive.service, drive.now_ns);
    gs_http_conn_receive(&other, GET("large"), strlen(GET("large")), drive.now_ns);
    struct gs_http_load *load = gs_http_conn_take_load(&other);
    gs_http_load_run(load);
    gs_http_conn_loaded(&other, load, drive.now_ns);
    gs_http_conn_done(&other);
    drive.keep_output = false;
    drive_serve(&drive);
    CHECK(drive_next_response(&drive, false, &response));
    CHECK_EQ(response.body_length, sizeof large);
    CHECK(!memcmp(response.body, large, sizeof large));
    check_body(GET("large"), "new");
}

/* Change a large file in place, in turn in size, in content, or in both. */
static void change_in_place(int turn)
{
    static char bytes[300000];
    memset(bytes, 'n', sizeof bytes);
    if (turn == 0)
        CHECK_EQ(truncate(drive_path(&drive, "large"), 150000), 0);
    else if (turn == 1)
        drive_write_bytes(&drive, "large", bytes, 150000); /* the same time, too */
    else
        drive_write_bytes(&drive, "large", bytes, sizeof bytes);
}

/* Cached, and fresh: nothing but its descriptor tells. */
TEST(large_file_that_was_changed_in_place_is_answered_as_it_is)
{
    static char large[200000];
    for (int by_load = 0; by_load < 2; by_load++) {
        gs_http_options_default(&options);
        options.file_state = by_load ? NULL : gs_sys_fstat;
        drive_start(&drive, &options);
        memset(large, 'o', sizeof large);
        drive_write_bytes(&drive, "large", large, sizeof large);
        check_status(GET("large"), 200);
        CHECK_EQ(response.body_length, sizeof large);
        for (int turn = 0; turn < 3; turn++) {
            change_in_place(turn);
            check_status(GET("large"), 200);
            CHECK_EQ(response.body_length, turn < 2 ? 150000 : 300000);
            CHECK_EQ(response.body[0], turn ? 'n' : 'o');
        }
        CHECK_EQ(drive_stop(&drive), 0);
    }
}

static unsigned looked;

static int count_looks(int fd, struct stat *ret_stat)
{
    looked++;
    return gs_sys_fstat(fd, ret_stat);
}

CONN_TEST(large_file_is_looked_at_once_for_all_requests_of_one_time)
{
    static char large[200000];
    drive_stop(&drive);
    options.file_state = count_looks;
    drive_start(&drive, &options);
    drive_write_bytes(&drive, "large", large, sizeof large);
    check_status(GET("large"), 200); /* it is loaded */
    for (int i = 0; i < 3; i++) {
        looked = 0;
        for (int k = 0; k < 5; k++)
            check_status(GET("large"), 200);
        CHECK_EQ(looked, 1);
        drive.now_ns += GS_MILLISECOND;
    }
    change_in_place(1);
    check_status(GET("large"), 200);
    CHECK_EQ(looked, 2);
    CHECK_EQ(response.body[0], 'n');
}

/* What was sent is of the old state, what is left would be of the new one. */
TEST(large_file_that_is_changed_while_it_is_sent_is_broken_off)
{
    static char large[200000];
    for (int turn = 0; turn < 3; turn++) {
        start();
        drive_write_bytes(&drive, "large", large, sizeof large);
        drive.keep_output = true;
        drive_send(&drive, GET("large"));
        drive_take_output(&drive, 100000);
        change_in_place(turn);
        drive.keep_output = false;
        drive_serve(&drive);
        CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
        CHECK(!drive_next_response(&drive, false, &response));
        CHECK_EQ(drive.counts.broken_off, 1);
        stop();
    }
}

static void check_open_files(uint64_t files, unsigned pages)
{
    CHECK_EQ(gs_http_open_files(), files);
    CHECK_EQ(drive.service->cache.count, pages);
}

CONN_TEST(files_that_nobody_asks_for_are_released)
{
    static char large[200];
    CHECK_EQ(gs_http_service_deadline(drive.service), GS_NEVER);
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive_write(&drive, "small", "one");
    check_status(GET("large"), 200);
    drive.now_ns += GS_SECOND;
    check_body(GET("small"), "one");
    check_open_files(1, 2);
    drive.now_ns = gs_http_service_deadline(drive.service);
    CHECK_EQ(drive.now_ns, DRIVE_START_NS + 2 * GS_SECOND);
    gs_http_service_expire(drive.service, drive.now_ns - 1);
    check_open_files(1, 2);
    gs_http_service_expire(drive.service, drive.now_ns);
    check_open_files(0, 1);
    check_body(GET("small"), "one"); /* it is asked for */
    gs_http_service_expire(drive.service, drive.now_ns + GS_SECOND);
    check_open_files(0, 1);
    gs_http_service_expire(drive.service, gs_http_service_deadline(drive.service));
    check_open_files(0, 0);
    CHECK_EQ(gs_http_service_deadline(drive.service), GS_NEVER);
}

TEST(cache_respects_its_limits)
{
    gs_http_options_default(&options);
    options.max_cached_file = 1000;
    options.max_cache = 5000;
    options.max_cached_descriptors = 2;
    drive_start(&drive, &options);
    opened = 0;
    gs_sys_set_fault(count_opened, NULL);
    static char bytes[2000];
    for (int i = 0; i < 10; i++) {
        char name[16], request[64];
        snprintf(name, sizeof name, "f%d", i);
        drive_write_bytes(&drive, name, bytes, i % 2 ? 2000 : 900);
        snprintf(request, sizeof request, "GET /%s HTTP/1.1\r\nHost: a\r\n\r\n", name);
        check_status(request, 200);
        CHECK_EQ(response.body_length, i % 2 ? 2000 : 900);
    }
    CHECK_EQ(opened, 10);
    check_status(GET("f9"), 200);
    check_status(GET("f8"), 200);
    CHECK_EQ(opened, 10);
    check_status(GET("f0"), 200);
    check_status(GET("f1"), 200);
    CHECK_EQ(opened, 12);
    stop();
}
