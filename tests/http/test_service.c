#include "http/service.h"
#include "tests/test.h"

#include <errno.h>

static struct gs_http_options options;
static struct gs_http_counts counts;
static struct gs_http_service *service;

static void start(void)
{
    gs_http_options_default(&options);
    CHECK_EQ(gs_http_service_new(&options, -1, &counts, &service), 0);
}

TEST(defaults_are_the_documented_limits)
{
    gs_http_options_default(&options);
    CHECK_EQ(options.max_request_line, 8192);
    CHECK_EQ(options.max_header, 32768);
    CHECK_EQ(options.max_fields, 100);
    CHECK_EQ(options.max_body, 1048576);
    CHECK_EQ(options.header_timeout_ns, 10 * GS_SECOND);
    CHECK_EQ(options.idle_timeout_ns, 60 * GS_SECOND);
    CHECK_EQ(options.rate_window_ns, 10 * GS_SECOND);
    CHECK_EQ(options.min_rate, 1024);
    CHECK_EQ(options.max_requests, 0);
    CHECK(!options.dotfiles && !options.follow_symlinks && !options.log);
}

TEST(fields_that_are_too_long_are_refused)
{
    char fields[GS_HTTP_FIELDS_MAX + 2];
    memset(fields, 'x', sizeof fields);
    memcpy(fields + sizeof fields - 3, "\r\n", 3);
    fields[2] = ':';
    gs_http_options_default(&options);
    options.fields = fields;
    CHECK_EQ(gs_http_service_new(&options, -1, &counts, &service), -EINVAL);
    options.fields = fields + 1;
    CHECK_EQ(gs_http_service_new(&options, -1, &counts, &service), 0);
    gs_http_service_free(service);
}

TEST(date_follows_the_wall_clock_second_by_second)
{
    start();
    gs_http_service_set_wall_clock(service, 100, 784111777 * GS_SECOND + 900 * GS_MILLISECOND);
    CHECK_EQ(gs_http_service_wall_seconds(service, 100), 784111777);
    CHECK(!memcmp(gs_http_service_date(service, 100), "Sun, 06 Nov 1994 08:49:37 GMT", 29));
    CHECK(!memcmp(gs_http_service_date(service, 100 + 100 * GS_MILLISECOND - 1),
                  "Sun, 06 Nov 1994 08:49:37 GMT", 29));
    CHECK(!memcmp(gs_http_service_date(service, 100 + 100 * GS_MILLISECOND),
                  "Sun, 06 Nov 1994 08:49:38 GMT", 29));
    CHECK_EQ(gs_http_service_wall_seconds(service, 100 + 100 * GS_MILLISECOND), 784111778);
    gs_http_service_free(service);
}

TEST(change_of_the_wall_clock_takes_effect_at_once)
{
    start();
    uint64_t now_ns = 5 * GS_SECOND;
    gs_http_service_set_wall_clock(service, now_ns, 784111777 * GS_SECOND);
    CHECK(!memcmp(gs_http_service_date(service, now_ns), "Sun, 06 Nov 1994 08:49:37 GMT", 29));
    gs_http_service_set_wall_clock(service, now_ns + 1, 784111700 * GS_SECOND);
    CHECK(!memcmp(gs_http_service_date(service, now_ns + 1), "Sun, 06 Nov 1994 08:48:20 GMT", 29));
    gs_http_service_free(service);
}

TEST(outputs_are_reused_up_to_a_limit)
{
    enum { COUNT = 100 };
    static struct gs_http_output *outputs[COUNT];
    start();
    for (size_t i = 0; i < COUNT; i++)
        CHECK((outputs[i] = gs_http_service_new_output(service)));
    for (size_t i = 0; i < COUNT; i++)
        gs_http_service_free_output(service, outputs[i]);
    CHECK(service->free_output_count > 0 && service->free_output_count < COUNT);
    struct gs_http_output *again = gs_http_service_new_output(service);
    CHECK(again == outputs[service->free_output_count]);
    CHECK(!again->count && !again->end && !again->log_records);
    gs_http_service_free_output(service, again);
    gs_http_service_free(service);
    gs_http_service_free(NULL);
}
