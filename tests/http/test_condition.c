#include "http/condition.h"

#include "http/etag.h"
#include "tests/test.h"

#define NOW INT64_C(1795262400)
#define MODIFIED "Sun, 06 Nov 1994 08:49:37 GMT"
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"

static struct gs_http_page page = {
    .stat = {.st_mtim = {.tv_sec = 784111777, .tv_nsec = 5}},
    .etag = {"\"1-2-3\"", 7},
};
static struct gs_http_request request;

static unsigned decide(const char *fields)
{
    char head[512];
    struct gs_http_options options;
    gs_http_options_default(&options);
    snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    CHECK_EQ(gs_http_request_parse((struct gs_http_text){head, strlen(head)}, &options, &request),
             0);
    return gs_http_condition(&request, &page, NOW);
}

static int range_counts(const char *fields)
{
    char head[512];
    struct gs_http_options options;
    gs_http_options_default(&options);
    snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", fields);
    CHECK_EQ(gs_http_request_parse((struct gs_http_text){head, strlen(head)}, &options, &request),
             0);
    return gs_http_condition_range(&request, &page, NOW);
}

TEST(without_conditions_the_answer_goes_on)
{
    CHECK_EQ(decide(""), 0);
    CHECK_EQ(decide("If-Range: \"x\"\r\n"), 0);
}

TEST(if_match_asks_for_this_very_page)
{
    CHECK_EQ(decide("If-Match: \"1-2-3\"\r\n"), 0);
    CHECK_EQ(decide("If-Match: *\r\n"), 0);
    CHECK_EQ(decide("If-Match: \"x\", \"1-2-3\"\r\n"), 0);
    CHECK_EQ(decide("If-Match: \"x\"\r\nIf-Match: \"1-2-3\"\r\n"), 0);
    CHECK_EQ(decide("If-Match: \"x\"\r\n"), 412);
    CHECK_EQ(decide("If-Match: W/\"1-2-3\"\r\n"), 412);
    CHECK_EQ(decide("If-Match: 1-2-3\r\n"), 412);
    CHECK_EQ(decide("If-Match:\r\n"), 412);
}

TEST(if_unmodified_since_counts_only_without_if_match)
{
    CHECK_EQ(decide("If-Unmodified-Since: " MODIFIED "\r\n"), 0);
    CHECK_EQ(decide("If-Unmodified-Since: " AFTER "\r\n"), 0);
    CHECK_EQ(decide("If-Unmodified-Since: " BEFORE "\r\n"), 412);
    CHECK_EQ(decide("If-Unmodified-Since: yesterday\r\n"), 0);
    CHECK_EQ(decide("If-Match: *\r\nIf-Unmodified-Since: " BEFORE "\r\n"), 0);
}

TEST(if_none_match_asks_for_another_page)
{
    CHECK_EQ(decide("If-None-Match: \"1-2-3\"\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: W/\"1-2-3\"\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: *\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: \"x\"\r\nIf-None-Match: \"1-2-3\"\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: \"x\"\r\n"), 0);
}

TEST(if_modified_since_counts_only_without_if_none_match)
{
    CHECK_EQ(decide("If-Modified-Since: " MODIFIED "\r\n"), 304);
    CHECK_EQ(decide("If-Modified-Since: " AFTER "\r\n"), 304);
    CHECK_EQ(decide("If-Modified-Since: " BEFORE "\r\n"), 0);
    CHECK_EQ(decide("If-Modified-Since: yesterday\r\n"), 0);
    CHECK_EQ(decide("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n"), 304);
    CHECK_EQ(decide("If-None-Match: \"x\"\r\nIf-Modified-Since: " MODIFIED "\r\n"), 0);
}

TEST(failed_precondition_goes_before_not_modified)
{
    CHECK_EQ(decide("If-None-Match: \"1-2-3\"\r\nIf-Match: \"x\"\r\n"), 412);
    CHECK_EQ(decide("If-None-Match: \"1-2-3\"\r\nIf-Match: \"1-2-3\"\r\n"), 304);
}

TEST(range_counts_for_this_very_page_only)
{
    CHECK(range_counts(""));
    CHECK(range_counts("If-Range: \"1-2-3\"\r\n"));
    CHECK(!range_counts("If-Range: W/\"1-2-3\"\r\n"));
    CHECK(!range_counts("If-Range: \"1-2-4\"\r\n"));
    CHECK(!range_counts("If-Range: \"1-2-3\", \"x\"\r\n"));
    CHECK(!range_counts("If-Range: *\r\n"));
    CHECK(!range_counts("If-Range:\r\n"));
    CHECK(range_counts("If-Range: " MODIFIED "\r\n"));
    CHECK(!range_counts("If-Range: " BEFORE "\r\n"));
    CHECK(!range_counts("If-Range: " AFTER "\r\n"));
}

TEST(range_counts_for_pages_of_a_wednesday_too)
{
    page.stat.st_mtim.tv_sec = 784371600;
    CHECK(range_counts("If-Range: Wed, 09 Nov 1994 09:00:00 GMT\r\n"));
    page.stat.st_mtim.tv_sec = 784111777;
    CHECK(!range_counts("If-Range: Wed, 09 Nov 1994 09:00:00 GMT\r\n"));
}
