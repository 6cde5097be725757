/* What a connection answers while the files below it change and vanish. */
#include "http/service.h"
#include "tests/http/drive_check.h"

#include <errno.h>
#include <gossamer/sys.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct gs_http_conn other;
static struct gs_http_options options;
static unsigned opened;

/* Counts what is opened. */
static long count_opened(long number, void *data)
{
    (void)data;
    opened += number == SYS_openat2;
    return 0;
}

static void start(void)
{
    gs_http_options_default(&options);
    options.cached_file_most = 100;
    drive_start(&drive, &options);
    opened = 0;
    gs_sys_set_fault(count_opened, NULL);
}

static void stop(void)
{
    gs_sys_set_fault(NULL, NULL);
    CHECK_EQ(drive_stop(&drive), 0);
}

TEST(page_is_served_from_the_cache_while_it_is_fresh)
{
    start();
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
    stop();
}

TEST(changed_file_is_served_within_a_second)
{
    start();
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    drive_write(&drive, "f", "other");
    drive.now_ns += GS_SECOND - 1;
    check_body(GET("f"), "other");
    /* Of the same length, and of the same time for all that its modification shows. */
    drive_write(&drive, "f", "OTHER");
    drive.now_ns += GS_SECOND - 1;
    check_body(GET("f"), "OTHER");
    stop();
}

TEST(replaced_file_is_served_within_a_second)
{
    start();
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    drive_write(&drive, "new", "two");
    char from[512];
    strcpy(from, drive_path(&drive, "new"));
    CHECK_EQ(rename(from, drive_path(&drive, "f")), 0);
    drive.now_ns += GS_SECOND - 1;
    check_body(GET("f"), "two");
    stop();
}

TEST(removed_file_is_gone_within_a_second_and_comes_back)
{
    start();
    drive_write(&drive, "f", "one");
    check_body(GET("f"), "one");
    CHECK_EQ(unlink(drive_path(&drive, "f")), 0);
    drive.now_ns += GS_SECOND - 1;
    check_status(GET("f"), 404);
    CHECK_EQ(drive.service->pages.count, 0);
    drive_write(&drive, "f", "two");
    check_body(GET("f"), "two");
    CHECK_EQ(unlink(drive_path(&drive, "f")), 0);
    drive_folder(&drive, "f");
    drive.now_ns += GS_SECOND - 1;
    check_status(GET("f"), 301);
    stop();
}

TEST(load_that_takes_long_makes_no_page_fresh)
{
    start();
    drive_write(&drive, "f", "one");
    drive.hold_loads = true;
    drive_say(&drive, GET("f"));
    struct gs_http_load *load = gs_http_conn_take_load(&drive.conn);
    gs_http_load_run(load);
    drive_write(&drive, "f", "two");
    drive.now_ns += GS_SECOND - 1;
    gs_http_conn_loaded(&drive.conn, load, drive.now_ns);
    drive.hold_loads = false;
    drive_serve(&drive);
    CHECK(drive_next(&drive, false, &answer));
    check_body(GET("f"), "two");
    stop();
}

/* Another connection asks for the file. */
static struct gs_http_load *ask_too(void)
{
    gs_http_conn_init(&other, drive.service, drive.now_ns);
    gs_http_conn_receive(&other, GET("f"), strlen(GET("f")), drive.now_ns);
    return gs_http_conn_take_load(&other);
}

TEST(loads_of_several_connections_share_the_cache)
{
    start();
    drive_write(&drive, "f", "one");
    drive.hold_loads = true;
    drive_say(&drive, GET("f"));
    struct gs_http_load *second = ask_too();
    struct gs_http_load *first = gs_http_conn_take_load(&drive.conn);
    gs_http_load_run(first);
    drive_write(&drive, "f", "three");
    gs_http_load_run(second);
    gs_http_conn_loaded(&other, second, drive.now_ns);
    gs_http_conn_loaded(&drive.conn, first, drive.now_ns);
    drive.hold_loads = false;
    drive_serve(&drive);
    CHECK(drive_next(&drive, false, &answer));
    CHECK(!memcmp(answer.body, "one", 3));
    CHECK_EQ(gs_http_conn_wants(&other), GS_HTTP_WRITE);
    gs_http_conn_done(&other);
    drive.now_ns += GS_SECOND;
    check_body(GET("f"), "three");
    stop();
}

/* The file changes, and another connection asks for it when it is time to look at it. */
static struct gs_http_load *change_and_ask(void)
{
    check_body(GET("f"), "one");
    drive_write(&drive, "f", "two");
    drive.now_ns += GS_SECOND * 6 / 10;
    return ask_too();
}

TEST(file_is_looked_at_for_one_of_many_requests)
{
    start();
    drive_write(&drive, "f", "one");
    struct gs_http_load *load = change_and_ask();
    check_body(GET("f"), "one");
    CHECK_EQ(opened, 1);
    gs_http_load_run(load);
    gs_http_conn_loaded(&other, load, drive.now_ns);
    check_body(GET("f"), "two");
    CHECK_EQ(opened, 2);
    gs_http_conn_done(&other);
    stop();
}

TEST(file_is_looked_at_again_when_whoever_was_to_has_left)
{
    start();
    drive_write(&drive, "f", "one");
    CHECK(change_and_ask());
    gs_http_conn_done(&other);
    drive.now_ns += GS_SECOND * 2 / 10;
    check_body(GET("f"), "two");
    stop();
}

TEST(large_file_is_sent_from_its_descriptor)
{
    static char large[300000];
    start();
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)('a' + i % 23);
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive.take = 70000;
    for (int i = 0; i < 2; i++) {
        check_status(GET("large"), 200);
        CHECK_EQ(answer.body_n, sizeof large);
        CHECK(!memcmp(answer.body, large, sizeof large));
    }
    CHECK_EQ(opened, 1);
    stop();
}

TEST(file_exactly_at_the_limit_is_kept_in_memory)
{
    static char bytes[101];
    struct gs_http_piece pieces[4];
    start();
    memset(bytes, 'x', sizeof bytes);
    drive_write_bytes(&drive, "f", bytes, 100);
    drive_write_bytes(&drive, "g", bytes, 101);
    drive.keep_output = true;
    drive_say(&drive, GET("f"));
    for (unsigned i = gs_http_conn_output(&drive.conn, pieces, 4); i-- > 0;)
        CHECK(pieces[i].bytes);
    drive_reopen(&drive);
    drive_say(&drive, GET("g"));
    CHECK_EQ(gs_http_conn_output(&drive.conn, pieces, 4), 2);
    CHECK(!pieces[1].bytes && pieces[1].n == 101);
    stop();
}

TEST(file_truncated_while_it_is_sent_closes_the_connection)
{
    static char large[300000];
    start();
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive.keep_output = true;
    drive_say(&drive, GET("large"));
    drive_take(&drive, 100000);
    CHECK_EQ(truncate(drive_path(&drive, "large"), 150000), 0);
    drive.keep_output = false;
    drive_serve(&drive);
    CHECK_EQ(gs_http_conn_wants(&drive.conn), GS_HTTP_CLOSE);
    CHECK(!drive_next(&drive, false, &answer));
    drive_reopen(&drive);
    CHECK_EQ(drive.logged_count, 1);
    CHECK_EQ(drive.logged[0].body_bytes, 150000);
    drive_forget(&drive);
    drive.now_ns += GS_SECOND;
    check_status(GET("large"), 200);
    CHECK_EQ(answer.body_n, 150000);
    stop();
}

TEST(old_state_of_a_file_is_sent_to_its_end)
{
    static char large[300000];
    start();
    memset(large, 'o', sizeof large);
    drive_write_bytes(&drive, "large", large, sizeof large);
    drive.keep_output = true;
    drive_say(&drive, GET("large"));
    drive_take(&drive, 1000);
    CHECK_EQ(unlink(drive_path(&drive, "large")), 0);
    drive_write(&drive, "large", "new");
    /* Another connection has the cache take the new state. */
    drive.now_ns += GS_SECOND;
    gs_http_conn_init(&other, drive.service, drive.now_ns);
    gs_http_conn_receive(&other, GET("large"), strlen(GET("large")), drive.now_ns);
    struct gs_http_load *load = gs_http_conn_take_load(&other);
    gs_http_load_run(load);
    gs_http_conn_loaded(&other, load, drive.now_ns);
    gs_http_conn_done(&other);
    drive.keep_output = false;
    drive_serve(&drive);
    CHECK(drive_next(&drive, false, &answer));
    CHECK_EQ(answer.body_n, sizeof large);
    CHECK(!memcmp(answer.body, large, sizeof large));
    check_body(GET("large"), "new");
    stop();
}

TEST(cache_holds_no_more_than_it_may)
{
    gs_http_options_default(&options);
    options.cached_file_most = 1000;
    options.cache_most = 5000;
    options.cached_descriptors = 2;
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
        CHECK_EQ(answer.body_n, i % 2 ? 2000 : 900);
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
