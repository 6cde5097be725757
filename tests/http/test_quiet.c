/* Pages that are neither logged nor counted, and the host in the log. */
#include "http/service.h"
#include "tests/http/drive_check.h"

#include <errno.h>

static int64_t generate(char *bytes, size_t n, void *data)
{
    CHECK(n >= 3);
    memcpy(bytes, "ok\n", 3);
    return *(bool *)data ? 3 : -EAGAIN;
}

static bool is_healthy = true;
static const struct gs_http_generator generators[] = {
    {"health", "text/plain; charset=utf-8", 16, generate, &is_healthy, .is_quiet = true},
    {"loud", "text/plain; charset=utf-8", 16, generate, &is_healthy},
};

static void start(void)
{
    struct gs_http_options options;
    gs_http_options_default(&options);
    options.generators = generators;
    options.generator_count = 2;
    options.max_requests = 3;
    drive_start(&drive, &options);
    drive_write(&drive, "f", "file");
}

static void stop(void)
{
    CHECK_EQ(drive_stop(&drive), 0);
}

FIXTURE_TEST(a_quiet_page_is_not_logged_and_does_not_end_a_connection, start(), stop())
{
    check_body(GET("f"), "file");
    for (int i = 0; i < 10; i++) {
        check_body(GET("health"), "ok\n");
        CHECK(response.keep_alive);
    }
    check_body(GET("loud"), "ok\n");
    CHECK(response.keep_alive);
    check_body(GET("f"), "file");
    CHECK(!response.keep_alive);
    CHECK_EQ(drive.logged_count, 3);
    CHECK_EQ(drive.counts.requests, 13);
}

FIXTURE_TEST(a_quiet_page_that_fails_is_logged, start(), stop())
{
    is_healthy = false;
    check_status(GET("health"), 503);
    is_healthy = true;
    CHECK_EQ(drive.logged_count, 1);
    CHECK_EQ(drive.logged[0].status, 503);
}

static char hosts[200];

static void log_host(const struct gs_http_conn *conn, const struct gs_http_log_entry *entry,
                     void *data)
{
    (void)conn, (void)data;
    snprintf(hosts + strlen(hosts), sizeof hosts - strlen(hosts), "[%s]",
             entry->host ? entry->host : "-");
}

FIXTURE_TEST(the_log_has_the_host_if_it_is_asked_to, start(), stop())
{
    drive.service->options.log = log_host;
    check_body(GET("f"), "file");
    drive.service->options.logs_host = true;
    check_body("GET /f HTTP/1.1\r\nHost: Example.org:8080\r\n\r\n", "file");
    check_body("GET http://b/f HTTP/1.1\r\nHost: a\r\n\r\n", "file");
    drive_reopen(&drive);
    check_body("GET /f HTTP/1.0\r\n\r\n", "file");
    CHECK_STR(hosts, "[-][Example.org:8080][b][-]");
}
